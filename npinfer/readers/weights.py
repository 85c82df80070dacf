"""`read_weights`: the arrays of any file, also of files with unknown layers or without an architecture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from npinfer.errors import NpinferError
from npinfer.graph import Array
from npinfer.readers.limits import Limits, reading
from npinfer.readers.raw import RawFile, Stored, stored
from npinfer.readers.sniff import open_raw

CONTAINERS = ("layers", "_layer_checkpoint_dependencies")
Named = tuple[str, str, Stored]  # layer path, variable, array


def read_weights(source: Any, limits: Limits | None = None) -> dict[str, dict[str, Array]]:
    """{layer path: {variable: array}} of a model or weights file, in the file's own order.

    source: as for `load`. Layer paths are names joined by "/" ("encoder/dense"; "" for weights of the model itself); variables
    are called as in the file ("kernel", "W"), without prefixes that repeat the layer's name and without ":0". Keras 3's stores
    number their arrays: where the file holds the architecture too (.keras), layers and variables are called by it, as in an .h5
    of the same model; else "0", "1" stay. Arrays have the file's dtype in native byte order, bfloat16 as float32. Where short
    names would collide the file's full names stand instead: no array is ever left out.

    Raises FormatError or LimitError for files that can't be read safely, never for what an architecture says.
    """
    result: dict[str, dict[str, Array]] = {}
    with open_raw(source, limits) as raw:
        for path, name, array in named(raw):
            found = result.setdefault(path, {})
            found[_free(name, found)] = array.read()
    return result


def flatten(weights: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """{"layer/variable": array} of what read_weights returns, for `numpy.savez`; the few keys that collide get a number."""
    result: dict[str, Array] = {}
    for path, variables in weights.items():
        for name, array in variables.items():
            key = f"{path}/{name}" if path else name
            result[_free(key, result)] = array
    return result


def named(raw: RawFile) -> list[Named]:
    """(layer path, variable, array) of all weights of a RawFile."""
    if raw.canonical is not None:
        from npinfer.npz import restore

        weights = restore(raw).archive.weights
        return [("/".join(path), name, stored(array)) for path, found in weights.items() for name, array in found.items()]
    if raw.store is not None:
        return list(_of_store(raw.store, raw.store_names, _by_architecture(raw)))
    found = [w for layer, weights in raw.legacy or [] for w in _of_layer(layer, weights)]
    return found + [("", _bare(name), array) for name, array in raw.top_level]


def _free(name: str, taken: Mapping[str, Array]) -> str:
    """The name, with a number behind it if it is taken."""
    k, free = 1, name
    while free in taken:
        k += 1
        free = f"{name}#{k}"
    return free


def _of_layer(layer: str, weights: list[tuple[str, Stored]]) -> list[Named]:
    """Weights of one layer of the old layout. What their names have in common in front says nothing and is dropped."""
    parts = [_bare(name).split("/") for name, _ in weights]
    scopes = [p[:-1] for p in parts]
    common = 0
    while scopes and all(len(s) > common and s[common] == scopes[0][common] for s in scopes):
        common += 1
    paths = ["/".join((layer, *s[common:])) for s in scopes]
    names = [p[-1].removeprefix(f"{layer}_") or p[-1] for p in parts]
    if len(set(zip(paths, names))) < len(names):
        return [(layer, name, array) for name, array in weights]
    return [(path, name, array) for path, name, (_, array) in zip(paths, names, weights)]


def _bare(name: str) -> str:
    """A weight's name without TensorFlow's ":0"."""
    head, colon, tail = name.rpartition(":")
    return head if colon and tail.isdecimal() and head else name


def _by_architecture(raw: RawFile) -> dict[str, tuple[str, str]]:
    """Names for the arrays of a store that the file's own architecture knows; none where it makes no sense."""
    from npinfer.readers import stores, topology, versions

    if raw.config is None:
        return {}
    try:
        with reading(raw.source):
            version = versions.checked(versions.of(raw.config, raw.keras_version, raw.backend), raw.source)
            return stores.names(raw, topology.model(raw.config, version, raw.source), version)
    except NpinferError:
        return {}


def _of_store(store: Mapping[str, Stored], names: Mapping[str, str], known: Mapping[str, tuple[str, str]]) -> Iterator[Named]:
    """Arrays of a Keras 3 store, by the architecture or else by number, with layers called by their `name` attribute where the
    file has it and by their class where not."""
    groups = dict.fromkeys(path.rpartition("/")[0] for path in store)
    label = {group: _label(group, names) for group in groups}
    count = Counter(label.values())
    for path, array in store.items():
        group, _, name = path.rpartition("/")
        if path in known:
            yield *known[path], array
            continue
        yield (label[group] if count[label[group]] == 1 else group), name, array


def _label(group: str, names: Mapping[str, str]) -> str:
    parts = group.split("/")[:-1]  # the last is "vars"
    label = []
    for k, part in enumerate(parts):
        if part not in CONTAINERS or k + 1 == len(parts):
            label.append(names.get("/".join((*parts[: k + 1], "vars"))) or part)
    return "/".join(label)
