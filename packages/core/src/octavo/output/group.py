"""One prompt and its continuations while they grow."""

from octavo.engine.messages import EngineOutput, EngineRequest, RequestTimes
from octavo.logprobs import LogprobRows
from octavo.output.choice import Choice
from octavo.output.logprobs import by_token
from octavo.output.token_delta import TokenDelta
from octavo.outputs import Logprob, RequestOutput
from octavo.text.tokenizer import Tokenizer


class RequestGroup:
    """The choices of one prompt.

    Attributes:
        num_changes: how often something came.
        deltas: every token that came and nobody took yet, in order; None while they are not wanted.
        num_cached_tokens: prompt tokens taken from the prefix cache; right once something came.
        times: of the first choice, once it ended.

    Args:
        requests: one a choice, in order; the first bears the group's id.
        prompt: text that was tokenized, or None.
        tokenizer: of the model.
    """

    def __init__(self, requests: list[EngineRequest], *, prompt: str | None, tokenizer: Tokenizer) -> None:
        self.request_id = requests[0].request_id
        self.requests = requests
        self.choices = [Choice(request, index=index, tokenizer=tokenizer) for index, request in enumerate(requests)]
        self.deltas: list[TokenDelta] | None = None
        self.num_changes = 0
        self.num_cached_tokens = 0
        self.times: RequestTimes | None = None
        self._prompt = prompt
        self._tokenizer = tokenizer
        self._prompt_rows: LogprobRows | None = None
        self._prompt_logprobs: list[dict[int, Logprob] | None] | None = None
        self._num_unfinished = len(requests)

    @property
    def finished(self) -> bool:
        return self._num_unfinished == 0

    @property
    def num_output_tokens(self) -> int:
        """Output tokens of all choices."""
        return sum(len(choice.token_ids) for choice in self.choices)

    @property
    def error(self) -> str | None:
        """Why the first choice that failed did so."""
        return next((choice.error for choice in self.choices if choice.error is not None), None)

    def take(self, index: int, output: EngineOutput) -> bool:
        """Add what a step brought to a choice. True where a stop string ended it while the engine would go on."""
        choice = self.choices[index]
        if index == 0:
            self.num_cached_tokens = output.num_cached_tokens or self.num_cached_tokens
            self.times = output.times or self.times
            if output.prompt_logprobs is not None:
                self._prompt_rows = output.prompt_logprobs
        if choice.finished:
            return False
        self.num_changes += 1
        stopped = choice.take(output, self.deltas)
        self._num_unfinished -= choice.finished
        return stopped

    def prompt_values(self) -> list[float | None]:
        """Log-probability of each token of the prompt, None for the first; they were asked for and have come."""
        assert self._prompt_rows is not None, f"prompt {self.request_id} has no log-probabilities"
        return [None, *self._prompt_rows.token_values()]

    @property
    def prompt_logprobs(self) -> list[dict[int, Logprob] | None] | None:
        """For each token of the prompt, None for the first; None altogether where none were asked for, and until they have come."""
        if self._prompt_logprobs is None and self._prompt_rows is not None:
            self._prompt_logprobs = [None, *by_token(self._prompt_rows, self._tokenizer)]
        return self._prompt_logprobs

    def output(self, request_id: str | None = None) -> RequestOutput:
        """What a user gets of it now, under another id if one is given; later steps do not change it."""
        return RequestOutput(
            request_id=request_id or self.request_id,
            prompt=self._prompt,
            prompt_token_ids=list(self.requests[0].token_ids),
            outputs=[choice.completion() for choice in self.choices],
            finished=self.finished,
            num_cached_tokens=self.num_cached_tokens,
            metrics=self.times,
            prompt_logprobs=self.prompt_logprobs,
        )
