// Products of a few rows with a panel, in registers; over the `Vector` and the operands of the including file.
//
// A sum runs over the inputs from first to last in a lane of its own: it does not depend on the rows that it is computed beside.
#pragma once

#include "linear.h"

namespace {

constexpr int32_t HELD_BLOCK = 256;               // elements of a held row that lie together
constexpr int32_t HELD_STRIDE = HELD_BLOCK + 16;  // from row to row, so that rows start in different sets of the cache
constexpr int32_t TILE_COLUMNS = 2 * Vector::width;

// Fetches what is going to be read next, a little with each step.
struct Fetch {
  const char* next;
  int64_t step;
};

template <class Operands>
struct Tile {
  const typename Operands::Held* left;  // [blocks][rows, HELD_STRIDE]
  int64_t block_stride;
  const typename Operands::Stored* right;  // [steps, PANEL, inputs a step], from some column on
  int64_t num_steps;
  float* sums;  // [rows, PANEL], from this column on
  bool adds;    // to what is there
  float* wide;  // [inputs, PANEL], from this column on: where the weights are kept, widened
};

template <class Operands, int ROWS, int PART, bool KEEPS>
inline void multiply_part(const typename Operands::Held* left, const Vector (&loaded)[2], Vector (&sums)[ROWS][2], float* wide) {
  const Vector right[2] = {Operands::template part<PART>(loaded[0]), Operands::template part<PART>(loaded[1])};
  if constexpr (KEEPS) {
    right[0].store(wide + PART * PANEL);
    right[1].store(wide + PART * PANEL + Vector::width);
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    const auto factor = Operands::broadcast(left + r * HELD_STRIDE + PART);
    sums[r][0] = Operands::multiply_add(factor, right[0], sums[r][0]);
    sums[r][1] = Operands::multiply_add(factor, right[1], sums[r][1]);
  }
}

template <class Operands, int ROWS, bool KEEPS>
__attribute__((noinline)) void multiply_tile(const Tile<Operands>& tile, Fetch* fetch) {
  constexpr int PARTS = Operands::parts;
  Vector sums[ROWS][2];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    sums[r][0] = tile.adds ? Vector::load(tile.sums + r * PANEL) : Vector::broadcast(0.0f);
    sums[r][1] = tile.adds ? Vector::load(tile.sums + r * PANEL + Vector::width) : Vector::broadcast(0.0f);
  }
  const auto* block = tile.left;
  const auto* right = tile.right;
  float* wide = tile.wide;
  const char* next = fetch->next;
  const int64_t fetch_step = fetch->step * Operands::inputs_a_step;
  for (int64_t left_steps = tile.num_steps; left_steps > 0; left_steps -= HELD_BLOCK / PARTS, block += tile.block_stride) {
    const int64_t steps = left_steps < HELD_BLOCK / PARTS ? left_steps : HELD_BLOCK / PARTS;
    const auto* left = block;
    for (int64_t step = 0; step < steps; ++step) {
      __builtin_prefetch(next, 0, 2);
      next += fetch_step;
      const Vector loaded[2] = {Operands::load(right), Operands::load(right + Vector::width * Operands::inputs_a_step)};
      multiply_part<Operands, ROWS, 0, KEEPS>(left, loaded, sums, wide);
      if constexpr (PARTS == 2) multiply_part<Operands, ROWS, 1, KEEPS>(left, loaded, sums, wide);
      left += PARTS;
      right += PANEL * Operands::inputs_a_step;
      if constexpr (KEEPS) wide += PARTS * PANEL;
    }
  }
  fetch->next = next;
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    sums[r][0].store(tile.sums + r * PANEL);
    sums[r][1].store(tile.sums + r * PANEL + Vector::width);
  }
}

// From FEWEST to ROWS rows.
template <class Operands, int ROWS, int FEWEST, bool KEEPS>
inline void multiply_rows(const Tile<Operands>& tile, int64_t rows, Fetch* fetch) {
  if constexpr (ROWS > FEWEST) {
    if (rows < ROWS) {
      multiply_rows<Operands, ROWS - 1, FEWEST, KEEPS>(tile, rows, fetch);
      return;
    }
  }
  multiply_tile<Operands, ROWS, KEEPS>(tile, fetch);
}

}  // namespace
