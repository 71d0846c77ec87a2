"""Answers of `/v1/completions`."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from octavo.input.prompts import TokenizedPrompt
from octavo.output.open_request import OpenRequest
from octavo.output.token_delta import TokenDelta
from octavo.outputs import RequestOutput
from octavo.text.tokenizer import Tokenizer
from octavo_server.protocol.answer_writer import AnswerWriter
from octavo_server.protocol.completions import CompletionChoice, CompletionRequest, CompletionResponse
from octavo_server.protocol.envelope import SYSTEM_FINGERPRINT, Heading
from octavo_server.protocol.logprobs import CompletionLogprobs, Position, PromptLogprob, completion_logprobs, prompt_logprobs
from octavo_server.protocol.text_offsets import OutputOffsets, prompt_offsets, prompt_text
from octavo_server.protocol.token_spelling import TokenSpelling
from octavo_server.protocol.usage import Usage


class CompletionWriter(AnswerWriter):
    """Writes completions.

    Args:
        heading: of the answer.
        fields: of the request.
        prompts: of the request.
        requests: the same in the engine.
        tokenizer: of the model.
    """

    def __init__(
        self,
        heading: Heading,
        fields: CompletionRequest,
        prompts: Sequence[TokenizedPrompt],
        requests: Sequence[OpenRequest],
        tokenizer: Tokenizer,
    ) -> None:
        self._heading = heading
        self._fields = fields
        self._prompts = prompts
        self._requests = requests
        self._tokenizer = tokenizer
        self._n = fields.num_choices
        self._skips_special_tokens = fields.skip_special_tokens is not False
        self._spelling = TokenSpelling(tokenizer, as_ids=bool(fields.return_tokens_as_token_ids))
        self._offsets: dict[int, OutputOffsets] = {}
        self._begun: set[int] = set()

    def whole(self, outputs: Sequence[RequestOutput], usage: Usage) -> CompletionResponse:
        """All choices of all prompts."""
        choices = []
        for place, output in enumerate(outputs):
            for completion in output.outputs:
                choice = self._choice(
                    place, completion.index, completion.token_ids, completion.logprobs or [], completion.text, is_first=True
                )
                choice.finish_reason = completion.finish_reason
                choice.stop_reason = completion.stop_reason
                choices.append(choice)
        return self._response(choices, usage)

    def chunk(self, place: int, delta: TokenDelta) -> CompletionResponse:
        """A part of one choice; its first part has the prompt in front, where that was asked for."""
        index = place * self._n + delta.index
        token_ids = [] if delta.token_id is None else [delta.token_id]
        positions = [] if delta.logprobs is None else [delta.logprobs]
        choice = self._choice(place, delta.index, token_ids, positions, delta.text, is_first=index not in self._begun)
        self._begun.add(index)
        if delta.finish_reason is not None:
            choice.finish_reason = delta.finish_reason
            choice.stop_reason = delta.stop_reason
        return self._response([choice])

    def plain_chunk(self, index: int, text: str) -> CompletionResponse | None:
        """A text and nothing else."""
        if self._fields.logprobs is not None or self._fields.return_token_ids:
            return None
        return self._response([CompletionChoice(index=index, text=text)])

    def usage_chunk(self, usage: Usage) -> CompletionResponse:
        """Usage alone."""
        return self._response([], usage)

    def _response(self, choices: list[CompletionChoice], usage: Usage | UnsetType = UNSET) -> CompletionResponse:
        return CompletionResponse(
            id=self._heading.id,
            created=self._heading.created,
            model=self._heading.model,
            system_fingerprint=SYSTEM_FINGERPRINT,
            choices=choices,
            usage=usage,
        )

    def _choice(
        self, place: int, number: int, token_ids: list[int], positions: Sequence[Position], text: str, *, is_first: bool
    ) -> CompletionChoice:
        index = place * self._n + number
        fields, has_prompt = self._fields, bool(self._fields.echo) and is_first
        choice = CompletionChoice(index=index, text=self._prompt_text(place) + text if has_prompt else text)
        if fields.logprobs is not None:
            choice.logprobs = self._logprobs(place, index, token_ids, positions, has_prompt=has_prompt)
        if fields.return_token_ids:
            choice.token_ids = token_ids
        if is_first and fields.return_token_ids:
            choice.prompt_token_ids = self._prompts[place].token_ids
        if is_first and fields.prompt_logprobs is not None:
            choice.prompt_logprobs = self._prompt_logprobs(place, fields.prompt_logprobs)
        return choice

    def _logprobs(
        self, place: int, index: int, token_ids: list[int], positions: Sequence[Position], *, has_prompt: bool
    ) -> CompletionLogprobs:
        all_ids: list[int] = []
        all_positions: list[Position | None] = []
        offsets: list[int] = []
        if has_prompt:
            prompt = self._prompts[place].token_ids
            all_ids += prompt
            all_positions += self._prompt_positions(place)
            offsets += prompt_offsets(self._tokenizer, prompt, self._prompt_text(place))
        following = self._output_offsets(place, index)
        offsets += [following.next(token_id) for token_id in token_ids]
        num_top = self._fields.logprobs
        assert num_top is not None
        return completion_logprobs(all_ids + token_ids, [*all_positions, *positions], offsets, num_top=num_top, spelling=self._spelling)

    def _output_offsets(self, place: int, index: int) -> OutputOffsets:
        if index not in self._offsets:
            self._offsets[index] = OutputOffsets(
                self._tokenizer,
                self._prompts[place].token_ids,
                start=len(self._prompt_text(place)) if self._fields.echo else 0,
                skip_special_tokens=self._skips_special_tokens,
            )
        return self._offsets[index]

    def _prompt_text(self, place: int) -> str:
        prompt = self._prompts[place]
        if prompt.text is not None:
            return prompt.text
        return prompt_text(self._tokenizer, prompt.token_ids, skip_special_tokens=self._skips_special_tokens)

    def _prompt_positions(self, place: int) -> Sequence[Position | None]:
        """Of each token of a prompt; they have come with its first change."""
        return self._requests[place].prompt_logprobs or [None] * len(self._prompts[place].token_ids)

    def _prompt_logprobs(self, place: int, num_top: int) -> list[dict[str, PromptLogprob] | None]:
        return prompt_logprobs(self._prompts[place].token_ids, self._prompt_positions(place), num_top=num_top)
