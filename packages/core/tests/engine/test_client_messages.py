from collections.abc import Sequence

import pytest

from octavo.engine.client_messages import (
    Add,
    BadMessageError,
    Outputs,
    decode_client_message,
    decode_engine_message,
    encode,
    pack_add,
    pack_outputs,
    unpack_add,
)
from octavo.engine.load import LoadReport
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import InvalidRequestError
from octavo.logprobs import LogprobRows
from octavo.sampling_params import SamplingParams


def group(token_ids: list[int], n: int, bad_sequences: Sequence[list[int]] = ([1, 2],)) -> list[EngineRequest]:
    return [
        EngineRequest(
            request_id=str(index),
            token_ids=token_ids,
            params=SamplingParams(),
            arrival_time=1.5,
            seed=2**64 - 1 - index,
            leader="0" if index else None,
            tenant="somebody",
            bad_sequences=list(bad_sequences),
        )
        for index in range(n)
    ]


def test_a_group_arrives_as_it_was_but_for_the_number_of_its_client() -> None:
    requests = group([1, 2, 3], 3)
    message = decode_client_message(pack_add(requests))
    assert isinstance(message, Add)
    arrived = unpack_add(message, client=7)
    assert [request.client for request in arrived] == [7, 7, 7]
    assert unpack_add(message, client=0) == requests
    assert len(pack_add(group([1] * 10_000, 3))) < len(pack_add(group([1] * 10_000, 1))) + 1000
    assert len(pack_add(group([1], 3, [[1] * 10_000]))) < len(pack_add(group([1], 1, [[1] * 10_000]))) + 1000


def test_what_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.engine.client_messages.MAX_REQUEST_BYTES", 1000)
    with pytest.raises(InvalidRequestError, match="at most 1,000"):
        pack_add(group([1] * 2000, 1))


@pytest.mark.parametrize("decode", [decode_client_message, decode_engine_message])
def test_what_is_too_long_is_not_decoded(decode: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.engine.client_messages.MAX_REQUEST_BYTES", 10)
    monkeypatch.setattr("octavo.engine.client_messages.MAX_OUTPUT_BYTES", 10)
    with pytest.raises(BadMessageError, match="11 bytes"):
        decode(bytes(11))  # type: ignore[operator]


def test_outputs_are_split_where_they_would_be_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = LogprobRows.pack([5, 6] * 20, [-0.5, -1.0] * 20, [1] * 20)
    outputs = [EngineOutput(request_id=str(index), new_token_ids=[5], logprobs=rows) for index in range(9)]
    report = LoadReport(running=9)
    assert len(list(pack_outputs(outputs, report))) == 1
    monkeypatch.setattr("octavo.engine.client_messages.MAX_OUTPUT_BYTES", 1500)
    messages = [decode_engine_message(message) for message in pack_outputs(outputs, report)]
    assert len(messages) > 1
    assert [output for message in messages if isinstance(message, Outputs) for output in message.outputs] == outputs


def test_log_probabilities_whose_sizes_do_not_fit_are_refused() -> None:
    rows = {"num_top": 1, "ids": b"1234", "values": b"1234", "ranks": b"1234"}
    message = {"type": "outputs", "outputs": [{"request_id": "a", "new_token_ids": [5], "logprobs": rows}], "report": {}}
    with pytest.raises(BadMessageError, match="log-probabilities"):
        decode_engine_message(encode(message))
