"""Shapes of bodies for the OpenAPI document."""

from typing import Any

import msgspec

_REFERENCE = "#/$defs/"


def schema_of(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON schema of a struct, with what it refers to put in its place; a struct that holds itself has none."""
    schema = msgspec.json.schema(shape)
    definitions = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, list):
            return [inlined(item) for item in value]
        if not isinstance(value, dict):
            return value
        if (reference := value.get("$ref")) is not None:
            return inlined(definitions[reference.removeprefix(_REFERENCE)])
        return {name: inlined(item) for name, item in value.items()}

    found: dict[str, Any] = inlined(schema)
    return found


def described(*requests: type[msgspec.Struct], answer: type[msgspec.Struct], streams: bool = False) -> dict[str, Any]:
    """Keywords for a route that reads its body itself: `openapi_extra` and `responses`.

    Args:
        requests: shapes that the body may have.
        answer: shape of the answer.
        streams: whether it may also be a stream of events.
    """
    shapes = [schema_of(shape) for shape in requests]
    body = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    content: dict[str, Any] = {"application/json": {"schema": schema_of(answer)}}
    if streams:
        content["text/event-stream"] = {"schema": {"type": "string", "description": "events of JSON chunks, then [DONE]"}}
    return {
        "openapi_extra": {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}},
        "responses": {200: {"description": "The answer", "content": content}},
    }
