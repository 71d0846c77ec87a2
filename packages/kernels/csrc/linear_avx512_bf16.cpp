#include "vector_avx512.h"

#include "linear_kernel.h"

namespace {

// Pairs of bfloat16 by the instruction that multiplies them and adds both products up.
struct PairedLinear {
  using Stored = BFloat16;
  using Held = uint32_t;  // a pair
  static constexpr int parts = 1, inputs_a_step = 2;
  static constexpr bool widens = false;

  static Vector load(const BFloat16* packed) { return Vector::load_pairs(packed); }
  template <int PART>
  static Vector part(Vector loaded) {
    return loaded;
  }
  static __m512bh broadcast(const uint32_t* left) { return reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(*left))); }
  static Vector multiply_add(__m512bh factor, Vector right, Vector sum) {
    return {_mm512_dpbf16_ps(sum.lanes, factor, reinterpret_cast<__m512bh>(right.lanes))};
  }

  static void hold(const BFloat16* row, int64_t count, uint32_t* target) {
    if (count % 2 != 0) target[count / 2] = 0;
    std::memcpy(target, row, count * sizeof(BFloat16));
  }
};

}  // namespace

// Other types gain nothing from these instructions.
const LinearKernels* avx512_bf16_linear_kernels(int32_t type) {
  return type == OCTAVO_BFLOAT16 ? &TILED_LINEAR<PairedLinear> : avx512_linear_kernels(type);
}
