"""What holds for every logits processor."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo_models.sampling import LogitsProcessor

_VOCAB_SIZE = 64


def check_logits_processor(processor: type[LogitsProcessor], argument: Any, *, vocab_size: int = _VOCAB_SIZE) -> None:
    """Run a processor over a growing output. Raises AssertionError where it depends on anything but its argument and the tokens.

    Args:
        processor: the processor's class.
        argument: that a request could give.
        vocab_size: V, at least 8.
    """
    draw = np.random.default_rng(0)
    prompt = draw.integers(0, vocab_size, 12, dtype=np.int32)
    output = draw.integers(0, vocab_size, 20, dtype=np.int32)
    output[10:] = output[:10]
    kept = processor(argument, vocab_size=vocab_size)
    for length in range(len(output) + 1):
        logits = torch.randn(vocab_size, generator=torch.Generator().manual_seed(length))
        where = f"after {length} output tokens"
        expected = _apply(processor(argument, vocab_size=vocab_size), logits, prompt, output[:length], where)
        actual = _apply(kept, logits, prompt, output[:length], where)
        assert torch.equal(actual, expected), f"{where}: a processor that was made anew, as after a preemption, gives other logits"
        other = _apply(processor(argument, vocab_size=vocab_size), logits, prompt, output[:length], where)
        assert torch.equal(other, expected), f"{where}: two processors of one argument give different logits"


def check_bad_argument(processor: type[LogitsProcessor], argument: Any, *, vocab_size: int = _VOCAB_SIZE) -> None:
    """Make a processor of an argument that is of no use. Raises AssertionError where that is no `ValueError` that says why."""
    try:
        processor(argument, vocab_size=vocab_size)
    except ValueError as error:
        if not str(error).strip():
            raise AssertionError(f"{processor.__name__} refuses {argument!r} without saying why") from error
    except Exception as error:
        raise AssertionError(f"{processor.__name__} raised {type(error).__name__} for {argument!r}; it must raise ValueError") from error
    else:
        raise AssertionError(f"{processor.__name__} took the argument {argument!r}; it must raise ValueError")


def _apply(processor: LogitsProcessor, logits: Tensor, prompt: NDArray[np.int32], output: NDArray[np.int32], where: str) -> Tensor:
    """What a processor makes of a copy of the logits."""
    edited, prompt_ids, output_ids = logits.clone(), prompt.copy(), output.copy()
    prompt_ids.setflags(write=False)
    output_ids.setflags(write=False)
    with torch.inference_mode():
        returned: object = processor.apply(edited, prompt_ids, output_ids)
    assert returned is None, f"{where}: apply returned something, but must change the logits in place and return nothing"
    assert edited.shape == logits.shape, f"{where}: the logits are {tuple(edited.shape)} now; their shape must stay"
    assert not bool(edited.isnan().any()), f"{where}: a logit is NaN"
    assert bool(edited.isfinite().any()), f"{where}: no token is left that could come"
    return edited
