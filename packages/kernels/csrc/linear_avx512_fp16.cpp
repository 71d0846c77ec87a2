// Linear layers in bfloat16 by arithmetic in half precision, which takes twice as many numbers an instruction as float32 does.
//
// Rows and columns are scaled by powers of two, so that nothing overflows and what underflows does not matter. Products are summed in
// half precision over SHORT_SUM inputs, these sums in pairs, and the rest in float32: their error is a fraction of that of rounding the result to bfloat16.
// A sum's order depends on the number of inputs alone.
#include <cmath>

#include "vector_avx512.h"

#include "half_scale.h"
#include "linear_finish.h"

#ifdef __AVX512FP16__

namespace {

constexpr int32_t MOST_ROWS = 24;                  // sums that fit the registers
constexpr int64_t SHORT_SUM = 32;                  // divides INPUT_PADDING
constexpr int64_t HELD_BLOCK = 256;                // inputs of a held row that lie together
constexpr int64_t HELD_STRIDE = HELD_BLOCK + 16;   // from row to row, so that rows start in different sets of the cache
constexpr int32_t INPUT_EXPONENT = 4;             // of the largest input of a scaled row
static_assert(2 * SHORT_SUM << (INPUT_EXPONENT + WEIGHT_EXPONENT + 2) <= 1 << 15, "short sums are in the range of half precision");

// Twice the same number, since a pair of 16 bits is spread over a register without a shuffle.
using Twin = uint32_t;

int64_t num_blocks(int64_t num_inputs) { return (padded_inputs(num_inputs) + HELD_BLOCK - 1) / HELD_BLOCK; }

// A row's twins, and its factor behind those of all rows.
int64_t half_row_bytes(int64_t num_inputs) { return num_blocks(num_inputs) * HELD_STRIDE * sizeof(Twin) + sizeof(float); }

float* row_factors(const OctavoLinear& task, const LinearScratch& scratch) {
  return reinterpret_cast<float*>(static_cast<Twin*>(scratch.rows) + scratch.num_rows * num_blocks(task.num_inputs) * HELD_STRIDE);
}

// Rows with infinities or NaN stay as they are.
float scale_of_row(const BFloat16* row, int64_t count) {
  Vector largest = Vector::broadcast(0.0f);
  bool is_finite = true;
  for (int64_t i = 0; i < count; i += Vector::width) {
    const __m512 magnitudes = _mm512_abs_ps(load_first(row + i, count - i).lanes);
    is_finite = is_finite && _mm512_cmp_ps_mask(magnitudes, _mm512_set1_ps(INFINITY), _CMP_NLT_UQ) == 0;
    largest = largest.larger({magnitudes});
  }
  return is_finite ? scale_to_exponent(largest.maximum(), INPUT_EXPONENT) : 1.0f;
}

// Halves, each twice.
void store_twins(__m256i halves, Twin* target) {
  const __m512i wide = _mm512_cvtepu16_epi32(halves);
  _mm512_storeu_si512(target, _mm512_or_si512(wide, _mm512_slli_epi32(wide, 16)));
}

void hold_half_rows(const OctavoLinear& task, const LinearScratch& scratch) {
  float* factors = row_factors(task, scratch);
  const int64_t block_stride = scratch.num_rows * HELD_STRIDE, padded = padded_inputs(task.num_inputs);
  for (int64_t r = 0; r < scratch.num_rows; ++r) {
    const auto* row = static_cast<const BFloat16*>(task.x) + (scratch.first_row + r) * task.x_stride;
    const float scale = scale_of_row(row, task.num_inputs);
    factors[r] = 1.0f / scale;
    Twin* target = static_cast<Twin*>(scratch.rows) + r * HELD_STRIDE;
    for (int64_t i = 0; i < padded; i += Vector::width) {
      const int64_t left = task.num_inputs - i;
      const Vector values = left > 0 ? load_first(row + i, left) * Vector::broadcast(scale) : Vector::broadcast(0.0f);
      store_twins(_mm512_cvtps_ph(values.lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), target + i / HELD_BLOCK * block_stride + i % HELD_BLOCK);
    }
  }
}

__m512h load_halves(const uint16_t* source) { return _mm512_castsi512_ph(_mm512_loadu_si512(source)); }

// Fetches what is going to be read next, a line with each input.
struct Fetch {
  const char* next;
  int64_t step;
};

struct Tile {
  const Twin* left;  // [blocks][rows, HELD_STRIDE]
  int64_t block_stride;
  const uint16_t* right;  // [padded inputs, PANEL] halves
  int64_t num_inputs;     // a multiple of SHORT_SUM
  float* sums;            // [rows, PANEL]
};

// Adds SHORT_SUM products to sums of zero.
template <int ROWS>
inline void sum_products(const Twin* left, const uint16_t* right, Fetch* fetch, __m512h (&sums)[ROWS]) {
#pragma GCC unroll 24
  for (int r = 0; r < ROWS; ++r) sums[r] = _mm512_setzero_ph();
  for (int64_t i = 0; i < SHORT_SUM; ++i, ++left, right += PANEL) {
    __builtin_prefetch(fetch->next, 0, 2);
    fetch->next += fetch->step;
    const __m512h weights = load_halves(right);
#pragma GCC unroll 24
    for (int r = 0; r < ROWS; ++r) {
      const __m512h inputs = _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(left[r * HELD_STRIDE])));
      sums[r] = _mm512_fmadd_ph(inputs, weights, sums[r]);
    }
  }
}

