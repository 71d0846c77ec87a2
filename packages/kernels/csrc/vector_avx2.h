// Eight floats in a register of AVX2, with FMA and F16C.
#pragma once

#include <immintrin.h>

#include "exp2_series.h"
#include "reduced.h"

namespace {

struct Vector {
  static constexpr int width = 8;
  // A block of products that fits the registers: so many rows by so many vectors.
  static constexpr int block_rows = 6, block_vectors = 2;
  // The same for linear layers, two vectors wide.
  static constexpr int linear_rows = 6;
  __m256 lanes;

  static Vector broadcast(float value) { return {_mm256_set1_ps(value)}; }
  static Vector broadcast(const float* source) { return {_mm256_broadcast_ss(source)}; }

  static Vector load(const float* source) { return {_mm256_loadu_ps(source)}; }
  static Vector load(const BFloat16* source) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }
  static Vector load(const Float16* source) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)))};
  }

  // Two elements a lane, as bits; then the first or second ones, widened.
  static Vector load_pairs(const BFloat16* source) { return {_mm256_loadu_ps(reinterpret_cast<const float*>(source))}; }
  Vector first_of_pairs() const { return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(lanes), 16))}; }
  Vector second_of_pairs() const {
    return {_mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(lanes), _mm256_set1_epi32(static_cast<int>(0xffff0000u))))};
  }

  template <class T>
  static Vector load_eight(const T* source) {
    return load(source);
  }

  void store(float* target) const { _mm256_storeu_ps(target, lanes); }
  void store(BFloat16* target) const {
    const __m256i bits = _mm256_castps_si256(lanes);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(lanes, lanes, _CMP_UNORD_Q));
    const __m256i result = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), is_nan);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), packed);
  }
  void store(Float16* target) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm256_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  template <class T>
  void store_eight(T* target) const {
    store(target);
  }

  Vector multiply_add(Vector factor, Vector addend) const { return {_mm256_fmadd_ps(lanes, factor.lanes, addend.lanes)}; }
  Vector operator+(Vector other) const { return {_mm256_add_ps(lanes, other.lanes)}; }
  Vector operator*(Vector other) const { return {_mm256_mul_ps(lanes, other.lanes)}; }
  Vector operator-(Vector other) const { return {_mm256_sub_ps(lanes, other.lanes)}; }
  Vector operator/(Vector other) const { return {_mm256_div_ps(lanes, other.lanes)}; }
  Vector larger(Vector other) const { return {_mm256_max_ps(lanes, other.lanes)}; }

  // The lanes from `first` to `last`, the latter excluded, and `fill` in the others.
  Vector keep(int first, int last, float fill) const {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i dropped = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), index);
    const __m256i kept = _mm256_andnot_si256(dropped, _mm256_cmpgt_epi32(_mm256_set1_epi32(last), index));
    return {_mm256_blendv_ps(_mm256_set1_ps(fill), lanes, _mm256_castsi256_ps(kept))};
  }

  // 2**x = 2**n * 2**r, n the nearest integer, r in [-1/2, 1/2]. Below -126 the result is 0.
  // NaN stays NaN: max and min return their second operand then.
  Vector exp2() const {
    const __m256 clamped = _mm256_min_ps(_mm256_set1_ps(127.0f), _mm256_max_ps(_mm256_set1_ps(-126.0f), lanes));
    const __m256 whole = _mm256_round_ps(clamped, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 rest = _mm256_sub_ps(clamped, whole);
    __m256 series = _mm256_set1_ps(EXP2_SERIES[0]);
    for (int k = 1; k < 8; ++k) series = _mm256_fmadd_ps(series, rest, _mm256_set1_ps(EXP2_SERIES[k]));
    const __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127)), 23);
    const __m256 result = _mm256_mul_ps(series, _mm256_castsi256_ps(exponent));
    const __m256 vanished = _mm256_cmp_ps(lanes, _mm256_set1_ps(-126.0f), _CMP_LT_OQ);
    return {_mm256_andnot_ps(vanished, result)};
  }

  float sum() const {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }

  float maximum() const {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  // Lane i of row j and lane j of row i change places.
  static void transpose(Vector (&rows)[width]) {
    __m256 half[width];
#pragma GCC unroll 8
    for (int i = 0; i < width; i += 2) {
      half[i] = _mm256_unpacklo_ps(rows[i].lanes, rows[i + 1].lanes);
      half[i + 1] = _mm256_unpackhi_ps(rows[i].lanes, rows[i + 1].lanes);
    }
    // Half h of column[4 * i + k] then holds lane 4 * h + k of rows 4 * i to 4 * i + 3.
    __m256 column[width];
#pragma GCC unroll 8
    for (int i = 0; i < width; i += 4) {
      for (int k = 0; k < 2; ++k) {
        const __m256d low = _mm256_castps_pd(half[i + k]), high = _mm256_castps_pd(half[i + 2 + k]);
        column[i + 2 * k] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
        column[i + 2 * k + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < 4; ++k) {
      rows[k].lanes = _mm256_permute2f128_ps(column[k], column[4 + k], 0x20);
      rows[4 + k].lanes = _mm256_permute2f128_ps(column[k], column[4 + k], 0x31);
    }
  }
};

}  // namespace
