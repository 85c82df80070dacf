"""Samples in files: .npy, .npz, folders of .npy, CSV and Parquet, read piece by piece, so that they may exceed memory.

A `Source` hands out chunks of up to so many rows, each with one array for every input of the model and a text that says where
the rows come from. `open_source` makes one of whatever `predict` takes. The writing half is arrays_out.py.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from npinfer import inputs as arrange
from npinfer.errors import FormatError, NpinferError, ShapeError, shown
from npinfer.executors.signature import fits, show
from npinfer.graph import Array, Spec


class Chunk(NamedTuple):
    """Some consecutive rows: `arrays[k]` is (n, …) for input k, `first` the number of the first row, `where` its origin."""

    where: str
    first: int
    arrays: list[Any]


class Source(Protocol):
    """Rows for a model. total: how many, None where nobody knows before the end. cheap: reading a chunk costs nothing, so
    that reading ahead in a thread wouldn't pay. mark: what tells this source from another when a run is resumed."""

    @property
    def total(self) -> int | None: ...

    @property
    def cheap(self) -> bool: ...

    @property
    def mark(self) -> str: ...

    def chunks(self, rows: int, skip: int = 0) -> Iterator[Chunk]: ...


def is_path(x: Any) -> bool:
    return isinstance(x, (str, os.PathLike))


def open_source(x: Any, specs: Sequence[Spec], structure: Any, header: bool | None = None) -> Source:
    """A Source of what a caller passes to predict: arrays or things that slice like arrays (one, or a list or dict for several
    inputs), a path or a list or dict of paths, or an iterator of batches.

    header: whether a CSV file's first line names its columns; None: it does if it isn't all numbers.
    Raises ShapeError where the number or names of inputs don't fit, FormatError for files that can't be read, among them
    MissingFileError and UnreadableFileError, which are OSErrors too.
    """
    if is_path(x):
        return open_path(os.fspath(x), specs, header)
    if isinstance(x, Iterator):
        return Batches(x, specs, structure)
    values = arrange.flatten(x, specs, structure)
    if not any(is_path(v) for v in values):
        return Arrays(values, specs)
    several = [open_path(os.fspath(v), [s], header) if is_path(v) else Arrays([v], [s]) for v, s in zip(values, specs)]
    return several[0] if len(several) == 1 else Zipped(several, specs)


@contextlib.contextmanager
def opening(path: str) -> Iterator[None]:
    """What the system says of a file that can't be opened comes out as FormatError, of the kind that it is."""
    from npinfer.readers.source import MissingFileError, UnreadableFileError

    try:
        yield
    except NpinferError:
        raise
    except FileNotFoundError as e:
        raise MissingFileError(f"{e.filename or path}: no such file; needed are samples to predict") from None
    except PermissionError as e:
        raise UnreadableFileError(f"{e.filename or path}: no permission to read it") from None
    except OSError as e:
        raise FormatError(f"{path}: can't be read: {e.strerror or e}") from e


def open_path(path: str, specs: Sequence[Spec], header: bool | None = None) -> Source:
    """The Source for a file or folder, told by its name's ending; "-" is CSV (or .npy) from standard input."""
    if path == "-":
        from npinfer import tables

        return tables.standard_input(specs, header)
    with opening(path):
        if not path or "\0" in path:
            raise FormatError(f"predict({shown(path)}): needs the path of a file of samples")
        return _open_path(path, specs, header)


def _open_path(path: str, specs: Sequence[Spec], header: bool | None) -> Source:
    from npinfer import npy_streams, tables

    if os.path.isdir(path):
        return Folder(path, specs)
    os.stat(path)  # missing says more than an unknown kind
    ending = os.path.splitext(path)[1].lower()
    if ending == ".npy":
        if len(specs) != 1:
            raise ShapeError(f"{path}: one array, the model takes {names_of(specs)}; pass one file an input, by name")
        return Arrays([_load(path)], specs, mark_of(path), os.path.basename(path))
    if ending == ".npz":
        return npy_streams.Npz(path, specs)
    if ending in (".csv", ".tsv", ".txt"):
        return tables.Csv(path, specs, header)
    if ending in (".parquet", ".pq"):
        return tables.Parquet(path, specs)
    raise FormatError(f"{path}: unknown kind {ending!r}; samples come as .npy, .npz, .csv, .parquet or a folder of .npy")


