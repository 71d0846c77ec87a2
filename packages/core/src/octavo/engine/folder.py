"""The private folder where the sockets and files of one server lie."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import ConfigurationError

MAX_SOCKET_PATH_BYTES = 107
"""What the kernel has room for (unix(7), sun_path)."""

_PREFIX = "octavo-"
_LOCK = "lock"
_SHORT_PARENT = Path("/tmp")  # noqa: S108 - a folder is made in it that nobody else may open


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder that only this user may open; it goes with the block. Where the usual place has a long name, another is taken.

    Folders that processes left behind which were killed are removed before. A file in the folder is locked while its process lives: the
    kernel lets go of the lock, however that ends.

    Raises:
        ConfigurationError: no place with a name that is short enough can be written to.
    """
    usual = Path(tempfile.gettempdir())
    for place in {usual, _SHORT_PARENT}:
        _remove_abandoned(place)
    folder = _make(usual)
    lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def socket_path(folder: Path, engine: int) -> Path:
    """Where an engine listens. Raises `ConfigurationError` where the path is too long for a socket."""
    path = folder / f"engine-{engine}.sock"
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise ConfigurationError(
            f"the socket {str(path)!r} would have a path of {length} bytes, and at most {MAX_SOCKET_PATH_BYTES} can be: "
            "set TMPDIR to a folder with a shorter name"
        )
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user may read; whoever sees it sees all of it."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    draft.replace(path)


def _make(parent: Path) -> Path:
    for place in dict.fromkeys((parent, _SHORT_PARENT)):
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        except OSError:
            continue
        if len(os.fsencode(folder / "engine-999.sock")) <= MAX_SOCKET_PATH_BYTES:
            return folder
        folder.rmdir()
    raise ConfigurationError(f"no private folder with a short name can be made in {str(parent)!r}: set TMPDIR to another")


def _lock(folder: Path) -> int:
    """Lock a folder for as long as the descriptor is open; whoever sees the file sees it locked."""
    draft = folder / f"{_LOCK}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    draft.rename(folder / _LOCK)
    return descriptor


def _remove_abandoned(place: Path) -> None:
    """Remove this user's folders whose lock nobody holds any more; what is no such folder is left alone."""
    try:
        found = [Path(entry) for entry in os.scandir(place) if entry.name.startswith(_PREFIX)]
    except OSError:
        return
    for folder in found:
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) != stat.S_IRWXU:
            return False
        descriptor = os.open(folder / _LOCK, os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
