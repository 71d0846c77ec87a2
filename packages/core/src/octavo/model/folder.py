"""What a folder or a file holds, as `ModelFiles`; nothing in it is run, and pickled weights are refused."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from octavo.errors import CheckpointError, ModelNotFoundError, shown
from octavo.model.foreign import ForeignFields, read_json_object
from octavo.model.source import ModelFiles

DUMMY = "dummy"
"""The load format that reads no weights."""

INDEX_NAME = "model.safetensors.index.json"
COMPANION_NAMES = {
    "config": "config.json",
    "generation_config": "generation_config.json",
    "tokenizer": "tokenizer.json",
    "tokenizer_config": "tokenizer_config.json",
    "chat_template": "chat_template.jinja",
}
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.(?:safetensors|gguf)$")
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
# Weights in safetensors that are not the model: the same weights under Mistral's own names, and adapters.
_NOT_WEIGHTS = ("consolidated", "adapter_")


def inspect_path(path: Path, *, name: str, load_format: str = "auto") -> ModelFiles:
    """The files of a model at a path.

    Args:
        path: a folder or a GGUF file; for dummy also a `config.json`.
        name: what the user called the model.
        load_format: auto, safetensors, gguf or dummy.

    Raises `CheckpointError` or, where nothing at the path is a model, `ModelNotFoundError`.
    """
    if load_format == DUMMY:
        return _without_weights(path, name)
    if path.is_dir():
        return _inspect_folder(path.resolve(), name, load_format)
    if path.suffix in _PICKLES:
        raise _pickles_only(str(path), [path.name])
    if path.suffix != ".gguf":
        raise CheckpointError(f"{path} is no GGUF file and no folder: give the folder that holds the model's safetensors and config.json")
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} cannot be read: it is no regular file")
    if load_format == "safetensors":
        raise CheckpointError(f"{path} is a GGUF file, but the load format is 'safetensors'")
    return _gguf_files(path.absolute(), name)


def choose_weights(names: Iterable[str], *, place: str, load_format: str = "auto") -> list[str]:
    """Which files of a folder are the weights: all safetensors or, where there are none, the one GGUF file.

    Args:
        names: of all files at the top of the folder or repository.
        place: what to call it in messages.
        load_format: auto, safetensors or gguf.
    """
    names = sorted(names)
    safetensors = [name for name in names if name.endswith(".safetensors") and not name.startswith(_NOT_WEIGHTS)]
    ggufs = [name for name in names if name.endswith(".gguf")]
    if safetensors and load_format != "gguf":
        return ["model.safetensors"] if "model.safetensors" in safetensors and INDEX_NAME not in names else safetensors
    if ggufs and load_format != "safetensors":
        if len(ggufs) > 1 and not all(_SHARD.search(name) for name in ggufs):
            raise CheckpointError(f"{place} holds {len(ggufs)} GGUF files, name one of them: {', '.join(ggufs)}")
        refuse_sharded_gguf(ggufs[0])
        return ggufs
    raise _no_weights(names, place, load_format)


def refuse_sharded_gguf(name: str) -> None:
    """Raise `CheckpointError` for the name of a part of a split GGUF file."""
    if _SHARD.search(name):
        raise CheckpointError(
            f"{name} is one part of a split GGUF file, which is not supported: join the parts with `llama-gguf-split --merge`"
        )


def _no_weights(names: list[str], place: str, load_format: str) -> CheckpointError | ModelNotFoundError:
    pickles = [name for name in names if name.endswith(_PICKLES)]
    if pickles:
        return _pickles_only(place, pickles)
    wanted = {"auto": "safetensors with a config.json, or one GGUF file", "gguf": "a GGUF file", "safetensors": "safetensors"}
    return ModelNotFoundError(f"{place} holds no model: expected {wanted[load_format]}")


def _pickles_only(place: str, names: list[str]) -> CheckpointError:
    return CheckpointError(
        f"{place} holds its weights as pickles only ({', '.join(names[:4])}), and loading a pickle runs whatever code is in it: "
        "convert the model to safetensors"
    )


def _without_weights(path: Path, name: str) -> ModelFiles:
    """The files that say what shape a model has: `config.json` and its companions, or a GGUF file."""
    folder = path if path.is_dir() else path.parent
    companions = _companions(folder)
    if "config" in companions and path in {folder, companions["config"]}:
        return ModelFiles(name=name, format="safetensors", folder=folder.resolve(), weights=(), dummy=True, **companions)
    if path.is_dir():
        ggufs = sorted(file.name for file in path.iterdir() if file.is_file() and file.suffix == ".gguf")
        if len(ggufs) != 1:
            raise ModelNotFoundError(f"folder {path} says no shape of a model: expected a config.json, or one GGUF file")
        path = path / ggufs[0]
    if path.suffix != ".gguf":
        raise CheckpointError(f"{path} says no shape of a model: give a GGUF file, a config.json or its folder")
    return replace(_gguf_files(path.absolute(), name), dummy=True)


def _companions(folder: Path) -> dict[str, Any]:
    """Fields of `ModelFiles` that are paths of files beside the weights."""
    return {field: path for field, file in COMPANION_NAMES.items() if (path := folder / file).is_file()}


def _inspect_folder(folder: Path, name: str, load_format: str) -> ModelFiles:
    weights = choose_weights((path.name for path in folder.iterdir() if path.is_file()), place=f"folder {folder}", load_format=load_format)
    if weights[0].endswith(".gguf"):
        return _gguf_files(folder / weights[0], name)
    companions = _companions(folder)
    if "config" not in companions:
        raise CheckpointError(f"folder {folder} holds safetensors but no config.json; is it an incomplete download?")
    index = folder / INDEX_NAME
    has_index = index.is_file()
    shards = _indexed_shards(index) if has_index else weights
    if not has_index:
        _check_numbering(folder, shards)
    return ModelFiles(
        name=name,
        format="safetensors",
        folder=folder,
        weights=tuple(folder / shard for shard in shards),
        index=index if has_index else None,
        **companions,
    )


def _gguf_files(path: Path, name: str) -> ModelFiles:
    refuse_sharded_gguf(path.name)
    return ModelFiles(name=name, format="gguf", folder=path.parent, weights=(path,))


def _indexed_shards(index: Path) -> list[str]:
    """Names of the shards that an index speaks of, all of them there and none outside the folder."""
    fields = ForeignFields(read_json_object(index), str(index))
    weight_map = fields.values.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise fields.wrong("weight_map", "an object of tensor names and file names")
    shards = sorted({str(shard) for shard in weight_map.values()})
    for shard in shards:
        if Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise CheckpointError(f"{index} names the shard {shown(shard)}, which is no safetensors file beside it")
        if not (index.parent / shard).is_file():
            raise CheckpointError(f"{index} names the shard {shard}, which is not there; is it an incomplete download?")
    return shards


def _check_numbering(folder: Path, shards: list[str]) -> None:
    """Without an index the names of numbered shards are all there is to tell that some are missing."""
    numbered = [match for shard in shards if (match := _SHARD.search(shard))]
    if not numbered:
        return
    total = int(numbered[0][2])
    missing = sorted(set(range(1, total + 1)) - {int(match[1]) for match in numbered})
    if missing:
        raise CheckpointError(
            f"folder {folder} has {len(numbered)} of {total} shards, number {missing[0]} is missing; is it an incomplete download?"
        )
