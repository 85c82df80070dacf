"""HDF5, read as if written by an enemy. The only file that imports h5py.

Links are opened one name at a time, after a look at their kind; a dataset's storage, filters, type and shape are checked
before its bytes; what the HDF5 library raises comes out as FormatError. Nothing here knows Keras (that is layouts.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5l, h5o, h5s, h5t

from npinfer.errors import FormatError, LimitError
from npinfer.graph import Array
from npinfer.readers.h5_checks import Storage, check_filters, check_inflated, check_storage, natural
from npinfer.readers.h5_headers import Heap, foreign
from npinfer.readers.limits import reading
from npinfer.readers.raw import Stored
from npinfer.readers.source import Source

LAYOUTS = (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED)
NUMBERS = {  # kind → sizes of an item
    "b": (1,),
    "i": (1, 2, 4, 8),
    "u": (1, 2, 4, 8),
    "f": (2, 4, 8),
    "c": (8, 16),
}
TYPE_NAMES = {
    h5t.STRING: "text",
    h5t.VLEN: "variable-length lists",
    h5t.REFERENCE: "references",
    h5t.COMPOUND: "records",
    h5t.ARRAY: "arrays in arrays",
    h5t.TIME: "times",
    h5t.BITFIELD: "bit fields",
}
MAX_HOPS = 16  # soft links on one path
ONE_FILE = "save the model again, in one file"


class File:
    """An open HDF5 file. `objects` remembers the address of each dataset: none may be reached twice."""

    def __init__(self, source: Source) -> None:
        self.source, self.where = source, source.name
        self.seen: dict[int, str] = {}
        self.stored_bytes = 0
        with reading(self.where):
            # A file on disk is opened by its path: the library's own driver is the one it is tested with.
            opened = h5py.File(source.path or h5f.open_file_image(source.all()), "r")
        self.close = opened.close  # unlike its id's, this closes all that was opened in it
        try:
            with reading(self.where):
                plist = opened.id.get_create_plist()
                self.base = int(plist.get_userblock())
                if plist.get_sizes() != (8, 8):
                    raise FormatError(f"{self.where}: HDF5 with addresses of {plist.get_sizes()} bytes; needed are 8")
                self.heap = Heap(self.read_at, source.budget)
                self.root = Group(self, h5g.open(opened.id, b"/"), "")
        except BaseException:
            self.close()
            raise

    def read_at(self, offset: int, count: int) -> bytes:
        """Bytes counted from the file's base address, as HDF5 counts."""
        return self.source.read_at(self.base + offset, count)


