"""The text of one continuation."""

from collections.abc import Sequence

from octavo.sampling_params import SamplingParams
from octavo.text.detokenizer import IncrementalDetokenizer
from octavo.text.stop import StopMatcher, StopResult
from octavo.text.tokenizer import Tokenizer


class ChoiceText:
    """Joins detokenizer and stop strings: tokens in, text that is never taken back out.

    Args:
        params: of the request.
        tokenizer: of the model.
        prompt_token_ids: what the text follows.
    """

    def __init__(self, params: SamplingParams, tokenizer: Tokenizer, prompt_token_ids: Sequence[int]) -> None:
        self._detokenizer = IncrementalDetokenizer(
            tokenizer, skip_special_tokens=params.skip_special_tokens, prompt_token_ids=prompt_token_ids
        )
        self._stop = StopMatcher(params.stop, include=params.include_stop_str_in_output)
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """All that may be shown."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def append(self, token_id: int, *, active: bool) -> StopResult:
        """Add a token: the text that it released, and the stop string that it completes, if stop strings are active."""
        result = self._stop.feed(self._detokenizer.append((token_id,)), active)
        if result.text:
            self._parts.append(result.text)
        return result

    def finish(self) -> str:
        """Add and return what was held back, where the text ends without a stop string. An unfinished character completes none."""
        text = self._stop.feed(self._detokenizer.finish(), active=False).text + self._stop.finish()
        if text:
            self._parts.append(text)
        return text
