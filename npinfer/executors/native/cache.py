"""Machine code, compiled once a machine and kept in the user's cache folder (store.py), so that later processes need no Numba.

It is kept as an image (link.py), which needs nothing to be loaded; where images can't be made or may not run, as an object
file, which llvmlite loads (build.py). Its key is a hash of all that it depends on: this folder's sources, the system, the CPU,
for object files llvmlite's version. So several machines may share a home. Numba's version isn't part of it: Numba need not be
there. Whatever is wrong with the folder, the engine runs from memory, with one warning.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from npinfer.errors import EngineError, FormatError
from npinfer.executors.native import link, store
from npinfer.executors.native.abi import Code
from npinfer.executors.native.store import file_name, folder, read, sha256, write
from npinfer.frozen import Frozen

INSTALL: Final = "pip install numba"


class Kind(Frozen):
    """A form of code: what it depends on beside the sources (may raise ImportError), how to make it and to load it."""

    name: str
    depends: Callable[[], Sequence[str] | None]  # None: there is no such kind on this system
    make: Callable[[], bytes]
    load: Callable[[bytes], Code]


def _build() -> Any:
    from npinfer.executors.native import build  # what only compiling needs

    return build


#: in the order in which they are tried
KINDS: Final = (
    Kind("image", lambda: link.cpu(), lambda: link.link(_build().compile_object(for_image=True)), link.load),
    Kind("object", lambda: _build().depends(), lambda: _build().compile_object(), lambda code: _build().load_object(code)),
)

_lock = threading.Lock()
_loaded: tuple[Code, str] | None = None  # and where it came from: "cache" or "compiled"
_warned = False


def key(kind: Kind) -> bytes | None:
    """32 bytes that stand for all that this kind of code depends on; None where there is no such kind here, or where the
    sources aren't files (nothing is kept then)."""
    try:
        parts = kind.depends()
        sources = _sources()
    except (ImportError, OSError):
        return None
    if parts is None or sources is None:
        return None
    system = (kind.name, sys.platform, str(sys.maxsize), sys.byteorder)
    return sha256("\0".join((sources, *system, *parts)).encode()).digest()


def _sources() -> str | None:
    folder = os.path.dirname(__file__)
    names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    sources = sha256()
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            sources.update(name.encode() + b"\0" + sha256(file.read()).digest())
    return sources.hexdigest() if names else None


def load() -> Code:
    """The compiled functions: from memory, else from the cache, else compiled now (some seconds). Raises EngineError.

    Safe to call from several threads and processes at once.
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _find() or _make()
    return _loaded[0]


def _find() -> tuple[Code, str] | None:
    for kind in KINDS:
        k = key(kind)
        data = None if k is None else read(k)
        with suppress(OSError, FormatError, RuntimeError):  # of another kind than it should be: compile again
            if data is not None:
                return kind.load(data), "cache"
    return None


def _make(keep: bool = False) -> tuple[Code, str]:
    """Compile, and write to the cache. Raises EngineError; with `keep`, OSError where the code can't be kept."""
    import logging

    message = "compiling the native engine, once on this machine (25 to 60 seconds); `npinfer cache warm` does it beforehand"
    logging.getLogger("npinfer").warning(message)
    for kind in KINDS if link.cpu() else KINDS[1:]:
        k = key(kind)
        try:
            made = kind.make()
            code = kind.load(made)
        except (OSError, FormatError):
            if kind is KINDS[-1]:
                raise
            continue
        try:
            if k is not None and k == key(kind):  # sources that were edited meanwhile would get machine code of the old ones
                write(k, made)
        except OSError as e:
            if keep:
                raise
            _warn(f"compiled code can't be kept in {folder()} ({e}); it is made again in every process")
        break
    return code, "compiled"


def _warn(message: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(f"npinfer: {message}. Set NPINFER_CACHE_DIR to a folder of yours.", RuntimeWarning, stacklevel=4)


# ---- for people


def warm() -> str:
    """Make sure that the code is in the cache; its file. Raises EngineError if it can't be made, OSError if not be kept."""
    global _loaded
    if _sources() is None:
        raise EngineError("npinfer's sources aren't files here, so that compiled code isn't kept")
    with _lock:
        if _kept() is None or not (_loaded or _find()):
            _loaded = _make(keep=True)
    file = _kept()
    assert file is not None
    return file


def _kept() -> str | None:
    """The valid file of the first kind that has one."""
    keys = map(key, KINDS)
    return next((os.path.join(folder(), file_name(k)) for k in keys if k is not None and read(k) is not None), None)


def info() -> dict[str, Any]:
    """The state of things for a person: folder, file, valid (whether that holds this version's code), files, numba, llvmlite,
    cpu, loaded ("cache", "compiled" or None: how this process got its code), problem (why the engine can't run, or None)."""
    found: dict[str, Any] = {"folder": str(folder()), "file": None, "valid": False, "files": 0}
    found["loaded"] = _loaded and _loaded[1]
    with suppress(OSError):
        found["files"] = store.count()
    found["numba"], found["llvmlite"] = _version("numba"), _version("llvmlite")
    keys = [k for k in map(key, KINDS) if k is not None]
    if keys:
        k = next((k for k in keys if read(k) is not None), keys[0])
        found["cpu"] = (link.cpu() or _build().cpu())[0]
        found["file"], found["valid"] = os.path.join(folder(), file_name(k)), read(k) is not None
    found["problem"] = available()[1]
    return found


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def available() -> tuple[bool, str | None]:
    """Whether the engine can run, and else why not and what to do. Loads code that is kept, and compiles nothing; imports Numba
    only where the code has yet to be compiled, as an installed Numba may not fit the installed NumPy."""
    global _loaded
    if _loaded is None:
        with _lock:
            _loaded = _loaded or _find()
    if _loaded is not None:
        return True, None
    try:
        import numba
    except ModuleNotFoundError:
        return False, f"Numba isn't installed, and {folder()} holds no compiled code for this version and CPU; {INSTALL}"
    except Exception as e:
        return False, f"Numba can't be imported ({e}); {INSTALL} in a version for this NumPy and Python"
    if numba.config.DISABLE_JIT:
        return False, "the native engine has yet to be compiled, and NUMBA_DISABLE_JIT is set; unset it once"
    return True, None
