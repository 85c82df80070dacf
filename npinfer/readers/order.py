"""Flat lists of weights, as model.get_weights() of the file's Keras gives them and model.set_weights() takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.errors import DtypeError, FormatError, ShapeError
from npinfer.graph import Array
from npinfer.readers import assign, parts
from npinfer.readers.archive import Archive, Layer, Model, Path, Version
from npinfer.readers.parts import Part, Unit
from npinfer.readers.raw import RawFile, Stored, stored


def order(model: Model, weights: assign.Weights, version: Version) -> tuple[tuple[Path, str], ...]:
    """(layer path, variable) of every weight, in the order of get_weights. Weights of layers that nothing is known of come in
    their layers' places."""
    listed: dict[tuple[Path, str], None] = {}
    for part in parts.listed(model, version):
        for variable in _variables(part):
            if variable in weights.get(part.unit.path, {}):
                listed[part.unit.path, variable] = None
    if sum(map(len, weights.values())) > len(listed):
        places = {path: k for k, (path, _) in enumerate(parts.all_layers(model))}
        known = {path for path, _ in listed}
        loose = [(path, n) for path in weights for n in weights[path] if (path, n) not in listed]
        entries = [*listed, *loose]
        if all(path in places or path not in known for path, _ in loose):
            entries.sort(key=lambda e: places.get(e[0], places.get(e[0][:1], len(places))))
        return tuple(entries)
    return tuple(listed)


def _variables(part: Part) -> list[str]:
    """The archive's names of the variables behind a part, the first time each appears."""
    found = part.unit.form.parts(part.unit.owner, tuple(v.name for v in part.unit.variables))
    return [part.unit.prefix + variable for base, variable, _ in found if base == part.base][:1]


def weights_to_list(archive: Archive) -> list[Array]:
    """All weights in the order and layout of get_weights() of the archive's Keras (an LSTM of Keras 1 is 12 arrays)."""
    made: list[Array] = []
    split: dict[tuple[Path, str], dict[str, Array]] = {}
    for item in _items(archive):
        if not isinstance(item, Part):
            made.append(archive.weights[item[0]][item[1]])
            continue
        unit = item.unit
        key = (unit.path, unit.prefix)
        if key not in split:
            split[key] = unit.form.split(unit.owner, _of_unit(archive, unit))
        if item.base in split[key]:
            made.append(np.asarray(split[key][item.base], order="C"))
    return made


def _of_unit(archive: Archive, unit: Unit) -> dict[str, Array]:
    held = archive.weights.get(unit.path, {})
    return {v.name: held[unit.prefix + v.name] for v in unit.variables if unit.prefix + v.name in held}


def _items(archive: Archive) -> list[Part | tuple[Path, str]]:
    """archive.order with each known unit's variables replaced by the parts that get_weights lists."""
    listed = parts.listed(archive.model, archive.version)
    known = {(p.unit.path, v) for p in listed for v in _variables(p)}
    by_variable: dict[tuple[Path, str], list[Part]] = {}
    for part in listed:
        for variable in _variables(part):
            by_variable.setdefault((part.unit.path, variable), []).append(part)
    if all(e in known for e in archive.order) and set(known) >= set(archive.order):
        present = set(archive.order)
        return [p for p in listed if any((p.unit.path, v) in present for v in _variables(p))]
    done: set[tuple[Path, str]] = set()
    items: list[Part | tuple[Path, str]] = []
    for entry in archive.order:
        found = by_variable.get(entry)
        if found is None:
            items.append(entry)
        elif entry not in done:
            unit = found[0].unit
            names = {(unit.path, unit.prefix + v.name) for v in unit.variables}
            items += [p for p in listed if p.unit is unit]
            done |= names
    return items


