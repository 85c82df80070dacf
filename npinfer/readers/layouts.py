"""Where Keras keeps things in HDF5: HDF5 groups → RawFile. Four layouts, told apart by what is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from npinfer.errors import FormatError, LimitError
from npinfer.readers.h5 import File, Group
from npinfer.readers.h5_checks import natural
from npinfer.readers.limits import parse_json
from npinfer.readers.raw import Legacy, RawFile, Stored
from npinfer.readers.source import Source

TOP_LEVEL = "top_level_model_weights"
#: top groups of a Keras 3 store that hold no weights of the model
TRAINING = ("optimizer", "metrics", "optimizer_weights")
#: of a shard: a name beside its map, and nothing that could lead elsewhere
PLAIN_NAME = r"[^/\\:\x00]+\.h5"


def read_h5(source: Source) -> RawFile:
    """A RawFile of any HDF5 file of Keras: full or weights only, old or Keras 3 layout. It owns the source."""
    file = File(source)

    def close() -> None:
        file.close()
        source.close()

    raw = RawFile(source.name, close=close)
    try:
        _read(raw, file.root)
    except BaseException:
        close()
        raise
    return raw


def _read(raw: RawFile, root: Group) -> None:
    source = root.file.source
    where = source.name
    raw.keras_version, raw.backend = root.text("keras_version"), root.text("backend")
    text = root.text("model_config")
    if text is not None:
        raw.config = architecture(text, source, f"{where}: model_config")
    weights = root.find("model_weights")
    if text is None and root.strings("layer_names") is not None:  # also where a layer is called model_weights
        raw.legacy, raw.top_level = _legacy(root)
    elif isinstance(weights, Group):
        raw.keras_version = raw.keras_version or weights.text("keras_version")
        raw.backend = raw.backend or weights.text("backend")
        raw.legacy, raw.top_level = _legacy(weights)
    elif text is not None:
        raise FormatError(f"{where}: has an architecture (model_config) but no group model_weights; save the model again")
    elif root.integer("nb_layers") is not None:
        raw.legacy, raw.nb_layers = _nb_layers(root), True
    else:
        raw.store, raw.store_names = _store(root)
        if not raw.store and not isinstance(root.find("layers"), Group):  # a model without weights has empty groups
            raise FormatError(
                f"{where}: HDF5, but not from Keras; {root.kinds()}; needed is a file of model.save() or model.save_weights()"
            )


def architecture(text: str | bytes, source: Source, where: str) -> Any:
    """The parsed and superficially checked {"class_name": …, "config": …} of a model."""
    config = parse_json(text, source.limits, where)
    if not isinstance(config, dict) or not isinstance(config.get("class_name"), str) or "config" not in config:
        kind = "a dict" if isinstance(config, dict) else f"a {type(config).__name__}"
        raise FormatError(f"{where}: {kind}, not a model's architecture; needed is a dict with class_name and config")
    return config


def _legacy(group: Group) -> tuple[Legacy, list[tuple[str, Stored]]]:
    """(weights by layer, weights of the model itself), in the order of the attributes layer_names and weight_names."""
    names = group.strings("layer_names")
    if names is None:
        raise FormatError(f"{group.where}: no attribute layer_names; {group.kinds()}; save the model again")
    layers: Legacy = []
    for name in names:
        layer = group.find(name)
        if not isinstance(layer, Group):
            raise FormatError(f"{group.where}: layer_names lists {name!r}, but there is no such group; save the model again")
        layers.append((name, _weights(layer)))
    top = group.find(TOP_LEVEL) if TOP_LEVEL not in names else None
    return layers, _weights(top) if isinstance(top, Group) else []


def _weights(layer: Group) -> list[tuple[str, Stored]]:
    names = layer.strings("weight_names")
    if names is None:
        if layer.names():
            raise FormatError(
                f"{layer.where}: holds members but no attribute weight_names to tell their order; save the model again"
            )
        return []
    found = []
    for name in names:
        stored = layer.find(name)
        if not isinstance(stored, Stored):
            raise FormatError(f"{layer.where}: weight_names lists {name!r}, but there is no such dataset; save the model again")
        found.append((name, stored))
    return found


def _nb_layers(root: Group) -> Legacy:
    """Files of Keras 0.x: layer_0/param_0 …; layers without weights count."""
    layers: Legacy = []
    for k in range(_count(root, "nb_layers")):
        layer = root.find(f"layer_{k}")
        if not isinstance(layer, Group):
            raise FormatError(f"{root.where}: nb_layers promises a group layer_{k}, which isn't there; copy or save it again")
        weights = []
        for i in range(_count(layer, "nb_params")):
            stored = layer.find(f"param_{i}")
            if not isinstance(stored, Stored):
                raise FormatError(
                    f"{layer.where}: nb_params promises a dataset param_{i}, which isn't there; copy or save it again"
                )
            weights.append((f"param_{i}", stored))
        layers.append((f"layer_{k}", weights))
    return layers


def _count(group: Group, name: str) -> int:
    count = group.integer(name)
    if count is None or not 0 <= count <= group.file.source.limits.objects:
        raise FormatError(f"{group.where}: attribute {name} is {count}; needed is a count")
    return count


def _store(root: Group) -> tuple[dict[str, Stored], dict[str, str]]:
    """Keras 3's layout: every dataset of a group called vars, by path; and those groups' `name` attributes, by path."""
    arrays: dict[str, Stored] = {}
    names: dict[str, str] = {}
    seen: dict[int, str] = {}
    stack = [(root, "", 0)]
    while stack:
        group, path, depth = stack.pop()
        address = group.address()
        if address in seen:
            raise FormatError(
                f"{group.where}: the same group as {seen[address]!r}: the file's groups form no tree; save the model again"
            )
        seen[address] = path
        if depth > group.file.source.limits.group_depth:
            raise LimitError(
                f"{group.where}: groups nested more than {group.file.source.limits.group_depth} deep; see Limits.group_depth"
            )
        below = []
        is_vars = path.rpartition("/")[2] == "vars"
        if is_vars:
            name = group.text("name")
            if name is not None:
                names[path] = name
        for part in group.names():
            inner = f"{path}/{part}" if path else part
            inner = inner.replace("\\", "/")
            if inner.split("/")[0] in TRAINING:
                continue
            member = group.find(part)
            if isinstance(member, Group):
                below.append((member, inner, depth + 1))
            elif isinstance(member, Stored) and is_vars:
                if inner in arrays:
                    raise FormatError(f"{group.where}: two datasets are called {inner!r}; save the model again")
                arrays[inner] = member
        stack.extend(reversed(below))
    return arrays, names


def read_shards(text: bytes, source: Source, open_shard: Callable[[str], Source]) -> RawFile:
    """Sharded Keras 3 weights: a JSON map {"weight_map": {group: file or [files]}} and HDF5 files beside it. A model without
    weights has an empty map."""
    where = source.name
    value = parse_json(text, source.limits, where)
    table = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise FormatError(f"{where}: JSON without a weight_map of files; needed is the .weights.json that Keras 3 writes")
    names: dict[str, None] = {}
    for entry in table.values():
        for name in entry if isinstance(entry, list) else [entry]:
            if not isinstance(name, str) or not re.fullmatch(PLAIN_NAME, name) or name.startswith("."):
                raise FormatError(f"{where}: weight_map names {name!r}; needed are plain names of .h5 files in the same folder")
            names[name] = None
    if len(names) > source.limits.members:
        raise LimitError(f"{where}: {len(names):,} shards; at most {source.limits.members:,}; see Limits.members")
    shards: list[RawFile] = []

    def close() -> None:
        for shard in shards:
            shard.close()
        source.close()

    store: dict[str, Stored] = {}
    store_names: dict[str, str] = {}
    try:
        for name in names:
            shard = read_h5(open_shard(name))
            shards.append(shard)
            if shard.store is None:
                raise FormatError(f"{shard.source}: not in the layout of shards; needed are .weights.h5 files of Keras 3")
            twice = store.keys() & shard.store.keys()
            if twice:
                raise FormatError(
                    f"{shard.source}: holds {min(twice)!r}, which another shard holds too; "
                    "keep the shards of one save in a folder of their own"
                )
            store.update(shard.store)
            store_names.update(shard.store_names)
    except BaseException:
        close()
        raise
    paths = sorted(store, key=lambda path: [natural(part) for part in path.split("/")])
    return RawFile(where, store={path: store[path] for path in paths}, store_names=store_names, close=close)
