"""The hooks of this package cost no import of torch, and what they name exists."""

import subprocess
import sys

from octavo.plugins.registry import Registry
from octavo_models import plugin


def test_models_resolve_to_their_class() -> None:
    registry: Registry[object] = Registry("model architecture")
    plugin.octavo_register_models(registry)
    from octavo_models.llama import LlamaModel
    from octavo_models.model import PiecewiseModel

    assert registry.get("llama") is registry.get("mistral") is LlamaModel
    for name in registry:
        model = registry.get(name)
        assert isinstance(model, type)
        assert issubclass(model, PiecewiseModel)
    assert {"phi3", "qwen2", "qwen3", "qwen3_moe"} <= set(registry)


def test_logits_processors_resolve_to_their_class() -> None:
    registry: Registry[object] = Registry("logits processor")
    plugin.octavo_register_logits_processors(registry)
    from octavo_models.sampling.no_repeat_ngram import NoRepeatNgram

    assert {name: registry.get(name) for name in registry} == {"no_repeat_ngram": NoRepeatNgram}


def test_registering_loads_no_torch() -> None:
    code = "import sys, octavo_models.plugin, octavo_models.testing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
