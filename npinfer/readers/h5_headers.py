"""The few structures of HDF5 that must be looked at before the HDF5 library sees them.

Variable-length strings are references into a heap. The library allocates whatever length a reference claims, reads one 1 MB
string a thousand times from a file of 1 MB, and never returns from a heap whose objects have no length; so they are read here.
Layouts are those of the HDF5 File Format Specification (version 3), whose sections are named beside them. Offsets count from
the file's base address, the end of the user block.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from npinfer.errors import FormatError
from npinfer.readers.limits import Budget

ReadAt = Callable[[int, int], bytes]
EXTERNAL, LAYOUT, ATTRIBUTE, CONTINUATION = 0x07, 0x08, 0x0C, 0x10  # message types, IV.A.2
VIRTUAL = 3  # layout class, IV.A.2.i
MAX_BLOCKS = 1000  # continuations of one object header
REFERENCE = struct.Struct("<IQI")  # of a string, VIII.C: length, address of a collection, index in it
HEAP_HEADER = struct.Struct("<4sB3xQ")  # of a collection, III.E: signature, version, size
HEAP_OBJECT = struct.Struct("<HHIQ")  # in it: index, uses, reserved, size


def messages(read_at: ReadAt, address: int) -> Iterator[tuple[int, bytes]]:
    """(type, body) of the messages in the object header at an address, its continuations included; IV.A.1."""
    head = read_at(address, 36)
    second = head[:4] == b"OHDR"
    if second and len(head) == 36:
        flags = head[5]
        start = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        blocks = [(address + start + width, int.from_bytes(head[start : start + width], "little"))]
        header = 6 if flags & 4 else 4
    elif head[:1] == b"\x01" and len(head) >= 16:
        blocks, header = [(address + 16, struct.unpack_from("<I", head, 8)[0])], 8
    else:
        return
    for k in range(MAX_BLOCKS):
        if k >= len(blocks):
            return
        block = read_at(*blocks[k])
        at = 0
        while at + header <= len(block):
            kind, size = struct.unpack_from("<BH" if second else "<HH", block, at)
            body = block[at + header : at + header + size]
            at += header + size
            if kind == CONTINUATION and len(body) >= 16:
                offset, length = struct.unpack_from("<QQ", body)
                blocks.append((offset + 4, length - 8) if second else (offset, length))
            else:
                yield kind, body


def foreign(read_at: ReadAt, address: int) -> str:
    """In what way an object's data is in other files, or "". The library follows a virtual dataset while it opens it."""
    for kind, body in messages(read_at, address):
        if kind == EXTERNAL:
            return "external storage: the data is in another file"
        if kind == LAYOUT and len(body) > 1 and body[0] > 3 and body[1] == VIRTUAL:
            return "a virtual dataset: the data is in other files"
    return ""


class Heap:
    """The variable-length strings of one file. Each collection is read once; all of it is charged to the budget."""

    def __init__(self, read_at: ReadAt, budget: Budget) -> None:
        self.read_at, self.budget = read_at, budget
        self.collections: dict[int, dict[int, bytes]] = {}

    def strings(self, address: int, name: bytes, count: int, where: str) -> Sequence[bytes]:
        """The `count` strings of attribute `name` of the object whose header is at `address`.

        Raises FormatError where they aren't found (dense attribute storage, which Keras never writes, included).
        """
        for kind, body in messages(self.read_at, address):
            found, data = _attribute(body) if kind == ATTRIBUTE else (b"", b"")
            if found == name and len(data) >= count * REFERENCE.size:
                references = REFERENCE.iter_unpack(data[: count * REFERENCE.size])
                return [self._string(length, at, index, where) for length, at, index in references]
        raise FormatError(f"{where}: its strings are stored in a way that npinfer doesn't know; save the model again")

    def _string(self, length: int, address: int, index: int, where: str) -> bytes:
        self.budget.charge_text(length, where)
        if not length:
            return b""
        if address not in self.collections:
            self.collections[address] = self._collection(address, where)
        data = self.collections[address].get(index, b"")
        if len(data) < length:
            raise FormatError(
                f"{where}: a string of {length:,} bytes of which the file holds {len(data):,}; save the model again"
            )
        return data[:length].split(b"\0")[0]

    def _collection(self, address: int, where: str) -> dict[int, bytes]:
        head = self.read_at(address, HEAP_HEADER.size)
        signature, _, size = HEAP_HEADER.unpack(head) if len(head) == HEAP_HEADER.size else (b"", 0, 0)
        if signature != b"GCOL":
            raise FormatError(f"{where}: damaged: no strings where its references point; save the model again")
        self.budget.charge_text(size, where)
        data = self.read_at(address, size)
        objects: dict[int, bytes] = {}
        at = HEAP_HEADER.size
        while at + HEAP_OBJECT.size <= len(data):
            index, _, _, length = HEAP_OBJECT.unpack_from(data, at)
            at += HEAP_OBJECT.size
            if index == 0:  # the free space, which ends a collection
                break
            self.budget.charge_object(where)
            objects[index] = data[at : at + length]
            at += (length + 7) // 8 * 8
        return objects


def _attribute(body: bytes) -> tuple[bytes, bytes]:
    """(name, data) of an attribute message, IV.A.2.m."""
    if len(body) < 9:
        return b"", b""
    version = body[0]
    sizes = struct.unpack_from("<HHH", body, 2)
    if version == 1:
        sizes = tuple((n + 7) // 8 * 8 for n in sizes)
    start = 9 if version == 3 else 8
    return body[start : start + sizes[0]].split(b"\0")[0], body[start + sum(sizes) :]
