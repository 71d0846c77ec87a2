import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from octavo.sampling_params import SamplingParams
from octavo_models.sampling.processor import LogitsProcessor
from octavo_models.sampling.processors import ProcessorTable

VOCAB_SIZE = 8
IDS = np.zeros(1, dtype=np.int32)


class Panic(BaseException):
    """As extensions written in Rust raise it."""


class Raising(LogitsProcessor):
    """Raises what it is told, when it is told."""

    raised: BaseException = Panic("poisoned")

    def __init__(self, argument: object, *, vocab_size: int) -> None:
        if argument == "while it is made":
            raise self.raised

    def apply(self, logits: torch.Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> None:
        raise self.raised


def outcome(moment: str, monkeypatch: pytest.MonkeyPatch, raised: BaseException) -> str | None:
    monkeypatch.setattr(Raising, "raised", raised)
    table = ProcessorTable(lambda _name: Raising, VOCAB_SIZE)
    table.add(3, SamplingParams(logits_processors={"strange": moment}))
    return table.apply(3, torch.zeros(VOCAB_SIZE), IDS, IDS)


MOMENTS = pytest.mark.parametrize("moment", ["while it is made", "while it is applied"])


@MOMENTS
@pytest.mark.parametrize(
    ("raised", "said"), [(Panic("poisoned"), "Panic: poisoned"), (SystemExit(1), "SystemExit: 1"), (KeyError("a"), "KeyError: 'a'")]
)
def test_whatever_a_strangers_processor_raises_is_its_requests_error(
    moment: str, monkeypatch: pytest.MonkeyPatch, raised: BaseException, said: str
) -> None:
    assert outcome(moment, monkeypatch, raised) == f"logits processor 'strange' raised {said}"


@MOMENTS
def test_an_interrupt_is_passed_on(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        outcome(moment, monkeypatch, KeyboardInterrupt())
