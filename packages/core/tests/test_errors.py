from octavo.errors import MAX_DESCRIBED, MAX_SHOWN, described, shown


def test_short_values_are_shown_as_they_are() -> None:
    assert shown("a") == "'a'"
    assert shown([1, None]) == "[1, None]"


def test_long_values_are_cut_and_counted() -> None:
    text = shown("a" * 10_000)
    assert text.endswith("… (10,002 characters)")
    assert len(text) < MAX_SHOWN + 30


def test_numbers_that_python_does_not_write_out_are_named() -> None:
    assert shown(10**5000) == "<int too large to show>"


def test_exceptions_are_described_by_class_and_message() -> None:
    assert described(KeyError("a")) == "KeyError: 'a'"
    assert described(ZeroDivisionError()) == "ZeroDivisionError"
    assert described(Exception("plain")) == "plain"
    assert described(Exception()) == "Exception"


def test_exceptions_are_described_whatever_they_say() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert described(Mute()) == "Mute: <no message, since making it raised RuntimeError>"
    assert len(described(ValueError("a" * 10_000))) < MAX_DESCRIBED + 60


class Nameless:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_what_cannot_be_shown_is_named() -> None:
    assert shown(Nameless()) == "<Nameless that cannot be shown>"


def test_of_large_containers_only_a_part_is_looked_at() -> None:
    laughs: list[object] = ["ha"]
    for _ in range(200):
        laughs = [laughs, laughs]
    for value in (laughs, [0] * 10**7, {"a": laughs}, [10**5000], {str(number): number for number in range(10**5)}):
        assert len(shown(value)) <= MAX_SHOWN + 1
