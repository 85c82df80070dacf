"""The containers read rightly: every way to store the same arrays in the old layout gives the same arrays, within limits."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from container_files import CONFIG, KERNEL, old

from npinfer import FormatError, Limits, UnsupportedError, read_weights
from npinfer.readers.limits import DEFAULT, Budget, parse_json, reading
from npinfer.readers.raw import RawFile, stored
from npinfer.readers.sniff import open_raw
from npinfer.readers.weights import flatten

STORED: dict[str, dict[str, Any]] = {
    "contiguous": {"data": KERNEL},
    "chunked": {"data": KERNEL, "chunks": (2, 3)},
    "gzip": {"data": KERNEL, "chunks": (2, 3), "compression": "gzip"},
    "gzip, shuffle, checksum": {"data": KERNEL, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"data": KERNEL, "compression": "lzf"},
    "resizable": {"data": KERNEL, "maxshape": (None, None)},
    "big-endian": {"data": KERNEL.astype(">f4")},
    "double": {"data": KERNEL.astype("f8")},
    "big-endian double": {"data": KERNEL.astype(">f8"), "chunks": (3, 4)},
}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize(
    "options", [{}, {"libver": "latest"}, {"userblock_size": 1024}], ids=["earliest", "latest", "user block"]
)
@pytest.mark.parametrize(
    "how", [Path, str, Path.read_bytes, lambda p: io.BytesIO(p.read_bytes())], ids=["path", "str", "bytes", "file"]
)
def test_same_array_however_stored(tmp_path: Path, name: str, options: dict[str, Any], how: Callable[[Path], Any]) -> None:
    path = old(tmp_path / "m.h5", {"dense": {"dense/kernel:0": STORED[name]}}, **options)
    found = read_weights(how(path))["dense"]["kernel"]
    assert np.array_equal(found, KERNEL)
    assert found.dtype == STORED[name]["data"].dtype.newbyteorder("=")
    assert found.flags.c_contiguous
    assert found.flags.writeable


@pytest.mark.parametrize("kind", ["f2", "i1", "i8", ">i4", "u2", "bool", "c8", "c16"])
def test_other_numbers(tmp_path: Path, kind: str) -> None:
    """What a variable may be is the layer's to say; the container keeps the file's dtype."""
    values = np.arange(12).reshape(3, 4).astype(kind)
    found = read_weights(old(tmp_path / "m.h5", {"a": {"v": values}}))["a"]["v"]
    assert np.array_equal(found, values)
    assert found.dtype == values.dtype.newbyteorder("=")


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, 3.0e38, np.inf], "f4")
    found = read_weights(old(tmp_path / "m.h5", {"a": {"v": (values.view("u4") >> 16).astype("u2").view("V2")}}))["a"]["v"]
    assert found.dtype == np.float32
    assert np.allclose(found, values, rtol=2**-8)


@pytest.mark.parametrize("value", [np.float32(5), np.zeros((0, 8), "f4"), np.zeros((2, 0), "f8"), np.arange(3.0)])
def test_scalars_and_nothing(tmp_path: Path, value: Any) -> None:
    found = read_weights(old(tmp_path / "m.h5", {"a": {"v": value}}))["a"]["v"]
    assert np.array_equal(found, value)
    assert found.shape == value.shape


def test_named_as_anything(tmp_path: Path) -> None:
    """Slashes make groups, other signs don't matter; a layer may live inside another one's group."""
    names = ["fire2", "fire2/squeeze1x1", "a b", "a\\b", "größe", "dense.1", "%s", "C:x"]
    path = old(tmp_path / "m.h5", {n: {f"{n}_W:0": KERNEL + k} for k, n in enumerate(names)})
    found = read_weights(path)
    assert list(found) == names
    for k, variables in enumerate(found.values()):
        assert np.array_equal(next(iter(variables.values())), KERNEL + k)


@pytest.mark.parametrize("kind", ["S20", h5py.string_dtype(), h5py.string_dtype("ascii")], ids=["fixed", "UTF-8", "ASCII"])
def test_names_as_text_of_any_kind(tmp_path: Path, kind: Any) -> None:
    path = old(tmp_path / "m.h5", {"b": {"b/k:0": KERNEL}, "a": {}})
    with h5py.File(path, "r+") as f:
        f["model_weights"].attrs.create(
            "layer_names", np.array([b"b", b"a"], "S").astype(kind if kind == "S20" else object), dtype=kind
        )
        f["model_weights/b"].attrs.create(
            "weight_names", np.array([b"b/k:0"]).astype(kind if kind == "S20" else object), dtype=kind
        )
        f.attrs.create("model_config", np.bytes_(CONFIG.encode()) if kind == "S20" else CONFIG)
        f.attrs["backend"] = np.bytes_("jax")
    with open_raw(path) as raw:
        assert raw.config == json.loads(CONFIG)
        assert raw.backend == "jax"
        assert raw.legacy is not None
        assert [(layer, [name for name, _ in weights]) for layer, weights in raw.legacy] == [("b", ["b/k:0"]), ("a", [])]


def test_names_in_numbered_pieces(tmp_path: Path) -> None:
    names = [f"layer_{k}" for k in range(30)]
    path = old(tmp_path / "m.h5", {n: {"w": KERNEL} for n in names})
    with h5py.File(path, "r+") as f:
        group = f["model_weights"]
        for k in range(3):
            group.attrs[f"layer_names{k}"] = group.attrs["layer_names"][10 * k : 10 * k + 10]
        del group.attrs["layer_names"]
    assert list(read_weights(path)) == names


def test_config_above_64_kilobytes(tmp_path: Path) -> None:
    text = json.dumps({"class_name": "Sequential", "config": {"layers": [], "note": "x" * 200_000}})
    path = old(tmp_path / "m.h5", {"a": {"w": KERNEL}}, text)
    with open_raw(path) as raw:
        assert raw.config == json.loads(text)
    path = old(tmp_path / "latest.h5", {"a": {"w": KERNEL}}, libver="latest")
    with h5py.File(path, "r+", libver="latest") as f:
        f.attrs.create("model_config", np.bytes_(text.encode()))  # dense attribute storage
    with open_raw(path) as raw:
        assert raw.config == json.loads(text)


def test_soft_links_inside_the_file(tmp_path: Path) -> None:
    path = old(tmp_path / "m.h5", {"a": {"w": KERNEL}})
    with h5py.File(path, "r+") as f:
        f.move("model_weights/a", "elsewhere/a")
        f["model_weights/a"] = h5py.SoftLink("/elsewhere/a")
        f["elsewhere/a/v"] = h5py.SoftLink("w")
        f["elsewhere/a"].attrs["weight_names"] = np.array([b"v"])
    assert np.array_equal(read_weights(path)["a"]["v"], KERNEL)


def test_weights_of_the_model_itself(tmp_path: Path) -> None:
    path = old(tmp_path / "m.h5", {"a": {"w": KERNEL}})
    with h5py.File(path, "r+") as f:
        top = f.create_group("model_weights/top_level_model_weights")
        top.attrs["weight_names"] = np.array([b"scale:0"])
        top["scale:0"] = np.arange(2.0)
    found = read_weights(path)
    assert list(found) == ["a", ""]
    assert found[""]["scale"].tolist() == [0, 1]
    assert list(flatten(found)) == ["a/w", "scale"]


def test_keras_0(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as f:
        f.attrs["nb_layers"] = 3
        for k, count in enumerate((2, 0, 1)):
            layer = f.create_group(f"layer_{k}")
            layer.attrs["nb_params"] = count
            for i in range(count):
                layer[f"param_{i}"] = KERNEL + 10 * k + i
    with open_raw(path) as raw:
        assert raw.nb_layers
        assert raw.legacy is not None
        assert [layer for layer, _ in raw.legacy] == ["layer_0", "layer_1", "layer_2"]
    found = read_weights(path)
    assert {k: list(v) for k, v in found.items()} == {"layer_0": ["param_0", "param_1"], "layer_2": ["param_0"]}
    assert np.array_equal(found["layer_2"]["param_0"], KERNEL + 20)


def test_stored_in_memory() -> None:
    item = stored(KERNEL.astype(">f4").T, "x")
    assert item.dtype == np.dtype("f4")
    assert item.read().flags.c_contiguous
    assert np.array_equal(item.read(), KERNEL.T)
    with RawFile("x") as raw:
        assert raw.legacy is None


def test_limits_can_be_raised(tmp_path: Path) -> None:
    path = old(tmp_path / "m.h5", {"a": {"w": {"data": np.zeros((3000, 3000), "f4"), "compression": "gzip"}}})
    with pytest.raises(FormatError, match="asks for 36,"):
        read_weights(path)
    assert read_weights(path, Limits(ratio=2000))["a"]["w"].shape == (3000, 3000)


def test_budget() -> None:
    budget = Budget(Limits(slack=10, ratio=2), 5)
    budget.charge(20, "x")
    with pytest.raises(FormatError, match=r"^x: asks for 1 bytes, more than a file of 5 bytes may give \(20 in all\)"):
        budget.charge(1, "x")
    assert Limits(total_bytes=7).grown(100) == 7


def test_reading_turns_everything_into_format_errors() -> None:
    for error in (OSError("a\nb"), KeyError("k"), RecursionError(), UnicodeError()):
        with pytest.raises(FormatError, match="here: damaged") as caught, reading("here"):
            raise error
        assert caught.value.__cause__ is error
    with pytest.raises(FormatError, match=r"here: doesn't fit into memory"), reading("here"):
        raise MemoryError
    with pytest.raises(UnsupportedError, match=r"^kept$"), reading("here"):
        raise UnsupportedError("kept")
    with pytest.raises(KeyboardInterrupt), reading("here"):
        raise KeyboardInterrupt


def test_json_as_keras_writes_it() -> None:
    text = b'\xef\xbb\xbf{"a": [NaN, Infinity, -Infinity, 1e-7, -3, true, null, "\\u00e9\\ud83d\\ude00 [[[", "\\\\"], "b": {}}'
    found = parse_json(text, DEFAULT, "x")
    assert str(found["a"][:6]) == "[nan, inf, -inf, 1e-07, -3, True]"
    assert found["a"][7:] == ["é😀 [[[", "\\"]
    deep = "[" * 200 + "]" * 200
    assert parse_json(deep, DEFAULT, "x")
