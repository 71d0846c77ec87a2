"""Models from the Hugging Face hub: only the files that are needed, never pickles or code."""

import glob
import re
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import CheckpointError, ModelNotFoundError
from octavo.model.folder import COMPANION_NAMES, DUMMY, INDEX_NAME, choose_weights, refuse_sharded_gguf

_REPOSITORY = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(?P<file>[\w.-][\w./-]*\.gguf))?")


@dataclass(frozen=True)
class Repository:
    """A hub repository, and the GGUF file in it that the user chose.

    Attributes:
        repo_id: "owner/name".
        file: path of the file in the repository, or None.
    """

    repo_id: str
    file: str | None = None


def parse_repository(name: str) -> Repository | None:
    """Read "owner/name" or "owner/name:file.gguf"; None for what is neither."""
    match = _REPOSITORY.fullmatch(name)
    if match is None or ".." in name or match["id"].endswith((".gguf", ".safetensors")):
        return None
    return Repository(match["id"], match["file"])


def download(repository: Repository, *, revision: str | None, offline: bool, load_format: str = "auto") -> Path:
    """Bring a repository's files into the hub's cache, or find them there.

    Cache folder, endpoint and token are those that the hub's own tools use.

    Returns:
        The folder of the snapshot, or the GGUF file that was asked for.

    Raises:
        ModelNotFoundError: no such repository, revision or file, no access, or not in the cache while offline.
        CheckpointError: the repository holds nothing that Octavo loads.
    """
    from huggingface_hub import errors

    where = f"hub repository {repository.repo_id!r}" + (f" at revision {revision!r}" if revision else "")
    if repository.file:
        refuse_sharded_gguf(repository.file)
    try:
        snapshot = _snapshot(repository, revision, offline, load_format, where)
    except errors.GatedRepoError as error:
        raise ModelNotFoundError(
            f"{where} is gated: accept its terms on the hub and log in with `hf auth login`, or set HF_TOKEN"
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise ModelNotFoundError(f"there is no {where}, or it is private and no token gives access to it") from error
    except (errors.EntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise ModelNotFoundError(f"{where} is not in the local cache, and downloads are off: go online once, or name a folder") from error
    # The hub's client lets errors of the connection through as they are, and this is the one name for them that all its versions have.
    except (errors.HTTPError, OSError) as error:  # type: ignore[attr-defined]
        raise ModelNotFoundError(f"{where} cannot be downloaded: {error}; HF_HUB_OFFLINE=1 takes it from the local cache") from error
    return _chosen(snapshot, repository, where)


def _snapshot(repository: Repository, revision: str | None, offline: bool, load_format: str, where: str) -> Path:
    """The folder with what is needed of a repository. While offline it is taken as it is, and judged when it is read."""
    import huggingface_hub

    patterns: list[str] = []
    if not offline:
        names = huggingface_hub.HfApi().list_repo_files(repository.repo_id, revision=revision)
        patterns = [glob.escape(name) for name in _needed_files(names, repository, where, load_format)]
    return Path(huggingface_hub.snapshot_download(repository.repo_id, revision=revision, allow_patterns=patterns, local_files_only=offline))


def _needed_files(names: list[str], repository: Repository, where: str, load_format: str) -> list[str]:
    """The files to download of all that a repository has."""
    if repository.file:
        if repository.file not in names:
            ggufs = [name for name in names if name.endswith(".gguf")]
            raise ModelNotFoundError(f"{where} has no file {repository.file!r}; its GGUF files: {', '.join(ggufs) or 'none'}")
        return [repository.file]
    top = [name for name in names if "/" not in name]
    companions = [name for name in COMPANION_NAMES.values() if name in top]
    if load_format == DUMMY and COMPANION_NAMES["config"] in companions:
        return companions
    load_format = "auto" if load_format == DUMMY else load_format
    weights = choose_weights(top, place=where, load_format=load_format)
    if weights[0].endswith(".gguf"):
        return weights
    return [*weights, *([INDEX_NAME] if INDEX_NAME in top else []), *companions]


def _chosen(snapshot: Path, repository: Repository, where: str) -> Path:
    if repository.file is None:
        return snapshot
    path = snapshot / repository.file
    if not path.is_file():
        raise CheckpointError(f"{where}: the file {repository.file!r} is not in the local cache; go online once to download it")
    return path