def weights_from_list(archive: Archive, given: Sequence[Any]) -> Archive:
    """The archive with other weights, given as weights_to_list returns them.

    Raises FormatError for a wrong number of arrays, ShapeError and DtypeError naming the weight that doesn't fit.
    """
    items = [i for i in _items(archive) if not isinstance(i, Part) or _present(archive, i)]
    before = weights_to_list(archive)
    arrays = list(given)
    if len(arrays) != len(before):
        raise ShapeError(f"set_weights: got {len(arrays)} arrays; the model has {len(before)}: {_names(items)}")
    taken: dict[tuple[Path, str], tuple[Unit, dict[str, Array]]] = {}
    weights: assign.Weights = {path: dict(found) for path, found in archive.weights.items()}
    for item, old, new in zip(items, before, arrays):
        name = item.name if isinstance(item, Part) else "/".join((*item[0], item[1]))
        array = _fitted(name, old, new)
        if isinstance(item, Part):
            key = (item.unit.path, item.unit.prefix)
            taken.setdefault(key, (item.unit, {}))[1][item.base] = array
        else:
            weights[item[0]][item[1]] = array
    for unit, found in taken.values():
        joined = unit.form.join(unit.owner, found)
        for n, a in joined.items():
            weights[unit.path][unit.prefix + n] = np.asarray(a, order="C")
    return archive.replace(weights=weights)


def _present(archive: Archive, part: Part) -> bool:
    unit = part.unit
    return part.base in unit.form.split(unit.owner, _of_unit(archive, unit))


def _fitted(name: str, old: Array, new: Any) -> Array:
    try:
        array = np.asarray(new)
    except (ValueError, TypeError) as e:
        raise DtypeError(f"set_weights: {name}: not an array: {e}") from None
    if array.shape != old.shape:
        raise ShapeError(f"set_weights: {name}: got the shape {list(array.shape)}; needed is {list(old.shape)}")
    if array.dtype.kind not in "fiub" or (array.dtype.kind == "b" and old.dtype.kind != "b"):
        raise DtypeError(f"set_weights: {name}: got {array.dtype}; needed is {old.dtype}")
    return np.array(array, dtype=old.dtype, order="C")


def _names(items: Sequence[Any]) -> str:
    names = [i.name if isinstance(i, Part) else "/".join((*i[0], i[1])) for i in items]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def with_weights_of(archive: Archive, raw: RawFile) -> Archive:
    """The archive with the weights of another file, matched by topology as Keras's load_weights does. Shapes must agree."""
    if raw.canonical is not None:
        from npinfer.npz import restore

        other = restore(raw).archive
        raw = RawFile(raw.source, legacy=_as_legacy(other))
        version = other.version
    else:
        version = archive.version
    model = copied(archive.model)  # reading notes in configs what arrays tell: never in those of a model in use
    found = read_weights(raw, model, version)
    for path, held in archive.weights.items():
        for name, old in held.items():
            new = found.get(path, {}).get(name)
            if new is None:
                raise FormatError(
                    f"{raw.source}: has no {'/'.join((*path, name))}; needed are the weights of this very network"
                )
            if new.shape != old.shape:
                where = "/".join((*path, name))
                raise ShapeError(f"{raw.source}: {where} has the shape {list(new.shape)}; the model needs {list(old.shape)}")
    return archive.replace(model=model, weights=found, order=order(model, found, archive.version))


def copied(model: Model) -> Model:
    """The model with configs of its own."""

    def value(item: Any) -> Any:
        if isinstance(item, Layer):
            config = {k: value(v) for k, v in item.config.items()}
            return item.replace(config=config, model=None if item.model is None else copied(item.model))
        return [value(i) for i in item] if isinstance(item, list) else item

    return model.replace(layers=tuple(value(k) for k in model.layers))


def _as_legacy(other: Archive) -> list[tuple[str, list[tuple[str, Stored]]]]:
    """Another archive's weights in the form of an old-layout file of its own Keras."""
    made = []
    for layer in other.model.layers:
        held: list[tuple[str, Stored]] = []
        for part in parts.group(layer, (layer.name,), other.version):
            arrays = part.unit.form.split(part.unit.owner, _of_unit(other, part.unit))
            if part.base in arrays:
                held.append((part.name, stored(arrays[part.base], part.name)))
        for path, found in other.weights.items():
            if path == (layer.name,) and parts.unknown(layer):
                held += [(f"{layer.name}/{n}", stored(a, n)) for n, a in found.items()]
        made.append((layer.name, held))
    return made


def read_weights(raw: RawFile, model: Model, version: Version) -> assign.Weights:
    """The weights of a file for a model. version: the config's, where the file doesn't say its own."""
    if raw.legacy is not None:
        return assign.legacy(raw, model, assign.storage_version(raw, version))
    if raw.store is not None:
        from npinfer.readers import stores, versions

        versions.checked(versions.parse(raw.keras_version), raw.source)
        return stores.weights(raw, model, version)
    raise FormatError(f"{raw.source}: holds no weights; pass a file of model.save_weights() or model.save()")
