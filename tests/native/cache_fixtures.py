"""A cache of compiled code in a folder of its own, and a compiler that costs nothing."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import standin

from npinfer.executors.native import build, cache, link

CODE = b"some machine code" * 100
KEY = hashlib.sha256(b"key").digest()


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


@pytest.fixture(params=cache.KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> cache.Kind:
    """Each kind of code that this system has, alone."""
    only: cache.Kind = request.param if link.cpu() else cache.KINDS[-1]
    monkeypatch.setattr(cache, "KINDS", (only, only))
    return only


def environment() -> dict[str, str]:
    here = Path(__file__).resolve()
    return {**os.environ, "PYTHONPATH": f"{here.parents[2]}{os.pathsep}{here.parent}"}
