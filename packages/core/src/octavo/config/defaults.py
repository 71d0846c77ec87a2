"""What "auto" means where it depends on the machine alone: values with their reasons."""

from octavo.config.engine import Decision
from octavo.config.machine import Machine
from octavo.config.step_times import StepTimes

BLOCK_SIZE = 16
MAX_NUM_SEQS = 256
MAX_NUM_BATCHED_TOKENS_CPU = 2048
MAX_NUM_BATCHED_TOKENS_GPU = 8192
STEP_TIME_CPU_S = 0.21
"""Running streams wait for a full step: they stand still for so long at most while a long prompt is read."""


def decide_device(machine: Machine) -> Decision:
    """The first GPU, or the CPU."""
    if machine.has_cuda:
        return Decision(name="device", value="cuda:0", reason="a CUDA device is there")
    return Decision(name="device", value="cpu", reason="no CUDA device is there, or it is hidden")


def decide_quantized_dtype(machine: Machine) -> Decision:
    """The type that weights of a GGUF file become."""
    if machine.has_cuda:
        return Decision(name="dtype", value="bfloat16", reason="GGUF, and the GPU computes in bfloat16")
    if machine.has_cpu_bfloat16:
        flags = ", ".join(sorted(machine.cpu_flags & {"avx512_bf16", "amx_bf16"}))
        return Decision(name="dtype", value="bfloat16", reason=f"GGUF, and the CPU computes in bfloat16 ({flags})")
    return Decision(name="dtype", value="float32", reason="GGUF, and the CPU has neither avx512_bf16 nor amx_bf16")


def decide_batched_tokens(machine: Machine) -> Decision:
    """Tokens a step: as many as keep the device busy without making the others wait for long."""
    if machine.has_cuda:
        return Decision(name="max_num_batched_tokens", value=str(MAX_NUM_BATCHED_TOKENS_GPU), reason="default on a GPU")
    return Decision(
        name="max_num_batched_tokens", value=str(MAX_NUM_BATCHED_TOKENS_CPU), reason="at most on a CPU; a model lowers it by measurement"
    )


def decide_level(machine: Machine, times: StepTimes | None = None) -> Decision:
    """Whether pieces are compiled where the user has no wish.

    Args:
        machine: on a CPU, that of the measurement.
        times: what steps of the model take there, where that is known.
    """
    name = "optimization_level"
    if machine.has_cuda:
        return Decision(name=name, value="2", reason="a GPU waits for Python between small kernels that are not compiled and replayed")
    if times is None:
        return Decision(
            name=name, value="0", reason="on a CPU what is written runs as C++ at once; `octavo compile` measures whether it is faster"
        )
    return Decision(name=name, value="1" if times.prefers_compiled else "0", reason=str(times))


def machine_decisions(machine: Machine) -> tuple[Decision, ...]:
    """Everything above, for `octavo env`."""
    return (decide_device(machine), decide_quantized_dtype(machine), decide_batched_tokens(machine), decide_level(machine))
