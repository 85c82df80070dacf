"""The bytes to read: a path, bytes or a binary file object, with one budget for whatever comes out of them."""

from __future__ import annotations

import io
import os
import stat
from typing import Any, BinaryIO

from npinfer.errors import FormatError, LimitError, shown
from npinfer.readers.limits import Budget, Limits


class MissingFileError(FormatError, FileNotFoundError):
    """There is no such file."""


class UnreadableFileError(FormatError, PermissionError):
    """The file can't be opened."""


class Source:
    """Bytes at hand: `size`, `read_at`, and how messages call them. `path` is set where they are a file on disk, `data` where
    they are in memory. A context manager; only what was opened here is closed."""

    def __init__(self, stream: BinaryIO, size: int, name: str, budget: Budget, path: str = "", data: bytes = b"") -> None:
        self.stream, self.size, self.name, self.budget = stream, size, name, budget
        self.path, self.data = path, data

    @property
    def limits(self) -> Limits:
        return self.budget.limits

    def read_at(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes, fewer at the end of the file."""
        if offset < 0 or count < 0:
            return b""
        self.stream.seek(offset)
        return self.stream.read(min(count, max(self.size - offset, 0)))

    def all(self) -> bytes:
        return self.data or self.read_at(0, self.size)

    def inner(self, data: bytes, name: str) -> Source:
        """A part of this source (a member of a zip) as a source of its own, on the same budget."""
        return Source(io.BytesIO(data), len(data), f"{self.name}: {name}", self.budget, data=data)

    def close(self) -> None:
        self.stream.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_source(source: Any, limits: Limits) -> Source:
    """Open a path (str or PathLike), bytes, or a binary file object (read from its start, whatever its position).

    Raises MissingFileError, UnreadableFileError (both FormatError and what `open` raises), FormatError for folders, devices and
    text, LimitError for more than limits.total_bytes. A file object stays open and keeps no tie to the result.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _in_memory(bytes(source), f"{len(source)} bytes in memory", limits)
    if hasattr(source, "read"):
        return _in_memory(_contents(source, limits), str(getattr(source, "name", "a file object")), limits)
    try:
        path = os.fspath(source)
        name = os.fsdecode(path)
    except TypeError:
        kind = type(source).__name__
        raise FormatError(f"a {kind} is no model file: pass a path, bytes or a binary file object") from None
    return _on_disk(name, limits)


def _in_memory(data: bytes, name: str, limits: Limits) -> Source:
    return Source(io.BytesIO(data), len(data), name, Budget(limits, len(data)), data=data)


def _contents(file: Any, limits: Limits) -> bytes:
    name = getattr(file, "name", "a file object")
    try:
        if hasattr(file, "seek"):
            file.seek(0)
        data = file.read(limits.total_bytes + 1)
    except (OSError, ValueError) as e:
        raise FormatError(f"{name}: can't be read ({e})") from e
    if not isinstance(data, bytes):
        raise FormatError(f"{name}: gives {type(data).__name__} instead of bytes; open it with mode 'rb'")
    if len(data) > limits.total_bytes:
        raise LimitError(f"{name}: more than {limits.total_bytes:,} bytes; see Limits.total_bytes")
    return data


def _on_disk(path: str, limits: Limits) -> Source:
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise FormatError(f"{path}: {_folder(path)}")
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path}: not a regular file (a pipe or device); pass its bytes instead")
        stream = open(path, "rb")  # noqa: SIM115 (closed by Source.close)
    except FileNotFoundError:
        hint = "; download it first, npinfer opens local files only" if "://" in path else ""
        raise MissingFileError(f"{path}: no such file{hint}") from None
    except PermissionError:
        raise UnreadableFileError(f"{path}: no permission to read it") from None
    except (OSError, ValueError) as e:
        raise FormatError(f"{shown(path)}: can't be opened ({getattr(e, 'strerror', None) or e})") from e
    return Source(stream, os.fstat(stream.fileno()).st_size, path, Budget(limits, status.st_size), path=path)


def _folder(path: str) -> str:
    """What a folder is, by the names in it."""
    names = set(os.listdir(path))
    if names & {"saved_model.pb", "saved_model.pbtxt", "keras_metadata.pb"}:
        return (
            "a TensorFlow SavedModel folder, not a Keras file; load it where TensorFlow is installed and save it again: "
            "model.save('model.keras') or model.save('model.h5')"
        )
    if {"config.json", "model.weights.h5"} <= names:
        return "an unpacked .keras file; load(folder/'model.weights.h5', config=folder/'config.json')"
    return "a folder; pass the path of a .h5, .keras or .npz file"
