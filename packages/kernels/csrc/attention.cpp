// Attention: checks a task, cuts it into units of work and spreads them over threads.
//
// An item is a tile of rows of one request, and has units for each KV head: one that runs over the splits of its keys and
// joins them as it goes, or, where the item is long beside the rest, one a split; those are joined afterwards, with the same bits.
#include "attention.h"

#include <omp.h>

#include "buffer.h"
#include "store_kv.h"

namespace {

constexpr int64_t UNITS_PER_THREAD = 4;                // how finely work is cut for its balance
constexpr int64_t RUNS_PER_THREAD = 16;                // of units that a thread takes at once
constexpr int64_t MAX_STATE_FLOATS = int64_t{1} << 24;  // of items that are cut, together
constexpr int64_t PACKING_ROWS = 4;                    // rows that take about as long as reading the keys does
constexpr int64_t MIN_WORK_PER_THREAD = 32;            // below it, waking a thread costs more than it brings

struct Item {
  int32_t request;
  int32_t first_row;  // numbered as in AttentionRows
  int32_t num_rows;
  int32_t first_split;
  int32_t num_splits;
  bool cut;
  int64_t first_unit;   // of its first KV head
  int64_t first_state;  // in the shared states, where cut
};

struct Job {
  const OctavoAttention* task;
  const AttentionKernels* kernels;
  int32_t group;         // query heads a KV head
  int32_t padded;        // head size, rounded up
  int64_t state_floats;  // of one (item, KV head, split)
};

struct Totals {
  int64_t work;
  int64_t units;
  int64_t states;
};

const AttentionKernels* find_kernels(const OctavoAttention& task) {
  if (task.isa < OCTAVO_PORTABLE || task.isa > OCTAVO_AVX512_BF16 || !(octavo_supported_isas() >> task.isa & 1u)) return nullptr;
  switch (task.isa) {
    case OCTAVO_AVX512_BF16: return avx512_bf16_attention_kernels(task.type);
    case OCTAVO_AVX512: return avx512_attention_kernels(task.type);
    case OCTAVO_AVX2: return avx2_attention_kernels(task.type);
    default: return portable_attention_kernels(task.type);
  }
}

bool valid(const OctavoAttention& task) {
  const OctavoCache& cache = task.cache;
  return cache.block_size >= 1 && cache.head_size >= 8 && cache.head_size % 8 == 0 && cache.num_kv_heads >= 1 && task.num_threads >= 1 &&
         task.num_rows >= 0 && task.num_requests >= 0 && task.num_heads >= 1 && task.num_heads % cache.num_kv_heads == 0 &&
         task.window >= 0 && task.soft_cap >= 0.0f;
}

// Of one request; none where it is padding.
int32_t num_tokens(const OctavoAttention& task, int32_t request) {
  return task.seq_lens[request] == 0 ? 0 : task.query_start[request + 1] - task.query_start[request];
}

AttentionRows rows_of(const Job& job, int32_t request, int32_t kv_head, int32_t first, int32_t count) {
  const OctavoAttention& task = *job.task;
  const int32_t* blocks = task.block_table + request * task.block_table_stride;
  const int32_t num_before = task.seq_lens[request] - num_tokens(task, request);
  return {&task, blocks, task.query_start[request], num_before, kv_head, job.group, first, count};
}

// Whether the rows and the blocks that a request is going to read exist.
bool request_exists(const Job& job, int32_t request) {
  const OctavoAttention& task = *job.task;
  const int32_t length = task.seq_lens[request], start = task.query_start[request], end = task.query_start[request + 1];
  if (start < 0 || end < start || end > task.num_rows) return false;
  if (length < 0 || length > task.block_table_stride * task.cache.block_size) return false;
  if (num_tokens(task, request) == 0) return true;
  if (end - start > length) return false;
  const AttentionRows rows = rows_of(job, request, 0, 0, 1);
  for (int32_t column = visible_keys(rows, 0).first / task.cache.block_size; column <= (length - 1) / task.cache.block_size; ++column) {
    if (rows.blocks[column] < 0 || rows.blocks[column] >= task.cache.num_blocks) return false;
  }
  return true;
}

int64_t count_items(const Job& job) {
  int64_t count = 0;
  for (int32_t i = 0; i < job.task->num_requests; ++i) count += (int64_t{num_tokens(*job.task, i)} * job.group + TILE_ROWS - 1) / TILE_ROWS;
  return count;
}

int64_t work_of(const Item& item) { return (PACKING_ROWS + item.num_rows) * item.num_splits; }

// Fills items; returns the work of all, a KV head.
int64_t make_items(const Job& job, Item* items) {
  int64_t work = 0;
  for (int32_t request = 0; request < job.task->num_requests; ++request) {
    const int32_t num_rows = num_tokens(*job.task, request) * job.group;
    for (int32_t first = 0; first < num_rows; first += TILE_ROWS, ++items) {
      const int32_t count = num_rows - first < TILE_ROWS ? num_rows - first : TILE_ROWS;
      const AttentionRows rows = rows_of(job, request, 0, first, count);
      const int32_t first_split = visible_keys(rows, first).first / SPLIT_KEYS;
      const int32_t last_split = (visible_keys(rows, first + count - 1).last - 1) / SPLIT_KEYS;
      *items = {request, first, count, first_split, last_split - first_split + 1, false, 0, 0};
      work += work_of(*items);
    }
  }
  return work;
}

Totals lay_out(const Job& job, Item* items, int64_t num_items) {
  const int64_t kv_heads = job.task->cache.num_kv_heads;
  Totals totals = {make_items(job, items) * kv_heads, 0, 0};
  const int64_t longest = totals.work / (job.task->num_threads * UNITS_PER_THREAD);
  for (Item* item = items; item < items + num_items; ++item) {
    const int64_t states = item->num_splits * kv_heads;
    item->cut = job.task->num_threads > 1 && item->num_splits > 1 && work_of(*item) > longest &&
                (totals.states + states) * job.state_floats <= MAX_STATE_FLOATS;
    item->first_unit = totals.units;
    item->first_state = totals.states;
    totals.units += item->cut ? states : kv_heads;
    totals.states += item->cut ? states : 0;
  }
  return totals;
}

int64_t scratch_floats(const Job& job) {
  return int64_t{TILE_ROWS + 2 * TILE_KEYS} * job.padded + 2 * TILE_ROWS * TILE_KEYS + 2 * job.state_floats;
}

AttentionScratch scratch_at(const Job& job, float* data) {
  float* scores = data + TILE_ROWS * job.padded;
  float* weights = scores + TILE_ROWS * TILE_KEYS;
  float* keys = weights + TILE_ROWS * TILE_KEYS;
  return {data, scores, weights, keys, keys + TILE_KEYS * job.padded};
}

AttentionState state_at(const Job& job, float* data) {
  float* maxima = data + TILE_ROWS * job.padded;
  return {data, maxima, maxima + TILE_ROWS};
}

// A unit of work: splits of an item for one KV head, all of them or one.
struct Unit {
  const Item* item;
  int32_t kv_head;
  int32_t first_split;
  int32_t num_splits;
  float* state;  // where the state of a split that stands alone goes, else null
};

Unit find_unit(const Job& job, const Item* items, int64_t num_items, int64_t number, float* states) {
  int64_t low = 0;
  for (int64_t high = num_items; high - low > 1;) {
    const int64_t middle = low + (high - low) / 2;
    (items[middle].first_unit <= number ? low : high) = middle;
  }
  const Item& item = items[low];
  const int64_t place = number - item.first_unit;
  if (!item.cut) return {&item, static_cast<int32_t>(place), item.first_split, item.num_splits, nullptr};
  const int32_t kv_head = static_cast<int32_t>(place / item.num_splits), split = static_cast<int32_t>(place % item.num_splits);
  return {&item, kv_head, item.first_split + split, 1, states + (item.first_state + place) * job.state_floats};
}

AttentionPart first_part(const Job& job, const Unit& unit, bool is_fetched) {
  const Item& item = *unit.item;
  return {rows_of(job, item.request, unit.kv_head, item.first_row, item.num_rows), unit.first_split, is_fetched};
}

void run_unit(const Job& job, const Unit& unit, const Unit* next_unit, bool is_fetched, float* memory) {
  const AttentionScratch scratch = scratch_at(job, memory);
  const AttentionState joined = state_at(job, unit.state != nullptr ? unit.state : memory + scratch_floats(job) - 2 * job.state_floats);
  const AttentionState single = state_at(job, memory + scratch_floats(job) - job.state_floats);
  const AttentionPart first = first_part(job, unit, is_fetched);
  job.kernels->prepare(first.rows, scratch);
  for (int32_t i = 0; i < unit.num_splits; ++i) {
    const AttentionPart part = {first.rows, unit.first_split + i, is_fetched || i > 0};
    AttentionPart next = {first.rows, unit.first_split + i + 1, false};
    const bool is_last = i + 1 == unit.num_splits;
    if (is_last && next_unit != nullptr) next = first_part(job, *next_unit, false);
    job.kernels->attend(part, is_last && next_unit == nullptr ? nullptr : &next, scratch, i == 0 ? joined : single);
    if (i > 0) job.kernels->join(joined, single, unit.item->num_rows, job.task->cache.head_size);
  }
  if (unit.state == nullptr) job.kernels->finish(first.rows, joined);
}

// Units [first, last), one after the other.
void run_units(const Job& job, const Item* items, int64_t num_items, int64_t first, int64_t last, float* states, float* memory) {
  Unit unit = find_unit(job, items, num_items, first, states);
  for (int64_t number = first; number < last; ++number) {
    const bool is_last = number + 1 == last;
    const Unit next = is_last ? unit : find_unit(job, items, num_items, number + 1, states);
    run_unit(job, unit, is_last ? nullptr : &next, number > first, memory);
    unit = next;
  }
}

void join_splits(const Job& job, const Item& item, int32_t kv_head, float* states) {
  float* first = states + (item.first_state + int64_t{kv_head} * item.num_splits) * job.state_floats;
  const AttentionState state = state_at(job, first);
  for (int32_t split = 1; split < item.num_splits; ++split) {
    job.kernels->join(state, state_at(job, first + split * job.state_floats), item.num_rows, job.task->cache.head_size);
  }
  job.kernels->finish(rows_of(job, item.request, kv_head, item.first_row, item.num_rows), state);
}

void run(const Job& job, const Item* items, int64_t num_items, const Totals& totals, int32_t num_threads, float* states, float* scratch) {
  const int64_t kv_heads = job.task->cache.num_kv_heads;
  const int64_t run_length = totals.units / (num_threads * RUNS_PER_THREAD) + 1;
  const int64_t num_runs = (totals.units + run_length - 1) / run_length;
#pragma omp parallel num_threads(num_threads)
  {
    float* mine = scratch + omp_get_thread_num() * scratch_floats(job);
#pragma omp for schedule(static)
    for (int32_t row = 0; row < job.task->num_rows; ++row) store_row(*job.task, row);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < num_runs; ++i) {
      const int64_t first = i * run_length, last = first + run_length < totals.units ? first + run_length : totals.units;
      run_units(job, items, num_items, first, last, states, mine);
    }
    if (totals.states > 0) {
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < num_items * kv_heads; ++i) {
        const Item& item = items[i / kv_heads];
        if (item.cut) join_splits(job, item, static_cast<int32_t>(i % kv_heads), states);
      }
    }
  }
}

