"""read_weights: names that say enough, arrays that are all there; the extractor that runs alone gives the same."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import GOLDEN
from container_files import KERNEL, old

from npinfer import read_weights
from npinfer.readers import read
from npinfer.readers.sniff import open_raw
from npinfer.readers.weights import flatten

EXTRACT = Path(__file__).resolve().parent.parent / "tools" / "extract_weights.py"


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
        with open_raw(path) as raw:
            if raw.store is None or raw.config is None:
                assert [k for k, _ in alone] == list(found), path
            else:  # the extractor knows no architecture: variables are numbers
                assert all(k.rpartition("/")[2].isdecimal() for k, _ in alone), path
                assert not any(k.rpartition("/")[2].isdecimal() for k in found), path
            for (key, array), other in zip(alone, found.values(), strict=True):
                assert array.dtype == other.dtype, (path, key)
                assert np.array_equal(array, other, equal_nan=array.dtype.kind in "fc"), (path, key)
            count = sum(len(w) for _, w in raw.legacy or []) + len(raw.top_level) + len(raw.store or {})
            assert len(found) == count, path


STORES = {
    "k30/t2-nested-seq-in-func.keras": {"inner_seq/s1": ["kernel", "bias"], "out": ["kernel", "bias"]},
    "tf215/t1-Normalization-adapt.keras": {"normalization": ["mean", "variance", "count"], "dense": ["kernel", "bias"]},
}
RECURRENT = {
    "mask-init-lstm": {"r": ["kernel", "recurrent_kernel", "bias"]},
    "bi-mask-seq": {"b/forward_layer/cell": ["kernel", "recurrent_kernel", "bias"]},
    "mha-mask": {"att/query_dense": ["kernel", "bias"]},
}


@pytest.mark.parametrize(("path", "expected"), [
    *((GOLDEN / p, e) for p, e in STORES.items()),
    *((GOLDEN.parent / "recurrent" / "k3" / f"{n}.keras", e) for n, e in RECURRENT.items()),
], ids=lambda v: v.stem if isinstance(v, Path) else "")  # fmt: skip
def test_keras_zips_name_their_variables(path: Path, expected: dict[str, list[str]]) -> None:
    """By the architecture inside, whatever the store calls its groups, with each array in its place."""
    found = read_weights(path)
    assert {k: list(found[k]) for k in expected} == expected
    with open_raw(path) as raw:
        assert sum(map(len, found.values())) == len(raw.store or {})
    archive = read(path)
    for layers, held in archive.weights.items():
        for name, array in held.items():
            place, _, variable = name.rpartition("/")
            near = [v for k, v in found.items() if k in ("/".join(layers), "/".join((*layers, place))) and variable in v]
            assert any(np.array_equal(v[variable], array) for v in near), name


def zipped(path: Path, config: str, groups: dict[str, list[Any]], names: dict[str, str] | None = None) -> Path:
    """A .keras file; names: the groups' `name` attributes."""
    held = io.BytesIO()
    with h5py.File(held, "w") as f:
        f.create_group("layers")
        for group, arrays in groups.items():
            for k, array in enumerate(arrays):
                f.create_dataset(f"layers/{group}/vars/{k}", data=array)
            if names is not None:
                f[f"layers/{group}/vars"].attrs["name"] = names[group]
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("config.json", config)
        z.writestr("metadata.json", json.dumps({"keras_version": "3.5.0"}))
        z.writestr("model.weights.h5", held.getvalue())
    return path


def test_numbers_stay_where_the_architecture_does_not_tell(tmp_path: Path) -> None:
    """A class that nobody knows, a group too many, an architecture without sense: every array is there, under its number."""
    layers = [
        {"class_name": "Dense", "config": {"name": "first", "units": 4}, "module": "keras.layers"},
        {"class_name": "Odd", "config": {"name": "second"}, "module": "mine", "registered_name": "mine>Odd"},
    ]
    config = json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": layers}})
    path = zipped(tmp_path / "m.keras", config, {"dense": [KERNEL, KERNEL[0]], "odd": [KERNEL], "left": [KERNEL]})
    assert {k: list(v) for k, v in read_weights(path).items()} == {"first": ["kernel", "bias"], "odd": ["0"], "left": ["0"]}
    layers[1] = {"class_name": "Dense", "config": {"name": "second", "units": 4}, "module": "keras.layers"}
    config = json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": layers}})
    swapped = {"dense": ("second", [KERNEL]), "dense_1": ("first", [KERNEL + 1])}
    path = zipped(
        tmp_path / "m.keras", config, {n: a for n, (_, a) in swapped.items()}, {n: k for n, (k, _) in swapped.items()}
    )
    assert {k: list(v) for k, v in read_weights(path).items()} == {"second": ["0"], "first": ["0"]}
    path = zipped(tmp_path / "m.keras", json.dumps({"class_name": "Actor", "config": {}}), {"dense": [KERNEL]})
    assert list(read_weights(path)["dense"]) == ["0"]


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
