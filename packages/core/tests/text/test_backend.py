import pytest

from octavo.errors import CheckpointError, InvalidRequestError
from octavo.text.backend import failing_as


class Panic(BaseException):
    """As the library raises it."""


@pytest.mark.parametrize(
    ("raised", "said"), [(Panic("no entry"), "Panic: no entry"), (Exception("no unk"), "no unk"), (TypeError(), "TypeError")]
)
def test_whatever_is_raised_becomes_one_of_the_projects_errors(raised: BaseException, said: str) -> None:
    with (
        pytest.raises(CheckpointError, match=f"^the tokenizer is torn: {said}$") as caught,
        failing_as(CheckpointError, "the tokenizer is torn"),
    ):
        raise raised
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(1), MemoryError(), InvalidRequestError("surrogates")])
def test_interrupts_and_what_is_said_well_already_are_passed_on(raised: BaseException) -> None:
    with pytest.raises(type(raised)) as caught, failing_as(CheckpointError, "the tokenizer is torn"):
        raise raised
    assert caught.value is raised
