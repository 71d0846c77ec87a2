// Operands of attention's products as pairs of bfloat16, for AVX-512's dot product of pairs with sums in float32.
#pragma once

#include <immintrin.h>

#include "vector_avx512.h"

#include "key_tile.h"

namespace {

// Left operands are rows of elements; a right operand is [depth / pack, columns, pack].
struct PairedOperands {
  using Stored = BFloat16;
  using Element = BFloat16;
  static constexpr int pack = 2;

  // sums + left[0 .. pack) * right, lane by lane.
  static Vector multiply_add(const Element* left, Vector right, Vector sums) {
    int32_t pair;
    std::memcpy(&pair, left, sizeof pair);
    const auto pairs = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
    return {_mm512_dpbf16_ps(sums.lanes, pairs, reinterpret_cast<__m512bh>(right.lanes))};
  }
  static Vector load(const Element* right) { return {_mm512_loadu_ps(right)}; }

  // Writes a vector of weights and returns it as it was written, rounded.
  static Vector store_weights(Vector weights, Element* target) {
    const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weights.lanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), rounded);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16))};
  }

  static void copy_query(const BFloat16* head, int32_t head_size, Element* target) {
    std::memcpy(target, head, head_size * sizeof(Element));
  }

  // Right operand [head size / 2, TILE_KEYS, 2]: a column a key; columns behind the last key hold something finite or not.
  static void pack_keys(const KeyTile<BFloat16>& tile, int32_t head_size, Element* packed, Ahead<BFloat16>* ahead) {
    const int32_t num_pairs = head_size / 2;
    for (int32_t first = 0; first < tile.count; first += Vector::width) {
      for (int32_t pair = 0; pair < num_pairs; pair += Vector::width) {
        const int32_t left = num_pairs - pair < Vector::width ? num_pairs - pair : Vector::width;
        const __mmask16 there = static_cast<__mmask16>((1u << left) - 1u);
        Vector rows[Vector::width];
#pragma GCC unroll 16
        for (int32_t j = 0; j < Vector::width; ++j) rows[j].lanes = _mm512_maskz_loadu_ps(there, tile.keys[first + j] + 2 * pair);
        ahead->fetch(FETCHED_A_BLOCK);
        Vector::transpose(rows);
        for (int32_t j = 0; j < left; ++j) rows[j].store(reinterpret_cast<float*>(packed + ((pair + j) * TILE_KEYS + first) * 2));
      }
    }
  }

  // Right operand [keys / 2, padded head size, 2]: a row two keys, the last one's partner zero where there is none.
  static void pack_values(const KeyTile<BFloat16>& tile, int32_t head_size, Element* packed, Ahead<BFloat16>* ahead) {
    const int32_t padded = padded_head_size(head_size);
    for (int32_t j = 0; j < tile.count; j += 2) {
      ahead->fetch(2);
      const bool has_partner = j + 1 < tile.count;
      for (int32_t d = 0; d < padded; d += Vector::width) {
        const __mmask16 there = head_size - d >= Vector::width ? 0xffff : 0xff;
        const __m256i low = _mm256_maskz_loadu_epi16(there, tile.values[j] + d);
        const __m256i high = _mm256_maskz_loadu_epi16(has_partner ? there : 0, has_partner ? tile.values[j + 1] + d : nullptr);
        const __m512i pairs = _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
        _mm512_storeu_si512(packed + (j * padded + 2 * d), pairs);
      }
    }
  }
};

}  // namespace
