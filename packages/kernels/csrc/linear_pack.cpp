// Lays weights out in panels.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "half_scale.h"
#include "linear.h"
#include "team.h"

namespace {

bool valid(const OctavoPacking& task) {
  const bool known = task.type == OCTAVO_FLOAT32 || task.type == OCTAVO_BFLOAT16 || task.type == OCTAVO_FLOAT16;
  return known && task.num_inputs >= 1 && task.num_outputs >= 1 && task.num_threads >= 1 && (!task.gated || task.num_outputs % 2 == 0);
}

// The row of weights that a column of a panel holds, or -1 where it is padding.
int64_t row_of(const OctavoPacking& task, int64_t panel, int32_t column) {
  if (!task.gated) return panel * PANEL + column < task.num_outputs ? panel * PANEL + column : -1;
  const int64_t half = PANEL / 2, width = task.num_outputs / 2, place = panel * half + column % half;
  return place < width ? place + (column < half ? 0 : width) : -1;
}

constexpr uint16_t MAGNITUDE = 0x7fff, INFINITE = 0x7f80;  // of brain floats, as bits

uint16_t magnitude_of(BFloat16 weight) { return weight.bits & MAGNITUDE; }

// For rows with infinities or NaN 1.
float scale_of_weights(const BFloat16* weights, int64_t count) {
  uint16_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = magnitude_of(weights[i]) > largest ? magnitude_of(weights[i]) : largest;
  return largest < INFINITE ? scale_to_exponent(widen(BFloat16{largest}), WEIGHT_EXPONENT) : 1.0f;
}

// How a row of weights becomes halves. Where every one that is not 0 becomes a normal number, that is exact and a matter of bits: the
// exponent moves by what the scale and the types differ in.
struct HalvedRow {
  const BFloat16* weights;
  float scale;
  uint16_t exponents;  // added to the bits of what is not 0
  bool is_exact;

  HalvedRow(const BFloat16* row, int64_t count) : weights(row), scale(scale_of_weights(row, count)) {
    constexpr int32_t STEP = 1 << 7, LEAST_EXPONENT = 127 - 14, MOST_EXPONENT = 127 + 15;  // of normal halves
    const int32_t moved = static_cast<int32_t>(bits_of(scale) >> 23) - 127;
    exponents = static_cast<uint16_t>((moved - (127 - 15)) * STEP);
    // Brain floats below STEP are subnormal numbers.
    const int32_t least = std::max(STEP, (LEAST_EXPONENT - moved) * STEP), beyond = (MOST_EXPONENT + 1 - moved) * STEP;
    int32_t others = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t magnitude = magnitude_of(weights[i]);
      others |= (magnitude != 0) & ((magnitude < least) | (magnitude >= beyond));
    }
    is_exact = others == 0;
  }

  // One a row of the panel that begins at `target`.
  void write(int64_t count, Float16* target) const {
    if (!is_exact) {
      for (int64_t i = 0; i < count; ++i) narrow(widen(weights[i]) * scale, target + i * PANEL);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint16_t magnitude = magnitude_of(weights[i]), sign = weights[i].bits & static_cast<uint16_t>(~MAGNITUDE);
      const auto moved = static_cast<uint16_t>((magnitude + exponents) << 3);
      target[i * PANEL].bits = static_cast<uint16_t>(sign | (magnitude == 0 ? 0 : moved));
    }
  }
};

// `GROUP` inputs of a column lie together. Bits are copied, so that only their number matters of the type.
template <class Bits, int GROUP>
void pack_panel(const OctavoPacking& task, int64_t panel) {
  const int64_t padded = padded_inputs(task.num_inputs);
  Bits* target = static_cast<Bits*>(task.packed) + panel * padded * PANEL;
  std::memset(target, 0, padded * PANEL * sizeof(Bits));
  const Bits* rows[PANEL];
  for (int32_t column = 0; column < PANEL; ++column) {
    const int64_t row = row_of(task, panel, column);
    rows[column] = row < 0 ? nullptr : static_cast<const Bits*>(task.weight) + row * task.row_stride;
  }
  for (int64_t first = 0; first < task.num_inputs; first += GROUP, target += PANEL * GROUP) {
    const int64_t count = task.num_inputs - first < GROUP ? task.num_inputs - first : GROUP;
    for (int32_t column = 0; column < PANEL; ++column) {
      if (rows[column] == nullptr) continue;
      for (int64_t i = 0; i < count; ++i) target[column * GROUP + i] = rows[column][first + i];
    }
  }
}

void pack_halves(const OctavoPacking& task, int64_t panel) {
  const int64_t padded = padded_inputs(task.num_inputs);
  const int64_t bytes = panel_bytes(task.num_inputs, task.type, task.isa);
  auto* target = reinterpret_cast<Float16*>(static_cast<char*>(task.packed) + panel * bytes);
  std::memset(target, 0, bytes);
  auto* factors = reinterpret_cast<float*>(target + padded * PANEL);
  for (int32_t column = 0; column < PANEL; ++column) {
    const int64_t place = row_of(task, panel, column);
    if (place < 0) continue;
    const HalvedRow row(static_cast<const BFloat16*>(task.weight) + place * task.row_stride, task.num_inputs);
    factors[column] = 1.0f / row.scale;
    row.write(task.num_inputs, target + column);
  }
}

void pack_one(const OctavoPacking& task, int64_t panel) {
  if (is_halved(task.type, task.isa)) {
    pack_halves(task, panel);
    return;
  }
  switch (task.type) {
    case OCTAVO_FLOAT32: pack_panel<uint32_t, 1>(task, panel); break;
    case OCTAVO_BFLOAT16: pack_panel<uint16_t, 2>(task, panel); break;
    default: pack_panel<uint16_t, 1>(task, panel);
  }
}

}  // namespace

int64_t octavo_packed_bytes(const OctavoPacking* task) {
  return valid(*task) ? count_panels(task->num_outputs, task->gated) * panel_bytes(task->num_inputs, task->type, task->isa) : -1;
}

int32_t octavo_pack_linear(const OctavoPacking* task) {
  if (!valid(*task)) return OCTAVO_BAD_ARGUMENT;
  const int64_t panels = count_panels(task->num_outputs, task->gated);
  const int64_t parts = panels < task->num_threads ? panels : task->num_threads;
  parallel(parts, [&](int64_t part) {
    for (int64_t panel = panels * part / parts; panel < panels * (part + 1) / parts; ++panel) pack_one(*task, panel);
  });
  return OCTAVO_OK;
}

void octavo_advise_large_pages(void* data, int64_t num_bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t PAGE = 4096;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + PAGE - 1) / PAGE * PAGE;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(num_bytes)) / PAGE * PAGE;
  // Where the system does not follow, pages stay small: slower, and nothing else.
  if (last > first) static_cast<void>(madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE));
#endif
}
