"""Compiled code on disk: found again, and never trusted when it is damaged, foreign, or writable by others."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import standin

from npinfer.errors import EngineError
from npinfer.executors.native import build, cache, link, store

CODE = b"some machine code" * 100
KEY = hashlib.sha256(b"key").digest()
POSIX = pytest.mark.skipif(os.name != "posix", reason="the rules of POSIX files")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NPINFER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_loaded", None)
    monkeypatch.setattr(cache, "_warned", False)
    return tmp_path / "cache" / "native"


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Compiling is replaced by the stand-in's object file; the list grows by one each time."""
    calls: list[int] = []
    files = [standin.object_file(for_image) for for_image in (False, True)]

    def compile_object(entry: Any = None, for_image: bool = False) -> bytes:
        calls.append(1)
        return files[for_image]

    monkeypatch.setattr(build, "compile_object", compile_object)
    return calls


def fresh() -> Any:
    """As another process would find things."""
    cache._loaded = None
    return cache.load()


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


def test_load_compiles_once(folder: Path, compiler: list[int]) -> None:
    assert fresh().run
    assert cache.info()["loaded"] == "compiled"
    assert fresh().run
    assert cache.info()["loaded"] == "cache"
    assert len(compiler) == 1
    path = next(folder.iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    assert fresh().run
    assert fresh().run
    assert len(compiler) == 2


@pytest.fixture(params=cache.KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> cache.Kind:
    """Each kind of code that this system has, alone."""
    only: cache.Kind = request.param if link.cpu() else cache.KINDS[-1]
    monkeypatch.setattr(cache, "KINDS", (only, only))
    return only


def test_valid_files_that_hold_no_code_of_ours(folder: Path, compiler: list[int], kind: cache.Kind) -> None:
    import llvmlite.binding as llvm

    k = cache.key(kind)
    assert k is not None
    machine = build.target_machine()
    foreign = machine.emit_object(
        llvm.parse_assembly("declare i64 @nobody()\ndefine i64 @f() {\n%a = call i64 @nobody()\nret i64 %a\n}")
    )
    for data in (b"", b"text", b"\x7fELF", foreign):
        store.write(k, data)
        assert fresh().entry
        assert cache.info()["loaded"] == "compiled"


def test_the_key_knows_what_matters(monkeypatch: pytest.MonkeyPatch, kind: cache.Kind, tmp_path: Path) -> None:
    keys = [cache.key(kind)]
    assert keys[0] == cache.key(kind)
    image = kind.name == "image"
    changes: list[tuple[Any, str, Any]] = [(sys, "maxsize", sys.maxsize - 1), (sys, "byteorder", "big"), (sys, "platform", "x")]
    if image:
        changes[2:] = [(link, "cpu", lambda: ("other", "")), (link, "cpu", lambda: ("other", "avx"))]
    else:
        llvmlite: Any = sys.modules["llvmlite"]
        changes += [(llvmlite, "__version__", "0.0"), (build, "cpu", lambda: ("x", "")), (build, "cpu", lambda: ("x", "+avx"))]
    for target, name, value in changes:
        with monkeypatch.context() as m:
            m.setattr(target, name, value)
            keys.append(cache.key(kind))
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        with monkeypatch.context() as m:
            m.setenv(name, "generic" if "NAME" in name else "+sse2")
            keys.append(cache.key(kind))
    with monkeypatch.context() as m:
        m.setattr(cache, "__file__", str(tmp_path / "cache.py"))
        assert cache.key(kind) is None
        for text in ("x = 1", "x = 2"):
            (tmp_path / "a.py").write_text(text)
            keys.append(cache.key(kind))
        (tmp_path / "a.py").rename(tmp_path / "b.py")
        keys.append(cache.key(kind))
    assert None not in keys
    assert len(set(keys)) == len(keys)


@pytest.mark.skipif(link.cpu() is None, reason="no images here")
def test_where_an_image_cannot_be_used_the_object_file_is(compiler: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    image, other = (cache.key(k) for k in cache.KINDS)
    assert image and other  # noqa: PT018

    def refuse(_: bytes) -> Any:
        raise OSError(13, "memory may not become executable")

    for step in ("_link", "_executable"):
        with monkeypatch.context() as m:
            m.setattr(link, step, refuse)
            assert fresh().entry
            assert cache.info()["loaded"] == "compiled"
            assert (store.read(image), store.read(other) is None) == (None, False)
            assert fresh().entry
            assert cache.info()["loaded"] == "cache"
        store.clear()


def test_without_sources_nothing_is_kept(folder: Path, compiler: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_sources", lambda: None)
    assert cache.load().entry
    assert not folder.exists()
    with pytest.raises(EngineError):
        cache.warm()


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


def test_without_numba(compiler: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    ok, reason = cache.available()
    assert not ok
    assert reason is not None
    assert "pip install numba" in reason
    cache.warm()
    cache._loaded = None
    assert cache.available() == (True, None)
    cache._loaded = None
    store.clear()
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    ok, reason = cache.available()
    assert not ok
    assert "pip install numba" in str(reason)


def test_numba_that_fails_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(EngineError, match="pip install numba"):
        cache.load()

    class Broken:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "numba":
                raise ImportError("Numba needs another NumPy")

    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    ok, reason = cache.available()
    assert not ok
    assert "another NumPy" in str(reason)
    with pytest.raises(EngineError, match="another NumPy"):
        cache.load()


def test_numba_that_may_not_compile(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """NUMBA_DISABLE_JIT, which people set to debug code of theirs."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    ok, reason = cache.available()
    assert not ok
    assert "NUMBA_DISABLE_JIT" in str(reason)
    with pytest.raises(EngineError, match="unset NUMBA_DISABLE_JIT"):
        cache.load()


WARM = """
import sys
sys.modules["numba"] = None
if sys.argv[1] == "image":
    sys.modules["llvmlite"] = None
import numpy as np
from standin import Standin
from npinfer.executors.native import cache
net = Standin(cache.load())
y = net.bind()(np.ones(4, np.float32))
assert y.tolist() == [4, 5] and cache.info()["loaded"] == "cache", (y, cache.info())
"""


def environment() -> dict[str, str]:
    here = Path(__file__).resolve()
    return {**os.environ, "PYTHONPATH": f"{here.parents[2]}{os.pathsep}{here.parent}"}


def test_a_warm_process_needs_no_numba(compiler: list[int], kind: cache.Kind) -> None:
    cache.warm()
    command = [sys.executable, "-c", WARM, kind.name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=100)
    assert done.returncode == 0, done.stderr


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


def test_threads_load_once(compiler: list[int]) -> None:
    threads = [threading.Thread(target=cache.load) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(compiler) == 1
