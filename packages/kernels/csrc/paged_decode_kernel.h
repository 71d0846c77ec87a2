// Paged decode attention over `Vector`, which the including file chooses by including a vector_*.h first.
//
// For each head, with scores s_j = q . k_j * scale over keys j and m their maximum:
//     out = sum_j exp(s_j - m) v_j / sum_j exp(s_j - m)
// computed over tiles of TILE_KEYS keys with a running maximum (online softmax, Milakov and Gimelshein 2018). Scores are
// kept in units of log2, so that exp is 2**x. All accumulation is in float32, in an order that the row's own keys decide.
//
// Internal linkage throughout: files compiled for different instruction sets must not share a definition.
#pragma once

#include <cmath>

#include "paged_decode.h"

namespace {

constexpr int WIDTH = Vector::width;
constexpr int TILE_KEYS = 64;
constexpr int HEADS_AT_ONCE = 4;

template <class T>
struct Tile {
  int count;
  const T* keys[TILE_KEYS];
  const T* values[TILE_KEYS];
};

template <class T>
inline Tile<T> make_tile(const DecodeSplit& split, int32_t first_key) {
  const OctavoCache& cache = *split.cache;
  Tile<T> tile;
  tile.count = split.last_key - first_key < TILE_KEYS ? split.last_key - first_key : TILE_KEYS;
  int32_t column = first_key / cache.block_size;
  int32_t offset = first_key % cache.block_size;
  for (int i = 0; i < tile.count; ++i) {
    const int64_t place = split.blocks[column] * cache.block_stride + int64_t{offset} * cache.head_size;
    tile.keys[i] = static_cast<const T*>(split.keys) + place;
    tile.values[i] = tile.keys[i] + cache.value_offset;
    if (++offset == cache.block_size) {
      offset = 0;
      ++column;
    }
  }
  return tile;
}

// Pages lie far apart, which defeats the hardware's prefetcher.
template <class T>
inline void prefetch(const Tile<T>& tile, int32_t head_size) {
  const int64_t bytes = head_size * static_cast<int64_t>(sizeof(T));
  for (int i = 0; i < tile.count; ++i) {
    for (int64_t line = 0; line < bytes; line += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(tile.keys[i]) + line);
      __builtin_prefetch(reinterpret_cast<const char*>(tile.values[i]) + line);
    }
  }
}

// One key with HEADS heads: products of the dimensions, summed over all but the lanes.
template <int HEADS, class T>
inline void multiply(const T* key, const float* query, int32_t head_size, float* products, int64_t head_stride) {
  const int32_t padded = padded_head_size(head_size);
  Vector total[HEADS];
  for (int h = 0; h < HEADS; ++h) total[h] = Vector::broadcast(0.0f);
  int32_t d = 0;
  for (; d + WIDTH <= head_size; d += WIDTH) {
    const Vector part = Vector::load(key + d);
    for (int h = 0; h < HEADS; ++h) total[h] = part.multiply_add(Vector::load(query + h * padded + d), total[h]);
  }
  if (d < head_size) {
    const Vector part = Vector::load_eight(key + d);
    for (int h = 0; h < HEADS; ++h) total[h] = part.multiply_add(Vector::load(query + h * padded + d), total[h]);
  }
  for (int h = 0; h < HEADS; ++h) total[h].store(products + h * head_stride);
}

// Scores of HEADS heads with the tile's keys, [HEADS, TILE_KEYS]; past the last key they are -inf.
template <int HEADS, class T>
inline void score(const Tile<T>& tile, const float* query, int32_t head_size, float* scores) {
  alignas(64) float products[HEADS][WIDTH * WIDTH];
  for (int first = 0; first < TILE_KEYS; first += WIDTH) {
    const int count = tile.count - first < WIDTH ? tile.count - first : WIDTH;
    for (int j = 0; j < count; ++j) {
      multiply<HEADS>(tile.keys[first + j], query, head_size, products[0] + j * WIDTH, WIDTH * WIDTH);
    }
    for (int h = 0; h < HEADS; ++h) {
      // The sums of rows that were not filled in are dropped.
      const Vector sums = count > 0 ? Vector::row_sums(products[h]) : Vector::broadcast(-INFINITY);
      (count < WIDTH && count > 0 ? sums.keep_first(count, -INFINITY) : sums).store(scores + h * TILE_KEYS + first);
    }
  }
}

// Turns one head's scores into weights relative to the running maximum, which may rise.
inline void weigh(float* scores, float* values, int32_t padded, float* maximum, float* sum) {
  Vector highest_lanes = Vector::load(scores);
  for (int j = WIDTH; j < TILE_KEYS; j += WIDTH) highest_lanes = highest_lanes.larger(Vector::load(scores + j));
  const float highest = highest_lanes.maximum();
  if (highest > *maximum) {
    const float factor = exp2f(*maximum - highest);
    const Vector factors = Vector::broadcast(factor);
    for (int32_t d = 0; d < padded; d += WIDTH) (Vector::load(values + d) * factors).store(values + d);
    *sum *= factor;
    *maximum = highest;
  }
  Vector total = Vector::broadcast(0.0f);
  for (int j = 0; j < TILE_KEYS; j += WIDTH) {
    const Vector weights = (Vector::load(scores + j) - Vector::broadcast(*maximum)).exp2();
    weights.store(scores + j);
    total = total + weights;
  }
  *sum += total.sum();
}

