"""The hooks of this package cost no import of torch, and what they name exists."""

import subprocess
import sys

from octavo.plugins.registry import Registry
from octavo_models import plugin


def test_models_resolve_to_their_class() -> None:
    registry: Registry[object] = Registry("model architecture")
    plugin.octavo_register_models(registry)
    from octavo_models.llama import LlamaModel

    assert {name: registry.get(name) for name in registry} == {"llama": LlamaModel, "mistral": LlamaModel}


def test_registering_loads_no_torch() -> None:
    code = "import sys, octavo_models.plugin, octavo_models.testing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
