// RMSNorm with an optional residual, in float32; over the `Vector` of the including file.
#pragma once

#include <cmath>

#include "partial_vector.h"
#include "row_ops.h"

namespace {

constexpr int64_t SUMS = 4;  // independent ones, which hide the latency of additions

// The mean of x^2 over one row; where there is a residual, writes total first.
template <class T>
inline float mean_square(const T* x, const T* residual, T* total, int64_t width) {
  Vector sums[SUMS];
  for (Vector& sum : sums) sum = Vector::broadcast(0.0f);
  int64_t which = 0;
  for (int64_t i = 0; i < width; i += Vector::width, which = (which + 1) % SUMS) {
    Vector part = load_first(x + i, width - i);
    if (residual != nullptr) {
      store_first(part + load_first(residual + i, width - i), total + i, width - i);
      part = load_first(total + i, width - i);  // as it is handed on, rounded
    }
    sums[which] = part.multiply_add(part, sums[which]);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum() / static_cast<float>(width);
}

template <class T>
void rms_norm(const OctavoRmsNorm& task, int64_t first, int64_t last) {
  const T* weight = static_cast<const T*>(task.weight);
  const int64_t width = task.width;
  const Vector offset = Vector::broadcast(task.offset);
  for (int64_t row = first; row < last; ++row) {
    const T* x = static_cast<const T*>(task.x.data) + row / task.num_heads * task.x.row_stride + row % task.num_heads * task.x.head_stride;
    const T* residual = task.residual == nullptr ? nullptr : static_cast<const T*>(task.residual) + row * width;
    T* total = task.residual == nullptr ? nullptr : static_cast<T*>(task.total) + row * width;
    T* out = static_cast<T*>(task.out) + row * width;
    const Vector scale = Vector::broadcast(1.0f / std::sqrt(mean_square(x, residual, total, width) + task.eps));
    const T* source = residual == nullptr ? x : total;
    for (int64_t i = 0; i < width; i += Vector::width) {
      const int64_t left = width - i;
      store_first(load_first(source + i, left) * scale * (offset + load_first(weight + i, left)), out + i, left);
    }
  }
}

}  // namespace
