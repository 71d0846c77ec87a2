// Eight floats in plain C++: what a host without AVX2 runs.
#pragma once

#include <cmath>

#include "reduced.h"

namespace {

struct Vector {
  static constexpr int width = 8;
  // A block of products that fits the registers: so many rows by so many vectors.
  static constexpr int block_rows = 3, block_vectors = 1;
  // The same for linear layers, two vectors wide.
  static constexpr int linear_rows = 2;
  float lanes[width];

  static Vector broadcast(float value) {
    Vector result;
    for (float& lane : result.lanes) lane = value;
    return result;
  }
  static Vector broadcast(const float* source) { return broadcast(*source); }

  template <class T>
  static Vector load(const T* source) {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = widen(source[i]);
    return result;
  }

  // Two elements a lane, as bits; then the first or second ones, widened.
  static Vector load_pairs(const BFloat16* source) {
    Vector result;
    std::memcpy(result.lanes, source, sizeof result.lanes);
    return result;
  }
  Vector first_of_pairs() const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = float_of(bits_of(lanes[i]) << 16);
    return result;
  }
  Vector second_of_pairs() const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = float_of(bits_of(lanes[i]) & 0xffff0000u);
    return result;
  }

  template <class T>
  static Vector load_eight(const T* source) {
    return load(source);
  }

  template <class T>
  void store(T* target) const {
    for (int i = 0; i < width; ++i) narrow(lanes[i], target + i);
  }

  template <class T>
  void store_eight(T* target) const {
    store(target);
  }

  // this * factor + addend
  Vector multiply_add(Vector factor, Vector addend) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = lanes[i] * factor.lanes[i] + addend.lanes[i];
    return result;
  }

  Vector operator+(Vector other) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = lanes[i] + other.lanes[i];
    return result;
  }

  Vector operator*(Vector other) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = lanes[i] * other.lanes[i];
    return result;
  }

  Vector operator-(Vector other) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = lanes[i] - other.lanes[i];
    return result;
  }

  Vector operator/(Vector other) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = lanes[i] / other.lanes[i];
    return result;
  }

  Vector larger(Vector other) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = lanes[i] > other.lanes[i] ? lanes[i] : other.lanes[i];
    return result;
  }

  // The lanes from `first` to `last`, the latter excluded, and `fill` in the others.
  Vector keep(int first, int last, float fill) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = i >= first && i < last ? lanes[i] : fill;
    return result;
  }

  Vector exp2() const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = exp2f(lanes[i]);
    return result;
  }

  float sum() const {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  }

  float maximum() const {
    float result = lanes[0];
    for (float lane : lanes) result = lane > result ? lane : result;
    return result;
  }

  // Lane i of row j and lane j of row i change places.
  static void transpose(Vector (&rows)[width]) {
    for (int i = 0; i < width; ++i) {
      for (int j = 0; j < i; ++j) {
        const float lane = rows[i].lanes[j];
        rows[i].lanes[j] = rows[j].lanes[i];
        rows[j].lanes[i] = lane;
      }
    }
  }
};

}  // namespace