def names_of(specs: Sequence[Spec]) -> str:
    return ", ".join(f"{s.name!r} {show(s.shape)}" for s in specs)


def mark_of(path: str) -> str:
    info = os.stat(path)
    return f"{os.path.abspath(path)}:{info.st_size}:{info.st_mtime_ns}"


def span(name: str, first: int, count: int) -> str:
    """Where rows are, for a message: "x.npy, rows 0 to 99"."""
    return f"{name}, row {first}" if count == 1 else f"{name}, rows {first} to {first + count - 1}"


def _load(path: str) -> Array:
    """A .npy file as a memory map."""
    try:
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as e:
        raise FormatError(
            f"{path}: not a readable .npy file ({e}); needed is one array of numbers, as numpy.save writes it"
        ) from None
    return found


class Arrays:
    """Arrays in memory, memory maps, h5py and zarr datasets: anything with `shape`, `dtype` and slicing."""

    def __init__(self, values: Sequence[Any], specs: Sequence[Spec], mark: str = "", name: str = "") -> None:
        self.columns = [v if _sliceable(v) else _array(v, s) for v, s in zip(values, specs)]
        shapes = [tuple(c.shape) for c in self.columns]
        if len(specs) > 1 and all(fits(shape, s.shape) for shape, s in zip(shapes, specs)):
            raise ShapeError("predict takes batches: got one sample without its batch axis; use model(x)")
        for s, shape in zip(specs, shapes):
            if not shape:
                raise ShapeError(f"input {s.name!r}: got a single number; needs a batch of {show((None, *s.shape))}")
        counts = {shape[0] for shape in shapes}
        if len(counts) > 1:
            sizes = ", ".join(f"{s.name!r} has {shape[0]}" for s, shape in zip(specs, shapes))
            raise ShapeError(f"the inputs hold different numbers of samples: {sizes}; they must agree")
        self.total: int | None = counts.pop()
        self.cheap = all(type(c) is np.ndarray for c in self.columns)
        self.mark = mark or repr([(s, str(c.dtype)) for s, c in zip(shapes, self.columns)])
        self.name = name

    def chunks(self, rows: int, skip: int = 0) -> Iterator[Chunk]:
        assert self.total is not None
        for start in range(skip, max(self.total, 1), rows):
            stop = min(start + rows, self.total)
            where = span(self.name, start, stop - start) if self.name else span("input", start, stop - start)
            yield Chunk(where, start, [np.asarray(c[start:stop]) for c in self.columns])


def _array(value: Any, spec: Spec) -> Array:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError, RuntimeError) as e:
        raise ShapeError(f"input {spec.name!r}: not an array of numbers: {e}") from None


