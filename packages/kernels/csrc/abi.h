// The C interface of the library: plain pointers, strides in elements, no ownership, no exceptions.
//
// Shape legend: N rows of the step, R requests, H query heads, G KV heads, D head size, B blocks, S block size, T longest
// block table, E and F widths. The cache of a layer is [B, 2, G, S, D], keys first; [S, D] of one head is contiguous.
#pragma once

#include <cstdint>

#define OCTAVO_EXPORT extern "C" __attribute__((visibility("default")))

// Counts up with every change of a structure or a function below; the Python side compares it when it loads the library.
constexpr int32_t OCTAVO_ABI_VERSION = 7;

// How many keys of a sequence are taken together at most.
constexpr int32_t OCTAVO_SPLIT_KEYS = 256;

enum OctavoStatus : int32_t { OCTAVO_OK = 0, OCTAVO_BAD_ARGUMENT = 1, OCTAVO_OUT_OF_RANGE = 2, OCTAVO_OUT_OF_MEMORY = 3 };

enum OctavoType : int32_t { OCTAVO_FLOAT32 = 0, OCTAVO_BFLOAT16 = 1, OCTAVO_FLOAT16 = 2 };

enum OctavoIsa : int32_t {
  OCTAVO_PORTABLE = 0,
  OCTAVO_AVX2 = 1,
  OCTAVO_AVX512 = 2,
  OCTAVO_AVX512_BF16 = 3,
  OCTAVO_AVX512_FP16 = 4,
  OCTAVO_AMX = 5
};

// GGML's block formats.
enum OctavoFormat : int32_t {
  OCTAVO_Q4_0 = 0,
  OCTAVO_Q4_1 = 1,
  OCTAVO_Q5_0 = 2,
  OCTAVO_Q5_1 = 3,
  OCTAVO_Q8_0 = 4,
  OCTAVO_Q2_K = 5,
  OCTAVO_Q3_K = 6,
  OCTAVO_Q4_K = 7,
  OCTAVO_Q5_K = 8,
  OCTAVO_Q6_K = 9
};

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
  const int32_t* runs;     // as octavo_find_shared left them; not looked at where there is a window or a KV head has too many heads
  const int32_t* members;
  int32_t num_runs;
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

