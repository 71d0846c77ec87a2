// Taylor's series of 2**r = e**(r ln 2): (ln 2)**k / k! for k = 7 down to 0. On [-1/2, 1/2] it is exact to float32.
#pragma once

namespace {

constexpr float EXP2_SERIES[8] = {1.5252734e-5f, 1.5403530e-4f, 1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f};

}  // namespace