template <int HEADS, class T>
inline void accumulate(const Tile<T>& tile, const float* weights, int32_t head_size, float* values) {
  const int32_t padded = padded_head_size(head_size);
  for (int32_t d = 0; d < head_size; d += WIDTH) {
    const bool whole = d + WIDTH <= head_size;
    Vector total[HEADS];
    for (int h = 0; h < HEADS; ++h) total[h] = Vector::load(values + h * padded + d);
    for (int j = 0; j < tile.count; ++j) {
      const Vector value = whole ? Vector::load(tile.values[j] + d) : Vector::load_eight(tile.values[j] + d);
      for (int h = 0; h < HEADS; ++h) total[h] = value.multiply_add(Vector::broadcast(weights[h * TILE_KEYS + j]), total[h]);
    }
    for (int h = 0; h < HEADS; ++h) total[h].store(values + h * padded + d);
  }
}

template <int HEADS, class T>
inline void attend_tile(const Tile<T>& tile, const float* prepared, int32_t head_size, int32_t head, DecodeState state) {
  const int32_t padded = padded_head_size(head_size);
  float* values = state.values + head * padded;
  alignas(64) float scores[HEADS * TILE_KEYS];
  score<HEADS>(tile, prepared + head * padded, head_size, scores);
  for (int h = 0; h < HEADS; ++h) {
    weigh(scores + h * TILE_KEYS, values + h * padded, padded, state.maxima + head + h, state.sums + head + h);
  }
  accumulate<HEADS>(tile, scores, head_size, values);
}

template <class T>
void attend(const DecodeSplit& split, const float* prepared, DecodeState state) {
  const int32_t head_size = split.cache->head_size;
  const int32_t padded = padded_head_size(head_size);
  for (int32_t i = 0; i < split.num_heads * padded; ++i) state.values[i] = 0.0f;
  for (int32_t h = 0; h < split.num_heads; ++h) {
    state.maxima[h] = -INFINITY;
    state.sums[h] = 0.0f;
  }
  Tile<T> next = make_tile<T>(split, split.first_key);
  for (int32_t first = split.first_key; first < split.last_key; first += TILE_KEYS) {
    const Tile<T> tile = next;
    if (first + TILE_KEYS < split.last_key) {
      next = make_tile<T>(split, first + TILE_KEYS);
      prefetch(next, head_size);
    }
    int32_t head = 0;
    for (; head + HEADS_AT_ONCE <= split.num_heads; head += HEADS_AT_ONCE) {
      attend_tile<HEADS_AT_ONCE>(tile, prepared, head_size, head, state);
    }
    switch (split.num_heads - head) {
      case 3: attend_tile<3>(tile, prepared, head_size, head, state); break;
      case 2: attend_tile<2>(tile, prepared, head_size, head, state); break;
      case 1: attend_tile<1>(tile, prepared, head_size, head, state); break;
      default: break;
    }
  }
}

template <class T>
void prepare(const void* query, int64_t head_stride, int32_t num_heads, int32_t head_size, float scale, float* prepared) {
  const int32_t padded = padded_head_size(head_size);
  for (int32_t h = 0; h < num_heads; ++h) {
    const T* source = static_cast<const T*>(query) + h * head_stride;
    for (int32_t d = 0; d < padded; ++d) prepared[h * padded + d] = d < head_size ? widen(source[d]) * scale : 0.0f;
  }
}

void join(DecodeState state, DecodeState next, int32_t num_heads, int32_t head_size) {
  const int32_t padded = padded_head_size(head_size);
  for (int32_t h = 0; h < num_heads; ++h) {
    const float highest = state.maxima[h] > next.maxima[h] ? state.maxima[h] : next.maxima[h];
    const float kept = exp2f(state.maxima[h] - highest);
    const float added = exp2f(next.maxima[h] - highest);
    for (int32_t d = h * padded; d < (h + 1) * padded; d += WIDTH) {
      const Vector scaled = Vector::load(state.values + d) * Vector::broadcast(kept);
      Vector::load(next.values + d).multiply_add(Vector::broadcast(added), scaled).store(state.values + d);
    }
    state.sums[h] = state.sums[h] * kept + next.sums[h] * added;
    state.maxima[h] = highest;
  }
}

template <class T>
void finish(DecodeState state, int32_t num_heads, int32_t head_size, void* out, int64_t head_stride) {
  const int32_t padded = padded_head_size(head_size);
  for (int32_t h = 0; h < num_heads; ++h) {
    T* target = static_cast<T*>(out) + h * head_stride;
    const float* values = state.values + h * padded;
    const Vector factor = Vector::broadcast(1.0f / state.sums[h]);
    int32_t d = 0;
    for (; d + WIDTH <= head_size; d += WIDTH) (Vector::load(values + d) * factor).store(target + d);
    if (d < head_size) (Vector::load(values + d) * factor).store_eight(target + d);
  }
}

template <class T>
constexpr DecodeKernels KERNELS = {prepare<T>, attend<T>, join, finish<T>};

const DecodeKernels* kernels_of_type(int32_t type) {
  switch (type) {
    case OCTAVO_FLOAT32: return &KERNELS<float>;
    case OCTAVO_BFLOAT16: return &KERNELS<BFloat16>;
    case OCTAVO_FLOAT16: return &KERNELS<Float16>;
    default: return nullptr;
  }
}

}  // namespace
