"""Fields that clients know, that would change the answer, and that are not built: refused, unless they ask for nothing."""

from dataclasses import dataclass
from typing import Any

from octavo.errors import shown
from octavo_server.errors import ApiError


@dataclass(frozen=True, kw_only=True)
class Unsupported:
    """One field.

    Attributes:
        name: of the field.
        harmless: values beside null that change nothing.
    """

    name: str
    harmless: tuple[Any, ...] = ()

    def check(self, value: Any) -> None:
        """Raise `ApiError` 400 for a value that would change the answer."""
        if value is None or any(type(value) is type(known) and value == known for known in self.harmless):
            return
        hint = f", or send {' or '.join(map(shown, self.harmless))}" if self.harmless else ""
        raise ApiError(
            400,
            f"{self.name} is {shown(value)}, which this server does not support: leave it out{hint}",
            param=self.name,
            code="unsupported_parameter",
        )


def _never(*names: str) -> tuple[Unsupported, ...]:
    return tuple(Unsupported(name=name) for name in names)


GENERATION = (
    Unsupported(name="response_format", harmless=({"type": "text"},)),
    Unsupported(name="use_beam_search", harmless=(False,)),
    Unsupported(name="watermarking", harmless=(False,)),
    Unsupported(name="thinking_token_budget", harmless=(-1,)),
    Unsupported(name="return_token_offsets", harmless=(False,)),
    Unsupported(name="vllm_xargs", harmless=({},)),
    *_never(
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "guided_decoding_backend",
        "guided_whitespace_pattern",
        "structural_tag",
        "logprob_token_ids",
        "repetition_detection",
        "kv_transfer_params",
        "ec_transfer_params",
    ),
)
"""Of both ways to generate."""

COMPLETION = (*GENERATION, Unsupported(name="suffix", harmless=("",)), *_never("prompt_embeds"))
"""Of completions."""

CHAT = (
    *GENERATION,
    Unsupported(name="tools", harmless=([],)),
    Unsupported(name="tool_choice", harmless=("none", "auto")),
    Unsupported(name="functions", harmless=([],)),
    Unsupported(name="function_call", harmless=("none", "auto")),
    Unsupported(name="modalities", harmless=([], ["text"])),
    Unsupported(name="documents", harmless=([],)),
    Unsupported(name="include_reasoning", harmless=(True,)),
    Unsupported(name="media_io_kwargs", harmless=({},)),
    Unsupported(name="mm_processor_kwargs", harmless=({},)),
    Unsupported(name="return_prompt_text", harmless=(False,)),
    *_never("audio", "web_search_options"),
)
"""Of chats."""

TOKENIZE = (Unsupported(name="tools", harmless=([],)), Unsupported(name="documents", harmless=([],)))
"""Of counting tokens."""

MESSAGES = (
    Unsupported(name="tools", harmless=([],)),
    Unsupported(name="tool_choice", harmless=({"type": "none"}, {"type": "auto"})),
    Unsupported(name="thinking", harmless=({"type": "disabled"},)),
    Unsupported(name="output_config", harmless=({},)),
    Unsupported(name="context_management", harmless=({}, {"edits": []})),
    Unsupported(name="mcp_servers", harmless=([],)),
    Unsupported(name="vllm_xargs", harmless=({},)),
    *_never("output_format", "container", "compaction", "thread", "kv_transfer_params"),
)
"""Of Anthropic's messages."""

IGNORED = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prediction",
        "verbosity",
        "parallel_tool_calls",
        "session_id",
        "length_penalty",
        "spaces_between_special_tokens",
        "stream_interval",
        "routed_experts_prompt_start",
        "mm_payload",
        "return_mm_kwargs",
    }
)
"""Accounts, hints and what only matters with a field that is refused: nothing that would change the answer."""

MESSAGES_IGNORED = frozenset(
    {
        "metadata",
        "service_tier",
        "speed",
        "inference_geo",
        "cache_control",
        "diagnostics",
        "fallbacks",
        "user_profile_id",
        "workspace_id",
        "betas",
    }
)
"""The same of Anthropic's messages."""
