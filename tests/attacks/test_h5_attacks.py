"""HDF5 files that reach out, lie or overflow: each is refused for its own reason, fast, and nothing else is opened."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5_edits import EDITS, KERNEL_PATH
from hostile_files import KERNEL, old, outcome, patch, store

from npinfer import FormatError, LimitError, Limits, read_weights
from npinfer.readers.h5_checks import Storage, check_storage
from npinfer.readers.h5_headers import MAX_BLOCKS, messages
from npinfer.readers.limits import DEFAULT, Budget
from npinfer.readers.sniff import open_raw


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return old(tmp_path / "sound.h5")


def refuse(source: Any, kind: type[Exception], says: str, limits: Limits | None = None) -> None:
    error = outcome(lambda: read_weights(source, limits))
    assert type(error) is kind, error
    assert says in str(error)


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("in_memory", [False, True], ids=["path", "bytes"])
def test_edited(tmp_path: Path, name: str, in_memory: bool) -> None:
    edit, kind, says = EDITS[name]
    path = old(tmp_path / "bad.h5")
    old(tmp_path / "sound.h5")
    with h5py.File(path, "r+") as f:
        edit(f)
    refuse(path.read_bytes() if in_memory else path, kind, says)


def test_paths_that_go_round_and_round(tmp_path: Path) -> None:
    """Long names through a group that holds itself: millions of steps in a small file."""
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as f:
        group = f.create_group("a")
        group["a"], group.attrs["weight_names"] = group, np.array([b"a/" * 15_000 + b"x"] * 2)
        f.attrs["layer_names"] = np.array([b"a"] * 20)
    refuse(path, LimitError, "a path of 15,001 names")
    with h5py.File(path, "r+") as f:
        for k in range(16):
            f[f"a/s{k}"] = h5py.SoftLink("/a/" + f"s{k + 1}/" * 50 if k < 15 else "/a")
        f["a"].attrs["weight_names"] = np.array([b"s0/x"])
    refuse(path, FormatError, "in a circle")
    refuse(path, LimitError, "more than 20", Limits(objects=20))


def test_dense_attribute_storage(tmp_path: Path) -> None:
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w", libver="latest") as f:
        for k in range(20):
            f.attrs[f"other{k}"] = k
        f.attrs["layer_names"] = ["a", "b"]
    refuse(path, FormatError, "stored in a way")


def reference(data: bytes, length: int) -> int:
    """Where in a file a reference to a string of this length stands."""
    at, found = data.find(b"GCOL"), []
    while at >= 0:
        found.append(data.find(struct.pack("<IQ", length, at)))
        at = data.find(b"GCOL", at + 1)
    return max(found)


def test_one_string_a_thousand_times(tmp_path: Path) -> None:
    """A 1 MB string that an attribute of a thousand elements names again and again: a gigabyte when read."""
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as f:
        f.attrs.create("layer_names", ["x" * (1 << 20)] + ["y"] * 999, dtype=h5py.string_dtype())
    data = path.read_bytes()
    at = reference(data, 1 << 20)
    path.write_bytes(data[:at] + data[at : at + 16] * 1000 + data[at + 16_000 :])
    refuse(path, LimitError, "bytes of attributes")


def test_strings_longer_than_the_heap(tmp_path: Path) -> None:
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as f:
        f.attrs.create("layer_names", ["abcdefg"], dtype=h5py.string_dtype())
    data = path.read_bytes()
    at = reference(data, 7)
    path.write_bytes(data[:at] + struct.pack("<I", 1 << 20) + data[at + 4 :])
    refuse(path, FormatError, "a string of 1,048,576 bytes")
    path.write_bytes(data[: at + 4] + struct.pack("<Q", 8) + data[at + 12 :])
    refuse(path, FormatError, "no strings where")


def test_heap_that_never_ends(tmp_path: Path) -> None:
    """Objects without a length: the HDF5 library goes round in them for ever."""
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as f:
        f.attrs.create("layer_names", ["abcdefg"], dtype=h5py.string_dtype())
    data = path.read_bytes()
    at = data.index(b"GCOL") + 16
    path.write_bytes(data[: at + 8] + struct.pack("<Q", 0) + bytes(4096 - 32) + data[at + 4096 - 16 :])
    refuse(path, FormatError, "a string of 7 bytes")


def test_header_that_goes_round(tmp_path: Path) -> None:
    """An object header whose continuation is itself."""
    block = struct.pack("<HHBxxx", 0x10, 16, 0) + struct.pack("<QQ", 16, 24)
    head = struct.pack("<BxHII4x", 1, 1, 1, 24)
    assert sum(1 for _ in messages(lambda at, n: (head + block + bytes(64))[at : at + n], 0)) < MAX_BLOCKS
    assert not list(messages(lambda at, n: b"", 0))


def test_arrays_on_top_of_each_other(sound: Path) -> None:
    with h5py.File(sound) as f:
        offset, size = f[KERNEL_PATH].id.get_offset(), KERNEL.nbytes
    place = struct.pack("<QQ", offset, size)
    patch(sound, place, struct.pack("<QQ", offset, sound.stat().st_size + 1))
    refuse(sound, FormatError, "overlap")


def test_array_behind_the_end(sound: Path) -> None:
    with h5py.File(sound) as f:
        offset, size = f[KERNEL_PATH].id.get_offset(), KERNEL.nbytes
    patch(sound, struct.pack("<QQ", offset, size), struct.pack("<QQ", sound.stat().st_size - 8, size))
    refuse(sound, FormatError, " again")  # newer HDF5 libraries notice it themselves
    storage = Storage((6, 8), 4, 192, offset=sound.stat().st_size - 8)
    with pytest.raises(FormatError, match="outside the file"):
        check_storage(storage, sound.stat().st_size, Budget(DEFAULT, 10_000), "x")


def test_addresses_of_four_bytes(tmp_path: Path) -> None:
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plist.set_sizes(4, 4)
    path = tmp_path / "bad.h5"
    h5py.h5f.create(str(path).encode(), fcpl=plist).close()
    refuse(path, FormatError, "addresses of (4, 4)")


@pytest.mark.parametrize("keep", [100, -512, -40])
@pytest.mark.parametrize("in_memory", [False, True])
def test_cut_off(sound: Path, keep: int, in_memory: bool) -> None:
    data = sound.read_bytes()[:keep]
    sound.write_bytes(data)
    refuse(data if in_memory else sound, FormatError, "copy the file again")


def test_noise_behind_the_signature() -> None:
    refuse(b"\x89HDF\r\n\x1a\n" + np.random.default_rng(1).bytes(4000), FormatError, "damaged")


def test_closed_before_reading(sound: Path) -> None:
    with open_raw(sound) as raw:
        assert raw.legacy is not None
        array = raw.legacy[0][1][0][1]
    with pytest.raises(FormatError, match="closed"):
        array.read()


@pytest.mark.parametrize("attributes", [{"nb_layers": -1}, {"nb_layers": 10**9}, {"nb_layers": "x"}, {"nb_layers": [1, 2]}])
def test_nb_layers(tmp_path: Path, attributes: dict[str, Any]) -> None:
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as f:
        f.attrs.update(attributes)
    refuse(path, FormatError, "nb_layers")


def test_nb_layers_without_groups(tmp_path: Path) -> None:
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as f:
        f.attrs["nb_layers"] = 1
    refuse(path, FormatError, "promises a group layer_0")
    with h5py.File(path, "r+") as f:
        f.create_group("layer_0")
    refuse(path, FormatError, "nb_params is None")
    with h5py.File(path, "r+") as f:
        f["layer_0"].attrs["nb_params"] = 1
    refuse(path, FormatError, "promises a dataset param_0")


def test_foreign_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as f:
        f["temperature"], f.attrs["unit"] = np.arange(3.0), "K"
    refuse(path, FormatError, "members: temperature; attributes: unit")


def test_store_with_a_cycle(tmp_path: Path) -> None:
    path = store(tmp_path / "bad.weights.h5")
    with h5py.File(path, "r+") as f:
        f["layers/again"] = f["/"]
    refuse(path, FormatError, "form no tree")


def test_store_that_doubles_at_each_level(tmp_path: Path) -> None:
    path = tmp_path / "bad.weights.h5"
    with h5py.File(path, "w") as f:
        inner = f.create_group("0/vars")
        inner["0"] = KERNEL
        for k in range(50):
            f[f"{k + 1}/a"] = f[f"{k}"]
            f[f"{k + 1}/b"] = f[f"{k}"]
    refuse(path, FormatError, "form no tree")


def test_store_too_deep(tmp_path: Path) -> None:
    path = tmp_path / "bad.weights.h5"
    with h5py.File(path, "w") as f:
        f["/".join("a" * 100) + "/vars/0"] = KERNEL
    refuse(path, LimitError, "nested more than 60")


def test_store_with_one_path_twice(tmp_path: Path) -> None:
    path = store(tmp_path / "bad.weights.h5")
    with h5py.File(path, "r+") as f:
        f["layers\\dense/vars/0"] = KERNEL
    refuse(path, FormatError, "two datasets")


def test_too_many_objects(sound: Path, tmp_path: Path) -> None:
    refuse(sound, LimitError, "more than 3", Limits(objects=3))
    refuse(store(tmp_path / "w.weights.h5"), LimitError, "more than 3", Limits(objects=3))


def test_attributes_beyond_the_limit(sound: Path) -> None:
    refuse(sound, LimitError, "Limits.json_bytes", Limits(json_bytes=500))


def test_attribute_larger_than_its_file(tmp_path: Path) -> None:
    """A dataspace of a million items on an attribute of three."""
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as f:
        f.attrs["layer_names"] = np.array([b"abcdefgh"] * 3)
    data = path.read_bytes()
    at = data.index(struct.pack("<Q", 3), data.index(b"layer_names"))
    path.write_bytes(data[:at] + struct.pack("<Q", 1_000_000) + data[at + 8 :])
    assert outcome(lambda: read_weights(path)) is not None
