"""Machine code that needs no loader: an object file's sections joined into one image, which runs wherever it lies in memory.

LLVM writes an object file: sections of code and of constants, and a list of the places in them that hold distances to others.
`link` puts the sections one after the other and fills the distances in. The result refers to nothing but itself, so that
`load` has little to do: copy it to fresh memory, tell it where the C library's memcpy and the like are, make the memory
executable. It is never writable and executable at once, and never freed: objects call into it until the process ends.

An image begins with words of eight bytes: where each of EXPORTS begins, counted from the image's start; the addresses of
IMPORTS, zero until it is loaded. A jump through each of the latter follows, then the sections.

Only what is written down here is handled, position-independent ELF code of 64-bit x86 on Linux; `link` refuses the rest, which
is kept as an object file then and loaded by llvmlite (build.py).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from npinfer.errors import FormatError
from npinfer.executors.native.abi import Code, address
from npinfer.frozen import Frozen

EXPORTS: Final = tuple(f"npinfer_{name}" for name in Code._fields)
IMPORTS: Final = ("memcpy", "memmove", "memset")
WORD: Final = 8
IMPORTS_AT: Final = WORD * len(EXPORTS)
JUMPS_AT: Final = IMPORTS_AT + WORD * len(IMPORTS)
START: Final = JUMPS_AT + WORD * len(IMPORTS)
PAGE: Final = 4096  # memory begins at a page, so no alignment beyond that can be kept

# System V ABI, "Object Files", and its supplement for x86-64
RELOCATABLE, X86_64 = 1, 62
PROGBITS, SYMTAB, RELA, REL = 1, 2, 4, 9
WRITE, ALLOC, EXECUTE = 1, 2, 4
DISTANCES: Final = (2, 4)  # R_X86_64_PC32 and _PLT32: 32 bits of symbol + addend - place

READABLE, READ_WRITE, READ_EXECUTE = 1, 3, 5  # Linux: PROT_…
PRIVATE_ANONYMOUS = 0x22  # Linux: MAP_…


class Section(Frozen):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class Symbol(Frozen):
    name: str
    section: int
    value: int


def cpu() -> tuple[str, str] | None:
    """The CPU's name and all that tells what it can do, as Linux says, and Numba's own variables; None where there can be no
    images."""
    if sys.platform != "linux" or os.uname().machine != "x86_64" or sys.maxsize < 2**32:
        return None
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            lines = [line.partition(":") for line in takewhile(str.strip, file)]  # of the first processor
    except OSError:
        return None
    said = {name.strip(): value.strip() for name, _, value in lines}
    if "flags" not in said:
        return None
    known = [said.get(name, "") for name in ("vendor_id", "cpu family", "model", "stepping", "flags")]
    asked = [os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    return said.get("model name", "x86_64"), "\n".join((*known, *asked))


# ---- when the engine is compiled


def link(data: bytes) -> bytes:
    """The image of an object file that defines EXPORTS. Raises FormatError for all that it doesn't know."""
    try:
        return _link(data)
    except (struct.error, ValueError, IndexError) as e:
        raise FormatError(f"object file: its tables don't fit together: {e}") from None


