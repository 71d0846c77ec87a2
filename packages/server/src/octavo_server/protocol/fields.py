"""Types of request fields, with what the documentation says of them. The limits are checked where the meaning is known."""

from typing import Annotated, Any

from msgspec import Meta

from octavo.sampling_params import MAX_BAD_WORDS, MAX_CHOICES, MAX_LOGIT_BIASES, MAX_STOP_STRINGS, SEED_LIMIT
from octavo_server.protocol.sizes import MAX_STOP_LENGTH

MAX_SALT_LENGTH = 128
MAX_ID_LENGTH = 128


def _limited(description: str = "", **schema: Any) -> Meta:
    return Meta(description=description or None, extra_json_schema=schema or None)


_INT64 = {"minimum": -SEED_LIMIT, "maximum": SEED_LIMIT - 1}
_NAT64 = {"minimum": 0, "maximum": SEED_LIMIT - 1}
_TOKEN_IDS: dict[str, Any] = {"items": {"type": "integer", "minimum": 0}}

Choices = Annotated[int | None, _limited("continuations of each prompt", minimum=1, maximum=MAX_CHOICES)]
Temperature = Annotated[float | None, _limited("0 is greedy", minimum=0, maximum=100)]
TopP = Annotated[float | None, _limited(exclusiveMinimum=0, maximum=1)]
TopK = Annotated[int | None, _limited("0 and -1 keep all", minimum=-1, maximum=SEED_LIMIT - 1)]
MinP = Annotated[float | None, _limited(minimum=0, maximum=1)]
Penalty = Annotated[float | None, _limited(minimum=-2, maximum=2)]
RepetitionPenalty = Annotated[float | None, _limited("1 is off", minimum=0.01, maximum=100)]
Seed = Annotated[int | None, _limited("makes the answer repeatable", **_INT64)]
MaxTokens = Annotated[int | None, _limited("cap on output tokens, cut to what the context leaves", **_NAT64)]
MinTokens = Annotated[int | None, _limited("nothing ends the output before", **_NAT64)]
Stop = Annotated[
    str | list[str] | None,
    _limited(
        "strings that end the output",
        minLength=1,
        maxLength=MAX_STOP_LENGTH,
        maxItems=MAX_STOP_STRINGS,
        items={"minLength": 1, "maxLength": MAX_STOP_LENGTH},
    ),
]
TokenIds = Annotated[list[int] | None, _limited(**_TOKEN_IDS)]
AllowedTokenIds = Annotated[list[int] | None, _limited("the only tokens that may come", minItems=1, **_TOKEN_IDS)]
BadWords = Annotated[list[str] | None, _limited("texts that must not come", maxItems=MAX_BAD_WORDS)]
LogitBias = Annotated[
    dict[str, float] | None,
    _limited(
        "token id to what is added to its logit",
        maxProperties=MAX_LOGIT_BIASES,
        propertyNames={"pattern": "^[0-9]+$"},
        additionalProperties={"type": "number", "minimum": -100, "maximum": 100},
    ),
]
Processors = Annotated[dict[str, Any] | None, _limited("name of a registered logits processor to its argument")]
NumLogprobs = Annotated[int | None, _limited("likeliest tokens to list beside each one", minimum=0)]
Truncate = Annotated[
    int | None, _limited("keep so many tokens of each prompt; -1: as many as the context takes", minimum=-1, maximum=SEED_LIMIT - 1)
]
Priority = Annotated[int | None, _limited("lower runs earlier under the priority policy", **_INT64)]
CacheSalt = Annotated[
    str | None, _limited("prefix-cache blocks are shared between equal salts only", minLength=1, maxLength=MAX_SALT_LENGTH)
]
RequestId = Annotated[str | None, _limited("name of the request in its answer", minLength=1, maxLength=MAX_ID_LENGTH)]
Prompts = Annotated[
    Any,
    Meta(
        description="text, token ids, or a list of either",
        extra_json_schema={
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
                {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
                {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}},
            ]
        },
    ),
]
Messages = Annotated[
    list[dict[str, Any]],
    Meta(
        description="the conversation",
        extra_json_schema={
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": {"type": "string", "minLength": 1},
                    "content": {
                        "anyOf": [
                            {"type": "string"},
                            {"type": "null"},
                            {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["type", "text"],
                                    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                                },
                            },
                        ]
                    },
                },
            },
        },
    ),
]
