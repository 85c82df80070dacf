"""What a file is, by its first bytes, never by its name; and the right reader for it."""

from __future__ import annotations

import os
from typing import Any

from npinfer.errors import FormatError
from npinfer.readers.limits import Limits, given_or_default, parse_json
from npinfer.readers.raw import RawFile
from npinfer.readers.source import Source, open_source

HDF5 = b"\x89HDF\r\n\x1a\n"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
HEAD = 4096  # bytes that tell what a file is
MAX_USER_BLOCK = 1 << 30

RESAVE = "load it in the program that wrote it and save it with Keras: model.save('model.keras') or model.save('model.h5')"
GIT_LFS = "a Git LFS pointer, not the file itself; fetch it with: git lfs pull"
PICKLE = "a Python pickle, which npinfer never opens (it could run code); " + RESAVE
#: (offset, first bytes, what the file is and what to do)
KINDS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"version https://git-lfs", GIT_LFS),
    (0, b"\x1f\x8b", "compressed by gzip; unpack it first: gunzip"),
    (0, b"BZh", "compressed by bzip2; unpack it first: bunzip2"),
    (0, b"\xfd7zXZ\x00", "compressed by xz; unpack it first: unxz"),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first: unzstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    (0, b"Rar!", "a RAR archive; unpack it first"),
    (257, b"ustar", "a tar archive; unpack it first and pass the model file in it"),
    (0, b"\x93NUMPY", "one NumPy array (.npy), not a model"),
    (4, b"TFL3", "a TensorFlow Lite model; npinfer reads the Keras model it was made from: " + RESAVE),
    (8, b'{"', "a safetensors file, which has no architecture; " + RESAVE),
    (0, b"GGUF", "a GGUF file; " + RESAVE),
    (0, b"\x80\x02", PICKLE),
    (0, b"\x80\x03", PICKLE),
    (0, b"\x80\x04", PICKLE),
    (0, b"\x80\x05", PICKLE),
    (0, b"MATLAB 5.0", "a MATLAB file; " + RESAVE),
    (0, b"%PDF", "a PDF"),
)
#: binary files without a signature of their own, tried last
PROTOBUFS = (
    (b"\x08\x01\x12", "a TensorFlow SavedModel's .pb; " + RESAVE),
    (b"\x08", "an ONNX model or another protobuf; npinfer reads the Keras model it was made from: " + RESAVE),
    (b"\x0a", "a TensorFlow graph (.pb) or another protobuf; " + RESAVE),
)
#: what a zip is by the endings of its members
MEMBERS = (
    ("data.pkl", "a PyTorch file; npinfer reads Keras models"),
    ("saved_model.pb", "a zipped TensorFlow SavedModel; " + RESAVE),
    ("config.json", "a zip with a .keras file's members inside a folder; zip them without the folder"),
    (".npy", "a .npz of arrays alone, not a model; needed is a file of model.save()"),
    (".h5", "a zip with an .h5 file in it; unpack it and pass that"),
    (".keras", "a zip with a .keras file in it; unpack it and pass that"),
)
KERAS_MEMBERS = ("config.json", "metadata.json", "model.weights.h5")
TABLE = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"  # the end of a LevelDB table
MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")


def open_raw(source: Any, limits: Limits | None = None) -> RawFile:
    """Open a model or weights file for reading: a path, bytes or a binary file object.

    HDF5 (.h5, also behind other names), a .keras zip, npinfer's .npz, or the .weights.json of sharded Keras 3 weights. Raises
    FormatError for everything else, saying what it is and what to do; MissingFileError, UnreadableFileError and LimitError.
    """
    opened = open_source(source, given_or_default(limits))
    try:
        return _read(opened)
    except BaseException:
        opened.close()
        raise


def _read(source: Source) -> RawFile:
    if not source.size:
        raise FormatError(f"{source.name}: empty; download or save it again")
    head = source.read_at(0, HEAD)
    if head.startswith(ZIP):
        return _read_zip(source)
    if _is_hdf5(source):
        from npinfer.readers.layouts import read_h5

        return read_h5(source)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _read_json(source)
    raise FormatError(f"{source.name}: {_what_is(source, head)}; npinfer reads .h5, .keras and its own .npz")


def _is_hdf5(source: Source) -> bool:
    """Whether the HDF5 signature is at 0, or behind a user block of 512, 1024, 2048 … bytes."""
    place = 0
    while place < min(source.size, MAX_USER_BLOCK):
        if source.read_at(place, len(HDF5)) == HDF5:
            return True
        place = 2 * place or 512
    return False


def _read_zip(source: Source) -> RawFile:
    from npinfer import npz
    from npinfer.readers.zipped import Zip

    archive = Zip(source)
    if npz.TEXT in archive:
        return npz.read_npz(archive)
    if any(name in archive for name in KERAS_MEMBERS):
        from npinfer.readers.keras_zip import read_keras

        return read_keras(archive)
    for ending, what in MEMBERS:
        if any(name.endswith(ending) for name in archive.names):
            raise FormatError(f"{source.name}: {what}")
    found = ", ".join(archive.names[:10]) or "nothing"
    raise FormatError(f"{source.name}: a zip, but no .keras file and no .npz of model.save(); found in it: {found}")


def _read_json(source: Source) -> RawFile:
    text = source.read_at(0, source.limits.json_bytes + 1)
    value = parse_json(text, source.limits, source.name)
    if "weight_map" in value:
        from npinfer.readers.layouts import read_shards

        if not source.path:
            raise FormatError(
                f"{source.name}: a map of sharded weights; pass its path, so that the files beside it can be found"
            )
        folder = os.path.dirname(source.path)
        return read_shards(text, source, lambda name: open_source(os.path.join(folder, name), source.limits))
    if "class_name" in value:
        raise FormatError(
            f"{source.name}: an architecture without weights; pass the weights file, and this as config: "
            "load('model.weights.h5', config='model.json')"
        )
    if "modelTopology" in value:
        raise FormatError(f"{source.name}: a TensorFlow.js model; {RESAVE}")
    raise FormatError(f"{source.name}: JSON, but neither an architecture nor a map of sharded weights; needed is a model file")


def _what_is(source: Source, head: bytes) -> str:
    for offset, magic, what in KINDS:
        if head[offset : offset + len(magic)] == magic:
            return what
    if source.read_at(source.size - len(TABLE), len(TABLE)) == TABLE:
        return "a TensorFlow checkpoint (.index); " + RESAVE
    if head.lstrip()[:20].lower().startswith(MARKUP):
        return "a web page or XML, not the file itself; a download went wrong: fetch the raw file"
    try:
        text = head[:256].decode("utf-8", "strict" if len(head) < 256 else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() or text.translate({ord(c): None for c in "\t\n\r"}).isprintable():
        return f"text ({text[:40]!r} …), not a model"
    for magic, what in PROTOBUFS:
        if head.startswith(magic):
            return what
    return f"of an unknown kind (it begins with {head[:8]!r})"
