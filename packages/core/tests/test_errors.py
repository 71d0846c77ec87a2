from octavo.errors import MAX_SHOWN, shown


def test_short_values_are_shown_as_they_are() -> None:
    assert shown("a") == "'a'"
    assert shown([1, None]) == "[1, None]"


def test_long_values_are_cut_and_counted() -> None:
    text = shown("a" * 10_000)
    assert text.endswith("… (10,002 characters)")
    assert len(text) < MAX_SHOWN + 30


def test_numbers_that_python_does_not_write_out_are_named() -> None:
    assert shown(10**5000) == "<int too large to show>"
