"""How much a file may ask for. Everything here is checked before the bytes it speaks of are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from npinfer.errors import ArgumentError, FormatError, LimitError, NpinferError, shown
from npinfer.frozen import Frozen

BLOCK = 1 << 20
MAX_DIGITS = 40  # of an integer in JSON: Python takes quadratic time for longer ones, and no size needs them
BOM = b"\xef\xbb\xbf"  # which some editors put before UTF-8
ESCAPED_SURROGATE = rb"\\u[dD][89a-fA-F]"


class Limits(Frozen):
    """Bounds for one file. The defaults admit every model we know of; pass `limits=Limits(…)` to change some.

    A file may not grow without bound when it is unpacked: all that is read from it (members of a zip, decompressed arrays)
    is at most `slack` bytes plus `ratio` times the file's own size.
    """

    json_bytes: int = 64 << 20  #: of one JSON text (model_config, config.json), and of all attributes together
    json_depth: int = 200  #: nested lists and dicts in it
    json_values: int = 2_000_000  #: values in it; Python needs up to 100 bytes for one
    members: int = 1_000  #: in a zip
    objects: int = 50_000  #: groups, arrays, names and strings that are looked at in an HDF5 file
    group_depth: int = 60  #: nested HDF5 groups, and names in one path
    ratio: int = 100  #: what is read against the size of the file
    slack: int = 16 << 20  #: bytes that may be read whatever the ratio
    total_bytes: int = 16 << 30  #: of all arrays together

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 0:
                raise ArgumentError(f"Limits({name}={shown(value)}): needs a whole number")

    def grown(self, size: int) -> int:
        """The most that a file of `size` bytes may give."""
        return min(self.slack + self.ratio * size, self.total_bytes)


DEFAULT = Limits()


def given_or_default(limits: Any) -> Limits:
    """A caller's limits, or the defaults for None. Raises ArgumentError for what isn't a Limits."""
    if limits is not None and not isinstance(limits, Limits):
        raise ArgumentError(f"limits={shown(limits)}: needs npinfer.Limits(…), such as npinfer.Limits(json_depth=500)")
    return limits or DEFAULT


class Budget:
    """Counts what one file gives, nested containers (HDF5 within zip) included, against `Limits.grown` of its size on disk."""

    def __init__(self, limits: Limits, size: int) -> None:
        self.limits, self.size, self.left = limits, size, limits.grown(size)
        self.objects = 0
        self.text = limits.json_bytes

    def charge(self, count: int, where: str) -> None:
        """Ask for `count` bytes. Raises LimitError when the file would give more than its size explains."""
        self.left -= count
        if self.left < 0:
            raise LimitError(
                f"{where}: asks for {count:,} bytes, more than a file of {self.size:,} bytes may give "
                f"({self.limits.grown(self.size):,} in all); if you trust the file, pass limits=Limits(ratio=…, total_bytes=…)"
            )

    def charge_object(self, where: str) -> None:
        """Count one group, dataset or name."""
        self.objects += 1
        if self.objects > self.limits.objects:
            raise LimitError(
                f"{where}: more than {self.limits.objects:,} groups, datasets, names and strings; see Limits.objects"
            )

    def charge_text(self, count: int, where: str) -> None:
        """Count bytes of attributes."""
        self.text -= count
        if self.text < 0:
            raise LimitError(f"{where}: more than {self.limits.json_bytes:,} bytes of attributes; see Limits.json_bytes")


@contextmanager
def reading(where: str, advice: str = "save the model again, or copy the file again") -> Iterator[None]:
    """Whatever a library raises on damaged content comes out as FormatError naming the place."""
    try:
        yield
    except NpinferError:
        raise
    except MemoryError:
        raise LimitError(f"{where}: doesn't fit into memory") from None
    except Exception as e:
        text = " ".join(str(e).split())
        raise FormatError(f"{where}: damaged ({type(e).__name__}: {text[:200]}); {advice}") from e


def parse_json(data: bytes | str, limits: Limits, where: str) -> Any:
    """The value of a JSON text. NaN and Infinity, which Keras writes, are floats.

    Raises LimitError beyond limits.json_*, FormatError for anything that isn't JSON, for repeated keys and for invalid UTF-8.
    Depth and number of values are counted before parsing, without recursion.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if len(data) > limits.json_bytes:
        raise LimitError(f"{where}: {len(data):,} bytes of JSON; at most {limits.json_bytes:,}; see Limits.json_bytes")
    depth, values = _extent(data)
    if depth > limits.json_depth:
        raise LimitError(f"{where}: JSON nested {depth:,} deep; at most {limits.json_depth:,}; see Limits.json_depth")
    if values > limits.json_values:
        raise LimitError(f"{where}: JSON of {values:,} values; at most {limits.json_values:,}; see Limits.json_values")
    try:
        result = json.loads(data.removeprefix(BOM).decode(), object_pairs_hook=_unique, parse_int=_integer)
        if b"\\u" in data and re.search(ESCAPED_SURROGATE, data):
            json.dumps(result, ensure_ascii=False).encode()  # an unpaired surrogate is no text: it can't even be printed
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{where}: not valid JSON ({str(e)[:200]}); save the model again") from None
    return result


def _extent(data: bytes) -> tuple[int, int]:
    """(depth, an upper bound for the number of values) of a JSON text, strings left out."""
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = plain.translate(None, bytes(set(range(256)) - set(b'"[]{},:')))
    level = depth = values = quotes = 0
    for start in range(0, len(marks), BLOCK):
        block = np.frombuffer(marks, np.uint8, min(BLOCK, len(marks) - start), start)
        quote = np.cumsum(block == ord('"'), dtype=np.int32) + quotes
        block = block[quote % 2 == 0]
        quotes = int(quote[-1]) % 2
        opens, closes = (block & 0xDF) == ord("["), (block & 0xDF) == ord("]")
        if block.size:
            levels = np.cumsum(opens.astype(np.int32) - closes) + level
            depth, level = max(depth, int(levels.max())), int(levels[-1])
        values += int(opens.sum()) + int(((block == ord(",")) | (block == ord(":"))).sum())
    return depth, values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        left = set(result)
        for key, _ in pairs:
            if key not in left:
                raise ValueError(f"key {key!r} stands twice in one object")
            left.remove(key)
    return result


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text)
