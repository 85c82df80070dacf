"""Damage to model files, numbered: the same seed, number and files give the same bytes."""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile
from copy import deepcopy
from typing import Any

#: what stands anywhere in a mutated JSON text
POOL: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63), 0.5, -0.0, float("nan"), float("inf")),
    *("", "float16", "relu", "__class__", "Dense", "LSTM", "a/b", "../x", "\0", "é", "x" * 3000),
    *([], [[]], [None], [1, 2, 3], [-1, None], {}, {"class_name": "Dense", "config": {}}),
    {"class_name": "Lambda", "config": {"function": "exec"}},
)


def mutate_bytes(data: bytes, r: random.Random, others: list[bytes]) -> bytes:
    """Damage without knowledge of the format."""
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 1, 2, 4, 16))):
        if not out:
            return b""
        at, n = r.randrange(len(out)), r.choice((1, 2, 4, 8, 16, 64))
        kind = r.randrange(8)
        if kind == 0:
            out[at] ^= 1 << r.randrange(8)
        elif kind == 1:
            out[at] = r.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
        elif kind == 2:
            out[at : at + n] = r.randbytes(n)
        elif kind == 3:
            at -= at % 8
            out[at : at + 8] = r.choice((0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1, len(out), at)).to_bytes(8, "little")
        elif kind == 4:
            del out[at : len(out) if r.random() < 0.3 else at + n]
        elif kind == 5:
            out[at : at + n] = bytes(n)
        elif kind == 6:
            other = r.choice(others)
            start = r.randrange(len(other))
            out[at : at + n] = other[start : start + n]
        else:
            source = r.randrange(len(out))
            out[at : at + n] = out[source : source + n]
    return bytes(out)


def mutate_json(text: str, r: random.Random) -> str:
    """Change some nodes of a JSON text, or the text itself."""
    if r.random() < 0.1:
        at = r.randrange(len(text) + 1)
        return text[:at] + r.choice(('"', "{", "[" * 500, "\\ud800", "NaN", "1e999", "\0", "9" * 5000)) + text[at:]
    try:
        tree = json.loads(text)
    except ValueError:
        return text[: r.randrange(len(text) + 1)]
    for _ in range(r.choice((1, 1, 1, 2, 5))):
        places: list[tuple[Any, Any]] = []
        stack = [tree]
        while stack:
            node = stack.pop()
            keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
            for key in keys:
                places.append((node, key))
                stack.append(node[key])
        if not places:
            break
        node, key = r.choice(places)
        action = r.random()
        if action < 0.2:
            del node[key]
        elif action < 0.4:
            other, place = r.choice(places)
            node[key] = json.loads(json.dumps(other[place])) if place in other or isinstance(other, list) else None
        elif action < 0.5 and isinstance(node, dict):
            node[r.choice(("class_name", "units", "activation", "module", "name", "layers", "\0"))] = deepcopy(r.choice(POOL))
        else:
            node[key] = deepcopy(r.choice(POOL))
    return json.dumps(tree)


def mutate_hdf5(data: bytes, r: random.Random) -> bytes:
    """Rewrite attributes and datasets through h5py, so that the file stays sound and its content doesn't."""
    import h5py
    import numpy as np

    memory = io.BytesIO(data)
    with h5py.File(memory, "r+") as f:
        items: list[Any] = [f]
        f.visititems(lambda _, item: items.append(item))
        for _ in range(r.choice((1, 1, 2, 4))):
            item = r.choice(items)
            attributes = list(item.attrs) if item else []
            if "model_config" in f.attrs and r.random() < 0.5:
                text = f.attrs["model_config"]
                f.attrs["model_config"] = mutate_json(text if isinstance(text, str) else text.decode("utf-8", "replace"), r)
            elif attributes and r.random() < 0.6:
                name = r.choice(attributes)
                value = r.choice((None, 5, -1, "x", b"\xff\xfe", np.zeros((2, 2)), np.array([b"a/../b", b"/etc"]), 1.5, "turn"))
                if value is None:
                    del item.attrs[name]
                else:
                    turn = isinstance(value, str) and value == "turn" and isinstance(item.attrs[name], np.ndarray)
                    item.attrs[name] = item.attrs[name][::-1] if turn else value
            elif isinstance(item, h5py.Dataset):
                path, shape = item.name, list(item.shape)
                kind = r.choice(("f2", "f4", "f8", ">f4", "i4", "u1", "c8", "S3", "bool"))
                if shape and r.random() < 0.7:
                    shape[r.randrange(len(shape))] = r.choice((0, 1, 2, 3, 5, 9))
                elif r.random() < 0.5:
                    shape = shape[:-1] if r.random() < 0.5 else [*shape, 1]
                packed = bool(shape) and min(shape) > 0 and r.random() < 0.4
                options = {"compression": "gzip", "shuffle": True, "fletcher32": True} if packed else {}
                del f[path]
                f.create_dataset(path, data=np.zeros(shape, kind), **options)
                items = [k for k in items if k]
            elif item and item.name != "/" and r.random() < 0.5:
                path = item.name
                target = r.choice(items)
                where = target.name if target else "/"
                del f[path]
                f[path] = r.choice((h5py.SoftLink(where), h5py.SoftLink(path), h5py.ExternalLink("other.h5", "/"), f["/"]))
                items = [k for k in items if k]
    return memory.getvalue()


def mutate_zip(data: bytes, r: random.Random, others: list[bytes]) -> bytes:
    """Pack a zip again with one member changed, added, dropped or doubled."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        members = [(n, z.read(n)) for n in z.namelist()]
    at = r.randrange(len(members))
    name, content = members[at]
    action = r.random()
    if action < 0.1:
        del members[at]
    elif action < 0.2:
        members.append((r.choice((name, "../x", "/x", "assets/x", "C:\\x", "extra.npy", "\0")), content))
    elif name.endswith(".json") and action < 0.7:
        members[at] = (name, mutate_json(content.decode(), r).encode("utf-8", "surrogatepass"))
    elif name.endswith(".h5") and action < 0.7:
        members[at] = (name, mutate_hdf5(content, r))
    else:
        members[at] = (name, mutate_bytes(content, r, others))
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", r.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
        warnings.simplefilter("ignore")
        for name, content in members:
            z.writestr(name, content)
    return out.getvalue()


def mutate(number: int, seed: int, files: list[bytes]) -> bytes:
    """Case `number` of a run."""
    r = random.Random(f"{seed}/{number}")
    data = r.choice(files)
    knows = r.random() < 0.6
    try:
        if knows and data.startswith(b"\x89HDF"):
            return mutate_hdf5(data, r)
        if knows and data.startswith(b"PK"):
            return mutate_zip(data, r, files)
        if knows and data.startswith(b"{"):
            return mutate_json(data.decode(), r).encode("utf-8", "surrogatepass")
    except Exception:
        pass  # h5py refuses to write some of it
    return mutate_bytes(data, r, files)
