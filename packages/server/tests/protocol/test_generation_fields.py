import msgspec
import pytest

from octavo.errors import InvalidRequestError
from octavo.input.truncation import Truncation
from octavo_server.protocol.chat import ChatRequest
from octavo_server.protocol.completions import CompletionRequest
from octavo_server.protocol.schema import schema_of


@pytest.mark.parametrize(
    ("kept", "max_tokens", "expected"),
    [(None, 16, None), (5, 16, 5), (128, 16, 128), (-1, 16, 112), (-1, None, 127), (-1, 1000, 127), (-1, 0, 128)],
)
def test_truncation(kept: int | None, max_tokens: int | None, expected: int | None) -> None:
    found = CompletionRequest(truncate_prompt_tokens=kept).truncation(128, max_tokens)
    assert found == (None if expected is None else Truncation(num_tokens=expected))


@pytest.mark.parametrize("kept", [0, -2, 129])
def test_truncation_that_cannot_be(kept: int) -> None:
    with pytest.raises(InvalidRequestError, match="between 1 and the context"):
        CompletionRequest(truncate_prompt_tokens=kept).truncation(128, 16)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"prompt_logprobs": 3}, 3),
        ({"logprobs": 5}, None),
        ({"logprobs": 5, "echo": True}, 5),
        ({"logprobs": 0, "echo": True}, 0),
    ],
)
def test_the_prompt_needs_logprobs_where_it_is_echoed(fields: dict[str, int], expected: int | None) -> None:
    assert CompletionRequest(**fields).wanted_prompt_logprobs == expected


def test_the_documentation_has_every_field_and_no_reference() -> None:
    schema = schema_of(ChatRequest)
    assert {field.encode_name for field in msgspec.structs.fields(ChatRequest)} == set(schema["properties"])
    assert "$ref" not in msgspec.json.encode(schema).decode()
    assert schema["required"] == ["messages"]
    assert schema["properties"]["temperature"]["maximum"] == 100
