"""Keras 3's containers read rightly: stores, zips and shards give the same arrays, and nothing is lost on the way."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from container_files import CONFIG, KERNEL, store

import npinfer
from npinfer import FormatError, read_weights
from npinfer.readers.sniff import open_raw


def test_store_order_names_and_training_state(tmp_path: Path) -> None:
    groups = {
        "layers/dense_10/vars": {"0": KERNEL},
        "layers/dense_2/vars": {str(k): KERNEL + k for k in range(12)},
        "_layer_checkpoint_dependencies/lstm/cell/vars": {"0": KERNEL},
        "optimizer/vars": {"0": KERNEL},
        "metrics\\mean/vars": {"0": KERNEL},
        "layers\\embedding/vars": {"0": KERNEL},
    }
    path = store(tmp_path / "m.weights.h5", groups, {"layers/dense_10/vars": "head"})
    with open_raw(path) as raw:
        assert raw.store is not None
        assert raw.store_names == {"layers/dense_10/vars": "head"}
        assert list(raw.store) == [
            "_layer_checkpoint_dependencies/lstm/cell/vars/0",
            *(f"layers/dense_2/vars/{k}" for k in range(12)),
            "layers/dense_10/vars/0",
            "layers/embedding/vars/0",
        ]
    found = read_weights(path)
    assert list(found) == ["lstm/cell", "dense_2", "head", "embedding"]
    assert list(found["dense_2"]) == [str(k) for k in range(12)]


def test_store_names_that_collide(tmp_path: Path) -> None:
    groups = {"layers/dense/vars": {"0": KERNEL}, "layers/dense_1/vars": {"0": KERNEL + 1}}
    path = store(tmp_path / "m.weights.h5", groups, dict.fromkeys(groups, "twin"))
    found = read_weights(path)
    assert list(found) == ["layers/dense/vars", "layers/dense_1/vars"]
    assert np.array_equal(found["layers/dense_1/vars"]["0"], KERNEL + 1)


def keras_zip(path: Path, extra: dict[str, bytes] | None = None, method: int = zipfile.ZIP_STORED) -> Path:
    memory = io.BytesIO()
    store(memory, {"layers/dense/vars": {"0": KERNEL}})
    content = {
        "metadata.json": b'{"keras_version": "3.5.0"}',
        "config.json": CONFIG.encode(),
        "model.weights.h5": memory.getvalue(),
        **(extra or {}),
    }
    with zipfile.ZipFile(path, "w", method) as z:
        for name, data in content.items():
            z.writestr(name, data)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_keras_zip(tmp_path: Path, method: int) -> None:
    path = keras_zip(tmp_path / "m.h5", {"assets/": b"", "assets/vocabulary.txt": b"a\nb"}, method)
    for source in (path, path.read_bytes()):
        with open_raw(source) as raw:
            assert raw.config == json.loads(CONFIG)
            assert raw.keras_version == "3.5.0"
            assert raw.ignored == ("assets/vocabulary.txt",)
            assert raw.store is not None
            assert np.array_equal(raw.store["layers/dense/vars/0"].read(), KERNEL)
    with open(path, "rb") as f:
        assert list(read_weights(f)) == ["dense"]
        assert not f.closed


def test_keras_zip_without_metadata(tmp_path: Path) -> None:
    path = keras_zip(tmp_path / "m.keras")
    with zipfile.ZipFile(path) as z:
        content = {n: z.read(n) for n in z.namelist() if n != "metadata.json"}
    with zipfile.ZipFile(path, "w") as z:
        for name, data in content.items():
            z.writestr(name, data)
    with open_raw(path) as raw:
        assert raw.keras_version is None


def sharded(folder: Path) -> tuple[bytes, dict[str, bytes]]:
    files = {
        "m_00000.weights.h5": {"layers/bn/vars": {"0": KERNEL, "1": KERNEL + 1}, "layers/dense/vars": {"0": KERNEL + 2}},
        "m_00001.weights.h5": {"layers/bn/vars": {"2": KERNEL + 3}, "layers/out/vars": {"0": KERNEL + 4}},
    }
    table = {
        "/layers/bn/vars": list(files),
        "/layers/dense/vars": "m_00000.weights.h5",
        "/layers/out/vars": "m_00001.weights.h5",
    }
    made = {}
    for name, groups in files.items():
        made[name] = store(folder / name, groups, {"layers/bn/vars": "norm"} if name < "m_00001" else None).read_bytes()
    return json.dumps({"metadata": {"total_size": 240}, "weight_map": table}).encode(), made


def test_sharded(tmp_path: Path) -> None:
    text, _ = sharded(tmp_path)
    (tmp_path / "m.weights.json").write_bytes(text)
    found = read_weights(tmp_path / "m.weights.json")
    assert {k: list(v) for k, v in found.items()} == {"norm": ["0", "1", "2"], "dense": ["0"], "out": ["0"]}
    assert np.array_equal(found["norm"]["2"], KERNEL + 3)


def test_shards_of_nothing(tmp_path: Path) -> None:
    """Keras 3 writes an empty map for a model without weights; another model misses its own by name."""
    path = tmp_path / "m.weights.json"
    path.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": {}}))
    assert read_weights(path) == {}
    first = {"class_name": "InputLayer", "config": {"batch_shape": [None, 3], "name": "x"}}
    relu = {"class_name": "ReLU", "config": {"name": "r"}}
    config = {"class_name": "Sequential", "config": {"name": "s", "layers": [first, relu]}}
    model = npinfer.load(path, config=config, engine="numpy")
    assert np.array_equal(model(-KERNEL.T), np.maximum(-KERNEL.T, 0))
    config["config"]["layers"][1] = {"class_name": "Dense", "config": {"name": "d", "units": 2}}
    with pytest.raises(FormatError, match=r"holds no weights at all; layer 'd' .* needs 2 arrays"):
        npinfer.load(path, config=config)


def test_sharded_in_a_zip(tmp_path: Path) -> None:
    text, files = sharded(tmp_path)
    content = {f"model_{n[2:]}": data for n, data in files.items()}
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("config.json", CONFIG)
        z.writestr("model.weights.json", text.replace(b"m_0", b"model_0"))
        for name, data in content.items():
            z.writestr(name, data)
    assert list(read_weights(path)) == ["norm", "dense", "out"]
