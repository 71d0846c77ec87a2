// Between the driver of attention and its kernels, of which there is one set an instruction set and type.
#pragma once

#include <cstdint>

#include "abi.h"

// Keys are read in tiles, and tiles joined to splits; both are cut at multiples of their length from a sequence's first token
// on, so that the order of a row's sums depends on its own context alone.
constexpr int32_t TILE_KEYS = 64;
constexpr int32_t SPLIT_KEYS = OCTAVO_SPLIT_KEYS;
constexpr int32_t TILE_ROWS = 60;  // (token, query head) pairs that are computed together

// Head sizes are rounded up to this many elements in scratch memory.
constexpr int32_t HEAD_PADDING = 16;

static inline int32_t padded_head_size(int32_t head_size) { return (head_size + HEAD_PADDING - 1) / HEAD_PADDING * HEAD_PADDING; }

static inline int64_t size_of_type(int32_t type) { return type == OCTAVO_FLOAT32 ? 4 : 2; }

// Some rows of one request and one KV head. The request's rows are numbered token by token, the query heads that share the
// KV head within: row r is head r % group of token r / group. Or rows of several requests of one token that share the keys of a
// split, all of which they see: then row r is head r % group of member r / group.
struct AttentionRows {
  const OctavoAttention* task;
  const int32_t* blocks;   // the block table of the request, or of any member
  const int32_t* members;  // requests, or null
  int64_t step_row;        // of the request's first token in query and out
  int32_t num_before;     // tokens of the request before that
  int32_t kv_head;
  int32_t group;
  int32_t first;
  int32_t count;
};

// Where row i of a tile is in query or out.
static inline int64_t place_of_row(const AttentionRows& rows, const OctavoHeads& heads, int32_t i) {
  const int32_t token = (rows.first + i) / rows.group;
  const int64_t head = int64_t{rows.kv_head} * rows.group + (rows.first + i) % rows.group;
  const int64_t row = rows.members == nullptr ? rows.step_row + token : rows.task->query_start[rows.members[token]];
  return row * heads.row_stride + head * heads.head_stride;
}

struct KeyRange {
  int32_t first;
  int32_t last;  // excluded
};

static inline KeyRange visible_keys(const AttentionRows& rows, int32_t row) {
  const int32_t last = rows.num_before + row / rows.group + 1;
  const int32_t window = rows.task->window;
  return {window > 0 && last > window ? last - window : 0, last};
}

// The keys of one split that some of the rows see. Whether its first tile was fetched beforehand is said by whoever had it fetched.
struct AttentionPart {
  AttentionRows rows;
  int32_t split;
  bool is_fetched;
};

// Softmax over some keys, not yet divided by its sum. Row i has padded_head_size floats from values + i * that on.
struct AttentionState {
  float* values;
  float* maxima;  // of the scores, which are in units of log2
  float* sums;
};

// Of one thread. The instruction sets store what they like in it, at most a float an element.
struct AttentionScratch {
  float* query;    // [TILE_ROWS, padded head size]
  float* scores;   // [TILE_ROWS, TILE_KEYS]
  float* weights;  // [TILE_ROWS, TILE_KEYS]
  float* keys;     // [padded head size, TILE_KEYS]
  float* values;   // [TILE_KEYS, padded head size]
};

struct AttentionKernels {
  // Fills scratch.query.
  void (*prepare)(const AttentionRows& rows, const AttentionScratch& scratch);
  // The state over a part. Has the first keys of the next one, which may be null, fetched.
  void (*attend)(const AttentionPart& part, const AttentionPart* next, const AttentionScratch& scratch, const AttentionState& state);
  // state := state joined with next, which stands for later keys.
  void (*join)(const AttentionState& state, const AttentionState& next, int32_t num_rows, int32_t head_size);
  // What the state says, written to out.
  void (*finish)(const AttentionRows& rows, const AttentionState& state);
};

const AttentionKernels* portable_attention_kernels(int32_t type);
const AttentionKernels* avx2_attention_kernels(int32_t type);
const AttentionKernels* avx512_attention_kernels(int32_t type);
const AttentionKernels* avx512_bf16_attention_kernels(int32_t type);
