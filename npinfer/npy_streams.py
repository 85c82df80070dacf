"""Arrays read row by row from .npy streams: members of .npz files, and standard input."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np

from npinfer.arrays_io import Chunk, mark_of, span
from npinfer.errors import FormatError, ShapeError
from npinfer.executors.signature import show
from npinfer.graph import Array, Spec


class NpyStream:
    """A .npy file as a stream, for members of zips and for standard input: rows are read one after another."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.stream, self.name = stream, name
        try:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, fortran, self.dtype = read(stream)
        except ValueError as e:
            raise FormatError(f"{name}: not a readable .npy file ({e}); needed is one as numpy.save writes it") from None
        if self.dtype.hasobject or fortran or not self.shape:
            what = "Python objects" if self.dtype.hasobject else "Fortran order" if fortran else "a single number"
            raise FormatError(f"{name}: holds {what}; needs a plain array in C order with a batch axis")

    def rows(self, count: int) -> Array:
        """The next rows, `count` or fewer at the end."""
        size = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        data = bytearray()
        while len(data) < count * size:  # a pipe gives what it has
            more = self.stream.read(count * size - len(data))
            if not more:
                raise FormatError(
                    f"{self.name}: ends early, its header promises shape {show(self.shape)}; copy or save it again"
                )
            data += more
        return np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])


class Streams:
    """One NpyStream an input, all of one length. skip reads and drops, so it works on pipes."""

    cheap = False

    def __init__(self, streams: Sequence[NpyStream], specs: Sequence[Spec], mark: str) -> None:
        counts = {s.shape[0] for s in streams}
        if len(counts) > 1:
            sizes = ", ".join(f"{s.name!r} has {n.shape[0]}" for s, n in zip(specs, streams))
            raise ShapeError(f"the inputs hold different numbers of samples: {sizes}; they must agree")
        self.streams, self.total, self.mark = streams, int(counts.pop()), mark

    def chunks(self, rows: int, skip: int = 0) -> Iterator[Chunk]:
        for start in range(0, max(self.total, 1), rows):
            count = min(rows, self.total - start)
            arrays = [s.rows(count) for s in self.streams]
            if start + count > skip or self.total == 0:
                cut = max(0, skip - start)
                yield Chunk(span(self.streams[0].name, start + cut, count - cut), start + cut, [a[cut:] for a in arrays])


class Npz(Streams):
    """An .npz file: arrays by input name, by position (x0, x1, … or in0, in1, …), or the only one."""

    def __init__(self, path: str, specs: Sequence[Spec]) -> None:
        try:
            archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as e:
            raise FormatError(f"{path}: not a readable .npz file ({e}); needed is one as numpy.savez writes it") from None
        members = {n[:-4]: n for n in archive.namelist() if n.endswith(".npy")}
        keys = pick(list(members), [s.name for s in specs], ("x", "in", "input_", "arr_"), path)
        name = os.path.basename(path)
        streams = [NpyStream(archive.open(members[k]), f"{name}:{k}") for k in keys]
        super().__init__(streams, specs, mark_of(path))


def pick(keys: Sequence[str], names: Sequence[str], prefixes: Sequence[str], path: str) -> list[str]:
    """Which keys of a file belong to these inputs or outputs, in order: by name, or by position after a prefix, or the only
    one. Raises FormatError naming what was found and what is needed."""
    if set(names) <= set(keys) and len(set(names)) == len(names):
        return list(names)
    for prefix in prefixes:
        wanted = [f"{prefix}{k}" for k in range(len(names))]
        if set(wanted) <= set(keys):
            return wanted
    if len(names) == len(keys) == 1:
        return list(keys)
    for alone in ("x", "input") if "x" in prefixes else ("y", "output"):
        if len(names) == 1 and alone in keys:
            return [alone]
    raise FormatError(
        f"{path}: holds {', '.join(map(repr, keys)) or 'no arrays'}; needs {', '.join(map(repr, names))}, "
        f"or {prefixes[0]}0{f' … {prefixes[0]}{len(names) - 1}' if len(names) > 1 else ''}"
    )


def whole(path: str, specs: Sequence[Spec], prefixes: Sequence[str]) -> list[Array]:
    """One array a spec from an .npz, found as `pick` says. Raises FormatError."""
    try:
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise FormatError(f"{path}: one array; needs an .npz with inputs and outputs, by name or as x0 … and y0 …")
        with found as file:
            return [file[k] for k in pick(file.files, [s.name for s in specs], prefixes, path)]
    except FormatError:
        raise
    except (zipfile.BadZipFile, ValueError, EOFError, AttributeError, TypeError) as e:
        raise FormatError(f"{path}: not a readable .npz file ({e}); needed is one as numpy.savez writes it") from None
