// Products of small matrices with blocks of sums in registers; over the `Vector` and the operands of the including file.
//
// A sum runs over the depth from first to last in a lane of its own: it does not depend on the block it is computed in.
#pragma once

#include <cstdint>

namespace {

template <class Operands>
struct Product {
  using Element = typename Operands::Element;
  const Element* left;  // [rows, depth]
  int32_t left_stride;
  const Element* right;  // [steps, columns, pack]
  int32_t right_stride;  // of a step
  int32_t steps;         // depth / pack
  float* out;            // [rows, columns]
  int32_t out_stride;
};

// ROWS x VECTORS sums, added to what is in out or in place of it.
template <class Operands, int ROWS, int VECTORS, bool ADD>
inline void multiply_block(const Product<Operands>& product, int32_t row, int32_t column) {
  const auto* left = product.left + int64_t{row} * product.left_stride;
  const auto* right = product.right + int64_t{column} * Operands::pack;
  float* out = product.out + int64_t{row} * product.out_stride + column;
  Vector sums[ROWS][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      sums[r][v] = ADD ? Vector::load(out + r * product.out_stride + v * Vector::width) : Vector::broadcast(0.0f);
    }
  }
  for (int32_t step = 0; step < product.steps; ++step) {
    Vector part[VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) part[v] = Operands::load(right + v * Vector::width * Operands::pack);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; ++v) sums[r][v] = Operands::multiply_add(left + r * product.left_stride, part[v], sums[r][v]);
    }
    left += Operands::pack;
    right += product.right_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sums[r][v].store(out + r * product.out_stride + v * Vector::width);
  }
}

// At most ROWS rows, from `row` on.
template <class Operands, int ROWS, int VECTORS, bool ADD>
inline void multiply_last_rows(const Product<Operands>& product, int32_t row, int32_t rows, int32_t column) {
  if (rows == ROWS) {
    multiply_block<Operands, ROWS, VECTORS, ADD>(product, row, column);
  } else if constexpr (ROWS > 1) {
    multiply_last_rows<Operands, ROWS - 1, VECTORS, ADD>(product, row, rows, column);
  }
}

template <class Operands, int VECTORS, bool ADD>
inline void multiply_rows(const Product<Operands>& product, int32_t rows, int32_t column) {
  int32_t row = 0;
  for (; row + Vector::block_rows <= rows; row += Vector::block_rows) {
    multiply_block<Operands, Vector::block_rows, VECTORS, ADD>(product, row, column);
  }
  if constexpr (Vector::block_rows > 1) {
    if (row < rows) multiply_last_rows<Operands, Vector::block_rows - 1, VECTORS, ADD>(product, row, rows - row, column);
  }
}

// At most VECTORS vectors of columns, from `column` on.
template <class Operands, int VECTORS, bool ADD>
inline void multiply_last_columns(const Product<Operands>& product, int32_t rows, int32_t column, int32_t vectors) {
  if (vectors == VECTORS) {
    multiply_rows<Operands, VECTORS, ADD>(product, rows, column);
  } else if constexpr (VECTORS > 1) {
    multiply_last_columns<Operands, VECTORS - 1, ADD>(product, rows, column, vectors);
  }
}

// out = left * right, or out += left * right; so many rows, and columns that are a multiple of a vector's width.
template <class Operands, bool ADD>
inline void multiply(const Product<Operands>& product, int32_t rows, int32_t columns) {
  constexpr int32_t BLOCK = Vector::block_vectors * Vector::width;
  int32_t column = 0;
  for (; column + BLOCK <= columns; column += BLOCK) multiply_rows<Operands, Vector::block_vectors, ADD>(product, rows, column);
  if constexpr (Vector::block_vectors > 1) {
    if (column < columns) {
      multiply_last_columns<Operands, Vector::block_vectors - 1, ADD>(product, rows, column, (columns - column) / Vector::width);
    }
  }
}

}  // namespace
