// What attention is cut into: items of rows and splits of keys, those that several requests share among them.
#pragma once

#include <cstring>

#include "attention.h"
#include "buffer.h"

namespace {

constexpr int64_t UNITS_PER_THREAD = 4;                // how finely work is cut for its balance
constexpr int64_t MAX_STATE_FLOATS = int64_t{1} << 24;  // of items that are cut, together
constexpr int64_t PACKING_ROWS = 4;                    // rows that take about as long as reading the keys does

// The state of a request's rows over a split that it shares.
struct SharedState {
  int64_t state;  // in the shared states, of the first KV head
  int32_t first_row;
};

struct Item {
  int32_t request;
  const int32_t* members;     // requests that share its one split, or null
  const SharedState* shared;  // of the splits before its first
  int32_t first_row;  // numbered as in AttentionRows
  int32_t num_rows;
  int32_t first_split;
  int32_t num_splits;
  int32_t num_shared;
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
  int64_t shared_units;  // the first of them
  int64_t states;
};

struct Run {
  int32_t split;
  int32_t first;  // in members
  int32_t count;
};

Run run_at(const OctavoAttention& task, int32_t number) {
  const int32_t* run = task.runs + 3 * int64_t{number};
  return {run[0], run[1], run[2]};
}

// What is known of the splits that each request shares.
struct Sharing {
  Buffer<int32_t> counts;       // [R]
  Buffer<int32_t> firsts;       // [R], of a request's in states
  Buffer<SharedState> states;   // by request, then by split
  int64_t num_items;