class Group:
    """One HDF5 group; `path` is its place below the root."""

    def __init__(self, file: File, id_: Any, path: str) -> None:
        self.file, self.id, self.path = file, id_, path
        self.where = f"{file.where}: group {path!r}" if path else file.where
        self.inner: dict[tuple[str, ...], Any] = {}  # subgroups that paths have led through

    def find(self, path: str) -> Group | Stored | None:
        """The group or dataset of a path relative to here, or None.

        Raises FormatError for absolute and odd paths, links that leave the file, and datasets that can't be read safely.
        """
        where = f"{self.where}: {path!r}"
        if path.startswith("/"):
            raise FormatError(f"{where}: an absolute name; names must stay below their group")
        found = self._walk(path, where, iter(range(MAX_HOPS)))
        return None if found is None else self._wrap(found, f"{self.path}/{path}" if self.path else path)

    def names(self) -> list[str]:
        """The names of all members, in natural order."""
        with reading(self.where):
            names = []
            for name in self.id:
                self.file.source.budget.charge_object(self.where)
                names.append(name.decode())
        return sorted(names, key=natural)

    def kinds(self) -> str:
        """What is in here, for messages: names of members and attributes."""
        with reading(self.where):
            members = [n.decode("utf-8", "replace") for _, n in zip(range(10), self.id)]
            count = min(h5a.get_num_attrs(self.id), 10)
            attributes = [h5a.open(self.id, index=k).name.decode("utf-8", "replace") for k in range(count)]
        return f"members: {', '.join(members) or 'none'}; attributes: {', '.join(attributes) or 'none'}"

    def _walk(self, path: str, where: str, hops: Iterator[int]) -> Any:
        at, parts = self.id, tuple(p for p in path.split("/") if p)
        if len(parts) > self.file.source.limits.group_depth:
            raise LimitError(f"{where}: a path of {len(parts):,} names; see Limits.group_depth")
        for k, part in enumerate(parts):
            if part in (".", "..") or "\0" in part:
                raise FormatError(f"{where}: {part!r} is no name of a member; save the model again")
            if not isinstance(at, h5g.GroupID):
                return None
            known = self.inner.get(parts[: k + 1])
            if known is None:
                self.file.source.budget.charge_object(where)
                known = self._open(at, part.encode(), where, hops)
            if known is None:
                return None
            if k + 1 < len(parts):
                self.inner[parts[: k + 1]] = known
            at = known
        return at

    def _open(self, at: Any, name: bytes, where: str, hops: Iterator[int]) -> Any:
        """One member of a group; `hops` says how many soft links may still be followed."""
        with reading(where):
            links = at.links
            if not links.exists(name):
                return None
            link = links.get_info(name)
            if link.type == h5l.TYPE_HARD:
                elsewhere = foreign(self.file.read_at, link.u)
                if elsewhere:
                    raise FormatError(f"{where}: {elsewhere}; {ONE_FILE}")
                return h5o.open(at, name)
            if link.type != h5l.TYPE_SOFT:
                what = "an external link" if link.type == h5l.TYPE_EXTERNAL else "a user-defined link"
                raise FormatError(f"{where}: {name.decode()!r} is {what}, which npinfer never follows; {ONE_FILE}")
            if next(hops, None) is None:
                raise FormatError(f"{where}: soft links lead in a circle; save the model again")
            target = links.get_val(name).decode()
        start = self.file.root if target.startswith("/") else Group(self.file, at, "")
        found = start._walk(target, where, hops)
        if found is None:
            raise FormatError(
                f"{where}: {name.decode()!r} is a soft link to {target!r}, which doesn't exist; save the model again"
            )
        return found

    def _wrap(self, id_: Any, path: str) -> Group | Stored:
        where = f"{self.file.where}: {path!r}"
        with reading(where):
            if isinstance(id_, h5g.GroupID):
                return Group(self.file, id_, path)
            if isinstance(id_, h5d.DatasetID):
                return dataset(self.file, id_, where)
        raise FormatError(f"{where}: neither a group nor a dataset; save the model again")

    def address(self) -> int:
        """Where the group is in the file: the same for all its names."""
        with reading(self.where):
            return int(h5o.get_info(self.id).addr)

    # attributes

    def text(self, name: str) -> str | None:
        """A string attribute, or None. Raises FormatError for anything but one string of UTF-8."""
        found = self._attribute(name)
        if found is None:
            return None
        if len(found) != 1 or not isinstance(found[0], bytes):
            raise FormatError(f"{self.where}: attribute {name!r} must be one string")
        return self._decode(found[0], name)

    def integer(self, name: str) -> int | None:
        """A whole number, or None."""
        found = self._attribute(name)
        if found is None:
            return None
        if len(found) != 1 or not isinstance(found[0], int):
            raise FormatError(f"{self.where}: attribute {name!r} must be one whole number")
        return found[0]

    def strings(self, name: str) -> list[str] | None:
        """A list of strings, or None; put together from name0, name1 … where the writer has split it."""
        found = self._attribute(name)
        if found is None:
            for k in range(self.file.source.limits.objects):
                piece = self._attribute(f"{name}{k}")
                if piece is None:
                    break
                found = [*(found or []), *piece]
        if found is None:
            return None
        for _ in found:
            self.file.source.budget.charge_object(f"{self.where}: attribute {name!r}")
        if not all(isinstance(s, bytes) for s in found):
            raise FormatError(f"{self.where}: attribute {name!r} must be a list of strings")
        return [self._decode(s, name) for s in found]

    def _decode(self, data: bytes, name: str) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise FormatError(f"{self.where}: attribute {name!r} isn't valid UTF-8; save the model again") from None

    def _attribute(self, name: str) -> list[Any] | None:
        """The items of an attribute: bytes for strings, int for whole numbers, None for anything else."""
        where = f"{self.where}: attribute {name!r}"
        with reading(where):
            if not h5a.exists(self.id, name.encode()):
                return None
            attribute = h5a.open(self.id, name.encode())
            space, kind = attribute.get_space(), attribute.get_type()
            if space.get_simple_extent_type() == h5s.NULL:
                return []
            count = math.prod(space.get_simple_extent_dims())
            if count == 0:
                return []
            if isinstance(kind, h5t.TypeStringID) and kind.is_variable_str():
                return list(self.file.heap.strings(self.address(), name.encode(), count, where))
            size = count * kind.get_size()
            self.file.source.budget.charge_text(size, where)
            if size > self.file.source.size:
                raise FormatError(f"{where}: {size:,} bytes in a file of {self.file.source.size:,}; copy or save it again")
            if isinstance(kind, h5t.TypeStringID):
                values = np.empty(space.get_simple_extent_dims(), f"S{kind.get_size()}")
            elif isinstance(kind, h5t.TypeIntegerID):
                values = np.empty(space.get_simple_extent_dims(), np.int64)
            else:
                return [None] * count
            attribute.read(values)
            items: list[Any] = values.ravel().tolist()
            return items


