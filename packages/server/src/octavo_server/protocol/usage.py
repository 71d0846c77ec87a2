"""How many tokens a request took."""

import msgspec


class PromptTokensDetails(msgspec.Struct, kw_only=True):
    """Of the prompt's tokens, those that came from the prefix cache."""

    cached_tokens: int


class Usage(msgspec.Struct, kw_only=True):
    """Tokens of all prompts, each counted once however many choices it has, and of all choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails

    @classmethod
    def of(cls, num_prompt_tokens: int, num_output_tokens: int, num_cached_tokens: int) -> "Usage":
        """From the three numbers."""
        return cls(
            prompt_tokens=num_prompt_tokens,
            completion_tokens=num_output_tokens,
            total_tokens=num_prompt_tokens + num_output_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=num_cached_tokens),
        )
