// Which requests read the same keys.
#include <algorithm>
#include <cstring>

#include "abi.h"
#include "buffer.h"

namespace {

// Where runs are written to.
struct Runs {
  const OctavoSharing& task;
  int32_t num_runs;
  int32_t num_members;
};

const int32_t* columns_of_split(const OctavoSharing& task, int32_t request, int32_t split) {
  return task.block_table + request * task.block_table_stride + int64_t{split} * (OCTAVO_SPLIT_KEYS / task.block_size);
}

int compare(const OctavoSharing& task, int32_t left, int32_t right, int32_t split) {
  const size_t size = OCTAVO_SPLIT_KEYS / task.block_size * sizeof(int32_t);
  return std::memcmp(columns_of_split(task, left, split), columns_of_split(task, right, split), size);
}

// Whether a request's row sees all keys of a split, and others behind it.
bool sees_more(const OctavoSharing& task, int32_t request, int32_t split) {
  return task.seq_lens[request] > (split + 1) * OCTAVO_SPLIT_KEYS;
}

// Writes the runs among requests that share all splits before this one; reorders them.
void find_runs(Runs* runs, int32_t* requests, int32_t count, int32_t split) {
  const OctavoSharing& task = runs->task;
  int32_t* end = std::partition(requests, requests + count, [&](int32_t request) { return sees_more(task, request, split); });
  std::sort(requests, end, [&](int32_t left, int32_t right) {
    const int order = compare(task, left, right, split);
    return order < 0 || (order == 0 && left < right);
  });
  for (int32_t* first = requests; first < end;) {
    int32_t* last = first + 1;
    while (last < end && compare(task, *first, *last, split) == 0) ++last;
    const int32_t size = static_cast<int32_t>(last - first);
    if (size > 1 && runs->num_members + size <= task.max_members) {
      int32_t* run = task.runs + 3 * int64_t{runs->num_runs++};
      run[0] = split;
      run[1] = runs->num_members;
      run[2] = size;
      std::memcpy(task.members + runs->num_members, first, size * sizeof(int32_t));
      runs->num_members += size;
      find_runs(runs, first, size, split + 1);
    }
    first = last;
  }
}

}  // namespace

int32_t octavo_find_shared(const OctavoSharing* task) {
  *task->num_runs = 0;
  if (task->block_size < 1 || task->num_requests < 0 || task->max_members < 0) return OCTAVO_BAD_ARGUMENT;
  if (OCTAVO_SPLIT_KEYS % task->block_size != 0) return OCTAVO_OK;
  const Buffer<int32_t> requests(task->num_requests);
  if (requests.data == nullptr) return OCTAVO_OUT_OF_MEMORY;
  int32_t count = 0;
  for (int32_t i = 0; i < task->num_requests; ++i) {
    if (task->seq_lens[i] > task->block_table_stride * task->block_size) return OCTAVO_OUT_OF_RANGE;
    if (task->query_start[i + 1] - task->query_start[i] == 1) requests.data[count++] = i;
  }
  Runs runs = {*task, 0, 0};
  find_runs(&runs, requests.data, count, 0);
  *task->num_runs = runs.num_runs;
  return OCTAVO_OK;
}
