// What the library is and what this host can run.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi.h"
#include "linear.h"

namespace {

// CPUID 7.0: EDX bit 23. The registers are those of AVX-512.
bool has_fp16_instructions() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 23 & 1u) != 0;
}

// Whether the processor has AMX for bfloat16 and the system lets this process use its registers, which has to be asked for once.
bool may_use_amx() {
  constexpr unsigned BFLOAT16 = 1u << 22, TILES = 1u << 24;
  constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & BFLOAT16) == 0 || (edx & TILES) == 0) return false;
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

}  // namespace

int32_t octavo_abi_version() { return OCTAVO_ABI_VERSION; }

uint32_t octavo_supported_isas() {
  __builtin_cpu_init();
  uint32_t isas = 1u << OCTAVO_PORTABLE;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (avx2) isas |= 1u << OCTAVO_AVX2;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512) isas |= 1u << OCTAVO_AVX512;
  if (avx2 && avx512 && __builtin_cpu_supports("avx512bf16")) isas |= 1u << OCTAVO_AVX512_BF16;
  static const bool has_fp16 = has_avx512_fp16_kernels() && has_fp16_instructions();
  if (avx2 && avx512 && has_fp16) isas |= 1u << OCTAVO_AVX512_FP16;
  static const bool has_amx = has_amx_kernels() && may_use_amx();
  if (avx2 && avx512 && has_amx) isas |= 1u << OCTAVO_AMX;
  return isas;
}

// A dot product of pairs does twice the work of a multiply-add. Zen 4 starts one as often as the other; Sapphire Rapids starts
// one a fourth as often, which makes it half as fast.
int32_t octavo_preferred_isa() {
  const uint32_t isas = octavo_supported_isas();
  if (isas >> OCTAVO_AMX & 1u) return OCTAVO_AMX;
  if (isas >> OCTAVO_AVX512_FP16 & 1u) return OCTAVO_AVX512_FP16;
  if (isas >> OCTAVO_AVX512_BF16 & 1u && __builtin_cpu_is("amd")) return OCTAVO_AVX512_BF16;
  if (isas >> OCTAVO_AVX512 & 1u) return OCTAVO_AVX512;
  return isas >> OCTAVO_AVX2 & 1u ? OCTAVO_AVX2 : OCTAVO_PORTABLE;
}
