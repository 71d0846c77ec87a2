"""What a call on many prompts has one of for all, or one for each."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from octavo.errors import InvalidRequestError

T = TypeVar("T")


def per_prompt(name: str, value: object, kind: type[T], num_prompts: int) -> list[T]:
    """One value a prompt, from one for all or a list of as many.

    Args:
        name: of the argument, for messages.
        value: what the user gave.
        kind: type of one value.
        num_prompts: how many are needed.

    Raises:
        InvalidRequestError: for other types and other lengths.
    """
    if isinstance(value, kind):
        return [value] * num_prompts
    if not isinstance(value, Sequence) or not all(isinstance(item, kind) for item in value):
        found = type(value).__name__
        raise InvalidRequestError(f"{name} is a {found}: give one {kind.__name__} for all prompts, or a list of them", param=name)
    if len(value) != num_prompts:
        raise InvalidRequestError(
            f"{name} has {len(value)} entries for {num_prompts} prompts: give one for all, or one for each", param=name
        )
    return list(value)


@contextmanager
def say_which(index: int | None) -> Iterator[None]:
    """Name the prompt of a list that is at fault in what is raised inside."""
    try:
        yield
    except InvalidRequestError as error:
        if index is None:
            raise
        raise InvalidRequestError(f"prompt {index}: {error}", param=error.param, code=error.code) from error
