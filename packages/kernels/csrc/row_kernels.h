// The kernels of all ops that work row by row, over the `Vector` of the including file.
#pragma once

#include "gate_kernel.h"
#include "rms_norm_kernel.h"
#include "rotate_kernel.h"

namespace {

template <class T>
constexpr RowKernels ROW_KERNELS = {rms_norm<T>, rotate<T>, gate<T>};

const RowKernels* row_kernels_of(int32_t type) {
  switch (type) {
    case OCTAVO_FLOAT32: return &ROW_KERNELS<float>;
    case OCTAVO_BFLOAT16: return &ROW_KERNELS<BFloat16>;
    case OCTAVO_FLOAT16: return &ROW_KERNELS<Float16>;
    default: return nullptr;
  }
}

}  // namespace
