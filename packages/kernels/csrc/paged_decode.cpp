// Paged decode attention: checks a task, cuts it into units of work and spreads them over threads.
//
// A row's keys are cut into splits of SPLIT_KEYS from its first visible key on, and the splits' states are joined in order:
// the sums of a row run in an order that its own length decides, whatever the other rows and the number of threads are.
// A unit is all splits of one (row, KV head), joined as it goes, or, where a row is long beside the rest, one split alone;
// those are joined afterwards, with the same bits.
#include "paged_decode.h"

#include <omp.h>

#include <cstdlib>

namespace {

constexpr int32_t SPLIT_KEYS = 512;
constexpr int64_t UNITS_PER_THREAD = 8;  // how finely work is cut for its balance

struct Row {
  int32_t first_key;
  int32_t length;
  int32_t num_splits;
  bool cut;             // its splits are units of their own
  int64_t first_unit;   // of its first KV head
  int64_t first_state;  // in the shared states, where cut
};

// Frees on leaving; no exceptions reach the C interface.
template <class T>
struct Buffer {
  T* data;
  explicit Buffer(int64_t count) : data(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 64) / 64 * 64))) {}
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

struct Job {
  const OctavoPagedDecode* task;
  const DecodeKernels* kernels;
  int32_t group;        // query heads a KV head
  int32_t padded;       // head size, rounded up
  int64_t state_floats;  // of one (row, KV head, split)
};

const DecodeKernels* find_kernels(const OctavoPagedDecode& task) {
  if (task.isa < OCTAVO_PORTABLE || task.isa > OCTAVO_AVX512 || !(octavo_supported_isas() >> task.isa & 1u)) return nullptr;
  switch (task.isa) {
    case OCTAVO_AVX512: return avx512_decode_kernels(task.type);
    case OCTAVO_AVX2: return avx2_decode_kernels(task.type);
    default: return portable_decode_kernels(task.type);
  }
}

bool valid(const OctavoPagedDecode& task) {
  const OctavoCache& cache = task.cache;
  return cache.block_size >= 1 && cache.head_size >= 8 && cache.head_size % 8 == 0 && cache.num_kv_heads >= 1 && task.num_threads >= 1 &&
         task.num_rows >= 0 && task.num_heads >= 1 && task.num_heads % cache.num_kv_heads == 0 && task.window >= 0;
}

// Fails where a length or a block that is going to be read does not exist.
bool measure_row(const OctavoPagedDecode& task, int32_t index, Row* row) {
  const int32_t length = task.lengths[index];
  if (length < 1 || length > task.block_table_stride * task.cache.block_size) return false;
  row->length = length;
  row->first_key = task.window > 0 && length > task.window ? length - task.window : 0;
  row->num_splits = (length - row->first_key + SPLIT_KEYS - 1) / SPLIT_KEYS;
  const int32_t* blocks = task.block_table + index * task.block_table_stride;
  for (int32_t column = row->first_key / task.cache.block_size; column <= (length - 1) / task.cache.block_size; ++column) {
    if (blocks[column] < 0 || blocks[column] >= task.cache.num_blocks) return false;
  }
  return true;
}

struct Totals {
  int64_t units;
  int64_t states;
};

Totals lay_out(const OctavoPagedDecode& task, Row* rows) {
  const int64_t groups = task.cache.num_kv_heads;
  int64_t splits = 0;
  for (int32_t i = 0; i < task.num_rows; ++i) splits += rows[i].num_splits * groups;
  const int64_t longest_unit = splits / (task.num_threads * UNITS_PER_THREAD);
  Totals totals = {0, 0};
  for (int32_t i = 0; i < task.num_rows; ++i) {
    rows[i].cut = task.num_threads > 1 && rows[i].num_splits > 1 && rows[i].num_splits > longest_unit;
    rows[i].first_unit = totals.units;
    rows[i].first_state = totals.states;
    const int64_t work = rows[i].num_splits * groups;
    totals.units += rows[i].cut ? work : groups;
    totals.states += rows[i].cut ? work : 0;
  }
  return totals;
}

DecodeState state_at(const Job& job, float* data) {
  float* maxima = data + int64_t{job.group} * job.padded;
  return {data, maxima, maxima + job.group};
}

DecodeSplit split_of(const Job& job, const Row& row, int32_t index, int32_t head, int32_t split) {
  const OctavoCache& cache = job.task->cache;
  const int64_t size = job.task->type == OCTAVO_FLOAT32 ? 4 : 2;
  const int32_t first = row.first_key + split * SPLIT_KEYS;
  const int32_t last = row.length - first > SPLIT_KEYS ? first + SPLIT_KEYS : row.length;
  const char* keys = static_cast<const char*>(cache.data) + head * cache.head_stride * size;
  return {&cache, keys, job.task->block_table + index * job.task->block_table_stride, first, last, job.group};
}

