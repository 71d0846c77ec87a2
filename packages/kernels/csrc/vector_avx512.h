// Sixteen floats in a register of AVX-512 (F, BW, DQ, VL).
#pragma once

#include <immintrin.h>

#include "exp2_series.h"
#include "reduced.h"

namespace {

struct Vector {
  static constexpr int width = 16;
  __m512 lanes;

  static Vector broadcast(float value) { return {_mm512_set1_ps(value)}; }

  static Vector load(const float* source) { return {_mm512_loadu_ps(source)}; }
  static Vector load(const BFloat16* source) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static Vector load(const Float16* source) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)))};
  }

  // Eight elements, and zeros in the upper lanes.
  static Vector load_eight(const float* source) { return {_mm512_maskz_loadu_ps(0xff, source)}; }
  static Vector load_eight(const BFloat16* source) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(0xff, source));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static Vector load_eight(const Float16* source) { return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(0xff, source))}; }

  void store(float* target) const { _mm512_storeu_ps(target, lanes); }
  template <class T>
  void store(T* target) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), packed(T{}));
  }

  // The lower eight lanes.
  void store_eight(float* target) const { _mm512_mask_storeu_ps(target, 0xff, lanes); }
  template <class T>
  void store_eight(T* target) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm256_castsi256_si128(packed(T{})));
  }

  Vector multiply_add(Vector factor, Vector addend) const { return {_mm512_fmadd_ps(lanes, factor.lanes, addend.lanes)}; }
  Vector operator+(Vector other) const { return {_mm512_add_ps(lanes, other.lanes)}; }
  Vector operator*(Vector other) const { return {_mm512_mul_ps(lanes, other.lanes)}; }
  Vector operator-(Vector other) const { return {_mm512_sub_ps(lanes, other.lanes)}; }
  Vector larger(Vector other) const { return {_mm512_max_ps(lanes, other.lanes)}; }

  Vector keep_first(int count, float fill) const {
    const __mmask16 kept = static_cast<__mmask16>((1u << count) - 1u);
    return {_mm512_mask_blend_ps(kept, _mm512_set1_ps(fill), lanes)};
  }

  // 2**x = 2**n * 2**r, n the nearest integer, r in [-1/2, 1/2]. Below -126 the result is 0.
  // NaN stays NaN: max and min return their second operand then.
  Vector exp2() const {
    const __m512 clamped = _mm512_min_ps(_mm512_set1_ps(127.0f), _mm512_max_ps(_mm512_set1_ps(-126.0f), lanes));
    const __m512 whole = _mm512_roundscale_ps(clamped, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 rest = _mm512_sub_ps(clamped, whole);
    __m512 series = _mm512_set1_ps(EXP2_SERIES[0]);
    for (int k = 1; k < 8; ++k) series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(EXP2_SERIES[k]));
    const __mmask16 kept = _mm512_cmp_ps_mask(lanes, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    return {_mm512_maskz_scalef_ps(kept, series, whole)};
  }

  float sum() const { return halves(lanes, Add{}); }
  float maximum() const { return halves(lanes, Max{}); }

  static Vector row_sums(const float* rows) {
    const __m512 low = eight_rows(rows);
    const __m512 high = eight_rows(rows + 8 * width);
    return {_mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd))};
  }

 private:
  __m256i packed(BFloat16) const {
    const __m512i bits = _mm512_castps_si512(lanes);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(lanes, lanes, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, _mm512_set1_epi32(0x7fc0)));
  }
  __m256i packed(Float16) const { return _mm512_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

  struct Add {
    static __m256 of(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
    static __m128 of(__m128 a, __m128 b) { return _mm_add_ps(a, b); }
  };
  struct Max {
    static __m256 of(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
    static __m128 of(__m128 a, __m128 b) { return _mm_max_ps(a, b); }
  };

  // Folds upper on lower halves until one lane is left.
  template <class Operation>
  static float halves(__m512 lanes, Operation) {
    const __m256 eight = Operation::of(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    const __m128 four = Operation::of(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = Operation::of(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(Operation::of(two, _mm_movehdup_ps(two)));
  }

  // Quarters 0 and 1 hold rows 0 to 3, quarters 2 and 3 rows 4 to 7, each lane a sum of eight elements.
  static __m512 eight_rows(const float* rows) {
    const __m512 low = four_rows(rows);
    const __m512 high = four_rows(rows + 4 * width);
    return _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
  }

  static __m512 four_rows(const float* rows) {
    const __m512d a = _mm512_castps_pd(two_rows(rows)), b = _mm512_castps_pd(two_rows(rows + 2 * width));
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }

  static __m512 two_rows(const float* rows) {
    const __m512 a = _mm512_loadu_ps(rows), b = _mm512_loadu_ps(rows + width);
    return _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  }
};

}  // namespace
