// Gated activations in float32; over the `Vector` of the including file.
#pragma once

#include "partial_vector.h"
#include "row_ops.h"

namespace {

// x / (1 + exp(-y))
inline Vector times_sigmoid(Vector x, Vector y) {
  const Vector one = Vector::broadcast(1.0f);
  return x / (one + (y * Vector::broadcast(-1.44269504f)).exp2());
}

struct Silu {
  static Vector of(Vector x) { return times_sigmoid(x, x); }
};

// x / 2 * (1 + tanh(z)) is x * sigmoid(2 z), with z = sqrt(2 / pi) * (x + 0.044715 x^3).
struct GeluTanh {
  static Vector of(Vector x) {
    const Vector cubic = (x * x).multiply_add(Vector::broadcast(2.0f * 0.79788456f * 0.044715f), Vector::broadcast(2.0f * 0.79788456f));
    return times_sigmoid(x, x * cubic);
  }
};

template <class Activation, class T>
inline void gate_rows(const OctavoGate& task, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const T* gate = static_cast<const T*>(task.gate_and_up) + row * task.row_stride;
    const T* up = gate + task.width;
    T* out = static_cast<T*>(task.out) + row * task.width;
    for (int64_t i = 0; i < task.width; i += Vector::width) {
      const int64_t left = task.width - i;
      store_first(Activation::of(load_first(gate + i, left)) * load_first(up + i, left), out + i, left);
    }
  }
}

template <class T>
void gate(const OctavoGate& task, int64_t first, int64_t last) {
  if (task.activation == OCTAVO_SILU) {
    gate_rows<Silu, T>(task, first, last);
  } else {
    gate_rows<GeluTanh, T>(task, first, last);
  }
}

}  // namespace