void prepare(const Job& job, int32_t index, int32_t head, float* prepared) {
  const OctavoPagedDecode& task = *job.task;
  const int64_t size = task.type == OCTAVO_FLOAT32 ? 4 : 2;
  const int64_t place = task.rows[index] * task.query_row_stride + int64_t{head} * job.group * task.query_head_stride;
  const float scale = task.scale * 1.44269504f;  // log2(e): scores are in units of log2
  job.kernels->prepare(static_cast<const char*>(task.query) + place * size, task.query_head_stride, job.group, task.cache.head_size, scale,
                       prepared);
}

void finish(const Job& job, int32_t index, int32_t head, DecodeState state) {
  const OctavoPagedDecode& task = *job.task;
  const int64_t size = task.type == OCTAVO_FLOAT32 ? 4 : 2;
  const int64_t place = task.rows[index] * task.out_row_stride + int64_t{head} * job.group * task.out_head_stride;
  job.kernels->finish(state, job.group, task.cache.head_size, static_cast<char*>(task.out) + place * size, task.out_head_stride);
}

// All splits of one (row, KV head); scratch holds a prepared query and two states.
void run_whole(const Job& job, const Row& row, int32_t index, int32_t head, float* scratch) {
  float* prepared = scratch;
  const DecodeState state = state_at(job, scratch + job.state_floats);
  const DecodeState next = state_at(job, scratch + 2 * job.state_floats);
  prepare(job, index, head, prepared);
  for (int32_t split = 0; split < row.num_splits; ++split) {
    job.kernels->attend(split_of(job, row, index, head, split), prepared, split == 0 ? state : next);
    if (split > 0) job.kernels->join(state, next, job.group, job.task->cache.head_size);
  }
  finish(job, index, head, state);
}

void run_unit(const Job& job, const Row* rows, int64_t unit, float* states, float* scratch) {
  int32_t low = 0;
  for (int32_t high = job.task->num_rows; high - low > 1;) {
    const int32_t middle = low + (high - low) / 2;
    (rows[middle].first_unit <= unit ? low : high) = middle;
  }
  const Row& row = rows[low];
  const int64_t place = unit - row.first_unit;
  if (!row.cut) {
    run_whole(job, row, low, static_cast<int32_t>(place), scratch);
    return;
  }
  const int32_t head = static_cast<int32_t>(place / row.num_splits);
  const int32_t split = static_cast<int32_t>(place % row.num_splits);
  prepare(job, low, head, scratch);
  job.kernels->attend(split_of(job, row, low, head, split), scratch, state_at(job, states + (row.first_state + place) * job.state_floats));
}

void join_cut_row(const Job& job, const Row& row, int32_t index, int32_t head, float* states) {
  float* first = states + (row.first_state + int64_t{head} * row.num_splits) * job.state_floats;
  const DecodeState state = state_at(job, first);
  for (int32_t split = 1; split < row.num_splits; ++split) {
    job.kernels->join(state, state_at(job, first + split * job.state_floats), job.group, job.task->cache.head_size);
  }
  finish(job, index, head, state);
}

void run(const Job& job, const Row* rows, const Totals& totals, float* states, float* scratch) {
  const int64_t scratch_floats = 3 * job.state_floats;
  const int32_t groups = job.task->cache.num_kv_heads;
#pragma omp parallel num_threads(job.task->num_threads)
  {
    float* mine = scratch + omp_get_thread_num() * scratch_floats;
#pragma omp for schedule(dynamic, 1)
    for (int64_t unit = 0; unit < totals.units; ++unit) run_unit(job, rows, unit, states, mine);
    if (totals.states > 0) {
#pragma omp for schedule(dynamic, 1)
      for (int64_t item = 0; item < int64_t{job.task->num_rows} * groups; ++item) {
        const int32_t index = static_cast<int32_t>(item / groups);
        if (rows[index].cut) join_cut_row(job, rows[index], index, static_cast<int32_t>(item % groups), states);
      }
    }
  }
}

}  // namespace

int32_t octavo_paged_decode(const OctavoPagedDecode* task) {
  if (!valid(*task)) return OCTAVO_BAD_ARGUMENT;
  const DecodeKernels* kernels = find_kernels(*task);
  if (kernels == nullptr) return OCTAVO_BAD_ARGUMENT;
  const int32_t group = task->num_heads / task->cache.num_kv_heads;
  const int32_t padded = padded_head_size(task->cache.head_size);
  // Whole cache lines, so that threads do not share one.
  const int64_t state_floats = (int64_t{group} * (padded + 2) + 15) / 16 * 16;
  const Job job = {task, kernels, group, padded, state_floats};

  const Buffer<Row> rows(task->num_rows);
  if (rows.data == nullptr) return OCTAVO_OUT_OF_MEMORY;
  for (int32_t i = 0; i < task->num_rows; ++i) {
    if (!measure_row(*task, i, rows.data + i)) return OCTAVO_OUT_OF_RANGE;
  }
  const Totals totals = lay_out(*task, rows.data);
  const Buffer<float> states(totals.states * state_floats);
  const Buffer<float> scratch(task->num_threads * 3 * state_floats);
  if (states.data == nullptr || scratch.data == nullptr) return OCTAVO_OUT_OF_MEMORY;
  run(job, rows.data, totals, states.data, scratch.data);
  return OCTAVO_OK;
}
