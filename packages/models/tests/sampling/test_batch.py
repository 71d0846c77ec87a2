import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest
from octavo_models.sampling import SamplingBatch
from octavo_models.sampling.batch import SamplingState

VOCAB = 12
SLOTS = 5


def request(params: SamplingParams, prompt: list[int], output: list[int], seed: int = 0) -> AddedRequest:
    return AddedRequest(
        request_id="r",
        epoch=0,
        token_ids=prompt + output,
        num_prompt_tokens=len(prompt),
        num_computed_tokens=0,
        block_ids=[[]],
        params=params,
        ending_token_ids=[0],
        seed=seed,
    )


def state() -> SamplingState:
    return SamplingState(SLOTS, VOCAB, torch.device("cpu"))


def comparable(batch: SamplingBatch) -> dict[str, object]:
    """A batch as plain values; penalties and biases by row, whatever their order."""
    fields = {name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in vars(batch).items()}
    for names in (
        ("penalty_rows", "output_counts", "seen", "presence_penalty", "frequency_penalty", "repetition_penalty"),
        ("bias_rows", "bias_ids", "bias_values"),
    ):
        columns = [fields.pop(name) for name in names]
        length = 0 if columns[0] is None else len(columns[0])
        fields[names[0]] = sorted(zip(*(column or [None] * length for column in columns), strict=True))
    return fields


PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 1.0, 0.5]),
    top_k=st.sampled_from([0, 3, VOCAB]),
    top_p=st.sampled_from([1.0, 0.5]),
    min_p=st.sampled_from([0.0, 0.25]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 2.0]),
    logit_bias=st.sampled_from([{}, {}, {3: 1.5}]),
    min_tokens=st.sampled_from([0, 0, 2]),
)
TOKENS = st.integers(0, VOCAB - 1)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_state_that_follows_a_batch_equals_state_made_anew(data: st.DataObject) -> None:
    """Adds, removals with moves, and draws, against rebuilding everything from (params, prompt, outputs)."""
    followed = state()
    requests: list[tuple[SamplingParams, list[int], list[int], int]] = []
    for _ in range(data.draw(st.integers(1, 12))):
        if len(requests) < SLOTS and (not requests or data.draw(st.booleans())):
            added = (data.draw(PARAMS), data.draw(st.lists(TOKENS, min_size=1, max_size=4)), data.draw(st.lists(TOKENS, max_size=3)), 7)
            followed.add(len(requests), request(*added))
            requests.append((added[0], list(added[1]), list(added[2]), added[3]))
        elif data.draw(st.booleans()):
            slot = data.draw(st.integers(0, len(requests) - 1))
            followed.remove(slot)
            last = requests.pop()
            if slot < len(requests):
                followed.move(len(requests), slot)
                requests[slot] = last
        slots = data.draw(st.permutations(range(len(requests))))[: data.draw(st.integers(0, len(requests)))]
        chosen = np.array(slots, dtype=np.int64)
        anew = state()
        for slot, kept in enumerate(requests):
            anew.add(slot, request(*kept))
        outputs = np.array([len(requests[slot][2]) for slot in slots], dtype=np.int64)
        assert comparable(followed.batch(chosen, outputs)) == comparable(anew.batch(chosen, outputs))
        tokens = [data.draw(TOKENS) for _ in slots]
        followed.record(chosen, np.array(tokens, dtype=np.int64))
        for slot, token in zip(slots, tokens, strict=True):
            requests[slot][2].append(token)


def test_a_greedy_batch_without_edits_holds_nothing() -> None:
    followed = state()
    for slot in range(3):
        followed.add(slot, request(SamplingParams(temperature=0, top_p=0.5, top_k=2), [1], []))
    assert followed.batch(np.arange(3), np.zeros(3, dtype=np.int64)) == SamplingBatch(all_greedy=True)


def test_only_what_a_row_needs_is_made() -> None:
    followed = state()
    followed.add(0, request(SamplingParams(temperature=0), [1], []))
    followed.add(1, request(SamplingParams(top_k=VOCAB), [1], []))
    followed.add(2, request(SamplingParams(top_p=0.5), [1], []))
    batch = followed.batch(np.array([2, 0, 1]), np.zeros(3, dtype=np.int64))
    assert batch.plain_rows is not None
    assert batch.ranked_rows is not None
    assert (batch.plain_rows.tolist(), batch.ranked_rows.tolist()) == ([2], [0])
    assert batch.temperature is not None
    assert batch.temperature.tolist() == [1, 0, 1]
    assert (batch.top_k, batch.min_p, batch.bias_rows, batch.penalty_rows) == (None, None, None, None)


def test_counts_tell_prompt_from_output() -> None:
    followed = state()
    followed.add(0, request(SamplingParams(frequency_penalty=1.0), [4, 4, 5], [6, 6]))
    followed.record(np.array([0]), np.array([4]))
    batch = followed.batch(np.array([0]), np.array([3]))
    assert batch.output_counts is not None
    assert batch.seen is not None
    assert batch.output_counts[0].nonzero().view(-1).tolist() == [4, 6]
    assert batch.output_counts[0, [4, 6]].tolist() == [1, 2]
    assert batch.seen[0].nonzero().view(-1).tolist() == [4, 5, 6]


def test_no_ending_token_is_forbidden_once_there_are_enough() -> None:
    followed = state()
    followed.add(0, request(SamplingParams(temperature=0, min_tokens=2), [1], []))
    forbidden = [followed.batch(np.array([0]), np.array([count])).bias_ids for count in range(4)]
    assert [None if ids is None else ids.tolist() for ids in forbidden] == [[0], [0], None, None]