  Sharing(int32_t num_requests, int64_t num_members) : counts(num_requests), firsts(num_requests), states(num_members), num_items(0) {}
  bool has_memory() const { return counts.data != nullptr && firsts.data != nullptr && states.data != nullptr; }
};

// Of one request; none where it is padding.
int32_t num_tokens(const OctavoAttention& task, int32_t request) {
  return task.seq_lens[request] == 0 ? 0 : task.query_start[request + 1] - task.query_start[request];
}

AttentionRows rows_of(const Job& job, int32_t request, int32_t kv_head, int32_t first, int32_t count) {
  const OctavoAttention& task = *job.task;
  const int32_t* blocks = task.block_table + request * task.block_table_stride;
  const int32_t num_before = task.seq_lens[request] - num_tokens(task, request);
  return {&task, blocks, nullptr, task.query_start[request], num_before, kv_head, job.group, first, count};
}

AttentionRows rows_of(const Job& job, const Item& item, int32_t kv_head) {
  if (item.members == nullptr) return rows_of(job, item.request, kv_head, item.first_row, item.num_rows);
  const OctavoAttention& task = *job.task;
  const int32_t* blocks = task.block_table + item.request * task.block_table_stride;
  const int32_t num_before = (item.first_split + 1) * SPLIT_KEYS - 1;
  return {&task, blocks, item.members, 0, num_before, kv_head, job.group, 0, item.num_rows};
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

int32_t members_of_tile(const Job& job) { return TILE_ROWS / job.group; }

// None where rows do not see all keys, or those of a request do not fit into a tile.
int32_t num_runs(const Job& job) { return job.task->window > 0 || job.group > TILE_ROWS ? 0 : job.task->num_runs; }

// Whether the members of the runs exist, and share what they are said to.
bool runs_exist(const Job& job) {
  const OctavoAttention& task = *job.task;
  for (int32_t i = 0; i < num_runs(job); ++i) {
    const Run run = run_at(task, i);
    if (run.split < 0 || run.first < 0 || run.count < 1) return false;
    for (int32_t j = run.first; j < run.first + run.count; ++j) {
      const int32_t request = task.members[j];
      if (request < 0 || request >= task.num_requests || num_tokens(task, request) != 1) return false;
      if (task.seq_lens[request] <= (run.split + 1) * SPLIT_KEYS) return false;
    }
  }
  return true;
}

// Counts the splits that each request shares and the items that these make.
void count_shared(const Job& job, Sharing* sharing) {
  const OctavoAttention& task = *job.task;
  std::memset(sharing->counts.data, 0, sizeof(int32_t) * task.num_requests);
  for (int32_t i = 0; i < num_runs(job); ++i) {
    const Run run = run_at(task, i);
    for (int32_t j = run.first; j < run.first + run.count; ++j) ++sharing->counts.data[task.members[j]];
    sharing->num_items += (run.count + members_of_tile(job) - 1) / members_of_tile(job);
  }
  int32_t first = 0;
  for (int32_t i = 0; i < task.num_requests; ++i) {
    sharing->firsts.data[i] = first;
    first += sharing->counts.data[i];
  }
}

int64_t num_members(const Job& job) {
  int64_t count = 0;
  for (int32_t i = 0; i < num_runs(job); ++i) count += run_at(*job.task, i).count;
  return count;
}

int64_t count_items(const Job& job) {
  int64_t count = 0;
  for (int32_t i = 0; i < job.task->num_requests; ++i) count += (int64_t{num_tokens(*job.task, i)} * job.group + TILE_ROWS - 1) / TILE_ROWS;
  return count;
}

int64_t work_of(const Item& item) { return (PACKING_ROWS + item.num_rows) * item.num_splits; }

// Fills the items of shared splits; returns their work, a KV head.
int64_t make_shared_items(const Job& job, const Sharing& sharing, Item* items) {
  const OctavoAttention& task = *job.task;
  int64_t work = 0, state = 0;
  for (int32_t i = 0; i < num_runs(job); ++i) {
    const Run run = run_at(task, i);
    for (int32_t first = 0; first < run.count; first += members_of_tile(job), ++items, state += task.cache.num_kv_heads) {
      const int32_t count = run.count - first < members_of_tile(job) ? run.count - first : members_of_tile(job);
      const int32_t* members = task.members + run.first + first;
      *items = {members[0], members, nullptr, 0, count * job.group, run.split, 1, 0, true, 0, 0};
      for (int32_t j = 0; j < count; ++j) {
        sharing.states.data[sharing.firsts.data[members[j]] + run.split] = {state, j * job.group};
      }
      work += work_of(*items);
    }
  }
  return work;
}

// Fills the items of requests; returns their work, a KV head.
int64_t make_items(const Job& job, const Sharing& sharing, Item* items) {
  int64_t work = 0;
  for (int32_t request = 0; request < job.task->num_requests; ++request) {
    const int32_t num_rows = num_tokens(*job.task, request) * job.group, num_shared = sharing.counts.data[request];
    const SharedState* shared = sharing.states.data + sharing.firsts.data[request];
    for (int32_t first = 0; first < num_rows; first += TILE_ROWS, ++items) {
      const int32_t count = num_rows - first < TILE_ROWS ? num_rows - first : TILE_ROWS;
      const AttentionRows rows = rows_of(job, request, 0, first, count);
      const int32_t seen_from = visible_keys(rows, first).first / SPLIT_KEYS;
      const int32_t first_split = seen_from > num_shared ? seen_from : num_shared;
      const int32_t last_split = (visible_keys(rows, first + count - 1).last - 1) / SPLIT_KEYS;
      *items = {request, nullptr, shared, first, count, first_split, last_split - first_split + 1, num_shared, false, 0, 0};
      work += work_of(*items);
    }
  }
  return work;
}

Totals lay_out(const Job& job, const Sharing& sharing, Item* items, int64_t num_items) {
  const int64_t kv_heads = job.task->cache.num_kv_heads;
  const int64_t work = make_shared_items(job, sharing, items) + make_items(job, sharing, items + sharing.num_items);
  Totals totals = {work * kv_heads, 0, 0, 0};
  const int64_t longest = totals.work / (job.task->num_threads * UNITS_PER_THREAD);
  for (Item* item = items; item < items + num_items; ++item) {
    const int64_t states = item->num_splits * kv_heads;
    if (item->members == nullptr) {
      item->cut = job.task->num_threads > 1 && item->num_shared == 0 && item->num_splits > 1 && work_of(*item) > longest &&
                  (totals.states + states) * job.state_floats <= MAX_STATE_FLOATS;
    }
    item->first_unit = totals.units;
    item->first_state = totals.states;
    totals.units += item->cut ? states : kv_heads;
    totals.states += item->cut ? states : 0;
    if (item->members != nullptr) totals.shared_units = totals.units;
  }
  return totals;
}

}  // namespace
