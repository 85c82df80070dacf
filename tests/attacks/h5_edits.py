"""What is done to a sound HDF5 file, and what its refusal says: the data of test_h5_attacks.py."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
from hostile_files import KERNEL

from npinfer import FormatError, LimitError

KERNEL_PATH = "model_weights/dense/dense/kernel:0"
Edit = Callable[[h5py.File], Any]


def replaced(**options: Any) -> Edit:
    """Put another dataset in the kernel's place."""

    def edit(f: h5py.File) -> None:
        del f[KERNEL_PATH]
        f.create_dataset(KERNEL_PATH, **options)

    return edit


def attribute(place: str, name: str, value: Any) -> Edit:
    def edit(f: h5py.File) -> None:
        f[place].attrs[name] = value

    return edit


def without(place: str, name: str) -> Edit:
    def edit(f: h5py.File) -> None:
        del f[place].attrs[name]

    return edit


def gone(path: str) -> Edit:
    def edit(f: h5py.File) -> None:
        del f[path]

    return edit


def linked(path: str, link: Callable[[h5py.File], Any]) -> Edit:
    def edit(f: h5py.File) -> None:
        target = link(f)
        del f[path]
        f[path] = target

    return edit


def through(f: h5py.File) -> None:
    """A soft link to a path that an external link is part of."""
    f["out"] = h5py.ExternalLink("x.h5", "/")
    linked("model_weights/dense", lambda f: h5py.SoftLink("/out/x"))(f)


def chain(f: h5py.File) -> None:
    """Twenty soft links, each to the next."""
    f.move("model_weights/dense", "end")
    for k in range(20):
        f[f"hop{k}"] = h5py.SoftLink(f"/hop{k + 1}" if k < 19 else "/end")
    f["model_weights/dense"] = h5py.SoftLink("/hop0")


def raw_chunk(data: bytes, shape: tuple[int, ...] = (6, 8), **options: Any) -> Edit:
    """A gzip chunk with these bytes, whatever they inflate to."""

    def edit(f: h5py.File) -> None:
        del f[KERNEL_PATH]
        d = f.create_dataset(KERNEL_PATH, shape, "f4", chunks=shape, compression="gzip", **options)
        d.id.write_direct_chunk((0,) * len(shape), data)

    return edit


def filtered(*filters: str) -> Edit:
    """A kernel with these filters in this order."""

    def edit(f: h5py.File) -> None:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((6, 8))
        for name in filters:
            getattr(plist, f"set_{name}")(*([6] if name == "deflate" else []))
        name = KERNEL_PATH.encode()
        del f[KERNEL_PATH]
        d = h5py.h5d.create(f.id, name, h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((6, 8)), plist)
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, KERNEL)

    return edit


