"""The symbols that an object file needs from elsewhere, read from its own tables: ELF, Mach-O and COFF, 64-bit little-endian.

LLVM may turn a loop into a call of `memcpy`, a big frame into a call of a stack probe; only the finished file shows it, and a
symbol that can't be found ends the process when the file is loaded. So the files are looked into before they are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from npinfer.errors import FormatError

Symbols = Iterator[tuple[str, bool]]


def symbols(data: bytes) -> tuple[set[str], set[str]]:
    """Names of the global symbols, as C spells them: the defined ones and the undefined ones.

    Raises FormatError for anything that isn't an object file.
    """
    try:
        if data[:4] == b"\x7fELF":
            found = dict(_elf(data))
        elif data[:4] == b"\xcf\xfa\xed\xfe":
            found = {name.removeprefix("_"): defined for name, defined in _macho(data)}
        elif data[:2] in (b"\x64\x86", b"\x64\xaa"):
            found = dict(_coff(data))
        else:
            raise FormatError("object file: of no known format")
        return {n for n, defined in found.items() if defined}, {n for n, defined in found.items() if not defined}
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as e:
        raise FormatError(f"object file: its tables don't fit together: {e}") from None


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def _elf(data: bytes) -> Symbols:
    """ELF64, System V ABI, "Symbol Table": section index 0 marks a symbol as undefined."""
    (sections,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + size * k) for k in range(count)]
    for _, kind, _, _, offset, length, link, _, _, item in headers:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = headers[link][4]
        for at in range(offset + item, offset + length, item):  # the first is empty
            name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info >> 4 or section == 0:  # not local
                yield _text(data, names + name), section != 0


def _macho(data: bytes) -> Symbols:
    """Mach-O 64: load command 2 is the symbol table, type bit 0x01 means global, bits 0x0e of 0 undefined."""
    (count,) = struct.unpack_from("<I", data, 16)
    at = 32
    for _ in range(count):
        command, length = struct.unpack_from("<II", data, at)
        if command == 2:
            symbols, number, names = struct.unpack_from("<III", data, at + 8)
            for k in range(number):
                name, kind = struct.unpack_from("<IB", data, symbols + 16 * k)
                if kind & 0x01 and not kind & 0xE0:  # debugging entries have bits of 0xe0
                    yield _text(data, names + name), kind & 0x0E != 0
        at += length


def _coff(data: bytes) -> Symbols:
    """COFF (PE format, "COFF Symbol Table"): external ones; in section 0 and of value 0: undefined."""
    symbols, number = struct.unpack_from("<II", data, 8)
    names, k = symbols + 18 * number, 0
    while k < number:
        at = symbols + 18 * k
        zero, offset, value, section, _, storage, extra = struct.unpack_from("<IIIhHBB", data, at)
        if storage in (2, 105):
            name = _text(data, names + offset) if zero == 0 else data[at : at + 8].rstrip(b"\0").decode()
            yield name, section != 0 or value != 0
        k += 1 + extra
