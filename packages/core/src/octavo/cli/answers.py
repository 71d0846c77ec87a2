"""Writes answers to standard output, in the order of their prompts, as soon as that order allows."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from octavo.errors import RequestFailedError
from octavo.types import FinishReason

if TYPE_CHECKING:
    from octavo.outputs import CompletionOutput, RequestOutput


class AnswerWriter:
    """Takes outputs in any order. Plain answers are kept apart by a blank line; JSON is a line an answer.

    Args:
        prompts: as they were typed.
        as_json: write JSON.
    """

    def __init__(self, prompts: list[str], *, as_json: bool) -> None:
        self._prompts = prompts
        self._as_json = as_json
        self._waiting: dict[int, RequestOutput] = {}
        self._next = 0
        self._has_written = False

    def write_all(self, outputs: "Iterable[tuple[int, RequestOutput]]") -> None:
        """Write outputs as they come. Where this is interrupted, JSON is written for all that had come.

        Raises:
            RequestFailedError: prompts failed; when the others are written.
        """
        failed = []
        try:
            for place, output in outputs:
                failed += [(place, choice.error) for choice in output.outputs if choice.finish_reason is FinishReason.ERROR]
                self._take(place, output)
        finally:
            if self._as_json:
                for place in sorted(self._waiting):
                    self._write(place, self._waiting[place])
        if failed:
            place, error = min(failed)
            raise RequestFailedError(f"{len(failed)} answers failed, the first to prompt {place + 1}: {error}")

    def _take(self, place: int, output: "RequestOutput") -> None:
        self._waiting[place] = output
        while self._next in self._waiting:
            self._write(self._next, self._waiting.pop(self._next))
            self._next += 1

    def _write(self, place: int, output: "RequestOutput") -> None:
        for answer in output.outputs:
            if self._as_json:
                typer.echo(json.dumps(_as_json(self._prompts[place], output, answer), ensure_ascii=False))
            elif answer.finish_reason is not FinishReason.ERROR:
                typer.echo(f"\n{answer.text}" if self._has_written else answer.text)
                self._has_written = True


def _as_json(prompt: str, output: "RequestOutput", answer: "CompletionOutput") -> dict[str, Any]:
    num_prompt_tokens, num_output_tokens = len(output.prompt_token_ids), len(answer.token_ids)
    fields: dict[str, Any] = {
        "prompt": prompt,
        "text": answer.text,
        "token_ids": answer.token_ids,
        "finish_reason": answer.finish_reason,
        "usage": {
            "prompt_tokens": num_prompt_tokens,
            "completion_tokens": num_output_tokens,
            "total_tokens": num_prompt_tokens + num_output_tokens,
            "prompt_tokens_details": {"cached_tokens": output.num_cached_tokens},
        },
    }
    if len(output.outputs) > 1:
        fields["index"] = answer.index
    if answer.error is not None:
        fields["error"] = answer.error
    if answer.logprobs is not None:
        fields["logprobs"] = [
            [{"token_id": token_id, **asdict(logprob)} for token_id, logprob in position.items()] for position in answer.logprobs
        ]
    return fields
