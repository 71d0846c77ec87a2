// Linear layers in tiles of rows that fit the registers; over the `Vector` of the including file.
#pragma once

#include "linear_finish.h"
#include "linear_operands.h"
#include "linear_tile.h"

namespace {

// A 16-bit panel that several tiles read is widened once, by the first of them.
template <class Operands>
struct TiledLinear {
  using Stored = typename Operands::Stored;
  using Held = typename Operands::Held;
  static_assert(sizeof(Held) == 4);
  static constexpr int ROWS = Vector::linear_rows;
  static constexpr int PARTS = Operands::parts;

  static int64_t num_steps(int64_t num_inputs) { return (num_inputs + Operands::inputs_a_step - 1) / Operands::inputs_a_step; }

  static int64_t num_blocks(int64_t num_inputs) { return (num_steps(num_inputs) * PARTS + HELD_BLOCK - 1) / HELD_BLOCK; }

  static int64_t row_bytes(int64_t num_inputs) { return num_blocks(num_inputs) * HELD_STRIDE * sizeof(Held); }

  static void hold_rows(const OctavoLinear& task, const LinearScratch& scratch) {
    constexpr int64_t INPUTS = HELD_BLOCK / PARTS * Operands::inputs_a_step;
    Held* target = static_cast<Held*>(scratch.rows);
    for (int64_t first = 0; first < task.num_inputs; first += INPUTS) {
      const int64_t left = task.num_inputs - first;
      for (int64_t r = 0; r < scratch.num_rows; ++r, target += HELD_STRIDE) {
        const Stored* row = static_cast<const Stored*>(task.x) + (scratch.first_row + r) * task.x_stride;
        Operands::hold(row + first, left < INPUTS ? left : INPUTS, target);
      }
    }
  }

  static void multiply(const OctavoLinear& task, int64_t panel, const void* next, const LinearScratch& scratch) {
    const int64_t tiles = (scratch.num_rows + ROWS - 1) / ROWS;
    const auto* right = reinterpret_cast<const Stored*>(panel_at(task, panel));
    const int64_t shares = tiles * (PANEL / TILE_COLUMNS);
    Fetch fetch = {static_cast<const char*>(next), (PANEL * static_cast<int64_t>(sizeof(Stored)) + shares - 1) / shares};
    if constexpr (Operands::widens) {
      if (tiles > 1) {
        multiply_widened(task, right, tiles, &fetch, scratch);
        finish<Stored>(task, panel, scratch);
        return;
      }
    }
    const Held* rows = static_cast<const Held*>(scratch.rows);
    const int64_t steps = num_steps(task.num_inputs), block_stride = scratch.num_rows * HELD_STRIDE;
    for (int32_t column = 0; column < PANEL; column += TILE_COLUMNS) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t first = scratch.num_rows * t / tiles, count = scratch.num_rows * (t + 1) / tiles - first;
        const Tile<Operands> tile = {rows + first * HELD_STRIDE, block_stride, right + column * Operands::inputs_a_step, steps,
                                     scratch.sums + first * PANEL + column, false, nullptr};
        multiply_rows<Operands, ROWS, 1, false>(tile, count, &fetch);
      }
    }
    finish<Stored>(task, panel, scratch);
  }

 private:
  static void multiply_widened(const OctavoLinear& task, const Stored* right, int64_t tiles, Fetch* fetch, const LinearScratch& scratch) {
    using Wide = LinearOperands<float>;
    const int64_t block_stride = scratch.num_rows * HELD_STRIDE;
    const int64_t padded = num_steps(task.num_inputs) * PARTS;
    const float* rows = static_cast<const float*>(scratch.rows);
    for (int64_t start = 0; start < padded; start += WIDE_INPUTS, rows += WIDE_INPUTS / HELD_BLOCK * block_stride) {
      const int64_t inputs = padded - start < WIDE_INPUTS ? padded - start : WIDE_INPUTS;
      for (int32_t column = 0; column < PANEL; column += TILE_COLUMNS) {
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t first = scratch.num_rows * t / tiles, count = scratch.num_rows * (t + 1) / tiles - first;
          const float* left = rows + first * HELD_STRIDE;
          float* sums = scratch.sums + first * PANEL + column;
          if (t == 0) {
            const Tile<Operands> tile = {left, block_stride, right + (start * PANEL + column * Operands::inputs_a_step), inputs / PARTS, sums,
                                         start > 0, scratch.wide + column};
            multiply_rows<Operands, ROWS, ROWS / 2, true>(tile, count, fetch);
          } else {
            const Tile<Wide> tile = {left, block_stride, scratch.wide + column, inputs, sums, start > 0, nullptr};
            multiply_rows<Wide, ROWS, ROWS / 2, false>(tile, count, fetch);
          }
        }
      }
    }
  }
};

template <class Operands>
constexpr LinearKernels TILED_LINEAR = {Vector::linear_rows,
                                        TiledLinear<Operands>::row_bytes,
                                        nullptr,
                                        nullptr,
                                        TiledLinear<Operands>::hold_rows,
                                        TiledLinear<Operands>::multiply};

const LinearKernels* linear_kernels_of(int32_t type) {
  switch (type) {
    case OCTAVO_FLOAT32: return &TILED_LINEAR<LinearOperands<float>>;
    case OCTAVO_BFLOAT16: return &TILED_LINEAR<LinearOperands<BFloat16>>;
    case OCTAVO_FLOAT16: return &TILED_LINEAR<LinearOperands<Float16>>;
    default: return nullptr;
  }
}

}  // namespace
