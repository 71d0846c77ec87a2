"""What decode steps take as written and compiled, in turn."""

from statistics import median

from octavo.config.step_times import StepTimes
from octavo_models.runner.step import Step
from octavo_models.runner.trial import behind, greedy_step, seconds_of

REQUESTS = (1, 64)
CONTEXT = 128
ROUNDS = 5


def time_two_ways(step: Step, *, max_model_len: int, block_size: int, num_groups: int) -> StepTimes | None:
    """Decode one request, and as many as usually run together: medians, behind one run each to warm up. None for an engine of tighter
    limits: its times would not speak for others of the model.

    Args:
        step: whose pieces are compiled; its batch is empty, and is left empty.
        max_model_len: longest sequence.
        block_size: S.
        num_groups: of KV.
    """
    if min(step.buffers.max_requests, step.buffers.max_tokens) < REQUESTS[-1] or max_model_len <= CONTEXT:
        return None
    context = CONTEXT // block_size * block_size
    written: dict[int, float] = {}
    compiled: dict[int, float] = {}
    for requests in REQUESTS:
        decode = behind(greedy_step(requests, requests, block_size=block_size, num_groups=num_groups), context, block_size)
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(1 + ROUNDS):
            with step.forward.pieces.as_written():
                seconds[0].append(seconds_of(step.run, decode))
            seconds[1].append(seconds_of(step.run, decode))
        written[requests], compiled[requests] = (median(way[1:]) for way in seconds)
    return StepTimes(written=written, compiled=compiled)
