"""What was compiled, as one file that another machine of the same kind starts from.

A line of magic, a line of JSON that says what the content is good for, then what torch makes of its caches. The content is loaded as
code: a file is to be trusted like the program itself. Its checksum finds damage, not malice.
"""

import hashlib
import json
import logging
import platform
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import torch

from octavo.errors import ConfigurationError
from octavo.versions import installed_version
from octavo_models.model import PiecewiseModel

MAGIC = b"octavo compiled pieces 1\n"
_PACKAGES = ("octavo_models", "octavo_kernels")

_log = logging.getLogger(__name__)

Key = dict[str, str]
"""All that decides whether compiled pieces are the same, by name."""


def artifact_key(*, signatures: Iterable[object], options: object, device: torch.device, model: PiecewiseModel) -> Key:
    """The key of what is compiled in this process.

    Args:
        signatures: of the pieces.
        options: of the compiler.
        device: that the model is on.
        model: of whose type the pieces are, and whose package is hashed with our own.
    """
    packages = dict.fromkeys((*_PACKAGES, type(model).__module__.split(".")[0]))
    key = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "triton": installed_version("triton"),
        "dtype": str(model.dtype),
        "options": repr(options),
        "pieces": _digest(repr(signature).encode() for signature in signatures),
        "code": _digest(path.read_bytes() for package in packages for path in _sources(package)),
    }
    if device.type == "cuda":
        return key | {"device": f"{torch.cuda.get_device_name(device)} {torch.cuda.get_device_capability(device)}"}
    cpu = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return key | {"device": cpu, "threads": str(torch.get_num_threads())}


def save_artifacts(file: Path, key: Key) -> int:
    """Write what this process compiled, or took from a cache, so far; its bytes. Raises `ConfigurationError` where there is nothing."""
    saved = torch.compiler.save_cache_artifacts()
    if saved is None:
        raise ConfigurationError("nothing was compiled in this process: give --optimization-level 1 or more")
    content, _ = saved
    header = json.dumps({"sha256": hashlib.sha256(content).hexdigest(), "key": key}).encode()
    unfinished = file.with_name(file.name + ".part")
    unfinished.write_bytes(MAGIC + header + b"\n" + content)
    unfinished.replace(file)
    return len(content)


def load_artifacts(file: Path, key: Key) -> bool:
    """Put a file's content where the compiler looks before it compiles. False, with a warning, where it is missing, damaged or of
    another key: then everything is compiled as if there were none."""
    problem = "it cannot be read"
    try:
        content, problem = _read(file, key)
    except (OSError, ValueError, KeyError, TypeError) as error:
        content, problem = None, str(error) or problem
    if content is not None:
        if torch.compiler.load_cache_artifacts(content) is not None:
            return True
        problem = "torch does not take its content"
    _log.warning("compile artifacts %s do not serve, so pieces are compiled: %s", file, problem)
    return False


def _read(file: Path, key: Key) -> tuple[bytes | None, str]:
    """The content, or None and why it does not serve."""
    data = file.read_bytes()
    if not data.startswith(MAGIC):
        return None, "it is no file of `octavo compile`, or of another version of it"
    header, _, content = data[len(MAGIC) :].partition(b"\n")
    described = json.loads(header)
    if hashlib.sha256(content).hexdigest() != described["sha256"]:
        return None, "it is damaged"
    found: Key = described["key"]
    others = sorted(name for name in key.keys() | found.keys() if key.get(name) != found.get(name))
    if not others:
        return content, ""
    shown = (f"{name} {_short(found, name)} instead of {_short(key, name)}" for name in others)
    return None, f"it was made with {', '.join(shown)}"


def _short(key: Key, name: str) -> str:
    return repr(key.get(name, "nothing")[:40])


def _sources(package: str) -> list[Path]:
    """Python files of a package that is a folder, or the file of a module; none where it is neither."""
    spec = find_spec(package)
    if spec is None:
        return []
    folders = spec.submodule_search_locations or ()
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    return files or [Path(origin) for origin in [spec.origin] if origin is not None and Path(origin).is_file()]


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()
