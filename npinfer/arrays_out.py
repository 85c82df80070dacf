"""Results into files: .npy, .npz, CSV and Parquet, written piece by piece in constant memory.

They go to a temporary name first (npinfer/destination.py).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from npinfer.errors import FormatError, ShapeError
from npinfer.graph import Array, Spec

ENDINGS = (".npy", ".npz", ".csv", ".parquet")
HEADER_BYTES = 256  # of the .npy files written here: room for any shape, so that the row count can be filled in at the end


class Writer(Protocol):
    """Takes chunks of results, one array an output with the batch axis in front. `close` completes the file, `abort` lets go
    of it, whatever is in it."""

    def write(self, arrays: Sequence[Array]) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


def ending_of(path: str | os.PathLike[str], outputs: int) -> str:
    """The kind of file that a result's name asks for. Raises FormatError for unknown ones and for several outputs in .npy."""
    ending = Path(path).suffix.lower()
    ending = ".parquet" if ending == ".pq" else ending
    if ending not in ENDINGS:
        raise FormatError(f"{path}: unknown kind of file {ending!r}; results go to {', '.join(ENDINGS)}")
    if ending == ".npy" and outputs != 1:
        raise FormatError(f"{path}: .npy holds one array, the model has {outputs} outputs; use .npz")
    return ending


def open_writer(path: Path, ending: str, specs: Sequence[Spec]) -> Writer:
    """The Writer for a kind of file. specs: the model's outputs."""
    if ending == ".npy":
        return Npy(path, specs[0])
    if ending == ".npz":
        return Npz(path, specs)
    if ending == ".csv":
        return Csv(open(path, "w", encoding="utf-8", newline="\n"), specs)
    return Parquet(path, specs)


