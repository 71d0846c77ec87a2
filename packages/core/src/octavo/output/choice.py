"""One continuation of a prompt while it grows."""

from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import InvalidRequestError
from octavo.output.logprobs import by_token
from octavo.output.text import ChoiceText
from octavo.output.token_delta import TokenDelta
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

    def take(self, output: EngineOutput, deltas: list[TokenDelta] | None) -> bool:
        """Add what a step brought. True where a stop string ended the choice while the engine would go on.

        The token that a stop id or the end of the sequence ended it with is kept, but its text only with the stop strings' own.

        Args:
            output: of the step.
            deltas: each token is put down here too; None: nowhere.
        """
        new_token_ids, reason = output.new_token_ids, output.finish_reason
        hides_last = reason is FinishReason.STOP and not self._params.include_stop_str_in_output
        last = len(new_token_ids) - 1
        logprobs = by_token(output.logprobs, self._tokenizer) if self.logprobs is not None and output.logprobs is not None else None
        for position, token_id in enumerate(new_token_ids):
            self.token_ids.append(token_id)
            found = None if logprobs is None else self._keep(logprobs[position], token_id)
            text = "" if self._text is None or (hides_last and position == last) else self._add_text(token_id)
            if self.finish_reason is None and reason is not None and position == last:
                text += self._end(output, reason)
            if deltas is not None:
                deltas.append(TokenDelta(self.index, token_id, text, found, self.finish_reason, self.stop_reason, self.error))
            if self.finish_reason is not None:
                return reason is None
        if reason is not None:
            text = self._end(output, reason)
            if deltas is not None:
                deltas.append(TokenDelta(self.index, None, text, None, reason, self.stop_reason, self.error))
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

    def _keep(self, logprobs: dict[int, Logprob], token_id: int) -> dict[int, Logprob]:
        assert self.logprobs is not None
        self.logprobs.append(logprobs)
        self._cumulative_logprob += logprobs[token_id].logprob
        return logprobs

    def _add_text(self, token_id: int) -> str:
        """The text that a token released; a stop string in it ends the choice."""
        assert self._text is not None
        text, stop = self._text.append(token_id, active=len(self.token_ids) >= self._params.min_tokens)
        if stop is not None:
            self.finish_reason = FinishReason.STOP
            self.stop_reason = stop
        return text

    def _end(self, output: EngineOutput, reason: FinishReason) -> str:
        """The text that was held back till now."""
        self.finish_reason = reason
        self.stop_reason = output.stop_reason
        self.error = output.error
        return "" if self._text is None else self._text.finish()
