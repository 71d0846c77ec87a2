// What is made of a panel's sums; over the `Vector` of the including file.
#pragma once

#include "gate_kernel.h"
#include "linear.h"

namespace {

// A float as an integer of the same order, with -0 as 0 and NaN the largest.
inline int32_t order_key(float value) {
  const uint32_t bits = bits_of(value + 0.0f);
  const int32_t key = static_cast<int32_t>(bits >> 31 != 0 ? bits ^ 0x7fffffffu : bits);
  return (bits & 0x7fffffffu) > 0x7f800000u ? INT32_MAX : key;
}

template <class T>
inline LargestOutput largest_of(const T* values, int32_t count, int32_t first_index) {
  int32_t keys[PANEL], largest = INT32_MIN, place = 0;
  for (int32_t i = 0; i < count; ++i) keys[i] = order_key(widen(values[i]));
  for (int32_t i = 0; i < count; ++i) largest = keys[i] > largest ? keys[i] : largest;
  while (keys[place] != largest) ++place;
  return {largest, first_index + place};
}

template <class T>
inline Vector add_first(Vector vector, const void* addend, int64_t offset, int64_t count) {
  return addend == nullptr ? vector : vector + load_first(static_cast<const T*>(addend) + offset, count);
}

template <class T>
inline void finish_plain(const OctavoLinear& task, int64_t panel, const LinearScratch& scratch) {
  const int64_t first = panel * PANEL, left = task.num_outputs - first, count = left < PANEL ? left : PANEL;
  for (int64_t r = 0; r < scratch.num_rows; ++r) {
    const int64_t row = scratch.first_row + r;
    T rounded[PANEL];
    T* out = task.out == nullptr ? rounded : static_cast<T*>(task.out) + row * task.out_stride + first;
    for (int64_t i = 0; i < count; i += Vector::width) {
      Vector y = add_first<T>(Vector::load(scratch.sums + r * PANEL + i), task.bias, first + i, count - i);
      y = add_first<T>(y, task.residual, row * task.residual_stride + first + i, count - i);
      store_first(y, out + i, count - i);
    }
    if (scratch.largest != nullptr) {
      scratch.largest[row].take(largest_of(out, static_cast<int32_t>(count), static_cast<int32_t>(first)));
    }
  }
}

template <class Activation, class T>
inline void finish_gated(const OctavoLinear& task, int64_t panel, const LinearScratch& scratch) {
  constexpr int64_t HALF = PANEL / 2;
  const int64_t width = task.num_outputs / 2, first = panel * HALF, left = width - first, count = left < HALF ? left : HALF;
  for (int64_t r = 0; r < scratch.num_rows; ++r) {
    const float* sums = scratch.sums + r * PANEL;
    T* out = static_cast<T*>(task.out) + (scratch.first_row + r) * task.out_stride + first;
    for (int64_t i = 0; i < count; i += Vector::width) {
      const Vector gate = add_first<T>(Vector::load(sums + i), task.bias, first + i, count - i);
      const Vector up = add_first<T>(Vector::load(sums + HALF + i), task.bias, width + first + i, count - i);
      store_first(Activation::of(gate) * up, out + i, count - i);
    }
  }
}

template <class T>
inline void finish(const OctavoLinear& task, int64_t panel, const LinearScratch& scratch) {
  if (!task.gated) {
    finish_plain<T>(task, panel, scratch);
  } else if (task.activation == OCTAVO_SILU) {
    finish_gated<Silu, T>(task, panel, scratch);
  } else {
    finish_gated<GeluTanh, T>(task, panel, scratch);
  }
}

}  // namespace