class Npy:
    """One array. `rows`: how many an existing file is cut to, to write on after them."""

    def __init__(self, path: Path, spec: Spec, rows: int = 0) -> None:
        self.spec, self.rows = spec, rows
        self.shape: tuple[int, ...] = tuple(0 if n is None else n for n in spec.shape)
        self.file: IO[bytes] = open(path, "r+b" if rows else "w+b")  # noqa: SIM115 (closed in close)
        if rows:
            np.lib.format.read_magic(self.file)
            self.shape = np.lib.format.read_array_header_1_0(self.file)[0][1:]
            self.file.truncate(HEADER_BYTES + rows * self._row_bytes())
            self.file.seek(0, os.SEEK_END)
        else:
            self.file.write(b"\0" * HEADER_BYTES)

    def _row_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.spec.dtype.itemsize

    def write(self, arrays: Sequence[Array]) -> None:
        (y,) = arrays
        if self.rows == 0:
            self.shape = y.shape[1:]
        elif y.shape[1:] != self.shape:
            raise ShapeError(
                f"output {self.spec.name!r}: samples of shape {y.shape[1:]} after ones of {tuple(self.shape)}; "
                "one array can't hold both: run them apart"
            )
        self.file.write(np.ascontiguousarray(y, self.spec.dtype).data.cast("B"))
        self.rows += len(y)

    def mark(self) -> None:
        """Make the file whole as it stands."""
        end = self.file.tell()
        shape = (self.rows, *self.shape)
        text = repr({"descr": np.lib.format.dtype_to_descr(self.spec.dtype), "fortran_order": False, "shape": shape})
        text = text.ljust(HEADER_BYTES - 11) + "\n"
        self.file.seek(0)
        self.file.write(b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little") + text.encode("latin-1"))
        self.file.seek(end)
        self.file.flush()

    def close(self) -> None:
        self.mark()
        self.file.close()

    def abort(self) -> None:
        self.file.close()


class Npz:
    """Several arrays under the outputs' names. A zip takes one member at a time, so each waits in a file of its own."""

    def __init__(self, path: Path, specs: Sequence[Spec]) -> None:
        self.path, self.names = path, unique([s.name for s in specs])
        self.folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        self.parts = [Npy(self.folder / f"{k}.npy", s) for k, s in enumerate(specs)]

    def write(self, arrays: Sequence[Array]) -> None:
        for part, y in zip(self.parts, arrays):
            part.write([y])

    def close(self) -> None:
        for part in self.parts:
            part.close()
        pack(self.path, {n: self.folder / f"{k}.npy" for k, n in enumerate(self.names)})
        shutil.rmtree(self.folder, ignore_errors=True)

    def abort(self) -> None:
        for part in self.parts:
            part.abort()
        shutil.rmtree(self.folder, ignore_errors=True)


def unique(names: Sequence[str]) -> list[str]:
    """The names, numbered where two are the same or one is missing."""
    return [n if n and names.count(n) == 1 else f"{n or 'output'}_{k}" for k, n in enumerate(names)]


def pack(path: Path, members: dict[str, Path]) -> None:
    """An uncompressed .npz of .npy files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, file in members.items():
            archive.write(file, f"{name}.npy")


class Csv:
    """A line of names, then one line a sample; numbers in the fewest digits that read back as the same number."""

    def __init__(self, file: IO[str], specs: Sequence[Spec], close: bool = True) -> None:
        self.file, self.names, self.owned, self.columns = file, unique([s.name for s in specs]), close, -1
        self.empty = [f"{n}" for n in self.names]

    def write(self, arrays: Sequence[Array]) -> None:
        flat = [y.reshape(len(y), -1) for y in arrays]
        width = sum(y.shape[1] for y in flat)
        if self.columns < 0:
            self.columns = width
            head = [n if y.shape[1] == 1 else f"{n}_{k}" for n, y in zip(self.names, flat) for k in range(y.shape[1])]
            self.file.write(",".join(map(_quoted, head)) + "\n")
        elif width != self.columns:
            raise ShapeError(
                f"samples with {width} numbers after ones with {self.columns}; one table can't hold both: run them apart"
            )
        texts = [y.astype(str).tolist() for y in flat]
        self.file.writelines(",".join(v for part in row for v in part) + "\n" for row in zip(*texts))

    def close(self) -> None:
        if self.columns < 0:
            self.file.write(",".join(map(_quoted, self.empty)) + "\n")
        self.file.flush()
        self.abort()

    def abort(self) -> None:
        if self.owned:
            self.file.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',;"\n\r\t') else name


class Parquet:
    """A column an output: numbers, or lists of fixed length (flattened; the shape is in the field's metadata)."""

    def __init__(self, path: Path, specs: Sequence[Spec]) -> None:
        from npinfer.tables import pyarrow

        self.parquet, self.arrow = pyarrow()
        self.path, self.specs, self.names = path, specs, unique([s.name for s in specs])
        self.writer: Any = None

    def _start(self, arrays: Sequence[Array]) -> None:
        fields = []
        for name, y in zip(self.names, arrays):
            kind, size = self.arrow.from_numpy_dtype(y.dtype), int(np.prod(y.shape[1:], dtype=np.int64))
            kind = kind if y.ndim == 1 or size == 1 else self.arrow.list_(kind, size)
            fields.append(self.arrow.field(name, kind, metadata={"shape": "x".join(map(str, y.shape[1:]))}))
        self.schema = self.arrow.schema(fields)
        self.writer = self.parquet.ParquetWriter(self.path, self.schema)

    def write(self, arrays: Sequence[Array]) -> None:
        if self.writer is None:
            self._start(arrays)
        columns = []
        for field, y in zip(self.schema, arrays):
            flat = self.arrow.array(np.ascontiguousarray(y).reshape(-1))
            if self.arrow.types.is_fixed_size_list(field.type):
                if y[0].size != field.type.list_size:
                    raise ShapeError(
                        f"output {field.name!r}: samples of {y[0].size} numbers after {field.type.list_size}; run them apart"
                    )
                flat = self.arrow.FixedSizeListArray.from_arrays(flat, field.type.list_size)
            columns.append(flat)
        self.writer.write_table(self.arrow.Table.from_arrays(columns, schema=self.schema))

    def close(self) -> None:
        if self.writer is None:
            self._start([np.zeros((0, *(0 if n is None else n for n in s.shape)), s.dtype) for s in self.specs])
        self.writer.close()

    def abort(self) -> None:
        if self.writer is not None:
            self.writer.close()
