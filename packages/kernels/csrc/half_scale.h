// Powers of two that bring numbers into the range of half precision.
#pragma once

#include "reduced.h"

namespace {

constexpr int32_t WEIGHT_EXPONENT = 3;  // of the largest weight of a scaled output

// What brings a number into [2**exponent, 2**(exponent + 1)), as far as it and its reciprocal are normal numbers; 1 for zero.
inline float scale_to_exponent(float magnitude, int32_t exponent) {
  if (magnitude == 0.0f) return 1.0f;
  const int32_t wanted = exponent - (static_cast<int32_t>(bits_of(magnitude) >> 23) - 127);
  const int32_t possible = wanted < -126 ? -126 : wanted > 126 ? 126 : wanted;
  return float_of(static_cast<uint32_t>(possible + 127) << 23);
}

}  // namespace
