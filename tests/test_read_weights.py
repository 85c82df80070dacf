"""read_weights: names that say enough, arrays that are all there; the extractor that runs alone gives the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import GOLDEN

from npinfer import read_weights
from npinfer.readers.sniff import open_raw
from npinfer.readers.weights import flatten

KERNEL = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)
CONFIG = json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": []}})
EXTRACT = Path(__file__).resolve().parent.parent / "tools" / "extract_weights.py"


def old(path: Path, layers: dict[str, dict[str, Any]], text: str = CONFIG, **options: Any) -> Path:
    """An old-layout file; `layers` gives weight names and arrays, or keywords of create_dataset."""
    with h5py.File(path, "w", **options) as f:
        f.attrs["model_config"] = text
        group = f.create_group("model_weights")
        group.attrs["layer_names"] = np.array([n.encode() for n in layers] or [], "S")
        for layer, weights in layers.items():
            inner = group.require_group(layer)
            inner.attrs["weight_names"] = np.array([n.encode() for n in weights] or [], "S")
            for name, value in weights.items():
                inner.create_dataset(name, **(value if isinstance(value, dict) else {"data": value}))
    return path


NAMES: list[tuple[str, list[str], list[tuple[str, str]]]] = [
    ("dense_1", ["dense_1_W:0", "dense_1_b:0"], [("dense_1", "W"), ("dense_1", "b")]),
    ("dense_7", ["dense_7_4/kernel:0", "dense_7_4/bias:0"], [("dense_7", "kernel"), ("dense_7", "bias")]),
    ("dense", ["actor/dense/kernel:0"], [("dense", "kernel")]),
    ("dense", ["kernel", "bias"], [("dense", "kernel"), ("dense", "bias")]),
    ("net", ["a/kernel:0", "b/kernel:0"], [("net/a", "kernel"), ("net/b", "kernel")]),
    ("bi", ["bi/fwd/cell/k:0", "bi/bwd/cell/k:0"], [("bi/fwd/cell", "k"), ("bi/bwd/cell", "k")]),
    ("x", ["x_", ":0", "a:b"], [("x", "x_"), ("x", ":0"), ("x", "a:b")]),
    ("x", ["k:0", "k:1"], [("x", "k:0"), ("x", "k:1")]),
]


@pytest.mark.parametrize(("layer", "names", "expected"), NAMES, ids=[str(n[1]) for n in NAMES])
def test_short_names(tmp_path: Path, layer: str, names: list[str], expected: list[tuple[str, str]]) -> None:
    path = old(tmp_path / "m.h5", {layer: {n: KERNEL + k for k, n in enumerate(names)}})
    found = read_weights(path)
    flat = [(p, v, a) for p, variables in found.items() for v, a in variables.items()]
    assert [(p, v) for p, v, _ in flat] == expected
    for k, (_, _, array) in enumerate(flat):
        assert np.array_equal(array, KERNEL + k)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """Two layers whose short names are the same: both arrays are there."""
    path = old(tmp_path / "m.h5", {"a": {"s/b/k:0": KERNEL, "s/c/k:0": KERNEL + 1}, "a/b": {"k:0": KERNEL + 2}})
    found = read_weights(path)
    assert sorted(found["a/b"]) == ["k", "k#2"]
    assert np.array_equal(found["a/b"]["k#2"], KERNEL + 2)
    assert list(flatten({"a": {"b/c": KERNEL}, "a/b": {"c": KERNEL}})) == ["a/b/c", "a/b/c#2"]


def golden() -> Iterator[Path]:
    for path in sorted(GOLDEN.rglob("*")):
        if path.suffix in (".h5", ".keras"):
            yield path


def test_golden_files_and_the_lone_extractor(tmp_path: Path) -> None:
    sys.path.insert(0, str(EXTRACT.parent))
    try:
        import extract_weights
    finally:
        sys.path.pop(0)
    files = list(golden())[::4]  # every kind of file comes many times
    assert len(files) > 50
    for path in files:
        found = flatten(read_weights(path))
        alone = extract_weights.extract(str(path))
        assert [k for k, _ in alone] == list(found), path
        for key, array in alone:
            assert array.dtype == found[key].dtype, (path, key)
            assert np.array_equal(array, found[key], equal_nan=array.dtype.kind in "fc"), (path, key)
        with open_raw(path) as raw:
            count = sum(len(w) for _, w in raw.legacy or []) + len(raw.top_level) + len(raw.store or {})
            assert len(found) == count, path


def run_extract(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(EXTRACT), *map(str, arguments)], capture_output=True, text=True, check=False)


def test_extractor_command(tmp_path: Path) -> None:
    source = old(tmp_path / "m.h5", {"file": {"file/k:0": KERNEL}, "b": {"b/self:0": KERNEL}})
    done = run_extract(source, tmp_path / "w.npz", "--list")
    assert done.returncode == 0, done.stderr
    assert "file/k" in done.stdout
    with np.load(tmp_path / "w.npz") as data:
        assert sorted(data.files) == ["b/self", "file/k"]
        assert np.array_equal(data["file/k"], KERNEL)
    assert run_extract(source).returncode == 2
    done = run_extract(tmp_path / "none.h5", tmp_path / "x.npz")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x.npz").exists()


def test_extractor_refuses(tmp_path: Path) -> None:
    path = old(tmp_path / "m.h5", {"a": {"w": KERNEL}})
    with h5py.File(path, "r+") as f:
        del f["model_weights/a/w"]
        f["model_weights/a/w"] = h5py.ExternalLink("other.h5", "/x")
    done = run_extract("--list", path)
    assert done.returncode == 1
    assert "not followed" in done.stderr
