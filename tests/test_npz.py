"""npinfer's own file: it gives back the archive, whole or not at all, and needs no h5py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npinfer import UnsupportedError, read_weights
from npinfer.npz import restore, save
from npinfer.readers.archive import Archive, Call, Layer, Model, TensorRef, Version
from npinfer.readers.sniff import open_raw

KERNEL = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)


def example() -> Archive:
    """An archive with one of everything that a config may hold."""
    x = TensorRef("x", 0, 0)
    i = TensorRef("i", 0, 0)
    inner = Model("in", (Layer("InputLayer", "i", {"shape": (3,)}, (Call(),)),), [i], {"a": i})
    held = Layer("Dense", "d", {"units": 2, "cells": [Layer("GRUCell", "c")]})
    kwargs = {"key": (slice(None), slice(0, None, 2), 1, ...)}
    odd = {"nan": float("nan"), "inf": -float("inf"), "text": "\0 \\ \n", "empty": [[], {}, ()]}
    tricky = {"k": {"$": 1, 5: (1,), None: True}}
    layers = (
        Layer("InputLayer", "x", {"shape": (None, 3), "sparse": False}, (Call(),), dtype="float32", input_shape=(None, 3)),
        Layer("GetItem", "get", {}, (Call((x,), kwargs),), module="ops"),
        Layer("Add", "add", {}, (Call((x, np.arange(3.0))), Call(([x, x],), tricky)), trainable=False),
        Layer("TimeDistributed", "td", {"layer": held}, (Call((x,)),)),
        Layer("Model", "in", {}, (Call((x,)),), inner),
        Layer("Custom", "größe/ä", odd, module="custom"),
    )
    model = Model("net", layers, [x], [{"out": TensorRef("add", 1, 0)}, TensorRef("get", 0, 0)], True, False)
    weights = {
        ("td", "layer"): {"kernel": KERNEL, "bias": np.zeros(4, ">f8"), "count": np.array(3)},
        ("td/layer",): {"kernel": np.asfortranarray(KERNEL), "empty": np.zeros((0, 2), "f2")},
        ("constants", "0"): {"../x": np.array([True, False]), "": np.arange(2, dtype="u1")},
    }
    order = ((("td/layer",), "kernel"), (("td", "layer"), "kernel"), (("td", "layer"), "bias"))
    return Archive(model, weights, order, Version(2, (2, 15, 0), True, "jax"), "somewhere")


def load(path: Any) -> Any:
    with open_raw(path) as raw:
        return restore(raw)


def test_npz_gives_back_the_archive(tmp_path: Path) -> None:
    archive = example()
    path = tmp_path / "m.npz"
    pairs = [KERNEL, np.arange(3)], [KERNEL.T]
    save(path, archive, {"dtype": "float64", "outputs": ["add"], "more": {"a": 1}}, pairs)
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]
    found = load(path)
    assert repr(found.archive.model) == repr(archive.model)
    assert found.archive.order == archive.order
    assert found.archive.version == archive.version
    assert found.archive.source == str(path)
    assert {k: list(v) for k, v in found.archive.weights.items()} == {
        ("td/layer",): ["kernel", "empty"],
        ("td", "layer"): ["kernel", "bias", "count"],
        ("constants", "0"): ["../x", ""],
    }
    for layer, variables in archive.weights.items():
        for name, array in variables.items():
            again = found.archive.weights[layer][name]
            assert np.array_equal(again, array)
            assert again.dtype == array.dtype.newbyteorder("=")
            assert again.shape == array.shape
    assert found.meta == {"dtype": "float64", "outputs": ["add"], "more": {"a": 1}}
    for a, b in zip((*pairs[0], *pairs[1]), (*found.pairs[0], *found.pairs[1]), strict=True):
        assert np.array_equal(a, b)


def test_npz_is_an_npz(tmp_path: Path) -> None:
    save(tmp_path / "m.npz", example(), {})
    with np.load(tmp_path / "m.npz") as data:
        assert np.array_equal(data["td/layer/kernel"], KERNEL)
    assert load((tmp_path / "m.npz").read_bytes()).pairs is None
    assert sum(map(len, read_weights(tmp_path / "m.npz").values())) == 7


def test_npz_has_the_same_bytes_each_time_and_no_paths(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        save(tmp_path / name, example(), {})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert b"somewhere" not in (tmp_path / "a.npz").read_bytes()


def test_npz_keeps_numpy_scalars_as_numbers(tmp_path: Path) -> None:
    layer = Layer("Dense", "d", {"units": np.int64(3), "alpha": np.float32(0.5), "flag": np.bool_(True)})
    save(tmp_path / "m.npz", Archive(Model("m", (layer,), [], []), {}, (), Version(3), "x"), {})
    assert load(tmp_path / "m.npz").archive.model.layers[0].config == {"units": 3, "alpha": 0.5, "flag": True}


def test_npz_replaces_whole_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.npz"
    save(path, example(), {})
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="no space left"):
        save(path, example(), {"changed": True})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]
    with pytest.raises(OSError, match="missing"):
        save(tmp_path / "missing" / "m.npz", example(), {})


def test_npz_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    layer = Layer("Dense", "d", {"strange": object()})
    archive = Archive(Model("m", (layer,), [], []), {}, (), Version(3), "x")
    with pytest.raises(UnsupportedError, match="a object, which"):
        save(tmp_path / "m.npz", archive, {})
    assert not list(tmp_path.iterdir())


def test_npz_loads_without_h5py(tmp_path: Path) -> None:
    save(tmp_path / "m.npz", example(), {})
    code = "import sys, npinfer; print(len(npinfer.read_weights(sys.argv[1]))); assert 'h5py' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m.npz")], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"
