"""API keys from where users keep them."""

import re
from collections.abc import Iterable
from pathlib import Path

from octavo.env import split_names
from octavo.errors import ConfigurationError

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)\s*:\s+(?P<key>\S+)")
_KEY = re.compile(r"[!-~]+")


def collect_keys(given: Iterable[str], file: Path | None, environment: tuple[str, ...]) -> dict[str, str]:
    """Name of each key to the key; keys without a name are `key-1`, `key-2` and so on.

    Args:
        given: values of `--api-key`, each of which may hold several keys separated by commas.
        file: with lines `KEY` or `NAME: KEY`; blank lines and those that start with # are skipped.
        environment: keys that count where there is neither of the others.

    Raises:
        ConfigurationError: the file cannot be read or has no key, or a key or a name cannot be. No message has a key in it.
    """
    flags = list(given)
    typed = [key for text in flags for key in split_names(text)]
    if flags and not typed:
        raise ConfigurationError("--api-key has no key: give one, or leave the flag out to serve everybody")
    if file is None and not typed:
        typed = list(environment)
    pairs = [(None, key) for key in typed] + ([] if file is None else _read(file))
    keys: dict[str, str] = {}
    for number, (given_name, key) in enumerate(pairs, start=1):
        name = given_name or f"key-{number}"
        if name in keys:
            raise ConfigurationError(f"two API keys are named {name!r}: give each its own name")
        if key in keys.values():
            raise ConfigurationError(f"the API key {name!r} is given twice: give each key once")
        if not _KEY.fullmatch(key):
            raise ConfigurationError(f"the API key {name!r} has characters that headers cannot carry: use printable ASCII without blanks")
        keys[name] = key
    return keys


def _read(file: Path) -> list[tuple[str | None, str]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigurationError(f"--api-key-file {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--api-key-file {file} is not UTF-8: {error.reason} at byte {error.start}") from error
    pairs: list[tuple[str | None, str]] = []
    for number, line in enumerate((line.strip() for line in lines), start=1):
        if not line or line.startswith("#"):
            continue
        match = _NAMED.fullmatch(line)
        if match is None and (" " in line or "\t" in line):
            raise ConfigurationError(f"--api-key-file {file} line {number} is neither 'KEY' nor 'NAME: KEY'")
        if match is None and ":" in line:
            raise ConfigurationError(
                f"--api-key-file {file} line {number} may be a name and a key, or a key with a colon: "
                "write a blank behind the name's colon, and give keys with colons a name"
            )
        pairs.append((match["name"], match["key"]) if match else (None, line))
    if not pairs:
        raise ConfigurationError(f"--api-key-file {file} has no key: write one a line, as 'KEY' or 'NAME: KEY'")
    return pairs
