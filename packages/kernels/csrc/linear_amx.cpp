// Linear layers in bfloat16 by AMX: tiles of 16 rows by 32 inputs times 32 inputs by 16 outputs, summed in float32.
#include "vector_avx512.h"

#include "linear_finish.h"

#ifdef __AMX_BF16__

namespace {

constexpr int32_t AMX_ROWS = 16;     // of a tile
constexpr int32_t AMX_INPUTS = 32;   // of a tile
constexpr int32_t AMX_COLUMNS = 16;  // of a tile

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights; all are 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t num_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Other libraries set shapes of their own, so they are set anew for each call.
void begin_amx() {
  const TileShapes shapes;
  _tile_loadconfig(&shapes);
}

void end_amx() { _tile_release(); }

// Rows are padded, so that those of one column do not fall on one set of the cache.
int64_t held_inputs(int64_t num_inputs) { return padded_inputs(num_inputs) + AMX_INPUTS; }

int64_t amx_row_bytes(int64_t num_inputs) { return held_inputs(num_inputs) * sizeof(BFloat16); }

int64_t padded_rows(int64_t num_rows) { return (num_rows + 2 * AMX_ROWS - 1) / (2 * AMX_ROWS) * (2 * AMX_ROWS); }

void hold_amx_rows(const OctavoLinear& task, const LinearScratch& scratch) {
  const int64_t stride = held_inputs(task.num_inputs);
  auto* target = static_cast<BFloat16*>(scratch.rows);
  for (int64_t r = 0; r < padded_rows(scratch.num_rows); ++r, target += stride) {
    const int64_t there = r < scratch.num_rows ? task.num_inputs : 0;
    std::memcpy(target, static_cast<const BFloat16*>(task.x) + (scratch.first_row + r) * task.x_stride, there * sizeof(BFloat16));
    std::memset(target + there, 0, (stride - there) * sizeof(BFloat16));
  }
}

// 32 rows, or 16 where the others are padding, times a panel.
template <bool BOTH>
void multiply_amx_rows(const BFloat16* rows, int64_t stride, const BFloat16* panel, int64_t num_inputs, const char* next, float* sums) {
  _tile_zero(0);
  _tile_zero(1);
  if (BOTH) _tile_zero(2);
  if (BOTH) _tile_zero(3);
  for (int64_t k = 0; k < num_inputs; k += AMX_INPUTS, panel += AMX_INPUTS * PANEL) {
    for (int64_t line = 0; line < AMX_INPUTS * PANEL * static_cast<int64_t>(sizeof(BFloat16)); line += 64) {
      __builtin_prefetch(next + k * PANEL * static_cast<int64_t>(sizeof(BFloat16)) + line, 0, 2);
    }
    _tile_loadd(6, panel, PANEL * 2 * sizeof(BFloat16));
    _tile_loadd(7, panel + AMX_COLUMNS * 2, PANEL * 2 * sizeof(BFloat16));
    _tile_loadd(4, rows + k, stride * sizeof(BFloat16));
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (BOTH) _tile_loadd(5, rows + AMX_ROWS * stride + k, stride * sizeof(BFloat16));
    if (BOTH) _tile_dpbf16ps(2, 5, 6);
    if (BOTH) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, PANEL * sizeof(float));
  _tile_stored(1, sums + AMX_COLUMNS, PANEL * sizeof(float));
  if (BOTH) _tile_stored(2, sums + AMX_ROWS * PANEL, PANEL * sizeof(float));
  if (BOTH) _tile_stored(3, sums + AMX_ROWS * PANEL + AMX_COLUMNS, PANEL * sizeof(float));
}

void multiply_amx(const OctavoLinear& task, int64_t panel, const void* next, const LinearScratch& scratch) {
  const int64_t stride = held_inputs(task.num_inputs), inputs = padded_inputs(task.num_inputs);
  const auto* weights = static_cast<const BFloat16*>(task.packed) + panel * inputs * PANEL;
  for (int64_t row = 0; row < scratch.num_rows; row += 2 * AMX_ROWS) {
    const BFloat16* rows = static_cast<const BFloat16*>(scratch.rows) + row * stride;
    // The next panel is fetched with the first rows; behind them this one is fetched again, which costs little.
    const char* fetched = row == 0 ? static_cast<const char*>(next) : reinterpret_cast<const char*>(weights);
    float* sums = scratch.sums + row * PANEL;
    if (scratch.num_rows - row > AMX_ROWS) {
      multiply_amx_rows<true>(rows, stride, weights, inputs, fetched, sums);
    } else {
      multiply_amx_rows<false>(rows, stride, weights, inputs, fetched, sums);
    }
  }
  finish<BFloat16>(task, panel, scratch);
}

constexpr LinearKernels AMX_LINEAR = {2 * AMX_ROWS, amx_row_bytes, begin_amx, end_amx, hold_amx_rows, multiply_amx};

}  // namespace

bool has_amx_kernels() { return true; }

// Other types gain nothing from these instructions.
const LinearKernels* amx_linear_kernels(int32_t type) { return type == OCTAVO_BFLOAT16 ? &AMX_LINEAR : avx512_linear_kernels(type); }

#else

bool has_amx_kernels() { return false; }

const LinearKernels* amx_linear_kernels(int32_t type) { return avx512_linear_kernels(type); }

#endif