void clear_rows(const OctavoAttention& task, int32_t first, int32_t last) {
  const int64_t size = size_of_type(task.type);
  for (int64_t row = first; row < last; ++row) {
    for (int64_t head = 0; head < task.num_heads; ++head) {
      char* target = static_cast<char*>(task.out.data) + (row * task.out.row_stride + head * task.out.head_stride) * size;
      std::memset(target, 0, task.cache.head_size * size);
    }
  }
}

void clear_idle_rows(const OctavoAttention& task) {
  for (int32_t i = 0; i < task.num_requests; ++i) {
    if (task.seq_lens[i] == 0) clear_rows(task, task.query_start[i], task.query_start[i + 1]);
  }
  clear_rows(task, task.query_start[task.num_requests], task.num_rows);
}

int32_t useful_threads(const OctavoAttention& task, int64_t work) {
  const int64_t useful = work / MIN_WORK_PER_THREAD;
  return useful < 1 ? 1 : useful < task.num_threads ? static_cast<int32_t>(useful) : task.num_threads;
}

}  // namespace

int32_t octavo_attend(const OctavoAttention* task) {
  if (!valid(*task)) return OCTAVO_BAD_ARGUMENT;
  const AttentionKernels* kernels = find_kernels(*task);
  if (kernels == nullptr) return OCTAVO_BAD_ARGUMENT;
  const int32_t padded = padded_head_size(task->cache.head_size);
  // Whole cache lines, so that threads do not share one.
  const int64_t state_floats = (int64_t{TILE_ROWS} * (padded + 2) + 15) / 16 * 16;
  const Job job = {task, kernels, task->num_heads / task->cache.num_kv_heads, padded, state_floats};
  for (int32_t i = 0; i < task->num_requests; ++i) {
    if (!request_exists(job, i)) return OCTAVO_OUT_OF_RANGE;
  }
  if (!slots_exist(*task)) return OCTAVO_OUT_OF_RANGE;

  const int64_t num_items = count_items(job);
  const Buffer<Item> items(num_items);
  if (items.data == nullptr) return OCTAVO_OUT_OF_MEMORY;
  const Totals totals = lay_out(job, items.data, num_items);
  const int32_t num_threads = useful_threads(*task, totals.work);
  const Buffer<float> states(totals.states * state_floats);
  const Buffer<float> scratch(num_threads * scratch_floats(job));
  if (states.data == nullptr || scratch.data == nullptr) return OCTAVO_OUT_OF_MEMORY;
  clear_idle_rows(*task);
  run(job, items.data, num_items, totals, num_threads, states.data, scratch.data);
  return OCTAVO_OK;
}
