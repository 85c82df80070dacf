"""Compiled code on disk: kept safely, and never trusted when it is damaged, foreign, or writable by others."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import cache_fixtures
import pytest
from cache_fixtures import CODE, KEY, environment, fresh

from npinfer.errors import EngineError
from npinfer.executors.native import cache, store

folder, compiler = cache_fixtures.folder, cache_fixtures.compiler


POSIX = pytest.mark.skipif(os.name != "posix", reason="the rules of POSIX files")


def test_written_code_is_read(folder: Path) -> None:
    assert store.read(KEY) is None
    store.write(KEY, CODE)
    assert store.read(KEY) == CODE
    assert store.read(hashlib.sha256(b"other").digest()) is None
    assert [p.name for p in folder.iterdir()] == [store.file_name(KEY)]
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / store.file_name(KEY)).stat().st_mode) == 0o600


def test_damage_is_noticed(folder: Path) -> None:
    store.write(KEY, CODE)
    path = folder / store.file_name(KEY)
    whole = path.read_bytes()
    damaged = [whole[:n] for n in (0, 1, 15, 16, 50, 80, 88, 89, len(whole) - 1)] + [whole + b"x", b"x" + whole, whole * 2]
    damaged += [whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :] for k in (0, 15, 16, 47, 48, 79, 80, 87, 88, len(whole) - 1)]
    for data in damaged:
        path.write_bytes(data)
        assert store.read(KEY) is None
    path.write_bytes(whole)
    assert store.read(KEY) == CODE
    other = hashlib.sha256(b"other").digest()
    path.rename(folder / store.file_name(other))  # another version's code under this name
    assert store.read(other) is None


@POSIX
def test_foreign_places_are_not_used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(KEY, CODE)
    path = folder / store.file_name(KEY)

    def refused(match: str) -> None:
        assert store.read(KEY) is None
        with pytest.raises(OSError, match=match):
            store.write(KEY, CODE)

    for mode in (0o770, 0o702, 0o777):
        folder.chmod(mode)
        refused("written to by others")
    folder.chmod(0o700)
    for mode in (0o660, 0o602):
        path.chmod(mode)
        assert store.read(KEY) is None
    path.chmod(0o600)
    with monkeypatch.context() as m:
        m.setattr(os, "geteuid", lambda: 4242)
        refused("another user")
    real = tmp_path / "real"
    folder.rename(real)
    folder.symlink_to(real)
    refused("director|symbolic|Too many")
    folder.unlink()
    real.rename(folder)
    assert store.read(KEY) == CODE
    path.rename(tmp_path / "file")
    path.symlink_to(tmp_path / "file")
    assert store.read(KEY) is None
    store.write(KEY, b"new")  # replaces the link, not what it points to
    assert store.read(KEY) == b"new"
    assert (tmp_path / "file").stat().st_size > len(CODE)
    for make in (lambda: path.mkdir(), lambda: os.mkfifo(path)):
        path.unlink()
        make()
        assert store.read(KEY) is None  # and doesn't wait for a writer
        if path.is_dir():
            path.rmdir()
            path.touch()


def test_a_folder_that_is_a_file(folder: Path, compiler: list[int]) -> None:
    folder.parent.mkdir()
    folder.write_text("")
    assert store.read(KEY) is None
    with pytest.warns(RuntimeWarning, match="NPINFER_CACHE_DIR"):
        assert fresh().entry
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fresh().entry  # one warning a process
    assert len(compiler) == 2


@pytest.mark.parametrize("where", ["open", "write", "replace", "mkdir"])
def test_a_full_or_read_only_disk(where: str, folder: Path, compiler: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(28, "No space left on device")

    class Full:
        def __init__(self, number: int, mode: str) -> None:
            os.close(number)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None:
            pass

        write = fail

    if where == "open":
        real = os.open
        monkeypatch.setattr(os, "open", lambda p, flags, *a, **k: fail() if flags & os.O_CREAT else real(p, flags, *a, **k))
    elif where == "write":
        monkeypatch.setattr(os, "fdopen", Full)
    elif where == "mkdir":
        monkeypatch.setattr(os, "mkdir", fail)
    else:
        monkeypatch.setattr(os, where, fail)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert cache.load().entry
    monkeypatch.undo()
    assert not folder.exists() or not list(folder.iterdir())


def test_warm_clear_and_info(folder: Path, compiler: list[int]) -> None:
    assert store.clear() == 0
    assert cache.info()["valid"] is False
    path = Path(cache.warm())
    assert path.parent == folder
    assert cache.warm() == str(path)
    assert len(compiler) == 1
    info = cache.info()
    assert (info["valid"], info["files"], info["problem"], info["file"]) == (True, 1, None, str(path))
    (folder / "somebody's.txt").write_text("")
    assert store.clear() == 1
    assert [p.name for p in folder.iterdir()] == ["somebody's.txt"]
    assert cache.load().entry  # this process goes on
    assert cache.warm() == str(path)
    assert len(compiler) == 2


def test_old_files_go(folder: Path) -> None:
    for n in range(store.KEPT + 5):
        k = hashlib.sha256(bytes([n])).digest()
        store.write(k, CODE)
        os.utime(folder / store.file_name(k), (n, n))
    assert len(list(folder.iterdir())) == store.KEPT
    assert store.read(k) == CODE


def test_default_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NPINFER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "l"))
    for platform, start in (
        ("linux", tmp_path / "x"),
        ("win32", tmp_path / "l"),
        ("darwin", Path.home() / "Library" / "Caches"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert Path(store.folder()) == start / "npinfer" / "native"


def test_numba_that_may_not_compile(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """NUMBA_DISABLE_JIT, which people set to debug code of theirs."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    ok, reason = cache.available()
    assert not ok
    assert "NUMBA_DISABLE_JIT" in str(reason)
    with pytest.raises(EngineError, match="unset NUMBA_DISABLE_JIT"):
        cache.load()


def test_many_writers_and_readers(folder: Path) -> None:
    script = (
        "import sys, hashlib; from npinfer.executors.native import store\n"
        "k = hashlib.sha256(b'key').digest(); code = bytes([int(sys.argv[1])]) * 300_000\n"
        "for n in range(30):\n"
        "    store.write(k, code); got = store.read(k)\n"
        "    assert got is not None and len(set(got)) == 1 and len(got) == 300_000\n"
    )
    command = [sys.executable, "-c", script]
    pipes: dict[str, Any] = {"env": environment(), "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([*command, str(n)], **pipes) for n in range(3)]
    for process in running:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    assert [p.name for p in folder.iterdir()] == [store.file_name(KEY)]