def _link(data: bytes) -> bytes:
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", data, 16) != (RELOCATABLE, X86_64):
        raise FormatError("object file: not of 64-bit x86 in ELF")
    sections = _sections(data)
    image, places = bytearray(START), {}
    for k in range(len(IMPORTS)):  # FF 25: jump to the address at a distance from the next instruction
        at = JUMPS_AT + WORD * k
        struct.pack_into("<2siH", image, at, b"\xff\x25", IMPORTS_AT + WORD * k - (at + 6), 0xCCCC)
    for k, s in enumerate(sections):
        if not s.flags & ALLOC or s.size == 0 or s.name == ".eh_frame":  # that is for exceptions, of which there are none
            continue
        if s.kind != PROGBITS or s.flags & WRITE or s.align > PAGE or s.offset + s.size > len(data):
            raise FormatError(f"object file: section {s.name} of kind {s.kind}, flags {s.flags:#x}, alignment {s.align}")
        image += bytes(-len(image) % max(s.align, 1))
        places[k] = len(image)
        image += data[s.offset : s.offset + s.size]
    symbols = list(_symbols(data, sections))
    for s in sections:
        if s.kind in (RELA, REL) and s.info in places:
            if s.kind == REL:
                raise FormatError(f"object file: {s.name} is without addends")
            for at in range(s.offset, s.offset + s.size, 24):
                offset, kind, number, addend = struct.unpack_from("<QIIq", data, at)
                if kind not in DISTANCES or offset + 4 > sections[s.info].size:
                    raise FormatError(f"object file: relocation of kind {kind} at {offset} in {sections[s.info].name}")
                place = places[s.info] + offset
                struct.pack_into("<i", image, place, _where(symbols[number], sections, places) + addend - place)
    named = {s.name: s for s in symbols if s.name in EXPORTS and s.section}
    for k, name in enumerate(EXPORTS):
        if name not in named or not sections[named[name].section].flags & EXECUTE:
            raise FormatError(f"object file: doesn't define {name}")
        struct.pack_into("<Q", image, WORD * k, _where(named[name], sections, places))
    return bytes(image)


def _sections(data: bytes) -> list[Section]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + size * k) for k in range(count)]
    text = headers[names][4]
    return [Section(_text(data, text + h[0]), h[1], h[2], h[4], h[5], h[6], h[7], h[8]) for h in headers]


def _symbols(data: bytes, sections: list[Section]) -> Iterator[Symbol]:
    for table in (s for s in sections if s.kind == SYMTAB):
        names = sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, 24):
            name, _, section, value, _ = struct.unpack_from("<IHHQQ", data, at)
            yield Symbol(_text(data, names + name), section, value)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("latin-1")


def _where(symbol: Symbol, sections: list[Section], places: dict[int, int]) -> int:
    """Where in the image a symbol is; for a function of the C library, the jump to it."""
    if symbol.section in places and symbol.value <= sections[symbol.section].size:
        return places[symbol.section] + symbol.value
    if symbol.section == 0 and symbol.name in IMPORTS:
        return JUMPS_AT + WORD * IMPORTS.index(symbol.name)
    raise FormatError(f"object file: needs the symbol {symbol.name!r} of section {symbol.section}")


# ---- when it is used


def load(image: bytes) -> Code:
    """Addresses of the functions in an image (its checksum was verified). Raises FormatError for what is none, OSError where
    the system allows no memory to become executable."""
    if len(image) <= START:
        raise FormatError("machine code: not an image")
    offsets = struct.unpack_from(f"<{len(EXPORTS)}Q", image)
    if not all(START <= offset < len(image) for offset in offsets):
        raise FormatError("machine code: a function lies outside its image")
    library = ctypes.CDLL(None)
    imports = struct.pack(f"<{len(IMPORTS)}Q", *(address(getattr(library, name)) for name in IMPORTS))
    start = _executable(image[:IMPORTS_AT] + imports + image[JUMPS_AT:])
    return Code(*(start + offset for offset in offsets))


def _executable(code: bytes) -> int:
    """The address of a copy of `code` that can be run and no longer be written to. Raises OSError."""
    size, word = ctypes.c_size_t(len(code)), ctypes.c_void_p
    system: Any = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = word
    system.mmap.argtypes = (word, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    start = system.mmap(None, size, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0)
    if start in (None, word(-1).value):
        raise OSError(ctypes.get_errno(), "no memory for machine code")
    ctypes.memmove(start, code, len(code))
    if system.mprotect(word(start), size, READ_EXECUTE):
        error = ctypes.get_errno()
        system.munmap(word(start), size)
        raise OSError(error, "memory may not become executable")
    return int(start)
