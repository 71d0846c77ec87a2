"""Reading the text files in which Linux tells of itself."""

from pathlib import Path


def read_text(path: Path) -> str:
    """Text of a file, empty where this system has none or hides it: what is absent says nothing and limits nothing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def read_fields(path: Path) -> dict[str, str]:
    """The `name: value` lines of a file up to its first blank line (the first CPU of `cpuinfo`)."""
    first, _, _ = read_text(path).partition("\n\n")
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
