// Operands of attention's products as float32, whatever the cache's type is; over the `Vector` of the including file.
#pragma once

#include "key_tile.h"

namespace {

// Left operands are rows of elements; a right operand is [depth / pack, columns, pack].
template <class T>
struct WideOperands {
  using Stored = T;
  using Element = float;
  static constexpr int pack = 1;

  // sums + left[0 .. pack) * right, lane by lane.
  static Vector multiply_add(const Element* left, Vector right, Vector sums) { return right.multiply_add(Vector::broadcast(*left), sums); }
  static Vector load(const Element* right) { return Vector::load(right); }

  // Writes a vector of weights and returns it as it was written.
  static Vector store_weights(Vector weights, Element* target) {
    weights.store(target);
    return weights;
  }

  static void copy_query(const T* head, int32_t head_size, Element* target) {
    for (int32_t d = 0; d < head_size; ++d) target[d] = widen(head[d]);
  }

  // Right operand [head size, TILE_KEYS]: a column a key; columns behind the last key hold something finite or not.
  static void pack_keys(const KeyTile<T>& tile, int32_t head_size, Element* packed, Ahead<T>* ahead) {
    for (int32_t first = 0; first < tile.count; first += Vector::width) {
      int32_t d = 0;
      for (; d + Vector::width <= head_size; d += Vector::width) {
        Vector rows[Vector::width];
#pragma GCC unroll 16
        for (int32_t j = 0; j < Vector::width; ++j) rows[j] = Vector::load(tile.keys[first + j] + d);
        ahead->fetch(FETCHED_A_BLOCK);
        Vector::transpose(rows);
#pragma GCC unroll 16
        for (int32_t j = 0; j < Vector::width; ++j) rows[j].store(packed + (d + j) * TILE_KEYS + first);
      }
      if (d < head_size) pack_last_dimensions(tile, first, d, head_size, packed);
    }
  }

  // Right operand [keys, padded head size]: a row a key, zeros behind its head size.
  static void pack_values(const KeyTile<T>& tile, int32_t head_size, Element* packed, Ahead<T>* ahead) {
    const int32_t padded = padded_head_size(head_size);
    for (int32_t j = 0; j < tile.count; ++j, packed += padded) {
      ahead->fetch(1);
      int32_t d = 0;
      for (; d + Vector::width <= head_size; d += Vector::width) Vector::load(tile.values[j] + d).store(packed + d);
      if (d < head_size) Vector::load_eight(tile.values[j] + d).store(packed + d);
      if (Vector::width < HEAD_PADDING && head_size < padded) Vector::broadcast(0.0f).store(packed + head_size);
    }
  }

 private:
  // Half a vector of dimensions, from d on.
  static void pack_last_dimensions(const KeyTile<T>& tile, int32_t first, int32_t d, int32_t head_size, Element* packed) {
    Vector rows[Vector::width];
    for (int32_t j = 0; j < Vector::width; ++j) rows[j] = Vector::load_eight(tile.keys[first + j] + d);
    Vector::transpose(rows);
    for (int32_t j = 0; d + j < head_size; ++j) rows[j].store(packed + (d + j) * TILE_KEYS + first);
  }
};

// So many pairs, fewer than a vector holds.
inline Vector load_first_pairs(const BFloat16* source, int32_t count) {
  BFloat16 elements[2 * Vector::width] = {};
  std::memcpy(elements, source, count * 2 * sizeof(BFloat16));
  return Vector::load_pairs(elements);
}

// Dimensions are transposed in pairs and taken apart afterwards: half the work.
template <>
inline void WideOperands<BFloat16>::pack_keys(const KeyTile<BFloat16>& tile, int32_t head_size, Element* packed, Ahead<BFloat16>* ahead) {
  const int32_t num_pairs = head_size / 2;
  for (int32_t first = 0; first < tile.count; first += Vector::width) {
    int32_t pair = 0;
    for (; pair < num_pairs; pair += Vector::width) {
      const int32_t left = num_pairs - pair;
      Vector rows[Vector::width];
      if (left >= Vector::width) {
#pragma GCC unroll 16
        for (int32_t j = 0; j < Vector::width; ++j) rows[j] = Vector::load_pairs(tile.keys[first + j] + 2 * pair);
      } else {
        for (int32_t j = 0; j < Vector::width; ++j) rows[j] = load_first_pairs(tile.keys[first + j] + 2 * pair, left);
      }
      ahead->fetch(FETCHED_A_BLOCK);
      Vector::transpose(rows);
      float* target = packed + 2 * pair * TILE_KEYS + first;
      for (int32_t j = 0; j < Vector::width && j < left; ++j, target += 2 * TILE_KEYS) {
        rows[j].first_of_pairs().store(target);
        rows[j].second_of_pairs().store(target + TILE_KEYS);
      }
    }
  }
}

}  // namespace
