// Eight floats in plain C++: what a host without AVX2 runs.
#pragma once

#include <cmath>

#include "reduced.h"

namespace {

struct Vector {
  static constexpr int width = 8;
  float lanes[width];

  static Vector broadcast(float value) {
    Vector result;
    for (float& lane : result.lanes) lane = value;
    return result;
  }

  template <class T>
  static Vector load(const T* source) {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = widen(source[i]);
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

  Vector larger(Vector other) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = lanes[i] > other.lanes[i] ? lanes[i] : other.lanes[i];
    return result;
  }

  // The first `count` lanes, `fill` in the others.
  Vector keep_first(int count, float fill) const {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = i < count ? lanes[i] : fill;
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

  // Lane i of the result is the sum of row i of a [width, width] matrix.
  static Vector row_sums(const float* rows) {
    Vector result;
    for (int i = 0; i < width; ++i) result.lanes[i] = load(rows + i * width).sum();
    return result;
  }
};

}  // namespace
