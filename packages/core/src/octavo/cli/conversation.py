"""The messages of a chat, kept so short that an answer fits behind them."""

from typing import TYPE_CHECKING

from octavo.errors import InvalidRequestError

if TYPE_CHECKING:
    from octavo.llm import LLM

_MAX_RESERVE = 512
"""Tokens kept free for an answer before old messages have to go; on a short context a quarter of it."""


class Conversation:
    """What was said, oldest first, with an optional system message that never goes.

    Args:
        llm: whose chat template and context count.
        system: text of the system message.
        max_tokens: most tokens of an answer; None: as many as the context leaves.
    """

    def __init__(self, llm: "LLM", *, system: str | None, max_tokens: int | None) -> None:
        self._llm = llm
        self._head = [] if system is None else [{"role": "system", "content": system}]
        self._turns: list[dict[str, str]] = []
        info = llm.engine.info
        self._context = min(info.max_model_len, info.max_pool_tokens)
        reserve = min(_MAX_RESERVE, self._context // 4)
        self._reserve = max(1, reserve if max_tokens is None else min(reserve, max_tokens))

    def ask(self, text: str) -> int:
        """Add a message of the user, and drop the oldest turns until an answer has room. Returns how many turns went.

        Raises:
            InvalidRequestError: the message alone is too long, or the template refuses it; the conversation is as before.
        """
        turns = [*self._turns, {"role": "user", "content": text}]
        length, dropped = self._count_tokens(turns), 0
        while length + self._reserve > self._context and len(turns) > 1:
            turns, dropped = turns[2:], dropped + 1
            length = self._count_tokens(turns)
        if length >= self._context:
            raise InvalidRequestError(
                f"the message takes {length:,} tokens and the context is {self._context:,}: shorten it, or start with a larger context"
            )
        self._turns = turns
        return dropped

    def answer(self, text: str) -> None:
        """Add the answer to the last question; without one the question is taken back."""
        if text:
            self._turns.append({"role": "assistant", "content": text})
        else:
            self._turns.pop()

    def reset(self) -> None:
        """Forget all but the system message."""
        self._turns = []

    @property
    def messages(self) -> list[dict[str, str]]:
        """What the model reads."""
        return [*self._head, *self._turns]

    def _count_tokens(self, turns: list[dict[str, str]]) -> int:
        engine = self._llm.engine
        text = engine.chat_template.render([*self._head, *turns])
        return len(engine.tokenizer.encode(text, add_special_tokens=False))
