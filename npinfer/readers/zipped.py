"""Zip archives (.keras, .npz), read as if written by an enemy: the whole directory is checked before any member is opened."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable

from npinfer.errors import FormatError, LimitError
from npinfer.readers.limits import reading
from npinfer.readers.source import Source

END, END_SIZE = b"PK\x05\x06", 22
LOCATOR, LOCATOR_SIZE = b"PK\x06\x07", 20
END64, END64_SIZE = b"PK\x06\x06", 56
MAX_COMMENT = 0xFFFF
ENTRY = 512  # bytes of the directory allowed for a member
ENCRYPTED, METHODS = 0x1, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Zip:
    """An open zip whose members' names, kinds and sizes are in order. `names` are all of them, in the archive's order."""

    def __init__(self, source: Source) -> None:
        """Raises FormatError for names that lead out of the archive or are there twice, LimitError for too many members."""
        self.source = source
        where = source.name
        self._check_directory()
        with reading(where, "download or save the file again"):
            self.zip = zipfile.ZipFile(source.stream)
            members = self.zip.infolist()
        if len(members) > source.limits.members:
            raise LimitError(f"{where}: a zip of {len(members):,} members; at most {source.limits.members:,}")
        self.members: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            name = member.filename
            if name in self.members:
                raise FormatError(f"{where}: member {name!r} is there twice; save the file again")
            if name.startswith("/") or ".." in name.replace("\\", "/").split("/") or ":" in name.split("/")[0]:
                raise FormatError(f"{where}: member {name!r} leads out of the archive; save the file again")
            self.members[name] = member

    def only(self, expected: Callable[[str], bool], what: str) -> None:
        """Raises FormatError for the first member that mustn't be there."""
        odd = next((name for name in self.members if not expected(name)), None)
        if odd is not None:
            raise FormatError(f"{self.source.name}: member {odd!r} has no place in {what}; take it out, or save the file again")

    def __contains__(self, name: str) -> bool:
        return name in self.members

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.members)

    def peek(self, name: str, count: int) -> bytes:
        """Up to `count` bytes of a member's beginning."""
        member = self._member(name)
        with reading(f"{self.source.name}: {name}"), self.zip.open(member) as stream:
            return stream.read(count)

    def read(self, name: str, limit: int | None = None) -> bytes:
        """A member's bytes, at most `limit` of them. Raises LimitError for members that unpack to more than the file explains,
        FormatError for damaged ones (their checksum is verified)."""
        where = f"{self.source.name}: {name}"
        member = self._member(name)
        if limit is not None and member.file_size > limit:
            raise LimitError(f"{where}: {member.file_size:,} bytes; at most {limit:,}")
        if member.compress_type == zipfile.ZIP_STORED and member.file_size > self.source.size:
            raise FormatError(f"{where}: {member.file_size:,} bytes in a file of {self.source.size:,}; it was cut off")
        self.source.budget.charge(member.file_size, where)
        with reading(where, "download or save the file again"):
            data = self.zip.read(member)
        if len(data) != member.file_size:
            raise FormatError(f"{where}: {len(data):,} bytes where the directory says {member.file_size:,}")
        return data

    def _member(self, name: str) -> zipfile.ZipInfo:
        where = f"{self.source.name}: {name}"
        member = self.members.get(name)
        if member is None:
            found = ", ".join(list(self.members)[:10]) or "nothing"
            raise FormatError(f"{self.source.name}: no member {name!r}; found: {found}; save the model again")
        if member.flag_bits & ENCRYPTED or member.compress_type not in METHODS:
            how = "encrypted" if member.flag_bits & ENCRYPTED else f"packed by method {member.compress_type}"
            raise FormatError(f"{where}: {how}; needed are stored or deflated members without a password")
        return member

    def _check_directory(self) -> None:
        """Look at the size of the directory before zipfile makes an object of each entry."""
        source = self.source
        start = max(0, source.size - END_SIZE - MAX_COMMENT - LOCATOR_SIZE)
        tail = source.read_at(start, source.size - start)
        at = tail.rfind(END)
        if at < 0 or len(tail) < at + END_SIZE:
            raise FormatError(f"{source.name}: a zip without its directory: the file was cut off; download or save it again")
        size = struct.unpack_from("<I", tail, at + 12)[0]
        if tail[max(at - LOCATOR_SIZE, 0) : at].startswith(LOCATOR):
            offset = struct.unpack_from("<Q", tail, at - LOCATOR_SIZE + 8)[0]
            record = source.read_at(offset, END64_SIZE)
            if len(record) == END64_SIZE and record.startswith(END64):
                size = struct.unpack_from("<Q", record, 40)[0]
        if size > ENTRY * source.limits.members:
            raise LimitError(f"{source.name}: a zip directory of {size:,} bytes; see Limits.members")
