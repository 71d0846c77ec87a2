// Linear layers: checks a task, cuts it into units of work and spreads them over threads.
//
// A unit is a panel of weights for some rows, which a thread holds as long as its units are of them. Each thread has units that
// follow each other, so that the next panel is known and fetched; one that is done early helps the others.
#include "linear.h"

#include <atomic>

#include "buffer.h"
#include "team.h"

namespace {

constexpr int64_t HELD_BYTES = int64_t{640} << 10;     // of rows; with a widened panel they fit a core's second cache
constexpr int64_t FEWEST_HELD_ROWS = 64;               // however long they are
constexpr int64_t MIN_WORK_PER_THREAD = int64_t{1} << 17;  // below it, waking a thread costs more than it brings
constexpr int64_t ROWS_AS_WEIGHTS = 8;                 // rows that take about as long as reading the weights does

const LinearKernels* find_kernels(int32_t isa, int32_t type) {
  if (isa < OCTAVO_PORTABLE || isa > OCTAVO_AMX || !(octavo_supported_isas() >> isa & 1u)) return nullptr;
  switch (isa) {
    case OCTAVO_AMX: return amx_linear_kernels(type);
    case OCTAVO_AVX512_FP16: return avx512_fp16_linear_kernels(type);
    case OCTAVO_AVX512_BF16: return avx512_bf16_linear_kernels(type);
    case OCTAVO_AVX512: return avx512_linear_kernels(type);
    case OCTAVO_AVX2: return avx2_linear_kernels(type);
    default: return portable_linear_kernels(type);
  }
}

bool valid(const OctavoLinear& task) {
  const bool counts = task.num_rows >= 0 && task.num_inputs >= 1 && task.num_outputs >= 1 && task.num_threads >= 1;
  if (!counts || task.num_outputs > INT32_MAX) return false;
  if (!task.gated) return true;
  const bool activation = task.activation == OCTAVO_SILU || task.activation == OCTAVO_GELU_TANH;
  return activation && task.num_outputs % 2 == 0 && task.residual == nullptr && task.largest == nullptr;
}

// Memory that a thread keeps from call to call: mapping so much anew would cost more than some calls take.
struct KeptMemory {
  char* data = nullptr;
  int64_t size = 0;

  ~KeptMemory() { std::free(data); }

