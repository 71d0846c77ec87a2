"""Numbers with a unit: counts such as `8k`, sizes such as `48GiB`.

Lower-case letters are decimal and upper-case ones binary, as vLLM has it: `8k` is 8,000 and `8K` is 8,192. Units that end in B
follow the standards, in any case of letters: `4GB` is 4 * 10**9 bytes, `4GiB` is 4 * 2**30 bytes.
"""

import re
from fractions import Fraction

from octavo.errors import ConfigurationError, shown

LARGEST = 2**63 - 1
"""Of every number: what a signed 64-bit integer holds."""

_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_MAX_DIGITS = 64
_LETTERS = "kmgtp"
_COUNT_UNITS = (
    {"": 1}
    | {letter: 1000**power for power, letter in enumerate(_LETTERS, start=1)}
    | {letter.upper(): 1024**power for power, letter in enumerate(_LETTERS, start=1)}
)
_BYTE_UNITS = (
    {"b": 1}
    | {f"{letter}b": 1000**power for power, letter in enumerate(_LETTERS, start=1)}
    | {f"{letter}ib": 1024**power for power, letter in enumerate(_LETTERS, start=1)}
)
_BINARY_NAMES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def parse_count(value: object, *, name: str) -> int:
    """A whole number of things (tokens, requests, blocks) from an integer or text such as `8192`, `8k` or `8K`.

    Args:
        value: what the user gave.
        name: of the option, for the message.

    Raises:
        ConfigurationError: for other types, other text and fractions of a thing.
    """
    return _parse(value, name=name, what="a whole number", examples="8192, 8k (8,000) or 8K (8,192)", bytes_allowed=False)


def parse_bytes(value: object, *, name: str) -> int:
    """A number of bytes from an integer or text such as `48GiB`, `4GB`, `4G` (4 GiB) or `4g` (4 GB).

    Args:
        value: what the user gave.
        name: of the option, for the message.

    Raises:
        ConfigurationError: for other types, other text and fractions of a byte.
    """
    return _parse(value, name=name, what="a size", examples="4294967296, 4GiB or 4GB", bytes_allowed=True)


def format_bytes(size: int) -> str:
    """A size for readers: binary units, two digits (`48.00 GiB`); below one KiB the bytes themselves."""
    amount, power = float(abs(size)), 0
    while amount >= 1024 and power < len(_BINARY_NAMES) - 1:
        amount, power = amount / 1024, power + 1
    sign = "-" if size < 0 else ""
    return f"{sign}{amount:.0f} B" if power == 0 else f"{sign}{amount:.2f} {_BINARY_NAMES[power]}"


def _parse(value: object, *, name: str, what: str, examples: str, bytes_allowed: bool) -> int:
    problem = ConfigurationError(f"{name} {shown(value)} is not {what}: write it as {examples}")
    if isinstance(value, int) and not isinstance(value, bool):
        return _in_range(value, value, name)
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise problem
    number, unit = match.groups()
    factor: int | None = _COUNT_UNITS.get(unit)
    if factor is None and bytes_allowed:
        factor = _BYTE_UNITS.get(unit.lower())
    if factor is None:
        raise problem
    if len(number) > _MAX_DIGITS:
        raise _too_large(value, name)
    product: Fraction = Fraction(number) * factor
    if product.denominator != 1:
        raise problem
    return _in_range(product.numerator, value, name)


def _in_range(number: int, value: object, name: str) -> int:
    if not -LARGEST <= number <= LARGEST:
        raise _too_large(value, name)
    return number


def _too_large(value: object, name: str) -> ConfigurationError:
    return ConfigurationError(f"{name} {shown(value)} is too large: at most {LARGEST:,} is taken")
