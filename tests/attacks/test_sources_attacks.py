"""What isn't a model file, and what isn't a file: one error each that says what it is."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_files import outcome

from npinfer import FormatError, LimitError, Limits, read_weights
from npinfer.readers.limits import DEFAULT, parse_json

CONTENTS = {
    b"": "empty",
    b"version https://git-lfs.github.com/spec/v1\noid sha256:abc": "git lfs pull",
    b"<!DOCTYPE html><html>": "a web page",
    b"\n<?xml version='1.0'?>": "a web page or XML",
    b"\x1f\x8b\x08abc": "gunzip",
    b"BZh91AY": "bunzip2",
    b"\xfd7zXZ\x00": "unxz",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a": "RAR",
    b"x" * 257 + b"ustar" + bytes(99): "tar",
    b"\x93NUMPY\x01\x00": "one NumPy array",
    b"\x1c\x00\x00\x00TFL3" + bytes(99): "TensorFlow Lite",
    b'\x10\x00\x00\x00\x00\x00\x00\x00{"a": 1}': "safetensors",
    b"GGUF\x03\x00": "GGUF",
    b"\x80\x04\x95\x0c": "a Python pickle",
    b"\x80\x02\x8a\x0al": "a Python pickle",
    b"MATLAB 5.0 MAT-file": "MATLAB",
    b"\x08\x01\x12\x00\xff\xfe\x00": "SavedModel",
    b"\x08\x07\x12\x00\xff\xfe\x00": "ONNX",
    b"\x0a\x03\xff\xfe\x00\x00": "TensorFlow graph",
    b"%PDF-1.4": "PDF",
    b"plain words\nand more": "text",
    b"\xff\xfe\xfd\x00": "unknown kind",
    b"\x00" * 50 + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb": "checkpoint",
    b'{"class_name": "Sequential", "config": []}': "an architecture without weights",
    b'{"modelTopology": {}}': "TensorFlow.js",
    b'{"a": 1}': "neither an architecture",
    b'{"a": ': "not valid JSON",
}


@pytest.mark.parametrize("content", CONTENTS, ids=lambda c: repr(c[:12]))
def test_contents(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.h5"
    path.write_bytes(content)
    for source in (path, str(path), content, bytearray(content), memoryview(content), io.BytesIO(content)):
        error = outcome(lambda source=source: read_weights(source))
        assert type(error) is FormatError
        assert CONTENTS[content] in str(error)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"x\.h5: no such file$") as caught:
        read_weights(tmp_path / "x.h5")
    assert isinstance(caught.value, FormatError)
    with pytest.raises(FormatError, match="download it first"):
        read_weights("https://example.org/model.h5")


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes(b"x")

    def deny(*_: Any, **__: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr(builtins, "open", deny)
    with pytest.raises(PermissionError, match="no permission") as caught:
        read_weights(path)
    assert isinstance(caught.value, FormatError)


def test_names_that_no_system_takes(tmp_path: Path) -> None:
    for name in ("a\0b", str(tmp_path / ("x" * 5000))):
        with pytest.raises(FormatError, match="can't be opened"):
            read_weights(name)


@pytest.mark.parametrize(
    ("inside", "says"),
    [(["saved_model.pb"], "SavedModel"), (["config.json", "model.weights.h5"], "an unpacked .keras"), ([], "a folder")],
)
def test_folders(tmp_path: Path, inside: list[str], says: str) -> None:
    for name in inside:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(FormatError, match=says):
        read_weights(tmp_path)


def test_devices() -> None:
    with pytest.raises(FormatError, match="not a regular file"):
        read_weights(os.devnull)


def test_file_objects(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="mode 'rb'"):
        read_weights(io.StringIO("text"))
    closed = io.BytesIO(b"x")
    closed.close()
    with pytest.raises(FormatError, match="can't be read"):
        read_weights(closed)
    with pytest.raises(LimitError, match="total_bytes"):
        read_weights(io.BytesIO(bytes(200)), Limits(total_bytes=100))

    class Pipe:
        """Neither seekable nor named."""

        def read(self, count: int) -> bytes:
            return b"words"

    with pytest.raises(FormatError, match="text"):
        read_weights(Pipe())


@pytest.mark.parametrize("source", [None, 5, ["a.h5"], {"a": 1}, np.zeros(3)], ids=lambda s: type(s).__name__)
def test_other_objects(source: Any) -> None:
    with pytest.raises(FormatError, match="is no model file"):
        read_weights(source)


JSON: dict[str, tuple[bytes | str, type[Exception], str]] = {
    "20,000 lists": (b"[" * 20_000, LimitError, "nested 20,000"),
    "5,000 dicts": (b'{"a":' * 5000, LimitError, "nested 5,000"),
    "lists behind strings": (b'["\\"[[", ' + b"[" * 300, LimitError, "nested 301"),
    "a million lists": (b"[" + b"[]," * 2_500_000 + b"1]", LimitError, "values"),
    "too long": (b" " * (65 << 20), LimitError, "bytes of JSON"),
    "a key twice": (b'{"a": 1, "b": {"x": 1, "y": 2, "x": 3}}', FormatError, "'x' stands twice"),
    "a long integer": (b"[" + b"9" * 5000 + b"]", FormatError, "5000 digits"),
    "half a surrogate": (b'["\\ud800"]', FormatError, "surrogates"),
    "not UTF-8": (b'["\xff"]', FormatError, "utf-8"),
    "half a surrogate in text": ("['\ud800']", FormatError, "utf-8"),
    "an open string": (b'["' + b'\\"' * 1_000_000, FormatError, "Unterminated"),
    "nothing": (b"", FormatError, "Expecting value"),
}


@pytest.mark.parametrize("name", JSON)
def test_json(name: str) -> None:
    text, kind, says = JSON[name]
    error = outcome(lambda: parse_json(text, DEFAULT, "here"))
    assert type(error) is kind
    assert says in str(error)
    assert str(error).startswith("here: ")
