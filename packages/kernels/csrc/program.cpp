// Programs: calls that were noted down once and are made again for the rows of another step.
#include <cstring>

#include "abi.h"
#include "team.h"

namespace {

constexpr int64_t MIN_BYTES_PER_THREAD = int64_t{1} << 18;  // below it, waking a thread costs more than it brings

int32_t attend(OctavoAttention* task, const OctavoCall& call, const OctavoProgram& program) {
  const OctavoRequests& requests = program.groups[call.group];
  task->slots = requests.slots;
  task->query_start = requests.query_start;
  task->seq_lens = requests.seq_lens;
  task->block_table = requests.block_table;
  task->block_table_stride = requests.block_table_stride;
  task->runs = requests.runs;
  task->members = requests.members;
  task->num_runs = requests.num_runs;
  task->num_requests = requests.num_requests;
  task->num_rows = static_cast<int32_t>(program.num_tokens);
  return octavo_attend(task);
}

template <class Task>
int32_t run_rows(int32_t (*function)(const Task*), const OctavoCall& call, int64_t num_tokens) {
  Task* task = static_cast<Task*>(call.task);
  task->num_rows = static_cast<decltype(task->num_rows)>(num_tokens * call.rows_a_token);
  return function(task);
}

int32_t run_call(const OctavoCall& call, const OctavoProgram& program) {
  switch (call.kind) {
    case OCTAVO_CALL_ATTEND: return attend(static_cast<OctavoAttention*>(call.task), call, program);
    case OCTAVO_CALL_ROTATE: return run_rows(octavo_rotate, call, program.num_tokens);
    case OCTAVO_CALL_RMS_NORM: return run_rows(octavo_rms_norm, call, program.num_tokens);
    case OCTAVO_CALL_GATE: return run_rows(octavo_gate, call, program.num_tokens);
    case OCTAVO_CALL_LINEAR: return run_rows(octavo_linear, call, program.num_tokens);
    case OCTAVO_CALL_COPY: return run_rows(octavo_copy, call, program.num_tokens);
    default: return OCTAVO_BAD_ARGUMENT;
  }
}

}  // namespace

int32_t octavo_copy(const OctavoCopy* task) {
  if (task->num_rows < 0 || task->row_bytes < 0 || task->num_threads < 1) return OCTAVO_BAD_ARGUMENT;
  const int64_t useful = task->num_rows * task->row_bytes / MIN_BYTES_PER_THREAD;
  const int64_t threads = useful < 1 ? 1 : useful < task->num_threads ? useful : task->num_threads;
  parallel(threads, [&](int64_t part) {
    for (int64_t row = task->num_rows * part / threads; row < task->num_rows * (part + 1) / threads; ++row) {
      std::memcpy(static_cast<char*>(task->target) + row * task->target_stride,
                  static_cast<const char*>(task->source) + row * task->source_stride, task->row_bytes);
    }
  });
  return OCTAVO_OK;
}

int32_t octavo_run(const OctavoProgram* program) {
  for (int64_t i = 0; i < program->num_calls; ++i) {
    const int32_t status = run_call(program->calls[i], *program);
    if (status != OCTAVO_OK) return status;
  }
  return OCTAVO_OK;
}
