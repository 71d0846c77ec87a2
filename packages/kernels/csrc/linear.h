// Between the driver of linear layers and their kernels, of which there is one set an instruction set and type.
#pragma once

#include <cstdint>

#include "abi.h"

constexpr int32_t PANEL = 32;           // outputs that lie together in packed weights
constexpr int32_t INPUT_PADDING = 32;   // packed inputs are a multiple of it
constexpr int32_t MAX_HELD_ROWS = 256;  // a multiple of 32
constexpr int64_t WIDE_INPUTS = 2048;   // inputs of a panel that are widened at once

inline int64_t padded_inputs(int64_t num_inputs) { return (num_inputs + INPUT_PADDING - 1) / INPUT_PADDING * INPUT_PADDING; }

inline int64_t element_bytes(int32_t type) { return type == OCTAVO_FLOAT32 ? 4 : 2; }

// Whether weights are packed in half precision, with a factor an output.
inline bool is_halved(int32_t type, int32_t isa) { return isa == OCTAVO_AVX512_FP16 && type == OCTAVO_BFLOAT16; }

inline int64_t panel_bytes(int64_t num_inputs, int32_t type, int32_t isa) {
  const int64_t factors = is_halved(type, isa) ? PANEL * static_cast<int64_t>(sizeof(float)) : 0;
  return padded_inputs(num_inputs) * PANEL * element_bytes(type) + factors;
}

inline const char* panel_at(const OctavoLinear& task, int64_t panel) {
  return static_cast<const char*>(task.packed) + panel * panel_bytes(task.num_inputs, task.type, task.isa);
}

// Of weights [O, ...]; where they are gated, a panel holds PANEL / 2 gates and as many ups.
inline int64_t count_panels(int64_t num_outputs, bool gated) {
  return gated ? (num_outputs / 2 + PANEL / 2 - 1) / (PANEL / 2) : (num_outputs + PANEL - 1) / PANEL;
}

// The largest output of a row so far. Keys are floats, made integers of the same order; NaN is the largest.
struct LargestOutput {
  int32_t key;
  int32_t index;

  void take(LargestOutput other) {
    if (other.key > key || (other.key == key && other.index < index)) *this = other;
  }
};

constexpr LargestOutput NO_OUTPUT = {INT32_MIN, INT32_MAX};

// Of one thread.
struct LinearScratch {
  void* rows;              // the held rows of x, as the kernels like them
  float* wide;             // [WIDE_INPUTS, PANEL], a part of a panel
  float* sums;             // [MAX_HELD_ROWS, PANEL]
  LargestOutput* largest;  // [N], or null
  int64_t first_row;       // of those that are held
  int64_t num_rows;        // at most MAX_HELD_ROWS
};

struct LinearKernels {
  int32_t tile_rows;  // that pass through the registers together
  int64_t (*row_bytes)(int64_t num_inputs);  // of scratch.rows, a row
  // Around the work of a thread; may be null.
  void (*begin)();
  void (*end)();
  // Fills scratch.rows.
  void (*hold_rows)(const OctavoLinear& task, const LinearScratch& scratch);
  // What is wanted of one panel, for the held rows. Has the panel at `next` fetched meanwhile.
  void (*multiply)(const OctavoLinear& task, int64_t panel, const void* next, const LinearScratch& scratch);
};

const LinearKernels* portable_linear_kernels(int32_t type);
const LinearKernels* avx2_linear_kernels(int32_t type);
const LinearKernels* avx512_linear_kernels(int32_t type);
const LinearKernels* avx512_bf16_linear_kernels(int32_t type);
const LinearKernels* avx512_fp16_linear_kernels(int32_t type);
const LinearKernels* amx_linear_kernels(int32_t type);
// Whether the compiler knew these instructions.
bool has_avx512_fp16_kernels();
bool has_amx_kernels();
