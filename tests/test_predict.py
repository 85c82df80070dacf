"""Feeding: everything predict takes gives the same numbers; results in files; errors that name the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feeding_files
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from feeding_files import ROWS, load, read

import npinfer
from npinfer.errors import DtypeError, FormatError, ShapeError

model, pair, x = feeding_files.model, feeding_files.pair, feeding_files.x


@pytest.fixture
def sources(x: Any, tmp_path: Path) -> dict[str, Any]:
    """The same samples in every form."""
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    np.savez(tmp_path / "x.npz", x0=x)
    np.savez_compressed(tmp_path / "z.npz", whatever=x)
    np.savetxt(tmp_path / "x.csv", x, "%.9g", delimiter=",")
    np.savetxt(tmp_path / "h.csv", x, "%.9g", delimiter=";", header=";".join(f"c{k}" for k in range(x.shape[1])), comments="")
    (tmp_path / "bom.csv").write_bytes(
        b"\xef\xbb\xbf" + (tmp_path / "x.csv").read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n"
    )
    pq.write_table(pa.table({f"c{k}": x[:, k] for k in range(x.shape[1])}), tmp_path / "x.parquet", row_group_size=20)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])
    pq.write_table(pa.table({"x": lists}), tmp_path / "l.parquet")
    (tmp_path / "ones").mkdir()
    (tmp_path / "parts").mkdir()
    for k, row in enumerate(x):
        np.save(tmp_path / "ones" / f"s{k}.npy", row)
    for k, part in enumerate(np.array_split(x, 7)):
        np.save(tmp_path / "parts" / f"{k}.npy", part)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = x
    store = zarr.open(str(tmp_path / "x.zarr"), mode="w", shape=x.shape, chunks=(10, *x.shape[1:]), dtype=x.dtype)
    store[:] = x
    paths = ("x.npy", "f.npy", "x.npz", "z.npz", "x.csv", "h.csv", "bom.csv", "x.parquet", "l.parquet", "ones", "parts")
    return {
        **{p: str(tmp_path / p) for p in paths},
        "path": tmp_path / "x.npy",
        "array": x,
        "lists": x.tolist(),
        "float64": x.astype(np.float64),
        "memmap": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "h5": h5py.File(tmp_path / "x.h5")["x"],
        "zarr": zarr.open(str(tmp_path / "x.zarr"), mode="r"),
        "iterator": lambda: iter(np.array_split(x, 5)),
    }


@pytest.mark.parametrize("batch_size", [1, 7, 50, ROWS, None])
def test_every_source_gives_the_same(model: npinfer.Model, x: Any, sources: dict[str, Any], batch_size: int | None) -> None:
    want = model(x)
    for name, source in sources.items():
        if batch_size == 1 and name not in ("array", "ones", "x.csv"):
            continue
        got = model.predict(source() if callable(source) else source, batch_size=batch_size, verbose=0)
        assert got.shape == want.shape, name
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * np.abs(want).max(), err_msg=name)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
def test_several_inputs_and_outputs(pair: npinfer.Model, tmp_path: Path, ending: str, resume: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(ROWS, *s.shape)).astype(np.float32) for s in pair.inputs)
    np.save(tmp_path / "a.npy", a)
    np.savetxt(tmp_path / "b.csv", b, "%.9g", delimiter="\t")
    source = {"in_b": tmp_path / "b.csv", "in_a": str(tmp_path / "a.npy")}
    written = npinfer.predict_file(pair, source, tmp_path / f"y{ending}", batch_size=10, resume=resume, verbose=0)
    assert (written.rows, written.resumed) == (ROWS, 0)
    for got, want in zip(read(tmp_path / f"y{ending}", ["cls", "val"]), pair([a, b])):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["a.npy", "b.csv", f"y{ending}"])


def test_columns_by_name(pair: npinfer.Model, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(9, *s.shape)).astype(np.float32) for s in pair.inputs)
    columns = {f"in_b_{k}": b[:, k] for k in range(4)} | {f"in_a_{k}": a[:, k] for k in (5, 4, 3, 2, 1, 0)}
    np.savetxt(
        tmp_path / "x.csv", np.stack(list(columns.values()), 1), "%.9g", delimiter=",", header=",".join(columns), comments=""
    )
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    np.savez(tmp_path / "x.npz", in_b=b, in_a=a, other=a)
    for name in ("x.csv", "x.parquet", "x.npz"):
        for got, want in zip(pair.predict(tmp_path / name), pair([a, b])):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=name)


def test_csv_reads_back_exactly(model: npinfer.Model, x: Any, tmp_path: Path) -> None:
    npinfer.predict_file(model, x, tmp_path / "y.csv", verbose=0)
    (got,) = read(tmp_path / "y.csv", [model.outputs[0].name])
    np.testing.assert_array_equal(got, model(x))


def test_open_sizes_in_tables_and_folders(tmp_path: Path) -> None:
    model = load("k3new/t3-conv1d-varlen.h5")
    rng = np.random.default_rng(1)
    (tmp_path / "d").mkdir()
    long, short = (rng.normal(size=(4, n, 3)).astype(np.float32) for n in (9, 6))
    for k, part in enumerate([*long, *short]):
        np.save(tmp_path / "d" / f"{k}.npy", part)
    np.savetxt(tmp_path / "x.csv", long.reshape(4, -1), delimiter=",")
    want = np.concatenate([model(long), model(short)])
    np.testing.assert_allclose(model.predict(tmp_path / "d"), want, rtol=1e-5)
    np.testing.assert_allclose(model.predict(tmp_path / "x.csv"), want[:4], rtol=1e-5)


def test_no_samples(model: npinfer.Model, tmp_path: Path) -> None:
    empty = np.zeros((0, *model.inputs[0].shape), np.float32)
    assert model.predict(empty).shape == (0, *model.outputs[0].shape)
    npinfer.predict_file(model, iter([]), tmp_path / "y.npy", verbose=0)
    assert np.load(tmp_path / "y.npy").shape == (0, *model.outputs[0].shape)
    with pytest.raises(ShapeError, match="no samples"):
        model.predict(iter([]))


BAD_TABLES = {
    "1,2,3\n": "3 columns; the model needs 6",
    "1,2,3,4,5,6\n1,2,3,4,5\n": "line 2: 5 columns, the first line has 6",
    "1,2,3,4,5,6\n\n1,2,x,4,5,6\n": "line 3, column 3: 'x' is not a number",
    "1,2,3,4,5,6\n1,,3,4,5,6\n": "line 2, column 2: '' is not a number",
    "": "empty; needs a line of numbers a sample",
    " \n\n": "empty; needs a line of numbers a sample",
    "a,b,c,d,e,f\n": "a line of names and nothing below it",
    ",,,,,\n1,2,3,4,5,6\n": "its first line is empty but for separators",
    "1,2,3,4,5,6\n1_0,2,3,4,5,6\n": "line 2, column 1: '1_0' is not a number",
}


@pytest.mark.parametrize("text", BAD_TABLES)
def test_bad_tables_name_the_place(model: npinfer.Model, tmp_path: Path, text: str) -> None:
    assert model.inputs[0].shape == (6,)
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises((FormatError, ShapeError)) as caught:
        model.predict(tmp_path / "x.csv")
    assert "x.csv" in str(caught.value)
    assert BAD_TABLES[text] in str(caught.value)


def bad_files(tmp_path: Path) -> dict[str, tuple[Any, str]]:
    (tmp_path / "junk.npy").write_bytes(b"junk")
    (tmp_path / "junk.npz").write_bytes(b"junk")
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    (tmp_path / "latin.csv").write_bytes(b"1,2,3,4,5,\xe4\n")
    np.save(tmp_path / "object.npy", np.array([{}, []], object), allow_pickle=True)
    np.savez(tmp_path / "object.npz", x=np.array([{}, []], object))
    np.savez(tmp_path / "names.npz", a=np.zeros(3), b=np.zeros(3))
    pq.write_table(pa.table({"a": ["x", "y"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [[1.0], [1.0, 2.0]]}), tmp_path / "ragged.parquet")
    (tmp_path / "x.bin").write_bytes(b"junk")
    (tmp_path / "empty").mkdir()
    return {
        "junk.npy": (FormatError, "junk.npy: not a readable .npy"),
        "junk.npz": (FormatError, "junk.npz: not a readable .npz"),
        "junk.parquet": (FormatError, "junk.parquet: not a readable Parquet"),
        "latin.csv": (FormatError, "latin.csv: not UTF-8"),
        "object.npy": (FormatError, "object.npy: not a readable .npy"),
        "object.npz": (FormatError, "object.npz:x: holds Python objects"),
        "names.npz": (FormatError, "names.npz: holds 'a', 'b'; needs"),
        "text.parquet": (FormatError, "column 'a' holds string"),
        "ragged.parquet": (FormatError, "column 'a' has lists of different lengths"),
        "empty": (FormatError, "a folder without .npy files"),
        "x.bin": (FormatError, "unknown kind of file|unknown kind '.bin'"),
        **{f"nothing.{e}": (FileNotFoundError, rf"nothing.{e}: no such file") for e in ("npy", "npz", "csv", "parquet", "x")},
    }


def test_bad_files(model: npinfer.Model, tmp_path: Path) -> None:
    for name, (kind, message) in bad_files(tmp_path).items():
        with pytest.raises(kind, match=message) as caught:
            model.predict(tmp_path / name)
        assert isinstance(caught.value, FormatError)


def test_errors_name_rows_and_files(tmp_path: Path) -> None:
    model = load("k3new/t1-Embedding-Flatten-Dense.h5")
    (spec,) = model.inputs
    x = np.zeros((50, *spec.shape))
    x[33] = np.nan
    np.save(tmp_path / "x.npy", x)
    if spec.dtype.kind in "iu":
        with pytest.raises(DtypeError, match=r"x\.npy, rows 0 to 49: row 33"):
            model.predict(tmp_path / "x.npy")
    (tmp_path / "d").mkdir()
    for k in range(5):
        np.save(tmp_path / "d" / f"p{k}.npy", np.zeros((2, *spec.shape) if k != 3 else (2, 3, 4)))
    with pytest.raises(ShapeError, match=r"p3\.npy"):
        model.predict(tmp_path / "d")


def test_inputs_of_different_lengths(pair: npinfer.Model, tmp_path: Path) -> None:
    a, b = (np.zeros((5 + k, *s.shape), np.float32) for k, s in enumerate(pair.inputs))
    with pytest.raises(ShapeError, match="'in_a' has 5, 'in_b' has 6"):
        pair.predict([a, b])
    for k, v in enumerate((a, b)):
        np.savetxt(tmp_path / f"{k}.csv", v, delimiter=",")
    with pytest.raises(ShapeError, match="different numbers of samples"):
        pair.predict([tmp_path / "0.csv", tmp_path / "1.csv"])
    with pytest.raises(ShapeError, match="different numbers of samples"):
        pair.predict([tmp_path / "0.csv", tmp_path / "1.csv"], batch_size=5)


def test_bad_batch_size(model: npinfer.Model, x: Any) -> None:
    for size in (0, -1, 1.5):
        with pytest.raises(ShapeError, match="batch_size"):
            model.predict(x, batch_size=size)  # type: ignore[arg-type]


def test_one_sample_is_refused(model: npinfer.Model, pair: npinfer.Model, x: Any) -> None:
    for call in (lambda: model.predict(x[0]), lambda: model.predict(iter([x[0]]))):
        with pytest.raises(ShapeError, match="batch axis"):
            call()
    with pytest.raises(ShapeError, match="batch axis"):
        pair.predict([np.zeros(s.shape) for s in pair.inputs])
