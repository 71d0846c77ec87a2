// Scratch memory of one call.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace {

// Frees on leaving; no exceptions reach the C interface, so whoever makes one looks at `data`.
template <class T>
struct Buffer {
  T* data;
  explicit Buffer(int64_t count) : data(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 64) / 64 * 64))) {}
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

}  // namespace
