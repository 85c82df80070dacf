"""Machine code, compiled once a machine and kept in the user's cache folder; a later process needs llvmlite only.

A file is MAGIC, the key (32 bytes), the SHA-256 of the code, its length (8 bytes, little-endian), the code. The key is a hash
of all that the code depends on: this folder's sources, llvmlite's version, the system, the CPU. It names the file, too, so that
several machines may share a home. Numba's version isn't part of it: Numba need not be there.

Whoever can write to the folder can run code as its user. So it is made for its owner alone (mode 0700); one that isn't the
process's user's own, is a symbolic link, or can be written to by others is not used, nor is such a file in it.
`NPINFER_CACHE_DIR` names another place for it, under the same rules. Whatever is wrong with the folder, the engine runs from
memory, with one warning.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from npinfer.errors import EngineError, FormatError
from npinfer.executors.native import build
from npinfer.executors.native.abi import Code

MAGIC: Final = b"npinfer code 1\n\0"
HEADER: Final = len(MAGIC) + 32 + 32 + 8
LIMIT: Final = 1 << 26  # bytes of a file that is read at all
KEPT: Final = 16  # files of other versions and machines that are left in place
INSTALL: Final = "pip install numba"

_lock = threading.Lock()
_loaded: tuple[Code, str] | None = None  # and where it came from: "cache" or "compiled"
_warned = False


def folder() -> Path:
    """Where files go: `native` under NPINFER_CACHE_DIR or the platform's folder for caches. May not exist yet."""
    given = os.environ.get("NPINFER_CACHE_DIR")
    if given:
        return Path(given).expanduser() / "native"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "npinfer" / "native"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "npinfer" / "native"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npinfer" / "native"


def key() -> bytes | None:
    """32 bytes that stand for all that the code depends on; None where the sources aren't files (nothing is kept then)."""
    import llvmlite
    import llvmlite.binding as llvm

    sources = hashlib.sha256()
    try:
        for path in sorted(Path(__file__).parent.glob("*.py")):
            sources.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    except OSError:
        return None
    if sources.digest() == hashlib.sha256().digest():
        return None
    system = (llvmlite.__version__, llvm.get_process_triple(), str(sys.maxsize), sys.byteorder)
    parts = (sources.hexdigest(), *system, *build.cpu())
    return hashlib.sha256("\0".join(parts).encode()).digest()


def file_name(k: bytes) -> str:
    return f"{k.hex()[:24]}.code"


def load() -> Code:
    """The compiled functions: from memory, else from the cache, else compiled now (some seconds). Raises EngineError.

    Safe to call from several threads and processes at once.
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _find() or _make(build.compile_object)
    return _loaded[0]


def _find() -> tuple[Code, str] | None:
    try:
        k = key()
        data = None if k is None else read(k)
        return None if data is None else (build.load_object(data), "cache")
    except ImportError:
        return None
    except (OSError, FormatError, RuntimeError):  # of another kind than it should be: compile again
        return None


def _make(compile_object: Callable[[], bytes]) -> tuple[Code, str]:
    import logging

    message = "compiling the native engine, once on this machine (10 to 60 seconds); `npinfer cache warm` does it beforehand"
    logging.getLogger("npinfer").warning(message)
    try:
        k = key()
    except OSError:
        k = None
    code = compile_object()
    try:
        if k is not None and k == key():  # sources that were edited meanwhile would get machine code of the old ones
            write(k, code)
    except OSError as e:
        _warn(f"compiled code can't be kept in {folder()} ({e}); it is made again in every process")
    return build.load_object(code), "compiled"


def _warn(message: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(f"npinfer: {message}. Set NPINFER_CACHE_DIR to a folder of yours.", RuntimeWarning, stacklevel=4)


# ---- the folder and its files


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
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
    if os.open not in os.supports_dir_fd:  # Windows: the folder is the user's own by where it lies
        if place.is_symlink():
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
    return os.open(name, flags, 0o600, dir_fd=held) if place is None else os.open(place / name, flags, 0o600)


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
    head = MAGIC + k + hashlib.sha256(code).digest() + len(code).to_bytes(8, "little")
    return code if data[:HEADER] == head else None


def write(k: bytes, code: bytes) -> None:
    """Keep code under a key: to a temporary file that is then renamed, so that readers see all of it or nothing."""
    data = MAGIC + k + hashlib.sha256(code).digest() + len(code).to_bytes(8, "little") + code
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
                os.replace(place / temporary, place / name)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=held) if place is None else os.unlink(place / temporary)
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
        os.unlink(name, dir_fd=held) if place is None else os.unlink(place / name)
        return True
    return False


def _prune(where: Any) -> None:
    """Remove the oldest files beyond KEPT, what interrupted writers left included."""
    with suppress(OSError):
        for _, name in _files(where)[KEPT:]:
            _remove(where, name)


# ---- for people


def warm() -> Path:
    """Make sure that the code is in the cache; its file. Raises EngineError if it can't be made, OSError if not be kept."""
    code = load()  # so that a broken engine is found now
    assert code
    k = key()
    if k is None:
        raise EngineError("npinfer's sources aren't files here, so that compiled code isn't kept")
    if read(k) is None:
        write(k, build.compile_object())
    return folder() / file_name(k)


def clear() -> int:
    """Remove all compiled code from the cache; how many files. What this process has loaded goes on running."""
    try:
        with _opened(create=False) as where:
            return sum(_remove(where, name) for _, name in _files(where))
    except FileNotFoundError:
        return 0


def info() -> dict[str, Any]:
    """The state of things for a person: folder, file, valid (whether that holds this version's code), files, numba, llvmlite,
    cpu, loaded ("cache", "compiled" or None: how this process got its code), problem (why the engine can't run, or None)."""
    found: dict[str, Any] = {"folder": str(folder()), "file": None, "valid": False, "files": 0}
    found["loaded"] = _loaded and _loaded[1]
    with suppress(OSError), _opened(create=False) as where:
        found["files"] = len(_files(where))
    found["numba"], found["llvmlite"] = _version("numba"), _version("llvmlite")
    try:
        k = key()
    except ImportError:
        k = None
    if k is not None:
        found["cpu"] = build.cpu()[0]
        found["file"], found["valid"] = str(folder() / file_name(k)), read(k) is not None
    found["problem"] = available()[1]
    return found


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def available() -> tuple[bool, str | None]:
    """Whether the engine can run, and else why not and what to do. Compiles nothing; imports Numba only where the code has yet
    to be compiled, as an installed Numba may not fit the installed NumPy."""
    if _loaded is not None:
        return True, None
    try:
        k = key()
    except ImportError:
        return False, f"neither Numba nor llvmlite is installed; {INSTALL}"
    if k is not None and read(k) is not None:
        return True, None
    try:
        import numba  # noqa: F401
    except ModuleNotFoundError:
        return False, f"Numba isn't installed, and {folder()} holds no compiled code for this version and CPU; {INSTALL}"
    except Exception as e:
        return False, f"Numba can't be imported ({e}); {INSTALL} in a version for this NumPy and Python"
    return True, None