def early(f: h5py.File) -> None:
    """A contiguous kernel that was never written: it reads as its fill value."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_fill_value(np.array(7, "f4"))
    del f[KERNEL_PATH]
    h5py.h5d.create(f.id, KERNEL_PATH.encode(), h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((6, 8)), plist)


def virtual(f: h5py.File) -> None:
    layout = h5py.VirtualLayout((6, 8), "f4")
    layout[...] = h5py.VirtualSource("/etc/hostname.h5", "kernel", (6, 8), "f4")
    del f[KERNEL_PATH]
    f.create_virtual_dataset(KERNEL_PATH, layout)


def sparse(f: h5py.File) -> None:
    del f[KERNEL_PATH]
    f.create_dataset(KERNEL_PATH, (6, 8), "f4", chunks=(3, 8))[:3] = 1


def null(f: h5py.File) -> None:
    del f[KERNEL_PATH]
    f.create_dataset(KERNEL_PATH, data=h5py.Empty("f4"))


def committed(f: h5py.File) -> None:
    del f[KERNEL_PATH]
    f[KERNEL_PATH] = np.dtype("f4")


LONG = zlib.compress(bytes(20_000_000), 9)


#: name: (what to do to a sound file, the error, what it says)
EDITS: dict[str, tuple[Edit, type[Exception], str]] = {
    "external link": (
        linked("model_weights/dense", lambda f: h5py.ExternalLink("/etc/passwd", "/")),
        FormatError,
        "external link",
    ),
    "external link to a sibling": (
        linked("model_weights/dense", lambda f: h5py.ExternalLink("sound.h5", "/model_weights/dense")),
        FormatError,
        "external link",
    ),
    "external link through a soft one": (through, FormatError, "external link"),
    "external link in a name": (
        linked(KERNEL_PATH, lambda f: h5py.ExternalLink("sound.h5", KERNEL_PATH)),
        FormatError,
        "external link",
    ),
    "soft link to nowhere": (linked("model_weights/dense", lambda f: h5py.SoftLink("/nowhere")), FormatError, "doesn't exist"),
    "soft link to itself": (linked("model_weights/dense", lambda f: h5py.SoftLink("dense")), FormatError, "in a circle"),
    "long chain of soft links": (chain, FormatError, "in a circle"),
    "external storage": (
        replaced(shape=(6, 8), dtype="f4", external=[("/etc/hostname", 0, 192)]),
        FormatError,
        "external storage",
    ),
    "virtual dataset": (virtual, FormatError, "virtual dataset"),
    "unknown filter": (replaced(data=KERNEL.astype("i4"), scaleoffset=0), FormatError, "filters scaleoffset"),
    "gzip twice": (filtered("deflate", "deflate"), FormatError, "filters gzip"),
    "gzip below another filter": (filtered("deflate", "shuffle"), FormatError, "filters gzip"),
    "text": (replaced(data=np.full((6, 8), b"x")), FormatError, "holds text"),
    "variable-length text": (replaced(data=np.full((6, 8), "x", object), dtype=h5py.string_dtype()), FormatError, "holds text"),
    "lists": (replaced(shape=(6, 8), dtype=h5py.vlen_dtype(np.float32)), FormatError, "holds variable-length lists"),
    "references": (replaced(shape=(6, 8), dtype=h5py.ref_dtype), FormatError, "holds references"),
    "records": (replaced(data=np.zeros((6, 8), [("a", "f4"), ("b", "f4")])), FormatError, "holds records"),
    "arrays in arrays": (replaced(data=np.zeros(6, [("a", "f4", 8)])), FormatError, "holds records"),
    "opaque bytes": (replaced(data=np.zeros((6, 8), "V4")), FormatError, "plain numbers"),
    "extended precision": (replaced(data=np.zeros((6, 8), np.longdouble)), FormatError, "plain numbers"),
    "no data": (null, FormatError, "without data"),
    "a type instead of data": (committed, FormatError, "neither a group nor a dataset"),
    "terabytes, never written": (replaced(shape=(6, 1 << 40), dtype="f4", chunks=(1, 1024)), LimitError, "asks for"),
    "gigabytes in one piece": (replaced(shape=(60000, 80000), dtype="f4"), LimitError, "asks for"),
    "fill values in one piece": (early, FormatError, "the file holds 0"),
    "missing chunks": (sparse, FormatError, "1 of 2 chunks"),
    "a million chunks": (replaced(shape=(200_000,), dtype="f4", chunks=(1,)), LimitError, "200,000 chunks"),
    "gzip bomb": (replaced(data=np.zeros((4000, 4000), "f4"), compression="gzip"), LimitError, "asks for 64,"),
    "chunk larger than its dataset": (
        replaced(data=KERNEL, maxshape=(None, None), chunks=(8192, 8192), compression="gzip"),
        LimitError,
        "asks for 268,",
    ),
    "lzf in large chunks": (
        replaced(data=np.zeros((1000, 1000), "f4"), chunks=(1000, 1000), compression="lzf"),
        LimitError,
        "lzf",
    ),
    "gzip stream longer than its chunk": (raw_chunk(LONG), FormatError, "doesn't end"),
    "gzip stream cut off": (raw_chunk(zlib.compress(KERNEL.tobytes())[:-20]), FormatError, "doesn't end"),
    "gzip stream damaged": (raw_chunk(b"\0" * 40), FormatError, "damaged"),
    "one dataset under two names": (
        linked("model_weights/dense/dense/bias:0", lambda f: f[KERNEL_PATH]),
        FormatError,
        "the same dataset as",
    ),
    "one name twice": (
        attribute("model_weights/dense", "weight_names", np.array([b"dense/kernel:0"] * 2)),
        FormatError,
        "the same dataset as",
    ),
    "absolute weight name": (
        attribute("model_weights/dense", "weight_names", np.array([b"/etc/passwd"])),
        FormatError,
        "an absolute name",
    ),
    "weight name with dots": (
        attribute("model_weights/dense", "weight_names", np.array([b"../dense_1/dense_1/kernel:0"])),
        FormatError,
        "no name of a member",
    ),
    "weight name with a NUL": (
        attribute("model_weights/dense", "weight_names", np.array([b"dense\0x"])),
        FormatError,
        "no name of a member",
    ),
    "weight name through a dataset": (
        attribute("model_weights/dense", "weight_names", np.array([b"dense/kernel:0/x"])),
        FormatError,
        "no such dataset",
    ),
    "weight name of a group": (
        attribute("model_weights/dense", "weight_names", np.array([b"dense"])),
        FormatError,
        "no such dataset",
    ),
    "missing dataset": (gone(KERNEL_PATH), FormatError, "no such dataset"),
    "missing layer": (gone("model_weights/dense"), FormatError, "no such group"),
    "layer name of a dataset": (
        attribute("model_weights", "layer_names", np.array([b"dense/dense/kernel:0"])),
        FormatError,
        "no such group",
    ),
    "missing model_weights": (gone("model_weights"), FormatError, "no group model_weights"),
    "missing layer_names": (without("model_weights", "layer_names"), FormatError, "no attribute layer_names"),
    "missing weight_names": (without("model_weights/dense", "weight_names"), FormatError, "no attribute weight_names"),
    "layer_names of numbers": (attribute("model_weights", "layer_names", np.arange(3)), FormatError, "list of strings"),
    "layer_names of fractions": (attribute("model_weights", "layer_names", np.ones(3)), FormatError, "list of strings"),
    "layer_names in Latin-1": (attribute("model_weights", "layer_names", np.array([b"\xe9"])), FormatError, "UTF-8"),
    "config of two strings": (attribute("/", "model_config", ["a", "b"]), FormatError, "one string"),
    "config a number": (attribute("/", "model_config", 5), FormatError, "one string"),
    "config without data": (attribute("/", "model_config", h5py.Empty("S1")), FormatError, "one string"),
    "config empty": (attribute("/", "model_config", ""), FormatError, "not valid JSON"),
    "config not UTF-8": (attribute("/", "model_config", np.bytes_(b'{"\xff": 1}')), FormatError, "UTF-8"),
    "config a list": (attribute("/", "model_config", "[]"), FormatError, "a list, not"),
    "config null": (attribute("/", "model_config", "null"), FormatError, "not a model's architecture"),
    "config without a class": (attribute("/", "model_config", "{}"), FormatError, "class_name"),
    "config of 20,000 lists": (attribute("/", "model_config", np.bytes_("[" * 20_000)), LimitError, "nested 20,000"),
    "backend a number": (attribute("/", "backend", 3), FormatError, "one string"),
}