inline void add_to(__m512h halves, bool is_first, float* sums) {
  const __m512i bits = _mm512_castph_si512(halves);
  const Vector low = {_mm512_cvtph_ps(_mm512_castsi512_si256(bits))}, high = {_mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits, 1))};
  (is_first ? low : Vector::load(sums) + low).store(sums);
  (is_first ? high : Vector::load(sums + Vector::width) + high).store(sums + Vector::width);
}

// Short sums are added in pairs before they are widened.
template <int ROWS>
__attribute__((noinline)) void multiply_tile(const Tile& tile, Fetch* fetched) {
  static_assert(HELD_BLOCK % (2 * SHORT_SUM) == 0);
  alignas(64) uint16_t firsts[ROWS][PANEL];
  const Twin* block = tile.left;
  const uint16_t* right = tile.right;
  Fetch fetch = *fetched;
  for (int64_t k = 0; k < tile.num_inputs; k += 2 * SHORT_SUM) {
    const Twin* left = block + k % HELD_BLOCK;
    __m512h sums[ROWS];
    sum_products(left, right, &fetch, sums);
    right += SHORT_SUM * PANEL;
    if (k + SHORT_SUM < tile.num_inputs) {
#pragma GCC unroll 24
      for (int r = 0; r < ROWS; ++r) _mm512_store_ph(firsts[r], sums[r]);
      sum_products(left + SHORT_SUM, right, &fetch, sums);
      right += SHORT_SUM * PANEL;
#pragma GCC unroll 24
      for (int r = 0; r < ROWS; ++r) sums[r] = _mm512_add_ph(load_halves(firsts[r]), sums[r]);
    }
#pragma GCC unroll 24
    for (int r = 0; r < ROWS; ++r) add_to(sums[r], k == 0, tile.sums + r * PANEL);
    if ((k + 2 * SHORT_SUM) % HELD_BLOCK == 0) block += tile.block_stride;
  }
  fetched->next = fetch.next;
}

template <int ROWS = MOST_ROWS>
void multiply_rows(const Tile& tile, int64_t rows, Fetch* fetch) {
  if constexpr (ROWS > 1) {
    if (rows < ROWS) {
      multiply_rows<ROWS - 1>(tile, rows, fetch);
      return;
    }
  }
  multiply_tile<ROWS>(tile, fetch);
}

void multiply_halves(const OctavoLinear& task, int64_t panel, const void* next, const LinearScratch& scratch) {
  const int64_t inputs = padded_inputs(task.num_inputs), block_stride = scratch.num_rows * HELD_STRIDE;
  const auto* right = reinterpret_cast<const uint16_t*>(panel_at(task, panel));
  const int64_t tiles = (scratch.num_rows + MOST_ROWS - 1) / MOST_ROWS;
  Fetch fetch = {static_cast<const char*>(next), (PANEL * static_cast<int64_t>(sizeof(uint16_t)) + tiles - 1) / tiles};
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = scratch.num_rows * t / tiles, count = scratch.num_rows * (t + 1) / tiles - first;
    const Tile tile = {static_cast<const Twin*>(scratch.rows) + first * HELD_STRIDE, block_stride, right, inputs, scratch.sums + first * PANEL};
    multiply_rows(tile, count, &fetch);
  }
  const float* factors = row_factors(task, scratch);
  const float* column_factors = reinterpret_cast<const float*>(right + inputs * PANEL);
  const Vector low = Vector::load(column_factors), high = Vector::load(column_factors + Vector::width);
  for (int64_t r = 0; r < scratch.num_rows; ++r) {
    float* sums = scratch.sums + r * PANEL;
    const Vector factor = Vector::broadcast(factors[r]);
    (Vector::load(sums) * factor * low).store(sums);
    (Vector::load(sums + Vector::width) * factor * high).store(sums + Vector::width);
  }
  finish<BFloat16>(task, panel, scratch);
}

constexpr LinearKernels HALF_LINEAR = {MOST_ROWS, half_row_bytes, nullptr, nullptr, hold_half_rows, multiply_halves};

}  // namespace

bool has_avx512_fp16_kernels() { return true; }

// Float32 gains nothing from these instructions, and float16 would lose: its results are rounded more finely.
const LinearKernels* avx512_fp16_linear_kernels(int32_t type) { return type == OCTAVO_BFLOAT16 ? &HALF_LINEAR : avx512_linear_kernels(type); }

#else

bool has_avx512_fp16_kernels() { return false; }

const LinearKernels* avx512_fp16_linear_kernels(int32_t type) { return avx512_linear_kernels(type); }

#endif
