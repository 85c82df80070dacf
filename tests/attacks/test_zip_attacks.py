"""Zips that lie about their members or hold what they shouldn't: .keras files."""

from __future__ import annotations

import io
import json
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hostile_files import KERNEL, members, old, outcome, pack, store

from npinfer import FormatError, LimitError, Limits, read_weights


def refuse(path: Path, kind: type[Exception], says: str, limits: Limits | None = None) -> None:
    error = outcome(lambda: read_weights(path, limits))
    assert type(error) is kind, error
    assert says in str(error)


CONTENTS: dict[str, tuple[dict[str, bytes], type[Exception], str]] = {
    "a member above": ({**members(), "../../tmp/x": b"x"}, FormatError, "leads out"),
    "a member above, Windows": ({**members(), "assets\\..\\..\\x": b"x"}, FormatError, "leads out"),
    "an absolute member": ({**members(), "/etc/x": b"x"}, FormatError, "leads out"),
    "a member on a drive": ({**members(), "C:\\x": b"x"}, FormatError, "leads out"),
    "a member that has no place": ({**members(), "run.py": b"x"}, FormatError, "no place in a .keras file"),
    "no config": (members(config_json=None), FormatError, "no member 'config.json'"),
    "no weights": ({k: v for k, v in members().items() if not k.endswith("h5")}, FormatError, "no member 'model.weights.h5'"),
    "weights in npz": ({**members(), "model.weights.npz": b"PK"}, FormatError, "model.weights.npz"),
    "config no JSON": (members(config_json=b"{"), FormatError, "not valid JSON"),
    "config no model": (members(config_json=b"[1]"), FormatError, "a list, not"),
    "config a bomb": (members(config_json=b" " * 30_000_000), LimitError, "asks for 30,000,000"),
    "metadata a list": (members(metadata_json=b'{"keras_version": 3}'), FormatError, "keras_version is a int"),
    "metadata large": (members(metadata_json=b" " * 2_000_000), LimitError, "at most 1,048,576"),
    "weights cut off": ({**members(), "model.weights.h5": members()["model.weights.h5"][:2000]}, FormatError, "damaged"),
    "weights no HDF5": ({**members(), "model.weights.h5": b"PK" * 100}, FormatError, "damaged"),
    "an empty zip": ({}, FormatError, "found in it: nothing"),
    "PyTorch": ({"archive/data.pkl": b"x", "archive/version": b"3"}, FormatError, "PyTorch"),
    "a SavedModel": ({"m/saved_model.pb": b"x"}, FormatError, "SavedModel"),
    "a folder": ({f"model/{k}": v for k, v in members().items()}, FormatError, "inside a folder"),
    "arrays": ({"x.npy": b"\x93NUMPY"}, FormatError, "arrays alone"),
    "a zipped .h5": ({"model.h5": b"x"}, FormatError, "unpack it"),
    "a document": ({"word/document.xml": b"x"}, FormatError, "word/document.xml"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_contents(tmp_path: Path, name: str) -> None:
    content, kind, says = CONTENTS[name]
    refuse(pack(tmp_path / "bad.keras", content, zipfile.ZIP_DEFLATED), kind, says)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.keras"], "nothing is written"


def test_old_layout_inside(tmp_path: Path) -> None:
    inner = old(tmp_path / "inner.h5").read_bytes()
    refuse(pack(tmp_path / "bad.keras", {**members(), "model.weights.h5": inner}), FormatError, "not in the layout")


def test_a_member_twice(tmp_path: Path) -> None:
    path = pack(tmp_path / "bad.keras", members())
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as z:
        warnings.simplefilter("ignore")
        z.writestr("config.json", b"{}")
    refuse(path, FormatError, "is there twice")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods(tmp_path: Path, method: int) -> None:
    refuse(pack(tmp_path / "bad.keras", members(), method), FormatError, "packed by method")


def edited(path: Path, name: str, offset: int, value: bytes) -> Path:
    """Overwrite bytes of a member's entry in the directory."""
    data = path.read_bytes()
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02"))
    while data[at + 46 : at + 46 + len(name)] != name.encode():
        at = data.index(b"PK\x01\x02", at + 1)
    path.write_bytes(data[: at + offset] + value + data[at + offset + len(value) :])
    return path


ENTRIES: dict[str, tuple[int, bytes, type[Exception], str]] = {
    "encrypted": (8, b"\x01\x00", FormatError, "encrypted"),
    "checksum": (16, b"\x00\x01\x02\x03", FormatError, "damaged"),
    "size, small": (24, struct.pack("<I", 100), FormatError, "damaged"),
    "size, large": (24, struct.pack("<I", 1 << 30), FormatError, "it was cut off"),
    "both sizes, small": (20, struct.pack("<II", 3000, 3000), FormatError, "damaged"),
    "offset": (42, struct.pack("<I", 1 << 30), FormatError, "damaged"),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_directory_lies(tmp_path: Path, name: str) -> None:
    offset, value, kind, says = ENTRIES[name]
    refuse(edited(pack(tmp_path / "bad.keras", members()), "model.weights.h5", offset, value), kind, says)


def test_deflated_sizes_lie(tmp_path: Path) -> None:
    """A directory that promises less than the stream holds, and more."""
    for size in (1000, 20_000):
        path = pack(tmp_path / "bad.keras", members(), zipfile.ZIP_DEFLATED)
        edited(path, "model.weights.h5", 24, struct.pack("<I", size))
        refuse(path, FormatError, "model.weights.h5")


def test_no_directory(tmp_path: Path) -> None:
    path = pack(tmp_path / "bad.keras", members())
    path.write_bytes(path.read_bytes()[:3000])
    refuse(path, FormatError, "without its directory")


def test_too_many_members(tmp_path: Path) -> None:
    path = pack(tmp_path / "bad.keras", {**members(), **{f"assets/{k}": b"" for k in range(1200)}})
    refuse(path, LimitError, "1,203 members")
    assert read_weights(path, Limits(members=2000))


def test_huge_directory(tmp_path: Path) -> None:
    """Names of 60 KB each: few members, but a directory that zipfile would turn into objects at once."""
    path = pack(tmp_path / "bad.keras", {**members(), **{"assets/" + str(k) * 60_000: b"" for k in range(10)}})
    refuse(path, LimitError, "a zip directory of")


def test_huge_directory_of_a_zip64(tmp_path: Path) -> None:
    data = pack(tmp_path / "bad.keras", members()).read_bytes()
    end = data.index(b"PK\x05\x06")
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1 << 40, 1 << 40, 1 << 50, 0)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    (tmp_path / "bad.keras").write_bytes(data[:end] + record + locator + data[end:])
    refuse(tmp_path / "bad.keras", LimitError, "a zip directory of 1,125,899,906,842,624")


def test_external_link_inside(tmp_path: Path) -> None:
    import h5py

    memory = io.BytesIO()
    store(memory)
    with h5py.File(memory, "r+") as f:
        del f["layers/dense"]
        f["layers/dense"] = h5py.ExternalLink("/etc/passwd", "/")
    content = {**members(), "model.weights.h5": memory.getvalue()}
    refuse(pack(tmp_path / "bad.keras", content), FormatError, "external link")


def test_bombs_multiply(tmp_path: Path) -> None:
    """A deflated member that holds gzipped arrays: the budget counts from the size on disk."""
    import h5py
    import numpy as np

    memory = io.BytesIO()
    with h5py.File(memory, "w") as f:
        for k in range(12):
            f.create_dataset(f"layers/dense{k}/vars/0", data=np.zeros(1 << 20, "f4"), compression="gzip", chunks=(1 << 20,))
    content = {**members(), "model.weights.h5": memory.getvalue()}
    refuse(pack(tmp_path / "bad.keras", content, zipfile.ZIP_DEFLATED), LimitError, "asks for")


# sharded weights


def shards(folder: Path, table: Any) -> Path:
    store(folder / "m_00000.weights.h5")
    store(folder / "m_00001.weights.h5", {"other": (KERNEL,)})
    path = folder / "m.weights.json"
    path.write_text(json.dumps(table))
    return path


TABLES: dict[str, tuple[Any, str]] = {
    "no map": ({"weight_map": None}, "without a weight_map"),
    "a list": ({"weight_map": ["m_00000.weights.h5"]}, "without a weight_map"),
    "a number": ({"weight_map": {"/a": 5}}, "plain names"),
    "a path above": ({"weight_map": {"/a": "../m_00000.weights.h5"}}, "plain names"),
    "an absolute path": ({"weight_map": {"/a": ["/etc/x.h5"]}}, "plain names"),
    "a drive": ({"weight_map": {"/a": ["C:x.h5"]}}, "plain names"),
    "a hidden file": ({"weight_map": {"/a": ".x.h5"}}, "plain names"),
    "another kind": ({"weight_map": {"/a": "id_rsa"}}, "plain names"),
    "a missing shard": ({"weight_map": {"/a": ["m_00000.weights.h5", "m_00007.weights.h5"]}}, "no such file"),
    "an old layout": ({"weight_map": {"/a": "old.h5"}}, "not in the layout of shards"),
    "an array in two": ({"weight_map": {"/a": ["m_00000.weights.h5", "twin.h5"]}}, "another shard holds too"),
}


@pytest.mark.parametrize("name", TABLES)
def test_shards(tmp_path: Path, name: str) -> None:
    table, says = TABLES[name]
    path = shards(tmp_path, table)
    old(tmp_path / "old.h5")
    store(tmp_path / "twin.h5")
    error = outcome(lambda: read_weights(path))
    assert isinstance(error, FormatError)
    assert says in str(error)


def test_too_many_shards(tmp_path: Path) -> None:
    path = shards(tmp_path, {"weight_map": {"/a": [f"{k}.h5" for k in range(2000)]}})
    refuse(path, LimitError, "2,000 shards")


def test_shards_need_a_folder(tmp_path: Path) -> None:
    data = shards(tmp_path, {"weight_map": {"/a": "m_00000.weights.h5"}}).read_bytes()
    with pytest.raises(FormatError, match="pass its path"):
        read_weights(data)
