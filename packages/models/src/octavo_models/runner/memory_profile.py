"""What the largest step takes beside weights and KV pool."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from octavo.config.machine import read_machine
from octavo.memory import GPU_RESERVE, MemoryLedger
from octavo.model.config import ModelConfig
from octavo.plan.estimates import activation_bytes
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest, StepPlan
from octavo.types import NULL_BLOCK
from octavo_models.compile.dispatch import GraphKey
from octavo_models.runner.prompt_rows import HEAD_BYTES


def estimate_activations(model: ModelConfig, *, max_tokens: int, max_requests: int, dtype: torch.dtype) -> int:
    """Bytes of what one layer and the sampler hold at once, by arithmetic; on a CPU a forward of the largest step would take seconds.

    Before the sampler come the logits of prompts whose log-probabilities are wanted.
    """
    usual = activation_bytes(model, max_tokens=max_tokens, max_requests=max_requests, element_bytes=dtype.itemsize)
    return max(usual, min(HEAD_BYTES, 4 * max_tokens * model.vocab_size))


def measure_activations(run: Callable[[], object], device: torch.device) -> int:
    """Bytes by which a run raises what is allocated on a GPU, at its peak."""
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.empty_cache()
    return peak - before


def measure_graphs(capture: Callable[[Sequence[GraphKey]], Callable[[], None]], keys: Sequence[GraphKey], device: torch.device) -> int:
    """Bytes that all graphs will take on a GPU, from two of each mode: the largest fills the pool, and each further one adds as much as
    the second.

    Args:
        capture: captures graphs of some keys, largest first; what it returns lets go of them.
        keys: of all graphs.
        device: a GPU.
    """
    total = 0
    for mode in dict.fromkeys(key.mode for key in keys):
        of_mode = [key for key in keys if key.mode is mode]
        used = []
        for count in range(1, min(len(of_mode), 2) + 1):
            torch.cuda.synchronize(device)
            before, _ = torch.cuda.mem_get_info(device)
            release = capture(of_mode[:count])
            torch.cuda.synchronize(device)
            after, _ = torch.cuda.mem_get_info(device)
            used.append(before - after)
            release()
            torch.cuda.empty_cache()
        total += used[0] + (used[-1] - used[0]) * (len(of_mode) - 1)
    return max(total, 0)


def largest_step(*, max_tokens: int, max_requests: int, max_model_len: int, block_size: int, num_groups: int) -> StepPlan:
    """A plan that fills the token budget with as many requests as may be, each of which draws; their KV goes to the null block."""
    num_requests = min(max_requests, max_tokens)
    share, more = divmod(max_tokens, num_requests)
    lengths = [min(share + (index < more), max_model_len) for index in range(num_requests)]
    added = [
        AddedRequest(
            request_id=str(index),
            epoch=0,
            token_ids=[0] * length,
            num_prompt_tokens=length,
            num_computed_tokens=0,
            block_ids=[[NULL_BLOCK] * -(-length // block_size)] * num_groups,
            params=SamplingParams(temperature=1.0, top_p=0.9, prompt_logprobs=0),
            ending_token_ids=[],
            seed=index,
        )
        for index, length in enumerate(lengths)
    ]
    return StepPlan(
        step_id=0,
        removed=[],
        added=added,
        continued=[],
        num_tokens={request.request_id: len(request.token_ids) for request in added},
        num_output_tokens={request.request_id: 0 for request in added},
    )


def read_ledger(device: torch.device, *, weights: int, activations: int, graphs: int = 0) -> MemoryLedger:
    """The device's memory as it is now."""
    if device.type == "cpu":
        machine = read_machine()
        return MemoryLedger(total=machine.total_memory, available=machine.available_memory, weights=weights, activations=activations)
    available, total = torch.cuda.mem_get_info(device)
    return MemoryLedger(
        total=total, available=available - graphs, weights=weights, activations=activations, graphs=graphs, reserve=GPU_RESERVE
    )


def weight_bytes(model: nn.Module) -> int:
    """Bytes of parameters and buffers, each storage once."""
    tensors: Iterable[torch.Tensor] = (*model.parameters(), *model.buffers())
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
