"""Compiled code is found again: what the key knows, each kind of code, without Numba, from many threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import cache_fixtures
import pytest
from cache_fixtures import environment, fresh

from npinfer.errors import EngineError
from npinfer.executors.native import build, cache, link, store

folder, compiler, kind = cache_fixtures.folder, cache_fixtures.compiler, cache_fixtures.kind


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


def test_a_warm_process_needs_no_numba(compiler: list[int], kind: cache.Kind) -> None:
    cache.warm()
    command = [sys.executable, "-c", WARM, kind.name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=100)
    assert done.returncode == 0, done.stderr


def test_threads_load_once(compiler: list[int]) -> None:
    threads = [threading.Thread(target=cache.load) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(compiler) == 1
