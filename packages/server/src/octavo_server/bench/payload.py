"""The body of a request."""

from typing import Any

import msgspec

from octavo.errors import ConfigurationError
from octavo_server.bench.client import PreparedRequest
from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.prompt import Prompt


def prepare(config: BenchmarkConfig, model: str, prompt: Prompt) -> PreparedRequest:
    """Write a request's JSON before the clock runs. Raises `ConfigurationError` for token ids in a chat."""
    body: dict[str, Any] = {
        "model": model,
        **_input(config, prompt),
        "max_tokens": prompt.output_len,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if config.temperature is not None:
        body["temperature"] = config.temperature
    if config.ignores_eos:
        body["ignore_eos"] = True
    return PreparedRequest(msgspec.json.encode(body | dict(config.extra_body)), prompt.num_tokens)


def _input(config: BenchmarkConfig, prompt: Prompt) -> dict[str, Any]:
    if config.endpoint == "completions":
        return {"prompt": prompt.content}
    if not isinstance(prompt.content, str):
        raise ConfigurationError("a prompt of token ids cannot be a chat: use --endpoint completions, or give text")
    return {"messages": [{"role": "user", "content": prompt.content}]}
