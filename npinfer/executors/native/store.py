"""The folder of compiled code: files that are found by a key, and never trusted when damaged, foreign or writable by others.

A file is MAGIC, the key (32 bytes), the SHA-256 of the code, its length (8 bytes, little-endian), the code. The key names it,
too.

Whoever can write to the folder can run code as its user. So it is made for its owner alone (mode 0700); one that isn't the
process's user's own, is a symbolic link, or can be written to by others is not used, nor is such a file in it.
`NPINFER_CACHE_DIR` names another place for it, under the same rules.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

MAGIC: Final = b"npinfer code 1\n\0"
HEADER: Final = len(MAGIC) + 32 + 32 + 8
LIMIT: Final = 1 << 26  # bytes of a file that is read at all
KEPT: Final = 16  # files of other versions and machines that are left in place


def _sha256() -> Any:
    """Python's own SHA-256. For hashlib's, OpenSSL would be loaded first, which takes longer than all that is done here."""
    for module in ("_sha2", "_sha256", "hashlib"):  # the first since Python 3.12, the second before; neither is documented
        with suppress(ImportError, AttributeError):
            return import_module(module).sha256
    raise ImportError("this Python has no SHA-256")


sha256: Final = _sha256()


def folder() -> str:
    """Where files go: `native` under NPINFER_CACHE_DIR or the platform's folder for caches. May not exist yet."""
    given, home = os.environ.get("NPINFER_CACHE_DIR"), os.path.expanduser("~")
    if given:
        return os.path.join(os.path.expanduser(given), "native")
    if sys.platform == "win32":
        place = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        place = os.path.join(home, "Library", "Caches")
    else:
        place = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return os.path.join(place, "npinfer", "native")


def file_name(k: bytes) -> str:
    return f"{k.hex()[:24]}.code"


def _check_own(status: os.stat_result, what: str) -> None:
    if hasattr(os, "geteuid"):
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{what} belongs to another user")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{what} can be written to by others")


@contextmanager
def _opened(create: bool) -> Iterator[Any]:
    """A function open(name, flags) for files in the folder, which is checked and held meanwhile. Raises OSError."""
    place = folder()
    if create:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(place, 0o700)
    if os.open not in os.supports_dir_fd:  # Windows: the folder is the user's own by where it lies
        if os.path.islink(place):
            raise PermissionError(f"{place} is a symbolic link")
        yield place, None
        return
    held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_own(os.fstat(held), "the folder")
        yield None, held
    finally:
        os.close(held)


def _open(where: Any, name: str, flags: int) -> int:
    place, held = where
    for name_of_flag in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "O_NONBLOCK"):  # not all systems have all
        flags |= getattr(os, name_of_flag, 0)
    return os.open(name, flags, 0o600, dir_fd=held) if place is None else os.open(os.path.join(place, name), flags, 0o600)


def read(k: bytes) -> bytes | None:
    """The code kept under a key, or None if there is none that is whole and the user's own."""
    try:
        with _opened(create=False) as where, os.fdopen(_open(where, file_name(k), os.O_RDONLY), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
                return None
            _check_own(status, "the file")
            data = file.read(LIMIT)
    except OSError:
        return None
    code = data[HEADER:]
    head = MAGIC + k + sha256(code).digest() + len(code).to_bytes(8, "little")
    return code if data[:HEADER] == head else None


def write(k: bytes, code: bytes) -> None:
    """Keep code under a key: to a temporary file that is then renamed, so that readers see all of it or nothing."""
    data = MAGIC + k + sha256(code).digest() + len(code).to_bytes(8, "little") + code
    name = file_name(k)
    temporary = f"{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    with _opened(create=True) as where:
        place, held = where
        try:
            with os.fdopen(_open(where, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(data)
            if place is None:
                os.replace(temporary, name, src_dir_fd=held, dst_dir_fd=held)
            else:
                os.replace(os.path.join(place, temporary), os.path.join(place, name))
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=held) if place is None else os.unlink(os.path.join(place, temporary))
            raise
        _prune(where)


def _files(where: Any) -> list[tuple[float, str]]:
    place, held = where
    found = []
    with os.scandir(held if place is None else place) as entries:
        for entry in entries:
            if entry.name.endswith((".code", ".tmp")) and not entry.is_dir(follow_symlinks=False):
                found.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))  # noqa: PERF401
    return sorted(found, reverse=True)


def _remove(where: Any, name: str) -> bool:
    place, held = where
    with suppress(OSError):
        os.unlink(name, dir_fd=held) if place is None else os.unlink(os.path.join(place, name))
        return True
    return False


def _prune(where: Any) -> None:
    """Remove the oldest files beyond KEPT, what interrupted writers left included."""
    with suppress(OSError):
        for _, name in _files(where)[KEPT:]:
            _remove(where, name)


def clear() -> int:
    """Remove all compiled code from the cache; how many files. What this process has loaded goes on running."""
    try:
        with _opened(create=False) as where:
            return sum(_remove(where, name) for _, name in _files(where))
    except FileNotFoundError:
        return 0


def count() -> int:
    """How many files there are. Raises OSError."""
    with _opened(create=False) as where:
        return len(_files(where))
