// Between the driver of paged decode attention and its kernels, of which there is one set an instruction set and type.
#pragma once

#include <cstdint>

#include "abi.h"

// Query heads of one row that share a KV head, over the keys [first_key, last_key) of its sequence.
struct DecodeSplit {
  const OctavoCache* cache;
  const void* keys;       // of the KV head, in block 0
  const int32_t* blocks;  // the row's block table
  int32_t first_key;
  int32_t last_key;
  int32_t num_heads;
};

// Softmax over some keys, not yet divided by its sum. Head h has width floats from values + h * width on.
struct DecodeState {
  float* values;
  float* maxima;  // of the scores, which are in units of log2
  float* sums;
};

// Head sizes are rounded up to this many floats in states and prepared queries.
constexpr int32_t OCTAVO_HEAD_PADDING = 16;

static inline int32_t padded_head_size(int32_t head_size) {
  return (head_size + OCTAVO_HEAD_PADDING - 1) / OCTAVO_HEAD_PADDING * OCTAVO_HEAD_PADDING;
}

struct DecodeKernels {
  // The query's heads times scale, as float32 [num_heads, padded head size].
  void (*prepare)(const void* query, int64_t head_stride, int32_t num_heads, int32_t head_size, float scale, float* prepared);
  // The state of one split.
  void (*attend)(const DecodeSplit& split, const float* prepared, DecodeState state);
  // state := state joined with next, which stands for later keys.
  void (*join)(DecodeState state, DecodeState next, int32_t num_heads, int32_t head_size);
  // What the state says, in the type of out.
  void (*finish)(DecodeState state, int32_t num_heads, int32_t head_size, void* out, int64_t head_stride);
};

const DecodeKernels* portable_decode_kernels(int32_t type);
const DecodeKernels* avx2_decode_kernels(int32_t type);
const DecodeKernels* avx512_decode_kernels(int32_t type);
