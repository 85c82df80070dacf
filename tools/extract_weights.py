#!/usr/bin/env python3
"""Copy the weights out of a Keras file into a NumPy file, without Keras.

    python extract_weights.py model.h5 weights.npz
    python extract_weights.py --list model.keras

One file that runs by itself wherever Python 3.6 or later, numpy and h5py are: copy it to the host. It reads .h5 files of Keras
1, 2 and 3 (full or weights only), .keras and .weights.h5. Keys are "layer/variable", as in npinfer.read_weights, in the file's
order layer by layer; bfloat16 becomes float32. Only the numbers that .keras files give to a layer's arrays ("dense/0") stay
numbers here: their names need the architecture's meaning, which npinfer.read_weights knows.

    weights = numpy.load("weights.npz")
    weights["dense_1/kernel"]

Files are taken as possibly hostile: links and storage in other files are never followed, nothing is unpickled or executed, and
sizes that the file doesn't explain are refused. Exit status 0, 1 for a file that can't be read, 2 for bad use.
"""

import argparse
import io
import os
import re
import sys
import zipfile

import h5py
import numpy as np

CONTAINERS = ("layers", "_layer_checkpoint_dependencies")
TRAINING = ("optimizer", "metrics", "optimizer_weights")
SLACK, RATIO = 16 << 20, 100  # bytes that may come out of a file: SLACK + RATIO * its size
MAX_DEPTH = 60
FILTERS = (1, 2, 3, 32000)  # gzip, shuffle, fletcher32, lzf


class Refused(Exception):
    """The file can't be read, or not safely."""


