"""One dialect's way to write what the engine made, whole or token by token."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from octavo.output.token_delta import TokenDelta
from octavo.outputs import RequestOutput
from octavo_server.protocol.envelope import Envelope
from octavo_server.protocol.usage import Usage


class AnswerWriter(ABC):
    """Writes the answer to one request; remembers of each choice what its next part needs.

    Choices are numbered over all prompts: choice `i` of prompt `p` is `p * n + i`.
    """

    @abstractmethod
    def whole(self, outputs: Sequence[RequestOutput], usage: Usage) -> Envelope:
        """All of it.

        Args:
            outputs: of the prompts, finished.
            usage: of the request.
        """

    @abstractmethod
    def chunk(self, place: int, delta: TokenDelta) -> Envelope:
        """One token, or an end without one; tokens of a choice come in order.

        Args:
            place: of the prompt.
            delta: what came.
        """

    @abstractmethod
    def plain_chunk(self, index: int, text: str) -> Envelope | None:
        """The chunk of a token of which only the text is said, for any token but the first and the last of a choice; changes nothing.

        None where more is said of each token.
        """

    @abstractmethod
    def usage_chunk(self, usage: Usage) -> Envelope:
        """The chunk without choices that says the usage."""