def dataset(file: File, id_: Any, where: str) -> Stored:
    """The checked description of one dataset. Raises FormatError or LimitError for anything whose bytes may not be read."""
    plist = id_.get_create_plist()
    layout = plist.get_layout()  # before the shape: a virtual dataset opens its sources to know its shape
    if layout not in LAYOUTS:
        raise FormatError(f"{where}: a virtual dataset: the data is in other files; {ONE_FILE}")
    if plist.get_external_count():
        raise FormatError(f"{where}: external storage: the data is in another file; {ONE_FILE}")
    filters = check_filters(((f[0], f[3]) for f in map(plist.get_filter, range(plist.get_nfilters()))), where)
    kind = id_.get_type()
    dtype, memory = _dtype(kind, where)
    space = id_.get_space()
    if space.get_simple_extent_type() == h5s.NULL:
        raise FormatError(f"{where}: a dataset without data; save the model again")
    shape = tuple(int(n) for n in space.get_simple_extent_dims())
    chunked = layout == h5d.CHUNKED
    storage = Storage(
        shape,
        kind.get_size(),
        int(id_.get_storage_size()),
        id_.get_offset() if layout == h5d.CONTIGUOUS else None,
        plist.get_chunk() if chunked else None,
        id_.get_num_chunks() if chunked else 0,
        filters,
    )
    file.stored_bytes += storage.allocated
    if file.stored_bytes > file.source.size:
        raise FormatError(
            f"{where}: arrays overlap: they claim {file.stored_bytes:,} bytes of a file of {file.source.size:,}; "
            "save the model again"
        )
    check_storage(storage, file.source.size, file.source.budget, where)
    address = int(h5o.get_info(id_).addr)
    if address in file.seen:
        raise FormatError(f"{where}: the same dataset as {file.seen[address]}; each array must have one name")
    file.seen[address] = where.removeprefix(f"{file.where}: ")
    return Stored(shape, dtype, where, _loader(id_, storage, memory, where))


def _dtype(kind: Any, where: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """(dtype of the array to return, dtype to read into) for an HDF5 type."""
    if isinstance(kind, h5t.TypeOpaqueID) and kind.get_size() == 2:
        return np.dtype(np.float32), np.dtype("V2")  # bfloat16
    dtype = kind.dtype
    if dtype.itemsize not in NUMBERS.get(dtype.kind, ()) or dtype.subdtype is not None:
        what = TYPE_NAMES.get(kind.get_class(), str(dtype))
        raise FormatError(f"{where}: holds {what} ({dtype}); weights are plain numbers; save the model again")
    native = dtype.newbyteorder("=")
    return native, native


def _loader(id_: Any, storage: Storage, memory: np.dtype[Any], where: str) -> Callable[[], Array]:
    def load() -> Array:
        with reading(where):
            if not id_.valid:
                raise FormatError(f"{where}: the file was closed before the array was read")
            if storage.chunk is not None and "gzip" in storage.filters:
                _check_chunks(id_, math.prod(storage.chunk) * storage.itemsize, storage.filters.index("gzip"), where)
            values = np.empty(storage.shape, memory)
            if values.size:
                id_.read(h5s.ALL, h5s.ALL, values, id_.get_type() if memory.kind == "V" else None)
            if memory.kind == "V":
                return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            return values

    return load


def _check_chunks(id_: Any, size: int, place: int, where: str) -> None:
    """Look at each gzip chunk before the library does. A chunk's mask says which filters (by their place) it went without."""
    for k in range(id_.get_num_chunks()):
        mask, data = id_.read_direct_chunk(id_.get_chunk_info(k).chunk_offset)
        if not mask >> place & 1:
            check_inflated(data, size, where)
