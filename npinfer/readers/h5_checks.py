"""What a dataset says of itself, and whether it may be read: pure arithmetic, without the HDF5 library."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from npinfer.errors import FormatError, LimitError
from npinfer.frozen import Frozen
from npinfer.readers.limits import Budget

#: filters by their registered number: the HDF5 library's own, and h5py's lzf
FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 32000: "lzf"}
COMPRESSORS = ("gzip", "lzf")
CHECKSUM = 64  # bytes by which a chunk may grow below its compression
MAX_CHUNKS = 100_000  # of one dataset
MAX_LZF_CHUNK = 1 << 20  # bytes; h5py's own chunks are smaller


class Storage(Frozen):
    """How a dataset is stored. Sizes are in bytes; `chunk` is None and `chunks` 0 unless it is stored in chunks; `offset` is
    None unless it is one piece."""

    shape: tuple[int, ...]
    itemsize: int
    allocated: int
    offset: int | None = None
    chunk: tuple[int, ...] | None = None
    chunks: int = 0
    filters: tuple[str, ...] = ()


def check_filters(found: Iterable[tuple[int, bytes]], where: str) -> tuple[str, ...]:
    """The names of a dataset's filters, from their numbers and labels. Refused are unknown ones (the library would look for a
    plug-in to load), and a compressed stream that anything but a checksum follows: nothing then bounds what it unpacks to."""
    names = tuple(FILTERS.get(number) or label.decode("utf-8", "replace") or str(number) for number, label in found)
    last = [n for n in names if n != "fletcher32"][-1:]
    odd = [n for n in names if n not in FILTERS.values() or names.count(n) > 1 or (n in COMPRESSORS and [n] != last)]
    if odd:
        raise FormatError(
            f"{where}: filters {' + '.join(names)}; known is shuffle + gzip or lzf; remove them: h5repack -f NONE"
        )
    return names


def check_storage(s: Storage, file_size: int, budget: Budget, where: str) -> None:
    """Hold the declared size against what the file allocates, and charge the budget."""
    declared = math.prod(s.shape) * s.itemsize
    if s.chunk is not None:
        chunk, count = math.prod(s.chunk) * s.itemsize, math.prod(-(-n // c) for n, c in zip(s.shape, s.chunk))
        budget.charge(max(declared, chunk * count), where)
        if count > MAX_CHUNKS:
            raise LimitError(f"{where}: {count:,} chunks; at most {MAX_CHUNKS:,}; h5repack -l CONTI puts them together")
        if s.chunks != count:
            raise FormatError(f"{where}: incomplete: {s.chunks:,} of {count:,} chunks are stored; save the model again")
        if "lzf" in s.filters and chunk > MAX_LZF_CHUNK:
            raise LimitError(f"{where}: lzf chunks of {chunk:,} bytes; at most {MAX_LZF_CHUNK:,}; use gzip")
        return
    budget.charge(declared, where)
    if s.allocated < declared:
        raise FormatError(
            f"{where}: shape {list(s.shape)} needs {declared:,} bytes, the file holds {s.allocated:,}; save the model again"
        )
    if s.offset is not None and s.offset + declared > file_size:
        raise FormatError(f"{where}: its bytes lie outside the file, which was cut off; copy it again")


def check_inflated(data: bytes, chunk: int, where: str) -> None:
    """Refuse a gzip stream longer than its chunk: the library inflates it to whatever length it has."""
    import zlib  # most files of Keras compress nothing

    inflate = zlib.decompressobj()
    inflate.decompress(data, chunk + CHECKSUM)
    if not inflate.eof:
        raise FormatError(f"{where}: a compressed chunk doesn't end after its {chunk:,} bytes; save the model again")


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key: digits compare as numbers."""
    return [(0, int(s), "") if s.isdecimal() and len(s) < 20 else (1, 0, s) for s in re.split(r"(\d+)", name) if s]
