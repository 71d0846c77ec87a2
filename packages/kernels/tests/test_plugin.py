import importlib
import subprocess
import sys

import pluggy

from octavo_kernels import plugin
from octavo_kernels.attention import AttentionBackend


class Recorder:
    def __init__(self) -> None:
        self.entries: dict[str, object] = {}

    def register(self, name: str, value: object) -> None:
        self.entries[name] = value


def test_registers_backends_under_the_names_they_bear():
    registry = Recorder()
    plugin.octavo_register_attention_backends(registry)
    assert set(registry.entries) == {"sdpa", "cpu"}
    for name, value in registry.entries.items():
        module, attribute = value.split(":")
        backend = getattr(importlib.import_module(module), attribute)
        assert issubclass(backend, AttentionBackend)
        assert backend.name == name


def test_hook_carries_the_marker_of_octavo():
    manager = pluggy.PluginManager("octavo")
    assert manager.parse_hookimpl_opts(plugin, "octavo_register_attention_backends") is not None


def test_importing_the_plugin_leaves_torch_alone():
    code = "import octavo_kernels.plugin, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
