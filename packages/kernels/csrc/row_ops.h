// Between the drivers of ops that work row by row and their kernels, of which there is one set an instruction set and type.
#pragma once

#include <cstdint>

#include "abi.h"

struct RowKernels {
  // Rows [first, last).
  void (*rms_norm)(const OctavoRmsNorm& task, int64_t first, int64_t last);
  void (*rotate)(const OctavoRotation& task, int64_t first, int64_t last);
  void (*gate)(const OctavoGate& task, int64_t first, int64_t last);
};

const RowKernels* portable_row_kernels(int32_t type);
const RowKernels* avx2_row_kernels(int32_t type);
const RowKernels* avx512_row_kernels(int32_t type);
