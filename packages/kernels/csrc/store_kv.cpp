// Keys and values of a step's rows, copied to their slots in the paged cache.
#include <cstring>

#include "abi.h"

namespace {

int64_t element_size(int32_t type) { return type == OCTAVO_FLOAT32 ? 4 : 2; }

bool valid(const OctavoStoreKv& task) {
  const OctavoCache& cache = task.cache;
  return task.type >= OCTAVO_FLOAT32 && task.type <= OCTAVO_FLOAT16 && task.num_rows >= 0 && task.num_threads >= 1 && cache.block_size >= 1 &&
         cache.head_size >= 1 && cache.num_kv_heads >= 1;
}

void store_row(const OctavoStoreKv& task, int64_t row) {
  const OctavoCache& cache = task.cache;
  const int64_t slot = task.slots[row];
  const int64_t block = slot / cache.block_size;
  const int64_t offset = slot % cache.block_size;
  const int64_t size = element_size(task.type);
  char* page = static_cast<char*>(cache.data) + (block * cache.block_stride + offset * cache.head_size) * size;
  const char* key = static_cast<const char*>(task.key) + row * task.key_row_stride * size;
  const char* value = static_cast<const char*>(task.value) + row * task.value_row_stride * size;
  for (int32_t head = 0; head < cache.num_kv_heads; ++head) {
    char* target = page + head * cache.head_stride * size;
    std::memcpy(target, key + head * task.key_head_stride * size, cache.head_size * size);
    std::memcpy(target + cache.value_offset * size, value + head * task.value_head_stride * size, cache.head_size * size);
  }
}

}  // namespace

int32_t octavo_store_kv(const OctavoStoreKv* task) {
  if (!valid(*task)) return OCTAVO_BAD_ARGUMENT;
  const int64_t limit = int64_t{task->cache.num_blocks} * task->cache.block_size;
  for (int32_t row = 0; row < task->num_rows; ++row) {
    if (task->slots[row] >= limit) return OCTAVO_OUT_OF_RANGE;
  }
  // Waking the other threads costs more than a few rows do.
#pragma omp parallel for num_threads(task->num_threads) schedule(static) if (task->num_rows >= 32)
  for (int32_t row = 0; row < task->num_rows; ++row) {
    if (task->slots[row] >= 0) store_row(*task, row);
  }
  return OCTAVO_OK;
}