  // Null where there is no memory.
  char* reserve(int64_t wanted) {
    if (wanted > size) {
      std::free(data);
      data = static_cast<char*>(std::aligned_alloc(64, (wanted + 63) / 64 * 64));
      size = data == nullptr ? 0 : wanted;
    }
    return data;
  }
};

thread_local KeptMemory kept_memory;

// The units that a thread has yet to do.
struct alignas(64) Units {
  std::atomic<int64_t> next;
  int64_t last;
};

struct Job {
  const OctavoLinear* task;
  const LinearKernels* kernels;
  int64_t panels;
  int64_t blocks;  // of rows
  int64_t parts;   // of the work: threads
  Units* units;
  LargestOutput* largest;  // [parts, N], or null
};

int64_t divide_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// As many rows as the cache holds, but fewer where threads would have nothing to do.
int64_t count_blocks(const OctavoLinear& task, const LinearKernels& kernels, int64_t panels) {
  int64_t rows = HELD_BYTES / kernels.row_bytes(task.num_inputs);
  rows = rows < FEWEST_HELD_ROWS ? FEWEST_HELD_ROWS : rows > MAX_HELD_ROWS ? MAX_HELD_ROWS : rows;
  const int64_t needed = divide_up(task.num_rows, rows);
  const int64_t wanted = divide_up(2 * int64_t{task.num_threads}, panels), possible = divide_up(task.num_rows, kernels.tile_rows);
  const int64_t useful = wanted < possible ? wanted : possible;
  return needed > useful ? needed : useful;
}

int64_t count_parts(const OctavoLinear& task, int64_t num_units) {
  const int64_t work = task.num_inputs * task.num_outputs * (ROWS_AS_WEIGHTS + task.num_rows) / ROWS_AS_WEIGHTS;
  const int64_t useful = work / MIN_WORK_PER_THREAD, most = useful < num_units ? useful : num_units;
  return most < 1 ? 1 : most < task.num_threads ? most : task.num_threads;
}

void share_out(Job* job) {
  const int64_t num_units = job->panels * job->blocks;
  for (int64_t part = 0; part < job->parts; ++part) {
    job->units[part].next.store(num_units * part / job->parts, std::memory_order_relaxed);
    job->units[part].last = num_units * (part + 1) / job->parts;
  }
}

// One of the thread's own, else of another; -1 where all are taken.
int64_t take_unit(const Job& job, int64_t part) {
  for (int64_t i = 0; i < job.parts; ++i) {
    Units& units = job.units[(part + i) % job.parts];
    if (units.next.load(std::memory_order_relaxed) >= units.last) continue;
    const int64_t unit = units.next.fetch_add(1, std::memory_order_relaxed);
    if (unit < units.last) return unit;
  }
  return -1;
}

int64_t scratch_bytes(const Job& job) {
  const int64_t rows = divide_up(divide_up(job.task->num_rows, job.blocks), 32) * 32;
  return rows * job.kernels->row_bytes(job.task->num_inputs) + (WIDE_INPUTS + MAX_HELD_ROWS) * PANEL * sizeof(float);
}

LinearScratch scratch_at(char* data, LargestOutput* largest) {
  float* wide = reinterpret_cast<float*>(data);
  float* sums = wide + WIDE_INPUTS * PANEL;
  return {sums + MAX_HELD_ROWS * PANEL, wide, sums, largest, 0, 0};
}

// False where there is no memory.
bool work(const Job& job, int64_t part) {
  const OctavoLinear& task = *job.task;
  char* memory = kept_memory.reserve(scratch_bytes(job));
  if (memory == nullptr) return false;
  LinearScratch scratch = scratch_at(memory, job.largest == nullptr ? nullptr : job.largest + part * task.num_rows);
  if (job.kernels->begin != nullptr) job.kernels->begin();
  int64_t held = -1;
  for (int64_t unit = take_unit(job, part); unit >= 0; unit = take_unit(job, part)) {
    const int64_t block = unit / job.panels, panel = unit % job.panels;
    if (block != held) {
      held = block;
      scratch.first_row = task.num_rows * block / job.blocks;
      scratch.num_rows = task.num_rows * (block + 1) / job.blocks - scratch.first_row;
      job.kernels->hold_rows(task, scratch);
    }
    job.kernels->multiply(task, panel, panel_at(task, (panel + 1) % job.panels), scratch);
  }
  if (job.kernels->end != nullptr) job.kernels->end();
  return true;
}

void find_largest(const Job& job) {
  constexpr int32_t INFINITE = 0x7f800000;
  const int64_t num_rows = job.task->num_rows;
  for (int64_t row = 0; row < num_rows; ++row) {
    LargestOutput largest = job.largest[row];
    for (int64_t part = 1; part < job.parts; ++part) largest.take(job.largest[part * num_rows + row]);
    const bool is_finite = largest.key < INFINITE && largest.key > ~INFINITE;
    job.task->largest[row] = is_finite ? largest.index : -1;
  }
}

}  // namespace

int32_t octavo_linear(const OctavoLinear* task) {
  const LinearKernels* kernels = find_kernels(task->isa, task->type);
  if (kernels == nullptr || !valid(*task)) return OCTAVO_BAD_ARGUMENT;
  if (task->num_rows == 0) return OCTAVO_OK;
  if (task->out == nullptr && task->largest == nullptr) return OCTAVO_BAD_ARGUMENT;
  const int64_t panels = count_panels(task->num_outputs, task->gated);
  const int64_t blocks = count_blocks(*task, *kernels, panels);
  const int64_t parts = count_parts(*task, panels * blocks);
  const Buffer<Units> units(parts);
  const Buffer<LargestOutput> largest(task->largest == nullptr ? 0 : parts * task->num_rows);
  if (units.data == nullptr || largest.data == nullptr) return OCTAVO_OUT_OF_MEMORY;
  if (task->largest != nullptr) {
    for (int64_t i = 0; i < parts * task->num_rows; ++i) largest.data[i] = NO_OUTPUT;
  }
  Job job = {task, kernels, panels, blocks, parts, units.data, task->largest == nullptr ? nullptr : largest.data};
  share_out(&job);
  std::atomic<bool> enough_memory{true};
  parallel(parts, [&](int64_t part) {
    if (!work(job, part)) enough_memory.store(false, std::memory_order_relaxed);
  });
  if (!enough_memory.load(std::memory_order_relaxed)) return OCTAVO_OUT_OF_MEMORY;
  if (task->largest != nullptr) find_largest(job);
  return OCTAVO_OK;
}
