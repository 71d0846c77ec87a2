// Where the keys and values of one tile lie in the paged cache; over the `Vector` of the including file.
#pragma once

#include "attention.h"

namespace {

// Cache lines of the next tile that are fetched for each block of keys that is transposed.
constexpr int32_t FETCHED_A_BLOCK = Vector::width / 2;

template <class T>
struct KeyTile {
  int32_t count;
  // Before the first key that some row sees there may be nothing, so that one stands in for those before it; and the last one
  // for those up to the end of a vector.
  const T* keys[TILE_KEYS];
  const T* values[TILE_KEYS];
};

// The tile that begins at key `first` of the sequence, of which keys from seen.first to seen.last are seen by some row.
template <class T>
inline void find_keys(const AttentionRows& rows, int32_t first, KeyRange seen, KeyTile<T>* tile) {
  const OctavoCache& cache = rows.task->cache;
  const T* head = static_cast<const T*>(cache.data) + rows.kv_head * cache.head_stride;
  tile->count = seen.last - first < TILE_KEYS ? seen.last - first : TILE_KEYS;
  const int32_t start = seen.first > first ? seen.first - first : 0;
  int32_t column = (first + start) / cache.block_size;
  int32_t offset = (first + start) % cache.block_size;
  for (int32_t i = start; i < tile->count;) {
    const T* key = head + rows.blocks[column] * cache.block_stride + int64_t{offset} * cache.head_size;
    for (; offset < cache.block_size && i < tile->count; ++offset, ++i, key += cache.head_size) {
      tile->keys[i] = key;
      tile->values[i] = key + cache.value_offset;
    }
    offset = 0;
    ++column;
  }
  for (int32_t i = 0; i < start; ++i) {
    tile->keys[i] = tile->keys[start];
    tile->values[i] = tile->values[start];
  }
  for (int32_t i = tile->count; i % Vector::width != 0; ++i) tile->keys[i] = tile->keys[tile->count - 1];
}

// Fetches a tile that is read next, a little at a time between other work. Pages lie far apart, which defeats the hardware's
// prefetcher, and a burst of requests would hold up whatever comes after it.
template <class T>
class Ahead {
 public:
  // `tile` may be null: then there is nothing to fetch.
  Ahead(const KeyTile<T>* tile, int32_t head_size)
      : tile_(tile), bytes_(head_size * static_cast<int32_t>(sizeof(T))), num_rows_(tile == nullptr ? 0 : 2 * tile->count) {}

  // About so many cache lines.
  void fetch(int32_t lines) {
    for (; lines > 0 && row_ < num_rows_; ++row_) {
      const T* row = row_ < tile_->count ? tile_->keys[row_] : tile_->values[row_ - tile_->count];
      for (int32_t byte = 0; byte < bytes_; byte += LINE, --lines) __builtin_prefetch(reinterpret_cast<const char*>(row) + byte, 0, 2);
    }
  }

  void fetch_rest() { fetch(INT32_MAX); }

 private:
  static constexpr int32_t LINE = 64;

  const KeyTile<T>* tile_;
  int32_t bytes_;
  int32_t num_rows_;  // keys, then values
  int32_t row_ = 0;
};

}  // namespace
