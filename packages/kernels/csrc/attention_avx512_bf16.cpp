#include "paired_operands.h"

#include "attention_kernel.h"

// Other types gain nothing from these instructions.
const AttentionKernels* avx512_bf16_attention_kernels(int32_t type) {
  return type == OCTAVO_BFLOAT16 ? &KERNELS<PairedOperands> : avx512_attention_kernels(type);
}
