// The C interface of the library: plain pointers, strides in elements, no ownership, no exceptions.
//
// Shape legend: N rows of the step, R rows that attend, H query heads, G KV heads, D head size, B blocks, S block size,
// T longest block table. The cache of a layer is [B, 2, G, S, D], keys first; [S, D] of one head is contiguous.
#pragma once

#include <cstdint>

#define OCTAVO_EXPORT extern "C" __attribute__((visibility("default")))

// Counts up with every change of a structure or a function below; the Python side compares it when it loads the library.
constexpr int32_t OCTAVO_ABI_VERSION = 1;

enum OctavoStatus : int32_t { OCTAVO_OK = 0, OCTAVO_BAD_ARGUMENT = 1, OCTAVO_OUT_OF_RANGE = 2, OCTAVO_OUT_OF_MEMORY = 3 };

enum OctavoType : int32_t { OCTAVO_FLOAT32 = 0, OCTAVO_BFLOAT16 = 1, OCTAVO_FLOAT16 = 2 };

enum OctavoIsa : int32_t { OCTAVO_PORTABLE = 0, OCTAVO_AVX2 = 1, OCTAVO_AVX512 = 2 };

// Where the pages of one layer are.
struct OctavoCache {
  void* data;
  int64_t block_stride;
  int64_t value_offset;  // from a key to the value of the same token and head
  int64_t head_stride;
  int32_t num_blocks;
  int32_t num_kv_heads;
  int32_t block_size;
  int32_t head_size;
};

// Attention of rows that stand alone: row i is the last token of a sequence of lengths[i] tokens.
struct OctavoPagedDecode {
  OctavoCache cache;
  const void* query;  // [N, H, D]
  int64_t query_row_stride;
  int64_t query_head_stride;
  void* out;  // [N, H, D]
  int64_t out_row_stride;
  int64_t out_head_stride;
  const int64_t* rows;         // [R], where the row stands in query and out
  const int32_t* block_table;  // [R, T]
  int64_t block_table_stride;
  const int32_t* lengths;  // [R], each at least 1
  int32_t num_rows;
  int32_t num_heads;
  int32_t window;  // tokens a row sees, itself included; 0 is all
  float scale;
  int32_t type;
  int32_t isa;
  int32_t num_threads;
};

// Writes row i of key and value to slot i, `block * S + offset`; a negative slot writes nothing.
struct OctavoStoreKv {
  OctavoCache cache;
  const void* key;  // [N, G, D]
  int64_t key_row_stride;
  int64_t key_head_stride;
  const void* value;  // [N, G, D]
  int64_t value_row_stride;
  int64_t value_head_stride;
  const int64_t* slots;  // [N]
  int32_t num_rows;
  int32_t type;
  int32_t num_threads;
};

OCTAVO_EXPORT int32_t octavo_abi_version();
// Bit i is set where this host can run the instruction set i of OctavoIsa.
OCTAVO_EXPORT uint32_t octavo_supported_isas();
OCTAVO_EXPORT int32_t octavo_paged_decode(const OctavoPagedDecode* task);
OCTAVO_EXPORT int32_t octavo_store_kv(const OctavoStoreKv* task);
