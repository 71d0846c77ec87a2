// Keys and values of a step's rows, copied to their slots in the paged cache.
#pragma once

#include <cstring>

#include "attention.h"

namespace {

inline bool slots_exist(const OctavoAttention& task) {
  const int64_t limit = int64_t{task.cache.num_blocks} * task.cache.block_size;
  for (int32_t row = 0; row < task.num_rows; ++row) {
    if (task.slots[row] >= limit) return false;
  }
  return true;
}

inline void store_row(const OctavoAttention& task, int64_t row) {
  if (task.slots[row] < 0) return;
  const OctavoCache& cache = task.cache;
  const int64_t block = task.slots[row] / cache.block_size;
  const int64_t offset = task.slots[row] % cache.block_size;
  const int64_t size = size_of_type(task.type);
  char* page = static_cast<char*>(cache.data) + (block * cache.block_stride + offset * cache.head_size) * size;
  const char* key = static_cast<const char*>(task.key.data) + row * task.key.row_stride * size;
  const char* value = static_cast<const char*>(task.value.data) + row * task.value.row_stride * size;
  for (int32_t head = 0; head < cache.num_kv_heads; ++head) {
    char* target = page + head * cache.head_stride * size;
    std::memcpy(target, key + head * task.key.head_stride * size, cache.head_size * size);
    std::memcpy(target + cache.value_offset * size, value + head * task.value.head_stride * size, cache.head_size * size);
  }
}

}  // namespace