// Finds requests of a single row whose keys lie in the same blocks, so that those are read once for all of them. Keys are looked at
// in splits of OCTAVO_SPLIT_KEYS from the first one on. A run is [split, first, count]: the requests members[first] to
// members[first + count - 1] share the blocks of that split and of all before it, and see all of its keys and more.
struct OctavoSharing {
  const int32_t* query_start;  // [R + 1]
  const int32_t* seq_lens;     // [R]
  const int32_t* block_table;  // [R, T]
  int64_t block_table_stride;
  int32_t* runs;      // [max_members / 2, 3]
  int32_t* members;   // [max_members]
  int32_t* num_runs;  // [1]
  int32_t max_members;
  int32_t num_requests;
  int32_t block_size;
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

// Turns blocks of 32 values, or of 256 where the format's name ends in K, into floats.
struct OctavoBlocks {
  const void* blocks;
  float* out;
  int64_t num_blocks;
  int32_t format;
};

// Lays the weights of a linear layer out as its kernels read them: panels of 32 outputs, [P, I', 32], or of 16-bit brain floats
// [P, I' / 2, 32, 2], where I' is I rounded up to a multiple of 32 and all that is added is zero. Where the layer is gated, the
// outputs are gates and as many ups, and a panel holds 16 of each. For OCTAVO_AVX512_FP16 brain floats become half precision, each output
// scaled by a power of two, and a panel is [I', 32] and the 32 float32 factors that undo it.
struct OctavoPacking {
  const void* weight;  // [O, I]
  void* packed;
  int64_t row_stride;
  int64_t num_inputs;   // I
  int64_t num_outputs;  // O
  int32_t gated;
  int32_t type;
  int32_t isa;  // that is going to read it; the others read the same
  int32_t num_threads;
};

// y = x W^T + bias, then what is wanted of it, with sums in float32 whose order depends on I alone: out = y; or residual + y; or
// activation(gate) * up, [N, O / 2], where y holds both; and the number of each row's largest y, rounded to the type: the lowest of
// equals, -1 where there is a NaN or the largest is infinite. OCTAVO_AVX512_FP16 sums 64 products of brain floats at a time in half
// precision.
struct OctavoLinear {
  const void* x;         // [N, I]
  const void* packed;    // as octavo_pack_linear left it
  const void* bias;      // [O], in the order of the weights, or null
  const void* residual;  // [N, O], or null
  void* out;             // or null
  int64_t* largest;      // [N], or null
  int64_t x_stride;      // of a row, as are those below
  int64_t residual_stride;
  int64_t out_stride;
  int64_t num_rows;     // N
  int64_t num_inputs;   // I
  int64_t num_outputs;  // O
  int32_t gated;
  int32_t activation;  // where gated
  int32_t type;
  int32_t isa;
  int32_t num_threads;
};

// Copies rows that do not overlap.
struct OctavoCopy {
  const void* source;
  void* target;
  int64_t source_stride;  // in bytes, as are those below
  int64_t target_stride;
  int64_t row_bytes;
  int64_t num_rows;
  int32_t num_threads;
};

enum OctavoKind : int32_t {
  OCTAVO_CALL_ATTEND = 0,
  OCTAVO_CALL_ROTATE = 1,
  OCTAVO_CALL_RMS_NORM = 2,
  OCTAVO_CALL_GATE = 3,
  OCTAVO_CALL_LINEAR = 4,
  OCTAVO_CALL_COPY = 5
};

// One call of a program.
struct OctavoCall {
  void* task;  // the structure of the kind; what depends on the step is written into it before the call
  int32_t kind;
  int32_t rows_a_token;  // of the task
  int32_t group;         // of requests, where it attends
};

// Which rows belong to whom in a step, as the members of OctavoAttention say.
struct OctavoRequests {
  const int64_t* slots;
  const int32_t* query_start;
  const int32_t* seq_lens;
  const int32_t* block_table;
  int64_t block_table_stride;
  const int32_t* runs;
  const int32_t* members;
  int32_t num_runs;
  int32_t num_requests;
};

struct OctavoProgram {
  const OctavoCall* calls;
  const OctavoRequests* groups;
  int64_t num_calls;
  int64_t num_tokens;  // N, at most as many as the memory of all tasks is made for
};

OCTAVO_EXPORT int32_t octavo_abi_version();
// Bit i is set where this host can run the instruction set i of OctavoIsa.
OCTAVO_EXPORT uint32_t octavo_supported_isas();
// The one of them that is fastest here.
OCTAVO_EXPORT int32_t octavo_preferred_isa();
OCTAVO_EXPORT int32_t octavo_find_shared(const OctavoSharing* task);
OCTAVO_EXPORT int32_t octavo_attend(const OctavoAttention* task);
OCTAVO_EXPORT int32_t octavo_rotate(const OctavoRotation* task);
OCTAVO_EXPORT int32_t octavo_rms_norm(const OctavoRmsNorm* task);
OCTAVO_EXPORT int32_t octavo_gate(const OctavoGate* task);
OCTAVO_EXPORT int32_t octavo_dequantize(const OctavoBlocks* task);
// Bytes that octavo_pack_linear writes; `packed` and `weight` are not looked at. Negative where an argument is bad.
OCTAVO_EXPORT int64_t octavo_packed_bytes(const OctavoPacking* task);
OCTAVO_EXPORT int32_t octavo_pack_linear(const OctavoPacking* task);
OCTAVO_EXPORT int32_t octavo_linear(const OctavoLinear* task);
OCTAVO_EXPORT int32_t octavo_copy(const OctavoCopy* task);
// Call after call, up to one that fails.
OCTAVO_EXPORT int32_t octavo_run(const OctavoProgram* program);
// Asks the system to back this memory with large pages, which saves walks of the page table; call it before the memory is touched.
OCTAVO_EXPORT void octavo_advise_large_pages(void* data, int64_t num_bytes);
