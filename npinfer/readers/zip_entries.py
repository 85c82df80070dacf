"""The entries of a zip, and their bytes (APPNOTE.TXT 4.3): what reading models needs of it. Python's zipfile reads more kinds,
but importing it takes longer than reading a model."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from npinfer.frozen import Frozen
from npinfer.readers.source import Source

STORED, DEFLATED = 0, 8
ENTRY, ENTRY_SIZE = b"PK\x01\x02", 46  # in the directory
LOCAL, LOCAL_SIZE = b"PK\x03\x04", 30  # before the bytes
IN_EXTRA = 0xFFFFFFFF  # the number is in the extra field of kind 1, as 64 bits
UTF_8 = 0x800
BLOCK = 1 << 16


class Entry(Frozen):
    """A member as the directory tells. start: where its local header is in the source; packed, size: bytes there, and
    unpacked."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    start: int


def entries(directory: bytes, shift: int) -> Iterator[Entry]:
    """The entries of a whole directory. shift: bytes before the archive's beginning. Raises ValueError, struct.error."""
    at = 0
    while at < len(directory):
        fields = struct.unpack_from("<4s6H3I5H2I", directory, at)
        flags, method, crc = fields[3], fields[4], fields[7]
        packed, size, name_size, extra_size, comment_size = fields[8:13]
        if fields[0] != ENTRY:
            raise ValueError("an entry of its directory isn't one")
        at += ENTRY_SIZE
        name, extra = directory[at : at + name_size], directory[at + name_size : at + name_size + extra_size]
        at += name_size + extra_size + comment_size
        if at > len(directory) or b"\0" in name:
            raise ValueError("an entry of its directory was cut off")
        size, packed, start = _sizes([size, packed, fields[16]], extra)
        yield Entry(_text(name, flags), name, flags, method, crc, packed, size, start + shift)


def _text(name: bytes, flags: int) -> str:
    if flags & UTF_8 or name.isascii():
        return name.decode("utf-8")
    return name.decode("cp437")


def _sizes(numbers: list[int], extra: bytes) -> list[int]:
    """The numbers with those that don't fit 32 bits from the extra field."""
    missing = [k for k, n in enumerate(numbers) if n == IN_EXTRA]
    at = 0
    while missing and at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            for k, number in zip(missing, struct.unpack_from(f"<{len(missing)}Q", extra[at + 4 : at + 4 + size])):
                numbers[k] = number
            break
        at += 4 + size
    return numbers


def unpack(source: Source, entry: Entry) -> bytes:
    """All bytes of an entry, checked against its size and checksum; never more than its size. Raises ValueError, zlib.error."""
    packed = source.read_at(_start(source, entry), entry.packed)
    if len(packed) != entry.packed:
        raise ValueError("its bytes were cut off")
    data = packed if entry.method == STORED else zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, entry.size + 1)
    if len(data) != entry.size:
        raise ValueError(f"its bytes aren't the {entry.size:,} that the directory says")
    if zlib.crc32(data) != entry.crc:
        raise ValueError("its checksum is wrong")
    return data


def begin(source: Source, entry: Entry, count: int) -> bytes:
    """The first `count` bytes of an entry, fewer where it is shorter; nothing is checked. Raises ValueError, zlib.error."""
    start = _start(source, entry)
    if entry.method == STORED:
        return source.read_at(start, min(count, entry.packed))
    unpacker, data, read = zlib.decompressobj(-zlib.MAX_WBITS), b"", 0
    while len(data) < count and read < entry.packed and not unpacker.eof:
        block = source.read_at(start + read, min(BLOCK, entry.packed - read))
        if not block:
            break
        read += len(block)
        data += unpacker.decompress(block, count - len(data))
    return data


def _start(source: Source, entry: Entry) -> int:
    """Where an entry's bytes begin: its local header must say the same name."""
    head = source.read_at(entry.start, LOCAL_SIZE)
    if not head.startswith(LOCAL) or len(head) < LOCAL_SIZE:
        raise ValueError("it isn't where the directory says")
    name_size, extra_size = struct.unpack_from("<HH", head, 26)
    if source.read_at(entry.start + LOCAL_SIZE, name_size) != entry.raw_name:
        raise ValueError("its name in the directory is another")
    return entry.start + LOCAL_SIZE + int(name_size) + int(extra_size)
