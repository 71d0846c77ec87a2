"""Octavo: an LLM inference and serving engine. Importing it loads neither torch nor transformers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octavo.async_llm import AsyncLLM
    from octavo.config.options import EngineOptions
    from octavo.errors import OctavoError
    from octavo.llm import LLM
    from octavo.outputs import CompletionOutput, RequestOutput
    from octavo.plugins.hookspecs import hookimpl
    from octavo.sampling_params import SamplingParams

__version__ = "0.1.0"

_HOMES = {
    "LLM": "octavo.llm",
    "AsyncLLM": "octavo.async_llm",
    "CompletionOutput": "octavo.outputs",
    "EngineOptions": "octavo.config.options",
    "OctavoError": "octavo.errors",
    "RequestOutput": "octavo.outputs",
    "SamplingParams": "octavo.sampling_params",
    "hookimpl": "octavo.plugins.hookspecs",
}

__all__ = ["LLM", "AsyncLLM", "CompletionOutput", "EngineOptions", "OctavoError", "RequestOutput", "SamplingParams", "hookimpl"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'octavo' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
