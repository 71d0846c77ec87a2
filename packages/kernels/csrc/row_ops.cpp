// Ops that work row by row: checks a task and spreads its rows over threads.
#include "row_ops.h"

#include "team.h"

namespace {

constexpr int64_t MIN_ELEMENTS_PER_THREAD = 32768;  // below it, waking a thread costs more than it brings

const RowKernels* find_kernels(int32_t isa, int32_t type) {
  if (isa < OCTAVO_PORTABLE || isa > OCTAVO_AMX || !(octavo_supported_isas() >> isa & 1u)) return nullptr;
  switch (isa) {
    case OCTAVO_AMX:
    case OCTAVO_AVX512_FP16:
    case OCTAVO_AVX512_BF16:
    case OCTAVO_AVX512: return avx512_row_kernels(type);
    case OCTAVO_AVX2: return avx2_row_kernels(type);
    default: return portable_row_kernels(type);
  }
}

// Consecutive rows for each thread that is worth its waking.
template <class Task>
void run(const Task& task, void (*kernel)(const Task&, int64_t, int64_t), int64_t row_elements) {
  const int64_t num_rows = task.num_rows;
  const int64_t useful = num_rows * row_elements / MIN_ELEMENTS_PER_THREAD;
  const int64_t parts = useful < 1 ? 1 : useful < task.num_threads ? useful : task.num_threads;
  parallel(parts, [&](int64_t part) { kernel(task, num_rows * part / parts, num_rows * (part + 1) / parts); });
}

}  // namespace

int32_t octavo_rms_norm(const OctavoRmsNorm* task) {
  const RowKernels* kernels = find_kernels(task->isa, task->type);
  if (kernels == nullptr || task->num_threads < 1) return OCTAVO_BAD_ARGUMENT;
  if (task->num_rows < 0 || task->num_heads < 1 || task->width < 1) return OCTAVO_BAD_ARGUMENT;
  run(*task, kernels->rms_norm, task->width);
  return OCTAVO_OK;
}

int32_t octavo_rotate(const OctavoRotation* task) {
  const RowKernels* kernels = find_kernels(task->isa, task->type);
  if (kernels == nullptr || task->num_threads < 1) return OCTAVO_BAD_ARGUMENT;
  if (task->num_rows < 0 || task->num_heads < 0 || task->num_kv_heads < 0) return OCTAVO_BAD_ARGUMENT;
  if (task->rotary_size < 2 || task->rotary_size % 2 != 0 || task->rotary_size > task->head_size) return OCTAVO_BAD_ARGUMENT;
  for (int32_t row = 0; row < task->num_rows; ++row) {
    if (task->positions[row] < 0 || task->positions[row] >= task->num_positions) return OCTAVO_OUT_OF_RANGE;
  }
  run(*task, kernels->rotate, int64_t{task->num_heads + task->num_kv_heads} * task->head_size);
  return OCTAVO_OK;
}

int32_t octavo_gate(const OctavoGate* task) {
  const RowKernels* kernels = find_kernels(task->isa, task->type);
  if (kernels == nullptr || task->num_rows < 0 || task->width < 1 || task->num_threads < 1) return OCTAVO_BAD_ARGUMENT;
  if (task->activation != OCTAVO_SILU && task->activation != OCTAVO_GELU_TANH) return OCTAVO_BAD_ARGUMENT;
  run(*task, kernels->gate, task->width);
  return OCTAVO_OK;
}
