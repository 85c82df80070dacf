"""Where results go: a file appears under its name only when it is complete, and messages tell the name that the caller gave."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

Name = str | bytes | os.PathLike[str]
#: errors of writing to an open file, which tell no name
WHILE_WRITING = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))
LENGTH = 40  # of a name that a temporary one repeats: names have a longest length, which those of results may come near


@contextlib.contextmanager
def replacing(path: Name) -> Iterator[Path]:
    """A temporary path beside `path`, which takes its place if the block succeeds and vanishes if not.

    Where `path` is a link, the file that it leads to is replaced; a device or a pipe is written to. Raises OSError that names
    `path`.
    """
    with naming(path):
        target = _checked(path)
        temporary = _made(target)
        try:
            yield temporary
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)  # mkstemp's own mode is 0600
            put(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(path: Name) -> Iterator[tuple[Path, Path]]:
    """As `replacing`, for results of several files: a temporary folder beside `path`, and where `path` leads. The block puts
    the files there itself."""
    with naming(path):
        target = _checked(path)
        with tempfile.TemporaryDirectory(prefix=_prefix(target), dir=_beside(target)) as folder:
            yield Path(folder), target


def check(path: Name) -> None:
    """Raise OSError naming `path` where nothing can be written under this name: before work that takes long."""
    with naming(path):
        _made(_checked(path)).unlink()


def put(written: Path, target: Path) -> None:
    """Give a complete file its name."""
    if _special(target):
        with open(written, "rb") as source, open(target, "wb") as sink:
            shutil.copyfileobj(source, sink)
    else:
        os.replace(written, target)


@contextlib.contextmanager
def naming(path: Name, *hidden: str) -> Iterator[None]:
    """Errors about temporary files of `path` (and about those under the names `hidden`) name `path` instead."""
    given = os.fsdecode(path)
    marks = (_prefix(Path(os.path.realpath(given))), *hidden)
    try:
        yield
    except OSError as e:
        named = os.fsdecode(e.filename) if isinstance(e.filename, (str, bytes)) else None
        if e.errno is None or not (e.errno in WHILE_WRITING if named is None else any(m in named for m in marks)):
            raise
        raise OSError(e.errno, f"can't be written: {os.strerror(e.errno)}; choose another place", given) from e


def _checked(path: Name) -> Path:
    given = os.fsdecode(path)
    target = Path(os.path.realpath(given))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; needed is the name of a file in it", given)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder; make it first", os.path.dirname(given) or given)
    return target


def _special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _beside(target: Path) -> Path | None:
    """The folder for temporary files: the target's own, where a rename can replace it."""
    return None if _special(target) else target.parent


def _prefix(target: Path) -> str:
    return f".{target.name[:LENGTH]}."


def _made(target: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=target.suffix[:LENGTH], dir=_beside(target))
    os.close(handle)
    return Path(name)
