"""The zip reader gives what Python's zipfile gives, for archives as many programs write them, and refuses what is damaged."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
import pytest

from npinfer.errors import FormatError
from npinfer.readers.limits import DEFAULT
from npinfer.readers.source import open_source
from npinfer.readers.zipped import Zip

CONTENT = {"a.npy": b"x" * 5000, "folder/b.txt": bytes(range(256)) * 900, "empty": b"", "grüße/π.npy": b"1", "n\xe9": b"2"}


class Stream(io.BytesIO):
    """A file that can't be gone back in, so that sizes follow the bytes."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: Any) -> int:
        raise OSError("not seekable")

    tell = seek


def written(kind: str) -> bytes:
    file = Stream() if kind == "streamed" else io.BytesIO()
    if kind == "prefix":
        file.write(b"#!/bin/sh\n" * 50)
    if kind == "numpy":
        arrays: dict[str, Any] = {"x": np.arange(5), "y/z": np.zeros((3, 4), np.float32)}
        np.savez(file, **arrays)
        return file.getvalue()
    method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w", method) as z:
        z.comment = b"a comment" * (kind == "comment")
        for name, data in CONTENT.items():
            with z.open(name, "w", force_zip64=kind == "zip64") as member:
                member.write(data)
    return file.getvalue()


def of(data: bytes) -> Zip:
    return Zip(open_source(data, DEFAULT))


@pytest.mark.parametrize("kind", ["stored", "deflated", "prefix", "numpy", "comment", "zip64", "streamed"])
def test_same_as_zipfile(kind: str) -> None:
    data = written(kind)
    ours = of(data)
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        assert list(ours.names) == theirs.namelist()
        for name in ours.names:
            whole = theirs.read(name)
            assert ours.read(name) == whole
            for count in (0, 1, 100, 10**6):
                assert ours.peek(name, count) == whole[:count]


def test_names_of_old_programs() -> None:
    """Without the flag for UTF-8 names are in code page 437."""
    data = written("stored").replace("n\xe9".encode(), b"n\x82q")
    at = data.index(b"PK\x01\x02", data.index(b"n\x82q", data.index(b"PK\x01\x02")) - 60)
    local = data.index(b"n\x82q") - 30
    for place in (at + 8, local + 6):
        flags = struct.unpack_from("<H", data, place)[0] & ~0x800
        data = data[:place] + struct.pack("<H", flags) + data[place + 2 :]
    assert of(data).read("néq") == b"2"


def sixty_four(data: bytes) -> bytes:
    """The same archive with its directory's numbers in 64 bits, as archives over 4 GB have them."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        infos, start = z.infolist(), z.start_dir
    directory = b""
    for i in infos:
        name = i.filename.encode()
        extra = struct.pack("<HHQQQ", 1, 24, i.file_size, i.compress_size, i.header_offset)
        head = (b"PK\x01\x02", 45, 45, 0x800, i.compress_type, 0, 0, i.CRC, 2**32 - 1, 2**32 - 1)
        directory += struct.pack("<4s6H3I5H2I", *head, len(name), len(extra), 0, 0, 0, 0, 2**32 - 1) + name + extra
    place = start + len(directory)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, len(infos), len(infos), len(directory), start)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, place, 1)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    return data[:start] + directory + record + locator + end


def test_numbers_of_64_bits() -> None:
    data = sixty_four(written("deflated"))
    ours = of(data)
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        assert {n: ours.read(n) for n in ours.names} == {n: theirs.read(n) for n in theirs.namelist()} == CONTENT


def test_bytes_before_an_archive_of_64_bits() -> None:
    ours = of(b"#!/bin/sh\n" * 50 + sixty_four(written("deflated")))
    assert {n: ours.read(n) for n in ours.names} == CONTENT


@pytest.mark.parametrize("place", [2**63, 2**64 - 1])
def test_a_directory_that_is_nowhere(place: int) -> None:
    data = sixty_four(written("deflated"))
    at = data.index(b"PK\x06\x07")
    data = data[: at - 56] + b"...." + data[at - 52 : at + 8] + struct.pack("<Q", place) + data[at + 16 :]
    with pytest.raises(FormatError):
        of(data)


def test_members_that_share_bytes_are_refused() -> None:
    """Each would be unpacked, so that a small file could take hours."""
    data = written("stored")
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 1)
    inside = struct.pack("<I", struct.unpack_from("<I", data, second + 42)[0] - 1)
    with pytest.raises(FormatError, match="overlaps another"):
        of(data[: second + 42] + inside + data[second + 46 :])


def test_folders_are_no_members() -> None:
    """Programs that pack a folder write entries for those within it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        for name, data in {"folder/": b"", "folder/a": b"1", "odd/": b"2"}.items():
            z.writestr(name, data)
    assert of(file.getvalue()).names == ("folder/a", "odd/")
    with pytest.raises(FormatError, match="leads out"):
        of(file.getvalue().replace(b"folder/", b"../../."))


def test_any_byte_changed_is_noticed_or_harmless() -> None:
    """A flipped bit of an archive gives an error or the same bytes under another name, never other bytes."""
    data = written("deflated")
    sound = {zlib.crc32(v): v for v in CONTENT.values()}
    for at in range(0, len(data), 7):
        changed = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        try:
            ours = of(changed)
            found = [ours.read(name) for name in ours.names]
        except FormatError:
            continue
        assert all(sound.get(zlib.crc32(v)) == v for v in found)
