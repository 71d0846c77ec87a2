// The C interface of the library: plain pointers, strides in elements, no ownership, no exceptions.
//
// Shape legend: N rows of the step, R requests, H query heads, G KV heads, D head size, B blocks, S block size, T longest
// block table, E and F widths. The cache of a layer is [B, 2, G, S, D], keys first; [S, D] of one head is contiguous.
#pragma once

#include <cstdint>

#define OCTAVO_EXPORT extern "C" __attribute__((visibility("default")))

// Counts up with every change of a structure or a function below; the Python side compares it when it loads the library.
constexpr int32_t OCTAVO_ABI_VERSION = 2;

enum OctavoStatus : int32_t { OCTAVO_OK = 0, OCTAVO_BAD_ARGUMENT = 1, OCTAVO_OUT_OF_RANGE = 2, OCTAVO_OUT_OF_MEMORY = 3 };

enum OctavoType : int32_t { OCTAVO_FLOAT32 = 0, OCTAVO_BFLOAT16 = 1, OCTAVO_FLOAT16 = 2 };

enum OctavoIsa : int32_t { OCTAVO_PORTABLE = 0, OCTAVO_AVX2 = 1, OCTAVO_AVX512 = 2, OCTAVO_AVX512_BF16 = 3 };

enum OctavoActivation : int32_t { OCTAVO_SILU = 0, OCTAVO_GELU_TANH = 1 };

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

// Heads of some rows; the elements of a head are contiguous.
struct OctavoHeads {
  void* data;
  int64_t row_stride;
  int64_t head_stride;
};

// First writes row i of key and value to slot i, `block * S + offset` (a negative slot writes nothing); then request i's rows
// query_start[i] to query_start[i + 1], the last of its seq_lens[i] tokens, attend causally. Rows of nobody, and of requests
// of length 0, put out zeros.
struct OctavoAttention {
  OctavoCache cache;
  OctavoHeads query;  // [N, H, D]
  OctavoHeads key;    // [N, G, D]
  OctavoHeads value;  // [N, G, D]
  OctavoHeads out;    // [N, H, D]
  const int64_t* slots;        // [N], distinct where not negative
  const int32_t* query_start;  // [R + 1]
  const int32_t* seq_lens;     // [R]
  const int32_t* block_table;  // [R, T]
  int64_t block_table_stride;
  int32_t num_rows;
  int32_t num_requests;
  int32_t num_heads;
  int32_t window;  // tokens a row sees, itself included; 0 is all
  float scale;
  float soft_cap;  // c of c * tanh(score / c); 0 is none
  int32_t type;
  int32_t isa;
  int32_t num_threads;
};

// Turns each pair (i, i + D' / 2) of the first D' dimensions by the angle of the row's position. out may be the input.
struct OctavoRotation {
  OctavoHeads query;  // [N, H, D]
  OctavoHeads key;    // [N, G, D]
  OctavoHeads query_out;
  OctavoHeads key_out;
  const int64_t* positions;  // [N]
  const float* table;        // [P, D'], cosines and then sines
  int64_t num_positions;     // P
  int32_t rotary_size;       // D', even
  int32_t num_rows;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_size;
  int32_t type;
  int32_t isa;
  int32_t num_threads;
};

// out = total / sqrt(mean(total^2) + eps) * (offset + weight), total = x + residual rounded to the type, or x without a residual.
struct OctavoRmsNorm {
  OctavoHeads x;         // [N, H, E]
  const void* residual;  // [N, H, E], contiguous, or null
  void* total;           // [N, H, E], contiguous; written where there is a residual
  const void* weight;    // [E]
  void* out;             // [N, H, E], contiguous
  int64_t num_rows;      // N * H
  int32_t num_heads;     // H
  int32_t width;         // E
  float eps;
  float offset;
  int32_t type;
  int32_t isa;
  int32_t num_threads;
};

// out = activation(gate) * up.
struct OctavoGate {
  const void* gate_and_up;  // [N, 2 F], gate first
  void* out;                // [N, F], contiguous
  int64_t row_stride;       // of gate_and_up
  int64_t num_rows;
  int32_t width;  // F
  int32_t activation;
  int32_t type;
  int32_t isa;
  int32_t num_threads;
};

OCTAVO_EXPORT int32_t octavo_abi_version();
// Bit i is set where this host can run the instruction set i of OctavoIsa.
OCTAVO_EXPORT uint32_t octavo_supported_isas();
// The one of them that is fastest here.
OCTAVO_EXPORT int32_t octavo_preferred_isa();
OCTAVO_EXPORT int32_t octavo_attend(const OctavoAttention* task);
OCTAVO_EXPORT int32_t octavo_rotate(const OctavoRotation* task);
OCTAVO_EXPORT int32_t octavo_rms_norm(const OctavoRmsNorm* task);
OCTAVO_EXPORT int32_t octavo_gate(const OctavoGate* task);
