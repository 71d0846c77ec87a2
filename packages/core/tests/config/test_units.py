import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.units import format_bytes, parse_bytes, parse_count
from octavo.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8192", 8192), ("8k", 8000), ("8K", 8192), (" 8 k ", 8000),
        ("1.5k", 1500), ("0.5K", 512), ("2m", 2_000_000), ("1M", 1 << 20), ("-3", -3),
        ("12", 12), (7, 7),
    ],
)  # fmt: skip
def test_counts(text: object, count: int) -> None:
    assert parse_count(text, name="x") == count


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("48GiB", 48 << 30), ("48gib", 48 << 30), ("4GB", 4 * 10**9), ("4gb", 4 * 10**9),
        ("4G", 4 << 30), ("4g", 4 * 10**9), ("1.5 MiB", 3 << 19),
        ("512B", 512), ("100kB", 100_000), ("1TiB", 1 << 40), (4096, 4096),
    ],
)  # fmt: skip
def test_sizes(text: object, size: int) -> None:
    assert parse_bytes(text, name="x") == size


@pytest.mark.parametrize("value", ["", "abc", "8x", "k", "1.2", "1,000", "8 k k", "48GiB", "٣", True, 8.0, None, [8]])
def test_what_is_no_count_is_named_with_examples(value: object) -> None:
    with pytest.raises(ConfigurationError) as problem:
        parse_count(value, name="max_num_seqs")
    assert str(problem.value) == f"max_num_seqs {value!r} is not a whole number: write it as 8192, 8k (8,000) or 8K (8,192)"


@pytest.mark.parametrize("value", ["", "lots", "4XB", "0.3B", "GiB", False, 1e9, None])
def test_what_is_no_size_is_named_with_examples(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a size: write it as 4294967296, 4GiB or 4GB"):
        parse_bytes(value, name="kv_cache_memory_bytes")


@given(st.integers(-(2**22), 2**22), st.sampled_from(["", "k", "K", "m", "M", "g", "G", "t", "T"]))
def test_units_multiply_exactly(number: int, unit: str) -> None:
    assert parse_count(f"{number}{unit}", name="x") == number * parse_count(f"1{unit}", name="x")


TOO_LARGE = [2**63, -(2**63), 10**400, 10**5000, str(2**63), "9" * 400, "9" * 5000, "9000000P", "0." + "9" * 5000]


@pytest.mark.parametrize("value", TOO_LARGE, ids=range(len(TOO_LARGE)))
def test_what_no_integer_of_64_bits_holds_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"max_model_len .* is too large: at most 9,223,372,036,854,775,807 is taken") as problem:
        parse_count(value, name="max_model_len")
    assert len(str(problem.value)) < 400


@pytest.mark.parametrize("value", ["9" * 400 + "x", "x" * 10**6], ids=lambda value: type(value).__name__)
def test_long_texts_are_cut_in_messages(value: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a size") as problem:
        parse_bytes(value, name="kv_cache_memory_bytes")
    assert len(str(problem.value)) < 400


@given(st.text())
def test_any_text_is_a_number_or_a_configuration_error(text: str) -> None:
    try:
        size = parse_bytes(text, name="x")
    except ConfigurationError:
        return
    assert isinstance(size, int)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (48 << 30, "48.00 GiB"), (3 << 19, "1.50 MiB"), (-2048, "-2.00 KiB")]
)
def test_sizes_for_readers(size: int, text: str) -> None:
    assert format_bytes(size) == text
