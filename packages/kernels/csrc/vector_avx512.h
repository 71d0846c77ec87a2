// Sixteen floats in a register of AVX-512 (F, BW, DQ, VL).
#pragma once

#include <immintrin.h>

#include "exp2_series.h"
#include "reduced.h"

namespace {

struct Vector {
  static constexpr int width = 16;
  // A block of products that fits the registers: so many rows by so many vectors.
  static constexpr int block_rows = 6, block_vectors = 4;
  // The same for linear layers, two vectors wide.
  static constexpr int linear_rows = 14;
  __m512 lanes;

  static Vector broadcast(float value) { return {_mm512_set1_ps(value)}; }
  // Read once, whatever it is then used for; left alone, compilers have each use read it again.
  static Vector broadcast(const float* source) {
    __m512 lanes = _mm512_set1_ps(*source);
    asm("" : "+v"(lanes));
    return {lanes};
  }

  static Vector load(const float* source) { return {_mm512_loadu_ps(source)}; }
  static Vector load(const BFloat16* source) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static Vector load(const Float16* source) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)))};
  }

  // Two elements a lane, as bits; then the first or second ones, widened.
  static Vector load_pairs(const BFloat16* source) { return {_mm512_loadu_ps(source)}; }
  Vector first_of_pairs() const { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(lanes), 16))}; }
  Vector second_of_pairs() const {
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(lanes), _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
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
  Vector operator/(Vector other) const { return {_mm512_div_ps(lanes, other.lanes)}; }
  Vector larger(Vector other) const { return {_mm512_max_ps(lanes, other.lanes)}; }

  // The lanes from `first` to `last`, the latter excluded, and `fill` in the others.
  Vector keep(int first, int last, float fill) const {
    const __mmask16 kept = static_cast<__mmask16>(((1u << last) - 1u) & (~0u << first));
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

  // Lane i of row j and lane j of row i change places.
  static void transpose(Vector (&rows)[width]) {
    __m512 half[width];
#pragma GCC unroll 16
    for (int i = 0; i < width; i += 2) {
      half[i] = _mm512_unpacklo_ps(rows[i].lanes, rows[i + 1].lanes);
      half[i + 1] = _mm512_unpackhi_ps(rows[i].lanes, rows[i + 1].lanes);
    }
    // Quarter q of column[4 * i + k] then holds lane 4 * q + k of rows 4 * i to 4 * i + 3.
    __m512 column[width];
#pragma GCC unroll 16
    for (int i = 0; i < width; i += 4) {
      for (int k = 0; k < 2; ++k) {
        const __m512d low = _mm512_castps_pd(half[i + k]), high = _mm512_castps_pd(half[i + 2 + k]);
        column[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
        column[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
      }
    }
#pragma GCC unroll 16
    for (int k = 0; k < 4; ++k) {
      const __m512 low_even = _mm512_shuffle_f32x4(column[k], column[4 + k], 0x88);
      const __m512 low_odd = _mm512_shuffle_f32x4(column[k], column[4 + k], 0xdd);
      const __m512 high_even = _mm512_shuffle_f32x4(column[8 + k], column[12 + k], 0x88);
      const __m512 high_odd = _mm512_shuffle_f32x4(column[8 + k], column[12 + k], 0xdd);
      rows[k].lanes = _mm512_shuffle_f32x4(low_even, high_even, 0x88);
      rows[4 + k].lanes = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
      rows[8 + k].lanes = _mm512_shuffle_f32x4(low_even, high_even, 0xdd);
      rows[12 + k].lanes = _mm512_shuffle_f32x4(low_odd, high_odd, 0xdd);
    }
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
};

}  // namespace