def _sliceable(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__getitem__")


class Batches:
    """An iterator of batches, each what a call takes; they keep their sizes."""

    total, cheap, mark = None, False, "iterator"

    def __init__(self, items: Iterator[Any], specs: Sequence[Spec], structure: Any) -> None:
        self.items, self.specs, self.structure = items, specs, structure

    def chunks(self, rows: int, skip: int = 0) -> Iterator[Chunk]:
        first = 0
        for k, item in enumerate(self.items):
            arrays, single = arrange.batch(arrange.flatten(item, self.specs, self.structure), self.specs)
            if single and any(len(s.shape) > 0 for s in self.specs):
                raise ShapeError(f"batch {k}: got one sample without its batch axis; an iterator must give batches")
            count = len(arrays[0])
            if first + count > skip:
                cut = max(0, skip - first)
                yield Chunk(f"batch {k}", first + cut, [a[cut:] for a in arrays])
            first += count


class Zipped:
    """One source an input, read in step."""

    def __init__(self, parts: Sequence[Source], specs: Sequence[Spec]) -> None:
        self.parts, self.specs = parts, specs
        known = {p.total for p in parts} - {None}
        if len(known) > 1:
            sizes = ", ".join(f"{s.name!r} has {p.total}" for s, p in zip(specs, parts) if p.total is not None)
            raise ShapeError(f"the inputs hold different numbers of samples: {sizes}; they must agree")
        self.total: int | None = known.pop() if known else None
        self.cheap = all(p.cheap for p in parts)
        self.mark = " ".join(p.mark for p in parts)

    def chunks(self, rows: int, skip: int = 0) -> Iterator[Chunk]:
        for several in _in_step([p.chunks(rows, skip) for p in self.parts]):
            counts = [len(c.arrays[0]) for c in several]
            if len(set(counts)) > 1:
                found = "; ".join(f"{s.name!r}: {c.where}" for s, c in zip(self.specs, several))
                raise ShapeError(f"the inputs hold different numbers of samples: {found}; they must agree")
            yield Chunk(several[0].where, several[0].first, [c.arrays[0] for c in several])


def _in_step(parts: Sequence[Iterator[Chunk]]) -> Iterator[list[Chunk]]:
    while True:
        got = [next(p, None) for p in parts]
        chunks = [c for c in got if c is not None]
        if not chunks:
            return
        if len(chunks) < len(got):
            raise ShapeError(
                f"the inputs hold different numbers of samples: one ends before {chunks[0].where}; they must agree"
            )
        yield chunks


class Folder:
    """A folder of .npy files in the order of their names (10 after 9), each one sample or a batch of them."""

    def __init__(self, path: str, specs: Sequence[Spec]) -> None:
        if len(specs) != 1:
            raise ShapeError(
                f"{path}: a folder holds one input's samples, the model takes {names_of(specs)}; pass one an input"
            )
        self.path, self.rank = path, len(specs[0].shape)
        names = [n for n in os.listdir(path) if n.lower().endswith(".npy")]
        self.files = sorted(names, key=lambda n: [(0, int(t), "") if t.isdigit() else (1, 0, t) for t in re.split(r"(\d+)", n)])
        if not names:
            raise FormatError(f"{path}: a folder without .npy files; needed are some, of one sample or one batch each")
        single = _load(os.path.join(path, self.files[0])).ndim == self.rank
        self.total = len(self.files) if single else None
        self.cheap, self.mark = False, f"{os.path.abspath(path)}:{len(names)}:{self.files[-1]}"

    def chunks(self, rows: int, skip: int = 0) -> Iterator[Chunk]:
        return joined(self._pieces(), rows, skip)

    def _pieces(self) -> Iterator[tuple[str, Array]]:
        for name in self.files:
            array = _load(os.path.join(self.path, name))
            if array.ndim not in (self.rank, self.rank + 1):
                raise ShapeError(f"{name}: shape {show(array.shape)}; needs a sample of {self.rank} axes or a batch of them")
            yield name, array[None] if array.ndim == self.rank else array


def joined(pieces: Iterable[tuple[str, Array]], rows: int, skip: int) -> Iterator[Chunk]:
    """Pieces of any size as chunks of `rows` (fewer at the end, and where the samples' shape or dtype changes)."""
    held: list[Array] = []
    names: list[str] = []
    first, count = 0, 0  # of what is held

    def flush() -> Chunk:
        name = names[0] if names[0] == names[-1] else f"{names[0]} to {names[-1]}"
        return Chunk(f"{name} (row {first} on)", first, [held[0] if len(held) == 1 else np.concatenate(held)])

    for name, array in pieces:
        if first + count + len(array) <= skip and not held:
            first += len(array)
            continue
        if first < skip and not held:
            array, first = array[skip - first :], skip
        while len(array):
            if held and (held[0].shape[1:], held[0].dtype) != (array.shape[1:], array.dtype):
                yield flush()
                held, names, first, count = [], [], first + count, 0
            part, array = np.asarray(array[: rows - count]), array[rows - count :]
            held.append(part)
            names.append(name)
            count += len(part)
            if count == rows:
                yield flush()
                held, names, first, count = [], [], first + count, 0
    if held:
        yield flush()
