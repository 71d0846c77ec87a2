// The two 16-bit floating types as storage, and their scalar conversions.
//
// Everything here has internal linkage: files compiled for different instruction sets must not share a definition.
#pragma once

#include <cstdint>
#include <cstring>

namespace {

struct BFloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float widen(float value) { return value; }

inline float widen(BFloat16 value) { return float_of(uint32_t{value.bits} << 16); }

inline float widen(Float16 value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // By way of an integer, since a process may have told the processor to take subnormal floats for zero.
  if (magnitude < 0x400u) return float_of(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24f));
  return float_of(sign | ((magnitude << 13) + (112u << 23)));
}

inline void narrow(float value, float* target) { *target = value; }

// Round to nearest, ties to even.
inline void narrow(float value, BFloat16* target) {
  const uint32_t bits = bits_of(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  target->bits = is_nan ? uint16_t{0x7fc0} : static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline void narrow(float value, Float16* target) {
  const uint32_t bits = bits_of(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below the smallest normal number: let the adder round to multiples of 2**-24
    half = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  } else {
    half = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  target->bits = static_cast<uint16_t>(sign | half);
}

}  // namespace
