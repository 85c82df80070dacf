"""npinfer's own file: a zip that `numpy.load` opens too, of one JSON text and plain arrays. Needs no h5py.

npinfer.json     {"format": "npinfer", "version": 1, "archive": … (readers/codec.py), "weights": [member, …], "meta": …, …}
NAME.npy         the weights, in the order of archive["weights"]
constants/K.npy  arrays in configs and calls
check/in0.npy, check/out0.npy …  inputs, and the outputs they gave
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

import npinfer
from npinfer.errors import ArgumentError, FormatError, shown
from npinfer.graph import Array
from npinfer.readers.archive import Archive, Saved
from npinfer.readers.codec import decode, encode
from npinfer.readers.limits import parse_json, reading
from npinfer.readers.raw import RawFile, Stored
from npinfer.readers.zipped import Zip

if TYPE_CHECKING:
    import zipfile

FORMAT, VERSION, TEXT = "npinfer", 1, "npinfer.json"
#: weights whose path is so plain keep it as the member's name, for people who open the file with numpy.load
PLAIN = r"(?!constants/|check/)\w[\w-]*(\.\w[\w-]*)*(/\w[\w-]*(\.\w[\w-]*)*)*"
KINDS = "biufc"
MAX_HEADER = 1024  # bytes of an .npy header: shape and dtype
DEEPER = 4  # times the JSON depth of a Keras config
Pairs = tuple[Sequence[Array], Sequence[Array]]


def save(path: str | PathLike[str], archive: Archive, meta: Mapping[str, Any], pairs: Pairs | None = None) -> None:
    """Write an archive; replaces the file at once when all is written, so readers see the old one or the new one.

    meta: JSON values for the caller; of them "dtype" and "outputs" are checked when read. pairs: (inputs, outputs) to verify
    at load. Raises OSError where the path can't be written.
    """
    constants: list[Array] = []
    listed = dict.fromkeys(archive.order) | {(path, name): None for path, found in archive.weights.items() for name in found}
    if not isinstance(path, (str, bytes, PathLike)):
        raise ArgumentError(f"save({shown(path)}): needs a path")
    encoded = encode(archive, list(listed), constants)
    members: dict[str, Array] = {}
    names = []
    plain = re.compile(PLAIN, re.ASCII).fullmatch
    for k, (path_, name) in enumerate(listed):
        member = "/".join((*path_, name))
        names.append(f"constants/weight{k}" if member in members or not plain(member) else member)
        members[names[-1]] = archive.weights[path_][name]
    members.update({f"constants/{k}": a for k, a in enumerate(constants)})
    for kind, arrays in zip(("in", "out"), pairs or ()):
        members.update({f"check/{kind}{k}": a for k, a in enumerate(arrays)})
    text = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": npinfer.__version__,
        "archive": encoded,
        "weights": names,
        "constants": len(constants),
        "pairs": None if pairs is None else [len(a) for a in pairs],
        "meta": dict(meta),
    }
    import zipfile

    from npinfer.destination import replacing

    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as out:
        out.writestr(_member(TEXT), json.dumps(text, ensure_ascii=False))
        for name, array in members.items():
            with out.open(_member(f"{name}.npy"), "w", force_zip64=array.nbytes >= 1 << 31) as stream:
                npy.write_array(stream, np.asarray(array), allow_pickle=False)


def _member(name: str) -> zipfile.ZipInfo:
    """A member dated 1980, so that the same model makes the same bytes."""
    import zipfile

    info = zipfile.ZipInfo(name)
    info.external_attr = 0o644 << 16
    return info


def read_npz(archive: Zip) -> RawFile:
    """A RawFile whose `canonical` holds the JSON text and the arrays by member name, for `restore`. It owns the zip's source.

    Raises FormatError for anything that `save` doesn't write, LimitError for sizes that the file doesn't explain.
    """
    source = archive.source
    archive.only(lambda name: name == TEXT or name.endswith(".npy"), "npinfer's .npz")
    where = source.name
    limits = source.limits
    deep = limits.replace(json_depth=DEEPER * limits.json_depth)
    text = parse_json(archive.read(TEXT, limits.json_bytes), deep, f"{where}: {TEXT}")
    if not isinstance(text, dict) or text.get("format") != FORMAT:
        raise FormatError(f"{where}: its {TEXT} isn't npinfer's; needed is a file of model.save()")
    if text.get("version") != VERSION:
        raise FormatError(
            f"{where}: format version {text.get('version')!r:.50}, written by npinfer {text.get('written_by')!r:.50}; "
            f"npinfer {npinfer.__version__} reads version {VERSION}; install a newer one, or convert the model again"
        )
    arrays = {name.removesuffix(".npy"): _stored(archive, name) for name in archive.names if name != TEXT}
    return RawFile(where, canonical=(text, arrays), close=source.close)


def restore(raw: RawFile) -> Saved:
    """Archive, meta and check pairs of a RawFile of read_npz; every array is read."""
    text, arrays = raw.canonical or ({}, {})
    where = raw.source

    def array(name: Any) -> Array:
        if not isinstance(name, str) or name not in arrays:
            raise FormatError(f"{where}: the array {name!r:.200} is missing; save the model again")
        return arrays[name].read()

    def count(value: Any) -> range:
        if type(value) is not int or not 0 <= value <= len(arrays):
            raise FormatError(f"{where}: a count of arrays is {value!r:.50}; save the model again")
        return range(value)

    with reading(where):
        constants = [array(f"constants/{k}") for k in count(text.get("constants"))]
        names = text.get("weights")
        if not isinstance(names, list) or len({*map(str, names)}) != len(names):
            raise FormatError(f"{where}: its weights aren't one array each; save the model again")
        archive = decode(text.get("archive"), [array(name) for name in names], constants, where)
        sizes = text.get("pairs")
        pairs = None
        if isinstance(sizes, list) and len(sizes) == 2:
            ins, outs = ([array(f"check/{kind}{k}") for k in count(n)] for kind, n in zip(("in", "out"), sizes))
            pairs = ins, outs
            if any(a.dtype.kind == "c" for a in (*ins, *outs)):
                raise FormatError(f"{where}: its check pairs hold complex numbers; save the model again")
        meta = text.get("meta")
        if not isinstance(meta, dict) or not _sound(meta) or (pairs is None and sizes is not None):
            raise FormatError(f"{where}: its meta data or check pairs are damaged; save the model again")
    return Saved(archive, meta, pairs)


def _sound(meta: Mapping[str, Any]) -> bool:
    """Whether the options of loading that a file may carry are such options."""
    outputs = meta.get("outputs")
    names = outputs is None or (isinstance(outputs, list) and all(isinstance(n, str) for n in outputs))
    return names and meta.get("dtype") in (None, "float32", "float64")


def _stored(archive: Zip, name: str) -> Stored:
    """The array of one member, its header checked; the bytes are read later."""
    where = f"{archive.source.name}: {name}"
    with reading(where):
        head = io.BytesIO(archive.peek(name, 12 + MAX_HEADER))
        version = npy.read_magic(head)
        if version not in ((1, 0), (2, 0)):
            raise FormatError(f"{where}: .npy version {version}; needed is 1.0 or 2.0")
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = header(head, max_header_size=MAX_HEADER)
    if dtype.kind not in KINDS or dtype.itemsize > 16 or dtype.subdtype is not None:
        raise FormatError(f"{where}: holds {dtype}; needed are numbers")
    start, size = head.tell(), math.prod(shape) * dtype.itemsize
    if not all(n >= 0 for n in shape) or archive.members[name].size != start + size:
        raise FormatError(f"{where}: shape {list(shape)} of {dtype} doesn't fit its {archive.members[name].size:,} bytes")

    def read() -> Array:
        data = archive.read(name)
        with reading(where):
            return np.frombuffer(data, dtype, offset=start).reshape(shape, order="F" if fortran else "C").copy()

    return Stored(shape, dtype.newbyteorder("="), where, read)
