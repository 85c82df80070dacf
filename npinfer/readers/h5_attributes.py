"""The raw bytes of an HDF5 attribute, found without the HDF5 library.

Variable-length strings are stored as references: (length, address). The library allocates what the lengths say and can read
one 1 MB string a thousand times from a file of 1 MB, so the lengths are looked at first. Layouts are those of the HDF5 File
Format Specification: IV.A.1.a and b (object headers), IV.A.2.m (attribute message), IV.A.2.q (continuation message).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from npinfer.errors import FormatError

ATTRIBUTE, CONTINUATION = 0x0C, 0x10
MAX_BLOCKS = 1000  # continuations of one object header
REFERENCE = 16  # bytes: u32 length, u64 address of a heap collection, u32 index in it


def string_bytes(read_at: Callable[[int, int], bytes], address: int, name: bytes, count: int, where: str) -> int:
    """The bytes that the `count` variable-length strings of one attribute say they have.

    read_at(offset, count) and `address`, where the object's header begins, count from the file's base address (the end of the
    user block). Raises FormatError where the attribute isn't found there (dense attribute storage, which Keras never writes,
    included).
    """
    for body in _attributes(read_at, address):
        found, data = _parse(body)
        if found == name and len(data) >= count * REFERENCE:
            return sum(struct.unpack_from("<I", data, k * REFERENCE)[0] for k in range(count))
    raise FormatError(
        f"{where}: its variable-length strings are stored in a way that can't be checked; "
        "save the model again, with h5py's default libver"
    )


def _attributes(read_at: Callable[[int, int], bytes], address: int) -> Iterator[bytes]:
    """The bodies of the attribute messages of one object header."""
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
            if kind == ATTRIBUTE:
                yield body
            elif kind == CONTINUATION and len(body) >= 16:
                offset, length = struct.unpack_from("<QQ", body)
                blocks.append((offset + 4, length - 8) if second else (offset, length))


def _parse(body: bytes) -> tuple[bytes, bytes]:
    """(name, data) of an attribute message."""
    if len(body) < 9:
        return b"", b""
    version = body[0]
    sizes = struct.unpack_from("<HHH", body, 2)
    if version == 1:
        sizes = tuple((n + 7) // 8 * 8 for n in sizes)
    start = 9 if version == 3 else 8
    return body[start : start + sizes[0]].split(b"\0")[0], body[start + sum(sizes) :]
