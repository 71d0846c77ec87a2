// Attention: checks a task, cuts it into units of work and spreads them over threads.
//
// An item is a tile of rows of one request, and has units for each KV head: one that runs over the splits of its keys and
// joins them as it goes, or, where the item is long beside the rest, one a split; those are joined afterwards, with the same bits.
// Splits that several requests share come first, as items of their own with rows of all of them; the requests' own items go on
// from the states of those.
#include <atomic>

#include "attention_items.h"
#include "store_kv.h"
#include "team.h"

namespace {

constexpr int64_t RUNS_PER_THREAD = 16;                // of units that a thread takes at once
constexpr int64_t MIN_WORK_PER_THREAD = 32;            // below it, waking a thread costs more than it brings
constexpr int64_t MIN_STORED_PER_THREAD = 32768;       // elements; likewise

const AttentionKernels* find_kernels(const OctavoAttention& task) {
  if (task.isa < OCTAVO_PORTABLE || task.isa > OCTAVO_AMX || !(octavo_supported_isas() >> task.isa & 1u)) return nullptr;
  switch (task.isa) {
    case OCTAVO_AVX512_BF16: return avx512_bf16_attention_kernels(task.type);
    case OCTAVO_AMX:
    case OCTAVO_AVX512_FP16:
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
  return {rows_of(job, *unit.item, unit.kv_head), unit.first_split, is_fetched};
}

// Of the rows of a request over a split that it shares.
AttentionState shared_state(const Job& job, const Unit& unit, int32_t split, float* states) {
  const SharedState& shared = unit.item->shared[split];
  const AttentionState tile = state_at(job, states + (shared.state + unit.kv_head) * job.state_floats);
  return {tile.values + shared.first_row * job.padded, tile.maxima + shared.first_row, tile.sums + shared.first_row};
}

// Where a unit joins its splits: in the state of the first of those that it shares, where there are some, to which the others are joined.
AttentionState first_state(const Job& job, const Unit& unit, float* states, float* memory) {
  const Item& item = *unit.item;
  if (item.num_shared == 0) {
    return state_at(job, unit.state != nullptr ? unit.state : memory + scratch_floats(job) - 2 * job.state_floats);
  }
  const AttentionState joined = shared_state(job, unit, 0, states);
  for (int32_t split = 1; split < item.num_shared; ++split) {
    job.kernels->join(joined, shared_state(job, unit, split, states), item.num_rows, job.task->cache.head_size);
  }
  return joined;
}

void run_unit(const Job& job, const Unit& unit, const Unit* next_unit, bool is_fetched, float* states, float* memory) {
  const AttentionScratch scratch = scratch_at(job, memory);
  const AttentionState joined = first_state(job, unit, states, memory);
  const bool goes_on = unit.item->num_shared > 0;
  const AttentionState single = state_at(job, memory + scratch_floats(job) - job.state_floats);
  const AttentionPart first = first_part(job, unit, is_fetched);
  job.kernels->prepare(first.rows, scratch);
  for (int32_t i = 0; i < unit.num_splits; ++i) {
    const AttentionPart part = {first.rows, unit.first_split + i, is_fetched || i > 0};
    AttentionPart next = {first.rows, unit.first_split + i + 1, false};
    const bool is_last = i + 1 == unit.num_splits;
    if (is_last && next_unit != nullptr) next = first_part(job, *next_unit, false);
    job.kernels->attend(part, is_last && next_unit == nullptr ? nullptr : &next, scratch, i > 0 || goes_on ? single : joined);
    if (i > 0 || goes_on) job.kernels->join(joined, single, unit.item->num_rows, job.task->cache.head_size);
  }
  if (unit.state == nullptr) job.kernels->finish(first.rows, joined);
}

// Units [first, last), one after the other.
void run_units(const Job& job, const Item* items, int64_t num_items, int64_t first, int64_t last, float* states, float* memory) {
  Unit unit = find_unit(job, items, num_items, first, states);
  for (int64_t number = first; number < last; ++number) {
    const bool is_last = number + 1 == last;
    const Unit next = is_last ? unit : find_unit(job, items, num_items, number + 1, states);
    run_unit(job, unit, is_last ? nullptr : &next, number > first, states, memory);
    unit = next;
  }
}

void join_splits(const Job& job, const Item& item, int32_t kv_head, float* states) {
  float* first = states + (item.first_state + int64_t{kv_head} * item.num_splits) * job.state_floats;
  const AttentionState state = state_at(job, first);
  for (int32_t split = 1; split < item.num_splits; ++split) {
    job.kernels->join(state, state_at(job, first + split * job.state_floats), item.num_rows, job.task->cache.head_size);
  }
  job.kernels->finish(rows_of(job, item, kv_head), state);
}

// Calls run(part, start, end) with stretches of [first, last), of a length at most, which parts take one after the other.
template <class Run>
void hand_out(int64_t first, int64_t last, int64_t length, int64_t num_parts, Run run) {
  std::atomic<int64_t> next{first};
  parallel(last - first > length ? num_parts : 1, [&](int64_t part) {
    for (int64_t start = next.fetch_add(length); start < last; start = next.fetch_add(length)) {
      run(part, start, start + length < last ? start + length : last);
    }
  });
}

void store_rows(const OctavoAttention& task, int64_t num_parts) {
  const int64_t row_elements = 2 * int64_t{task.cache.num_kv_heads} * task.cache.head_size;
  const int64_t useful = task.num_rows * row_elements / MIN_STORED_PER_THREAD;
  const int64_t parts = useful < 1 ? 1 : useful < num_parts ? useful : num_parts;
  parallel(parts, [&](int64_t part) {
    const int64_t last = task.num_rows * (part + 1) / parts;
    for (int64_t row = task.num_rows * part / parts; row < last; ++row) store_row(task, static_cast<int32_t>(row));
  });
}

void run(const Job& job, const Item* items, int64_t num_items, const Totals& totals, int32_t num_threads, float* states, float* scratch) {
  store_rows(*job.task, num_threads);
  const auto run_some = [&](int64_t part, int64_t start, int64_t end) {
    run_units(job, items, num_items, start, end, states, scratch + part * scratch_floats(job));
  };
  const auto run_length = [&](int64_t units) { return units / (num_threads * RUNS_PER_THREAD) + 1; };
  hand_out(0, totals.shared_units, run_length(totals.shared_units), num_threads, run_some);
  hand_out(totals.shared_units, totals.units, run_length(totals.units - totals.shared_units), num_threads, run_some);
  if (totals.states == 0) return;
  const int64_t kv_heads = job.task->cache.num_kv_heads;
  hand_out(0, num_items * kv_heads, 1, num_threads, [&](int64_t, int64_t i, int64_t) {
    const Item& item = items[i / kv_heads];
    if (item.cut && item.members == nullptr) join_splits(job, item, static_cast<int32_t>(i % kv_heads), states);
  });
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
  if (!slots_exist(*task) || !runs_exist(job)) return OCTAVO_OUT_OF_RANGE;

  Sharing sharing(task->num_requests, num_members(job));
  if (!sharing.has_memory()) return OCTAVO_OUT_OF_MEMORY;
  count_shared(job, &sharing);
  const int64_t num_items = sharing.num_items + count_items(job);
  const Buffer<Item> items(num_items);
  if (items.data == nullptr) return OCTAVO_OUT_OF_MEMORY;
  const Totals totals = lay_out(job, sharing, items.data, num_items);
  const int32_t num_threads = useful_threads(*task, totals.work);
  const Buffer<float> states(totals.states * state_floats);
  const Buffer<float> scratch(num_threads * scratch_floats(job));
  if (states.data == nullptr || scratch.data == nullptr) return OCTAVO_OUT_OF_MEMORY;
  clear_idle_rows(*task);
  run(job, items.data, num_items, totals, num_threads, states.data, scratch.data);
  return OCTAVO_OK;
}