class Reader:
    """One HDF5 file and what may still come out of it."""

    def __init__(self, root, size):
        self.root, self.size, self.left, self.seen = root, size, SLACK + RATIO * size, set()

    def open(self, group, path):
        """The member of a group, or None: one name at a time, real links only."""
        if path.startswith("/"):
            raise Refused(f"{path!r} is an absolute name")
        for part in [p for p in path.split("/") if p]:
            if part in (".", "..") or not isinstance(group, h5py.Group):
                raise Refused(f"{path!r} is no name of a member")
            link = group.get(part, getlink=True)
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                raise Refused(f"{group.name}/{part} is a link to another place, which is not followed")
            group = group[part]
        return group

    def array(self, item):
        """A dataset's array, after all checks."""
        where, plist = item.name, item.id.get_create_plist()
        if plist.get_layout() == h5py.h5d.VIRTUAL or plist.get_external_count():
            raise Refused(f"{where}: its data is in another file")
        if any(plist.get_filter(k)[0] not in FILTERS for k in range(plist.get_nfilters())):
            raise Refused(f"{where}: an unknown filter")
        kind = item.dtype.kind
        bfloat16 = item.dtype == np.dtype("V2")
        if kind not in "biufc" and not bfloat16:
            raise Refused(f"{where}: holds {item.dtype}, not numbers")
        if item.shape is None:
            raise Refused(f"{where}: a dataset without data")
        bytes_ = item.dtype.itemsize
        for n in item.shape:
            bytes_ *= int(n)
        self.left -= bytes_
        address = h5py.h5o.get_info(item.id).addr
        if self.left < 0 or address in self.seen:
            raise Refused(f"{where}: {bytes_} bytes, more than a file of {self.size} explains")
        self.seen.add(address)
        if not plist.get_nfilters() and item.id.get_storage_size() < bytes_:
            raise Refused(f"{where}: the file doesn't hold all of it")
        value = item[()]
        if bfloat16:
            return (np.asarray(value).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        return np.asarray(value, dtype=item.dtype.newbyteorder("="))


def text(value):
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def names(group, attribute):
    """A list of strings, put together from numbered pieces where the writer has split it; None if it isn't there."""
    if attribute in group.attrs:
        pieces = [group.attrs[attribute]]
    else:
        pieces = []
        while f"{attribute}{len(pieces)}" in group.attrs:
            pieces.append(group.attrs[f"{attribute}{len(pieces)}"])
        if not pieces:
            return None
    return [text(s) for piece in pieces for s in np.ravel(piece)]


def natural(name):
    """A sort key: digits compare as numbers."""
    return [(0, int(s), "") if s.isdigit() else (1, 0, s) for s in re.split(r"([0-9]+)", name) if s]


def bare(name):
    """A weight's name without TensorFlow's ":0"."""
    return re.sub(r"(?<=.):[0-9]+$", "", name)


def of_layer(layer, weights):
    """[(key, dataset)] of one layer of the old layout. What the weights' names have in common in front is dropped."""
    parts = [bare(name).split("/") for name, _ in weights]
    common = 0
    while parts and all(len(p) - 1 > common and p[common] == parts[0][common] for p in parts):
        common += 1
    keys = []
    for p in parts:
        last = p[-1][len(layer) + 1 :] if p[-1].startswith(layer + "_") and len(p[-1]) > len(layer) + 1 else p[-1]
        keys.append("/".join([layer, *p[common:-1], last]))
    if len(set(keys)) < len(keys):
        keys = [f"{layer}/{name}" for name, _ in weights]
    return [(key, item) for key, (_, item) in zip(keys, weights)]


def members(reader, group, wanted):
    found = [(name, reader.open(group, name)) for name in wanted]
    for name, item in found:
        if not isinstance(item, h5py.Dataset):
            raise Refused(f"{group.name} lists {name!r}, which isn't there")
    return found


def of_old_layout(reader, group):
    found = []
    for layer in names(group, "layer_names"):
        inner = reader.open(group, layer)
        if not isinstance(inner, h5py.Group):
            raise Refused(f"layer_names lists {layer!r}, which isn't there")
        found += of_layer(layer, members(reader, inner, names(inner, "weight_names") or []))
    top = reader.open(group, "top_level_model_weights")
    if isinstance(top, h5py.Group):
        found += [(bare(name), item) for name, item in members(reader, top, names(top, "weight_names") or [])]
    return found


def of_nb_layers(reader, group):
    found = []
    for k in range(int(group.attrs["nb_layers"])):
        layer = f"layer_{k}"
        inner = reader.open(group, layer)
        wanted = [f"param_{i}" for i in range(int(inner.attrs["nb_params"]))] if isinstance(inner, h5py.Group) else []
        found += [(f"{layer}/{name}", item) for name, item in members(reader, inner, wanted)] if wanted else []
    return found


def of_store(reader, group):
    """Keras 3's layout: layers are called by their `name` attribute where the file has it, else by their class."""
    arrays, called, visited = [], {}, set()

    def walk(group, path):
        address = h5py.h5o.get_info(group.id).addr
        if address in visited or len(path) > MAX_DEPTH:
            raise Refused(f"{group.name}: the file's groups form no tree")
        visited.add(address)
        if path and path[-1] == "vars" and "name" in group.attrs:
            called[path] = text(group.attrs["name"])
        below = []
        for name in sorted(group, key=natural):
            inner = path + tuple(name.replace("\\", "/").split("/"))
            if inner[0] in TRAINING:
                continue
            item = reader.open(group, name)
            if isinstance(item, h5py.Group):
                below.append((item, inner))
            elif isinstance(item, h5py.Dataset) and path and path[-1] == "vars":
                arrays.append((inner, item))
        for item, inner in below:
            walk(item, inner)

    def label(path):
        return "/".join(
            called.get((*path[: k + 1], "vars")) or part
            for k, part in enumerate(path)
            if part not in CONTAINERS or k + 1 == len(path)
        )

    walk(group, ())
    layers = sorted({path[:-1] for path, _ in arrays})
    labels = [label(path[:-1]) for path in layers]
    short = {path: text if labels.count(text) == 1 else "/".join(path) for path, text in zip(layers, labels)}
    return [("/".join(p for p in (short[path[:-1]], path[-1]) if p), item) for path, item in arrays]


def extract(path):
    """[(key, array)] of all weights of a file, in its order. Raises Refused, OSError, and what h5py raises on damaged files."""
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        head = f.read(4)
    source = path
    if head == b"PK\3\4":
        with zipfile.ZipFile(path) as z:
            if "model.weights.h5" not in z.namelist():
                raise Refused("a zip without model.weights.h5; found: " + ", ".join(z.namelist()[:10]))
            if z.getinfo("model.weights.h5").file_size > SLACK + RATIO * size:
                raise Refused(f"model.weights.h5 unpacks to more than a file of {size} bytes explains")
            source = io.BytesIO(z.read("model.weights.h5"))
    with h5py.File(source, "r") as f:
        reader = Reader(f, size)
        weights = reader.open(f, "model_weights")
        group = weights if isinstance(weights, h5py.Group) else f
        if names(group, "layer_names") is not None:
            found = of_old_layout(reader, group)
        elif "nb_layers" in f.attrs:
            found = of_nb_layers(reader, f)
        else:
            found = of_store(reader, group)
        if not found and names(group, "layer_names") is None:
            raise Refused("HDF5, but not from Keras; found: " + (", ".join(f) or "nothing"))
        first = {}
        for key, _ in found:
            first.setdefault(key.rpartition("/")[0], len(first))
        found.sort(key=lambda pair: first[pair[0].rpartition("/")[0]])
        result, taken = [], set()
        for key, item in found:
            free, k = key, 1
            while free in taken:
                k += 1
                free = f"{key}#{k}"
            taken.add(free)
            result.append((free, reader.array(item)))
    return result


def write(path, found):
    """An .npz, complete or not at all. (numpy.savez has keys that it can't write.)"""
    part = path + ".part"
    with zipfile.ZipFile(part, "w", allowZip64=True) as z:
        for key, array in found:
            with z.open(key + ".npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    os.replace(part, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a .h5, .hdf5, .weights.h5 or .keras file")
    parser.add_argument("target", nargs="?", help="the .npz to write")
    parser.add_argument("--list", action="store_true", help="print key, shape and dtype of each array")
    options = parser.parse_args()
    if not options.target and not options.list:
        parser.error("name the .npz to write, or pass --list")
    try:
        found = extract(options.source)
        if options.target:
            write(options.target, found)
    except (Refused, OSError, ValueError, KeyError, RuntimeError, TypeError, MemoryError, zipfile.BadZipFile) as e:
        print("{}: {}".format(options.source, " ".join(str(e).split()) or type(e).__name__), file=sys.stderr)
        return 1
    for key, array in found if options.list else []:
        print(f"{key:60} {list(array.shape)!s:16} {array.dtype}")
    if options.target:
        print(f"{options.target}: {len(found)} arrays")
    return 0


if __name__ == "__main__":
    sys.exit(main())
