#include "vector_avx2.h"

#include "attention_kernel.h"
#include "wide_operands.h"

const AttentionKernels* avx2_attention_kernels(int32_t type) {
  switch (type) {
    case OCTAVO_FLOAT32: return &KERNELS<WideOperands<float>>;
    case OCTAVO_BFLOAT16: return &KERNELS<WideOperands<BFloat16>>;
    case OCTAVO_FLOAT16: return &KERNELS<WideOperands<Float16>>;
    default: return nullptr;
  }
}
