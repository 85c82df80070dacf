"""Samples in tables: CSV and Parquet, one sample a row, the inputs' numbers side by side.

Columns are taken by name where they are called like the inputs ("speed", or "image_0", "image_1", … for more than one number);
else in order, the first input's numbers first.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import IO, Any

import numpy as np

from npinfer.arrays_io import Chunk, Source, mark_of, opening, span
from npinfer.errors import EngineError, FormatError, ShapeError
from npinfer.executors.signature import show
from npinfer.graph import Array, Spec
from npinfer.npy_streams import NpyStream, Streams


def standard_input(specs: Sequence[Spec], header: bool | None) -> Source:
    """CSV or one .npy array from standard input, told apart by the first bytes."""
    stream: Any = sys.stdin.buffer
    if stream.peek(6)[:6] == b"\x93NUMPY":
        return Streams([NpyStream(stream, "stdin")], specs, "stdin")
    return Csv("-", specs, header, io.TextIOWrapper(stream, "utf-8-sig", newline=""))


class Layout:
    """How a table's columns become the inputs' arrays."""

    def __init__(self, names: Sequence[str] | None, columns: int, specs: Sequence[Spec], path: str) -> None:
        self.specs = specs
        known = [int(np.prod([n for n in s.shape if n is not None], dtype=np.int64)) for s in specs]
        open_ = [k for k, s in enumerate(specs) if None in s.shape]
        left = columns - sum(n for k, n in enumerate(known) if k not in open_)
        if len(open_) > 1:
            raise ShapeError(f"{path}: a table can't tell how columns share among inputs of unknown size; use .npz")
        if open_:
            k = open_[0]
            if left < 1 or left % known[k] or sum(n is None for n in specs[k].shape) > 1:
                raise ShapeError(f"{path}: {columns} columns don't fill input {specs[k].name!r} {show(specs[k].shape)}")
            known[k] = left
        if sum(known) != columns:
            needs = ", ".join(f"{n} for {s.name!r}" for n, s in zip(known, specs))
            raise ShapeError(f"{path}: {columns} columns; the model needs {sum(known)} ({needs})")
        self.counts = known
        self.order = self._by_name(names)

    def _by_name(self, names: Sequence[str] | None) -> list[int] | None:
        if names is None:
            return None
        wanted = []
        for spec, n in zip(self.specs, self.counts):
            wanted += [spec.name] if n == 1 and spec.name in names else [f"{spec.name}_{k}" for k in range(n)]
        places = {name: k for k, name in enumerate(names)}
        return [places[w] for w in wanted] if set(wanted) == set(names) and len(places) == len(names) else None

    def split(self, table: Array) -> list[Array]:
        """(n, columns) as one array an input."""
        table = table if self.order is None else table[:, self.order]
        arrays, at = [], 0
        for spec, count in zip(self.specs, self.counts):
            arrays.append(table[:, at : at + count].reshape(len(table), *(-1 if n is None else n for n in spec.shape)))
            at += count
        return arrays


class Csv:
    """Numbers in text, separated by comma, semicolon or tab; UTF-8, with or without a line of names."""

    total, cheap = None, False

    def __init__(self, path: str, specs: Sequence[Spec], header: bool | None, stream: IO[str] | None = None) -> None:
        self.path, self.specs, self.header, self.stream = path, specs, header, stream
        self.name = "stdin" if path == "-" else os.path.basename(path)
        self.mark = "stdin" if path == "-" else mark_of(path)

    def chunks(self, rows: int, skip: int = 0) -> Iterator[Chunk]:
        with opening(self.path):
            stream = self.stream or open(self.path, encoding="utf-8-sig", newline="")  # noqa: SIM115 (closed below)
        with stream:
            try:
                yield from self._chunks(stream, rows, skip)
            except UnicodeDecodeError as e:
                raise FormatError(
                    f"{self.name}: not UTF-8 text ({e.reason} at byte {e.start}); needed is a table of numbers in text"
                ) from None

    def _chunks(self, stream: IO[str], rows: int, skip: int) -> Iterator[Chunk]:
        lines = ((k, t) for k, t in enumerate(stream, 1) if t.strip())
        head = next(lines, None)
        if head is None:
            raise FormatError(f"{self.name}: empty; needs a line of numbers a sample, below a line of names if there is one")
        separator = max(",;\t", key=head[1].count)
        names = next(csv.reader([head[1]], delimiter=separator))
        has_names = self.header if self.header is not None else not all(map(_is_number, names))
        if has_names and not any(n.strip() for n in names):
            raise FormatError(f"{self.name}: its first line is empty but for separators; needs names of columns, or numbers")
        layout = Layout(names if has_names else None, len(names), self.specs, self.name)
        kept = [] if has_names else [head]
        first = 0
        while True:
            kept += islice(lines, rows - len(kept))
            if not kept:
                if not first:
                    raise FormatError(f"{self.name}: a line of names and nothing below it; needs a line of numbers a sample")
                return
            if first + len(kept) > skip:
                table = self._table(kept[max(0, skip - first) :], separator, len(names))
                at = max(first, skip)
                yield Chunk(span(self.name, at, len(table)), at, layout.split(table))
            first += len(kept)
            kept = []

    def _table(self, lines: list[tuple[int, str]], separator: str, columns: int) -> Array:
        try:
            table: Array = np.loadtxt(
                [t for _, t in lines], np.float64, comments=None, delimiter=separator, quotechar='"', ndmin=2
            )
            if table.shape == (len(lines), columns):
                return table
        except ValueError:
            pass
        for number, text in lines:  # slowly, to name the place
            fields = next(csv.reader([text], delimiter=separator))
            if len(fields) != columns:
                raise FormatError(
                    f"{self.name}, line {number}: {len(fields)} columns, the first line has {columns}; "
                    "needed is the same number in each"
                )
            for k, field in enumerate(fields, 1):
                if not _is_number(field):
                    raise FormatError(f"{self.name}, line {number}, column {k}: {field.strip()[:40]!r} is not a number")
        raise FormatError(
            f"{self.name}, lines {lines[0][0]} to {lines[-1][0]}: not a table of numbers; "
            "needed is one number between separators"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python reads 1_000, nobody's CSV means it


class Parquet:
    """A Parquet file: columns of numbers, or of lists of numbers of one length."""

    cheap = False

    def __init__(self, path: str, specs: Sequence[Spec]) -> None:
        self.path, self.specs, self.name, self.mark = path, specs, os.path.basename(path), mark_of(path)
        self.file: Any = None
        parquet, arrow = pyarrow()
        try:
            self.file = parquet.ParquetFile(path)
        except (arrow.ArrowException, ValueError) as e:
            raise FormatError(f"{path}: not a readable Parquet file: {str(e).splitlines()[0]}") from None
        self.total = int(self.file.metadata.num_rows)

    def chunks(self, rows: int, skip: int = 0) -> Iterator[Chunk]:
        meta = self.file.metadata
        first, group = 0, 0
        while group < meta.num_row_groups and first + meta.row_group(group).num_rows <= skip:
            first += meta.row_group(group).num_rows
            group += 1
        layout = None
        for batch in self.file.iter_batches(rows, row_groups=list(range(group, meta.num_row_groups))):
            count = batch.num_rows
            if first + count > skip:
                cut = max(0, skip - first)
                where = span(self.name, first + cut, count - cut)
                columns = [self._column(batch.column(k), name, where) for k, name in enumerate(batch.schema.names)]
                if layout is None:
                    names = [
                        f"{n}_{j}" if c.shape[1] > 1 else n
                        for n, c in zip(batch.schema.names, columns)
                        for j in range(c.shape[1])
                    ]
                    layout = Layout(names, len(names), self.specs, self.name)
                table = np.concatenate(columns, 1)[cut:]
                if table.shape[1] != sum(layout.counts):
                    raise FormatError(
                        f"{where}: lists of another length than in the rows before; needed is the same length in each row"
                    )
                yield Chunk(where, first + cut, layout.split(table))
            first += count

    def _column(self, column: Any, name: str, where: str) -> Array:
        """(n, numbers) of one column."""
        _, arrow = pyarrow()
        types = arrow.types
        fixed = types.is_fixed_size_list(column.type)
        if fixed or types.is_list(column.type) or types.is_large_list(column.type):
            if column.null_count:
                raise FormatError(f"{where}: column {name!r} has missing lists; needed is one in each row")
            if not fixed and len(column.value_lengths().unique()) > 1:
                raise FormatError(
                    f"{where}: column {name!r} has lists of different lengths; needed is the same length in each row"
                )
            return self._column(column.flatten(), name, where).reshape(len(column), -1)
        if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)):
            raise FormatError(f"{where}: column {name!r} holds {column.type}; needed are numbers")
        array: Array = column.to_numpy(zero_copy_only=False)  # missing numbers become NaN
        return array.reshape(-1, 1)


def pyarrow() -> tuple[Any, Any]:
    """(pyarrow.parquet, pyarrow). Raises EngineError saying what to install."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EngineError("Parquet needs pyarrow: pip install npinfer[parquet]") from None
    return pyarrow.parquet, pyarrow
