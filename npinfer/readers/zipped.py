"""Zip archives (.keras, .npz), read as if written by an enemy: the whole directory is checked before any member is opened."""

from __future__ import annotations

import struct
from collections.abc import Callable

from npinfer.errors import FormatError, LimitError
from npinfer.readers.limits import reading
from npinfer.readers.source import Source
from npinfer.readers.zip_entries import DEFLATED, LOCAL_SIZE, STORED, Entry, begin, entries, unpack

END, END_SIZE = b"PK\x05\x06", 22
LOCATOR, LOCATOR_SIZE = b"PK\x06\x07", 20
END64, END64_SIZE = b"PK\x06\x06", 56
MAX_COMMENT = 0xFFFF
ROOM = 512  # bytes of the directory allowed for a member
ENCRYPTED, METHODS = 0x41, (STORED, DEFLATED)


class Zip:
    """An open zip whose members' names, kinds and sizes are in order. `names` are all but folders, in the archive's order."""

    def __init__(self, source: Source) -> None:
        """Raises FormatError for names that lead out of the archive or are there twice, LimitError for too many members."""
        self.source = source
        where = source.name
        directory = self._directory()
        with reading(where, "download or save the file again"):
            members = list(entries(*directory))
        if len(members) > source.limits.members:
            raise LimitError(
                f"{where}: a zip of {len(members):,} members; at most {source.limits.members:,}; see Limits.members"
            )
        self.members: dict[str, Entry] = {}
        for member in members:
            name = member.name
            if name in self.members:
                raise FormatError(f"{where}: member {name!r} is there twice; save the file again")
            if name.startswith("/") or ".." in name.replace("\\", "/").split("/") or ":" in name.split("/")[0]:
                raise FormatError(f"{where}: member {name!r} leads out of the archive; save the file again")
            self.members[name] = member
        for name in [m.name for m in members if m.name.endswith("/") and m.size == 0]:
            del self.members[name]  # a folder, as programs write them that pack folders
        end = 0
        for member in sorted(members, key=lambda m: m.start):
            if member.start < end:  # or a small file could have its bytes unpacked a thousand times
                raise FormatError(f"{where}: member {member.name!r} overlaps another; save the file again")
            end = member.start + LOCAL_SIZE + len(member.raw_name) + member.packed

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
        with reading(f"{self.source.name}: {name}"):
            return begin(self.source, member, count)

    def read(self, name: str, limit: int | None = None) -> bytes:
        """A member's bytes, at most `limit` of them. Raises LimitError for members that unpack to more than the file explains,
        FormatError for damaged ones (their checksum is verified)."""
        where = f"{self.source.name}: {name}"
        member = self._member(name)
        if limit is not None and member.size > limit:
            raise LimitError(f"{where}: {member.size:,} bytes; at most {limit:,}")
        if member.method == STORED and member.size > self.source.size:
            raise FormatError(
                f"{where}: {member.size:,} bytes in a file of {self.source.size:,}; it was cut off: download or save it again"
            )
        self.source.budget.charge(member.size, where)
        with reading(where, "download or save the file again"):
            return unpack(self.source, member)

    def _member(self, name: str) -> Entry:
        where = f"{self.source.name}: {name}"
        member = self.members.get(name)
        if member is None:
            found = ", ".join(list(self.members)[:10]) or "nothing"
            raise FormatError(f"{self.source.name}: no member {name!r}; found: {found}; save the model again")
        if member.flags & ENCRYPTED or member.method not in METHODS:
            how = "encrypted" if member.flags & ENCRYPTED else f"packed by method {member.method}"
            raise FormatError(f"{where}: {how}; needed are stored or deflated members without a password")
        return member

    def _directory(self) -> tuple[bytes, int]:
        """The directory, its size checked before an object is made of each entry, and how many bytes precede the archive."""
        source = self.source
        start = max(0, source.size - END_SIZE - MAX_COMMENT - LOCATOR_SIZE)
        tail = source.read_at(start, source.size - start)
        at = tail.rfind(END)
        if at < 0 or len(tail) < at + END_SIZE:
            raise FormatError(f"{source.name}: a zip without its directory: the file was cut off; download or save it again")
        size, offset = struct.unpack_from("<II", tail, at + 12)
        end = start + at
        if tail[max(at - LOCATOR_SIZE, 0) : at].startswith(LOCATOR):
            told = struct.unpack_from("<Q", tail, at - LOCATOR_SIZE + 8)[0]
            for record_at in (end - LOCATOR_SIZE - END64_SIZE, told):  # told is wrong where bytes precede the archive
                with reading(source.name, "download or save the file again"):
                    record = source.read_at(record_at, END64_SIZE)
                if len(record) == END64_SIZE and record.startswith(END64):
                    size, offset = struct.unpack_from("<QQ", record, 40)
                    end = record_at
                    break
        if size > ROOM * source.limits.members:
            raise LimitError(f"{source.name}: a zip directory of {size:,} bytes; see Limits.members")
        if end - size - offset < 0:
            raise FormatError(f"{source.name}: its directory isn't where its end says; download or save the file again")
        return source.read_at(end - size, size), end - size - offset
