// What rows of linear layers are held as, and how they are multiplied with packed weights; over the `Vector` of the including file.
//
// A step takes `inputs_a_step` inputs, which lie together in a packed panel, as so many `parts` one after the other; a held row has an
// element a part.
#pragma once

#include "linear.h"
#include "partial_vector.h"
#include "reduced.h"

namespace {

struct WideFactors {
  using Held = float;
  static Vector broadcast(const float* left) { return Vector::broadcast(left); }
  static Vector multiply_add(Vector factor, Vector right, Vector sum) { return factor.multiply_add(right, sum); }
};

// In float32.
template <class T>
struct LinearOperands : WideFactors {
  using Stored = T;
  static constexpr int parts = 1, inputs_a_step = 1;
  static constexpr bool widens = sizeof(T) < sizeof(float);

  static Vector load(const T* packed) { return Vector::load(packed); }
  template <int PART>
  static Vector part(Vector loaded) {
    return loaded;
  }

  // So many inputs of a row, and zeros up to a whole vector.
  static void hold(const T* row, int64_t count, float* target) {
    for (int64_t i = 0; i < count; i += Vector::width) load_first(row + i, count - i).store(target + i);
  }
};

template <>
struct LinearOperands<BFloat16> : WideFactors {
  using Stored = BFloat16;
  static constexpr int parts = 2, inputs_a_step = 2;
  static constexpr bool widens = true;

  static Vector load(const BFloat16* packed) { return Vector::load_pairs(packed); }
  template <int PART>
  static Vector part(Vector loaded) {
    return PART == 0 ? loaded.first_of_pairs() : loaded.second_of_pairs();
  }

  static void hold(const BFloat16* row, int64_t count, float* target) {
    for (int64_t i = 0; i < count; i += Vector::width) load_first(row + i, count - i).store(target + i);
  }
};

}  // namespace
