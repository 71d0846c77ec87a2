"""Reads safetensors checkpoints, whole or in shards, through memory maps."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from octavo.errors import CheckpointError, shown
from octavo.model.source import ModelFiles
from octavo_models.loading.safetensors_header import read_header
from octavo_models.loading.stream import WeightStream


def open_safetensors(files: ModelFiles) -> WeightStream:
    """Check every shard and the index, then stream the tensors.

    Raises:
        CheckpointError: a shard is missing, damaged or cut short; two shards hold a tensor of one name; the index and the shards
            disagree; or a file is something else, such as pickled weights, which could run code.
    """
    index = _read_index(files.index) if files.index else {}
    paths = sorted({*files.weights, *(files.folder / shard for shard in index.values())})
    if not paths:
        raise CheckpointError(f"{files.folder} holds no weights: incomplete download?")
    homes: dict[str, Path] = {}
    num_values = 0
    for path in paths:
        if path.suffix != ".safetensors":
            raise CheckpointError(f"{path} is refused: only safetensors and GGUF are loaded, as pickled weights can run code; convert it")
        for name, tensor in read_header(path).items():
            if name in homes:
                raise CheckpointError(f"tensor {shown(name)} is in {homes[name]} and in {path}")
            homes[name] = path
            num_values += math.prod(tensor.shape)
    for name, shard in index.items():
        if homes.get(name) != files.folder / shard:
            raise CheckpointError(
                f"{files.index} says that tensor {shown(name)} is in {shard}, which does not hold it: incomplete download?"
            )
    return WeightStream(len(homes), num_values, _read(paths))


def _read_index(path: Path) -> dict[str, str]:
    """Tensor name -> file name of its shard, in the index's own folder."""
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        shards = {str(name): str(shard) for name, shard in weight_map.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is no index of shards ({type(error).__name__}: {error})") from error
    for shard in set(shards.values()):
        if Path(shard).name != shard:
            raise CheckpointError(f"{path} names the shard {shown(shard)}, which is not a file of the same folder")
    return shards


def _read(paths: list[Path]) -> Iterator[tuple[str, Tensor]]:
    for path in paths:
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                for name in file.keys():  # noqa: SIM118  (not a mapping)
                    yield name, file.get_tensor(name)
        except SafetensorError as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
