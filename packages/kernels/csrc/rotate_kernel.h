// Rotary position embedding, dimensions paired as in GPT-NeoX, in float32; over the `Vector` of the including file.
#pragma once

#include "partial_vector.h"
#include "row_ops.h"

namespace {

// One head: (a, b) -> (a cos - b sin, b cos + a sin), and what lies behind the rotated dimensions as it is. out may be the head.
template <class T>
inline void rotate_head(const T* head, const float* cosines, int64_t half, int64_t head_size, T* out) {
  const float* sines = cosines + half;
  for (int64_t i = 0; i < half; i += Vector::width) {
    const int64_t left = half - i;
    const Vector a = load_first(head + i, left), b = load_first(head + half + i, left);
    const Vector cosine = load_first(cosines + i, left), sine = load_first(sines + i, left);
    store_first(a * cosine - b * sine, out + i, left);
    store_first(b * cosine + a * sine, out + half + i, left);
  }
  if (out != head) std::memcpy(out + 2 * half, head + 2 * half, (head_size - 2 * half) * sizeof(T));
}

template <class T>
inline void rotate_heads(const OctavoHeads& heads, const OctavoHeads& out, int32_t count, int64_t row, const float* cosines, int64_t half,
                         int64_t head_size) {
  for (int32_t i = 0; i < count; ++i) {
    rotate_head(static_cast<const T*>(heads.data) + row * heads.row_stride + i * heads.head_stride, cosines, half, head_size,
                static_cast<T*>(out.data) + row * out.row_stride + i * out.head_stride);
  }
}

template <class T>
void rotate(const OctavoRotation& task, int64_t first, int64_t last) {
  const int64_t half = task.rotary_size / 2;
  for (int64_t row = first; row < last; ++row) {
    const float* cosines = task.table + task.positions[row] * task.rotary_size;
    rotate_heads<T>(task.query, task.query_out, task.num_heads, row, cosines, half, task.head_size);
    rotate_heads<T>(task.key, task.key_out, task.num_kv_heads, row, cosines, half, task.head_size);
  }
}

}  // namespace
