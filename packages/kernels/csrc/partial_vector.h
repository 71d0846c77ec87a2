// The last elements of a row, which may not fill a vector; over the `Vector` of the including file.
#pragma once

#include <cstdint>
#include <cstring>

namespace {

// So many elements, at most a vector's width, and zeros in the other lanes.
template <class T>
inline Vector load_first(const T* source, int64_t count) {
  if (count >= Vector::width) return Vector::load(source);
  T elements[Vector::width] = {};
  std::memcpy(elements, source, count * sizeof(T));
  return Vector::load(elements);
}

template <class T>
inline void store_first(Vector vector, T* target, int64_t count) {
  if (count >= Vector::width) {
    vector.store(target);
    return;
  }
  T elements[Vector::width];
  vector.store(elements);
  std::memcpy(target, elements, count * sizeof(T));
}

}  // namespace
