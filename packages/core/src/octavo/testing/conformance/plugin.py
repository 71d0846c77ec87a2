"""What holds for every plugin as a whole."""

import json
import os
import subprocess
import sys
from typing import Any

from octavo.plugins.check import check_names
from octavo.plugins.manager import load_plugins

_HEAVY = ("torch", "triton", "transformers", "numpy", "tokenizers", "jinja2", "huggingface_hub")
_PROGRAM = f"""
import json, sys
from octavo.plugins.manager import load_plugins
plugin = load_plugins(allow=(sys.argv[1],), tolerate=True).plugins[-1]
print(json.dumps({{"error": plugin.error, "heavy": [name for name in {_HEAVY} if name in sys.modules]}}))
"""


def check_plugin(name: str) -> dict[str, list[str]]:
    """Load an installed plugin alone in a fresh interpreter, and import everything that it registers in this one. Raises AssertionError.

    Args:
        name: of the plugin's entry point in the group "octavo".

    Returns:
        What it registered: field of `Registries` -> names; fields without any are left out.
    """
    report = _load_afresh(name)
    assert report["error"] is None, report["error"]
    assert not report["heavy"], f"loading plugin {name!r} imports {', '.join(report['heavy'])}: register 'module:Name' strings instead"
    registries = load_plugins(allow=(name,)).registries
    failures = [failure.error for failure in check_names(registries) if failure.plugin == name]
    assert not failures, "; ".join(failures)
    owned = {field: [entry for entry in registry if registry.owner(entry) == name] for field, registry in registries.all().items()}
    registered = {field: names for field, names in owned.items() if names}
    assert registered, f"plugin {name!r} registers nothing"
    return registered


def _load_afresh(name: str) -> dict[str, Any]:
    """What a new interpreter says of the plugin: what is wrong with it, and which heavy modules are there afterwards."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", _PROGRAM, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report
