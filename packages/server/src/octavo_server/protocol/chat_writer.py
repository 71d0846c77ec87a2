"""Answers of `/v1/chat/completions`."""

from collections.abc import Iterable, Sequence

from msgspec import UNSET, UnsetType

from octavo.output.open_request import OpenRequest
from octavo.output.token_delta import TokenDelta
from octavo.outputs import CompletionOutput, RequestOutput
from octavo.text.tokenizer import Tokenizer
from octavo_server.protocol.answer_writer import AnswerWriter
from octavo_server.protocol.chat import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatDelta,
    ChatMessage,
    ChatRequest,
    ChatResponse,
    PromptPart,
)
from octavo_server.protocol.envelope import SYSTEM_FINGERPRINT, Heading
from octavo_server.protocol.logprobs import ChatLogprobs, Position, chat_logprob, prompt_logprobs
from octavo_server.protocol.token_spelling import TokenSpelling
from octavo_server.protocol.usage import Usage


class ChatWriter(AnswerWriter):
    """Writes answers to a conversation.

    Args:
        heading: of the answer.
        fields: of the request.
        request: the conversation in the engine.
        tokenizer: of the model.
        echoed: text in front of every answer.
    """

    def __init__(self, heading: Heading, fields: ChatRequest, request: OpenRequest, tokenizer: Tokenizer, *, echoed: str) -> None:
        self._heading = heading
        self._fields = fields
        self._request = request
        self._echoed = echoed
        self._spelling = TokenSpelling(tokenizer, as_ids=bool(fields.return_tokens_as_token_ids))
        self._begun: set[int] = set()

    def whole(self, outputs: Sequence[RequestOutput], usage: Usage) -> ChatResponse:
        """All answers."""
        choices = [self._choice(completion) for output in outputs for completion in output.outputs]
        response = ChatResponse(
            id=self._heading.id,
            created=self._heading.created,
            model=self._heading.model,
            system_fingerprint=SYSTEM_FINGERPRINT,
            choices=choices,
            usage=usage,
        )
        self._describe_prompt(response)
        return response

    def chunk(self, place: int, delta: TokenDelta) -> ChatChunk:  # noqa: ARG002 (a chat has one prompt)
        """A token of one answer; the first brings the role."""
        is_first = delta.index not in self._begun
        choice = ChatChunkChoice(
            index=delta.index,
            delta=ChatDelta(role="assistant", content=self._echoed + delta.text) if is_first else ChatDelta(content=delta.text),
        )
        if self._fields.logprobs:
            found = [] if delta.token_id is None or delta.logprobs is None else [(delta.token_id, delta.logprobs)]
            choice.logprobs = self._logprobs(found)
        if self._fields.return_token_ids:
            choice.token_ids = [] if delta.token_id is None else [delta.token_id]
        if delta.finish_reason is not None:
            choice.finish_reason = delta.finish_reason
            choice.stop_reason = delta.stop_reason
        chunk = self._chunk([choice])
        if not self._begun:
            self._describe_prompt(chunk)
        self._begun.add(delta.index)
        return chunk

    def plain_chunk(self, index: int, text: str) -> ChatChunk | None:
        """A text and nothing else."""
        if self._fields.logprobs or self._fields.return_token_ids:
            return None
        return self._chunk([ChatChunkChoice(index=index, delta=ChatDelta(content=text))])

    def usage_chunk(self, usage: Usage) -> ChatChunk:
        """Usage alone."""
        return self._chunk([], usage)

    def _chunk(self, choices: list[ChatChunkChoice], usage: Usage | UnsetType = UNSET) -> ChatChunk:
        return ChatChunk(
            id=self._heading.id,
            created=self._heading.created,
            model=self._heading.model,
            system_fingerprint=SYSTEM_FINGERPRINT,
            choices=choices,
            usage=usage,
        )

    def _choice(self, completion: CompletionOutput) -> ChatChoice:
        return ChatChoice(
            index=completion.index,
            message=ChatMessage(content=self._echoed + completion.text),
            logprobs=self._logprobs(zip(completion.token_ids, completion.logprobs or [], strict=True)) if self._fields.logprobs else None,
            finish_reason=completion.finish_reason,
            stop_reason=completion.stop_reason,
            token_ids=completion.token_ids if self._fields.return_token_ids else UNSET,
        )

    def _logprobs(self, tokens: Iterable[tuple[int, Position]]) -> ChatLogprobs:
        num_top = self._fields.num_logprobs
        assert num_top is not None
        return ChatLogprobs(
            content=[chat_logprob(token_id, position, num_top=num_top, spelling=self._spelling) for token_id, position in tokens]
        )

    def _describe_prompt(self, part: PromptPart) -> None:
        token_ids = self._request.prompt_token_ids
        if self._fields.return_token_ids:
            part.prompt_token_ids = token_ids
        if (num_top := self._fields.prompt_logprobs) is not None:
            part.prompt_logprobs = prompt_logprobs(token_ids, self._request.prompt_logprobs or [None] * len(token_ids), num_top=num_top)
