"""One continuation of a prompt while it grows."""

from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import InvalidRequestError
from octavo.output.logprobs import by_token
from octavo.output.text import ChoiceText
from octavo.outputs import CompletionOutput, Logprob
from octavo.text.tokenizer import Tokenizer
from octavo.types import FinishReason


class Choice:
    """Collects the tokens of one request, its text and why it ended.

    Args:
        request: to the engine.
        index: which of the `n`.
        tokenizer: of the model.

    Raises `InvalidRequestError` for stop strings where the model has no tokenizer, and so no text.

    Attributes:
        request_id: in the engine.
        token_ids: output tokens so far; behind a stop string there are none.
        logprobs: of these tokens; None where none were asked for.
        finish_reason: None while it goes on.
        stop_reason: the stop string or stop token id that ended it.
        error: why it failed, where `finish_reason` is error.
    """

    def __init__(self, request: EngineRequest, *, index: int, tokenizer: Tokenizer) -> None:
        self.request_id = request.request_id
        self.index = index
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.stop_reason: str | int | None = None
        self.error: str | None = None
        self.logprobs: list[dict[int, Logprob]] | None = None if request.params.logprobs is None else []
        self._cumulative_logprob = 0.0
        self._tokenizer = tokenizer
        self._params = request.params
        if request.params.stop and not tokenizer.makes_text:
            raise InvalidRequestError("stop strings need text, and this model has no tokenizer: use stop_token_ids", param="stop")
        self._text = (
            ChoiceText(request.params, tokenizer, request.token_ids) if request.params.detokenize and tokenizer.makes_text else None
        )

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None

    def take(self, output: EngineOutput) -> bool:
        """Add what a step brought. True where a stop string ended the choice while the engine would go on.

        The token that a stop id or the end of the sequence ended it with is kept, but its text only with the stop strings' own.
        """
        last = len(output.new_token_ids) - 1
        stopped_by_token = output.finish_reason is FinishReason.STOP and not self._params.include_stop_str_in_output
        logprobs = [] if output.logprobs is None else by_token(output.logprobs, self._tokenizer)
        for position, token_id in enumerate(output.new_token_ids):
            self.token_ids.append(token_id)
            if self.logprobs is not None:
                self.logprobs.append(logprobs[position])
                self._cumulative_logprob += logprobs[position][token_id].logprob
            shows = self._text is not None and not (stopped_by_token and position == last)
            if shows and self._add_text(token_id):
                return output.finish_reason is None
        if output.finish_reason is not None:
            self._end(output, output.finish_reason)
        return False

    def completion(self) -> CompletionOutput:
        """What a user gets of it now; later steps do not change it."""
        return CompletionOutput(
            index=self.index,
            text="" if self._text is None else self._text.text,
            token_ids=list(self.token_ids),
            logprobs=None if self.logprobs is None else list(self.logprobs),
            cumulative_logprob=None if self.logprobs is None else self._cumulative_logprob,
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            error=self.error,
        )

    def _add_text(self, token_id: int) -> bool:
        """Whether a stop string ended the text."""
        assert self._text is not None
        stop = self._text.append(token_id, active=len(self.token_ids) >= self._params.min_tokens)
        if stop is None:
            return False
        self.finish_reason = FinishReason.STOP
        self.stop_reason = stop
        return True

    def _end(self, output: EngineOutput, reason: FinishReason) -> None:
        self.finish_reason = reason
        self.stop_reason = output.stop_reason
        self.error = output.error
        if self._text is not None:
            self._text.finish()
