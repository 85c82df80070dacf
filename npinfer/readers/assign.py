"""Arrays of a file → weights by layer and variable. Old-layout files here; Keras 3's stores in stores.py.

Keras's own order comes first, names check it and decide where the order can't. Whatever is left over, missing, of a wrong shape
or kind is an error that names it; all of a file's are reported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from npinfer.errors import DtypeError, FormatError, ShapeError
from npinfer.graph import Array
from npinfer.readers import declared, parts, storage
from npinfer.readers.archive import Layer, Model, Path, Version
from npinfer.readers.names import Named, bare, by_name, canonical, kind, old_names, tokens
from npinfer.readers.parts import Part, Unit
from npinfer.readers.raw import RawFile, Stored

Weights = dict[Path, dict[str, Array]]
Wanted = tuple[Layer, list[Part]]


def storage_version(raw: RawFile, version: Version) -> Version:
    """The Keras that laid out a file's arrays. Keras 1 names no backend, but on Theano its weights' names lack ":0"."""
    from npinfer.readers import versions

    found = versions.checked(versions.parse(raw.keras_version, raw.backend), raw.source) if raw.keras_version else version
    if raw.legacy is not None and (raw.nb_layers or old_names(raw.legacy)):
        found = found if found.major == 1 else Version(1)
        if raw.backend is None:
            names = [n for _, held in raw.legacy for n, _ in held]
            theano = raw.nb_layers or not any(n.endswith(":0") for n in names)
            found = found.replace(backend="theano" if theano else "tensorflow")
    return found.replace(backend=raw.backend) if raw.backend else found


def legacy(raw: RawFile, model: Model, version: Version) -> Weights:
    """The weights of an old-layout file, by the order of its layers. version: the one that laid out the arrays.

    Raises FormatError for shortages, leftovers and contradicting names, ShapeError and DtypeError for arrays that don't fit.
    """
    if raw.top_level:
        names = ", ".join(n for n, _ in raw.top_level)
        raise FormatError(
            f"{raw.source}: the model itself owns weights ({names}): a subclass, whose code no file holds; read_weights still "
            "extracts the arrays"
        )
    loose: Weights = {}
    groups = [(name, held) for name, held in raw.legacy or [] if held]
    wanted: list[Wanted] = []
    strangers = _strangers(model, groups, version)
    for layer in model.layers:
        needed = parts.group(layer, (layer.name,), version)
        if needed:
            wanted.append((layer, needed))
        elif layer.name in strangers:
            name, held = groups[strangers[layer.name]]
            loose[layer.name,] = _own_names(held, name)
    groups = [g for k, g in enumerate(groups) if k not in strangers.values()]
    if len(groups) != len(wanted):
        wanted = _without_optional(wanted, groups)
    _check_groups(raw, model, groups, wanted)
    found: dict[int, tuple[Part, Stored]] = {}
    for (_, held), (layer, needed) in zip(groups, wanted):
        for part, stored in _matched(raw.source, layer, needed, held, loose):
            found[len(found)] = (part, stored)
    return {**realise(raw.source, list(found.values())), **loose}


def _strangers(model: Model, groups: Sequence[tuple[str, object]], version: Version) -> dict[str, int]:
    """The places of the groups of layers that nothing is known of: by name, or by order where every such layer has weights."""
    odd = [k.name for k in model.layers if parts.unknown(k)]
    names = [n for n, _ in groups]
    if all(names.count(n) == 1 for n in odd):
        return {n: names.index(n) for n in odd}
    owners = [k.name for k in model.layers if k.name in odd or parts.group(k, (k.name,), version)]
    if len(owners) == len(groups):
        return {n: k for k, n in enumerate(owners) if n in odd}
    return {n: names.index(n) for n in odd if names.count(n) == 1}


def _without_optional(wanted: list[Wanted], groups: Sequence[tuple[str, object]]) -> list[Wanted]:
    names = {n for n, _ in groups}
    return [(k, p) for k, p in wanted if k.name in names or not all(x.optional for x in p)]


def _advice(raw: RawFile) -> str:
    if raw.config is None:
        return "pass the architecture that these weights were saved with"
    return "save the model again, or pass the architecture that belongs to the weights as config="


def _check_groups(raw: RawFile, model: Model, groups: Sequence[tuple[str, list[Named]]], wanted: Sequence[Wanted]) -> None:
    have, need = [n for n, _ in groups], [k.name for k, _ in wanted]
    if not have and need:
        raise FormatError(
            f"{raw.source}: holds an architecture but no weights ({len(need)} layers need some: {some(need)}); the model was "
            "saved before it was built: build or call it in Keras, then save it again"
        )
    if len(have) != len(need):
        odd = [k.name for k in model.layers if parts.unknown(k) or k.model is not None]
        hint = f"; layers that may own more: {some(odd)}" if odd else ""
        raise FormatError(
            f"{raw.source}: the file has weights for {len(have)} layers ({some(have)}), the architecture needs them for "
            f"{len(need)} ({some(need)}){hint}; {_advice(raw)}"
        )
    if not raw.nb_layers and have != need and sorted(have) == sorted(need):
        raise FormatError(
            f"{raw.source}: the weights' layers are in another order ({some(have)}) than the architecture's ({some(need)}); "
            f"names and order contradict each other, so the weights can't be told apart; {_advice(raw)}"
        )


def some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _matched(source: str, layer: Layer, needed: list[Part], held: list[Named], loose: Weights) -> Iterable[tuple[Part, Stored]]:
    """The parts of one group with their arrays."""
    named = by_name(needed, held)
    if named is not None:
        return named
    kinds = [kind(n) for n, _ in held]
    if len(held) < len(needed):
        needed = [p for p in needed if not p.optional or canonical(p.base) in kinds]
    if len(held) > len(needed) and _has_unknown(layer):
        known, rest = _split_unknown(needed, held)
        if known is not None:
            loose[layer.name,] = _own_names(rest, layer.name)
            return known
    if len(held) != len(needed):
        raise FormatError(
            f"{source}: layer {layer.name!r} ({layer.class_name}) needs {len(needed)} arrays "
            f"({some([p.name for p in needed])}), the file has {len(held)} ({some([n for n, _ in held])})"
        )
    for part, k, (name, _) in zip(needed, kinds, held):
        if k is not None and k != canonical(part.base) and _tells(k, needed):
            raise FormatError(
                f"{source}: layer {layer.name!r}: the array {name!r} stands where {part.name} is needed; names and order "
                "contradict each other"
            )
    return [(p, s) for p, (_, s) in zip(needed, held)]


def _tells(k: str, needed: Sequence[Part]) -> bool:
    """Whether a kind is one of those that the layer has: Keras lets users and sublayers name variables as they like."""
    return any(canonical(p.base) == k for p in needed)


def _has_unknown(layer: Layer) -> bool:
    if layer.model is None:
        return parts.unknown(layer)
    return any(_has_unknown(k) for k in layer.model.layers)


def _split_unknown(needed: Sequence[Part], held: Sequence[Named]) -> tuple[list[tuple[Part, Stored]] | None, list[Named]]:
    """The known layers' arrays of a group by name, and the rest."""
    names = {p.unit.path[-1] for p in needed}
    mine = [n for n in held if tokens(n[0]) & names]
    matched = by_name(needed, mine) if needed else []
    return matched, [n for n in held if n not in mine]


def _own_names(held: Iterable[Named], layer: str) -> dict[str, Array]:
    """The arrays of a layer that nothing is known of, under the names that follow its own."""
    made: dict[str, Array] = {}
    for name, stored in held:
        path = bare(name)
        steps = path.split("/")
        short = "/".join(steps[steps.index(layer) + 1 :]) if layer in steps[:-1] else steps[-1]
        key = short
        while key in made:
            key += "_1"
        made[key] = stored.read()
    return made


def realise(source: str, found: Sequence[tuple[Part, Stored]]) -> Weights:
    """Check all arrays against their layers' configs, then read them and bring them into Keras 3's form."""
    units: dict[int, tuple[Unit, dict[str, Stored]]] = {}
    for part, stored in found:
        units.setdefault(id(part.unit), (part.unit, {}))[1][part.base] = stored
    kinds: list[str] = []
    shapes: list[str] = []
    for unit, held in units.values():
        for base, stored in held.items():
            problem = declared.bad_kind(base, stored)
            if problem is not None:
                kinds.append(f"layer {unit.name!r}: {problem}")
        if unit.form in (storage.PLAIN, storage.THEANO, storage.LORA):
            where = dict.fromkeys(held, f"layer {unit.name!r}")
            shapes += declared.bad_shapes(unit.owner, {n: s.shape for n, s in held.items()}, where)
    if kinds:
        raise DtypeError(report(source, kinds))
    if shapes:
        raise ShapeError(report(source, shapes))
    weights: Weights = {}
    for unit, held in units.values():
        arrays = _joined(source, unit, {base: stored.read() for base, stored in held.items()})
        where = dict.fromkeys(arrays, f"layer {unit.name!r}")
        shapes += declared.bad_shapes(unit.owner, {n: a.shape for n, a in arrays.items()}, where)
        into = weights.setdefault(unit.path, {})
        order = [v.name for v in unit.variables if v.name in arrays]
        into.update((unit.prefix + n, arrays[n]) for n in [*order, *(n for n in arrays if n not in order)])
        _learn(unit, arrays)
    if shapes:
        raise ShapeError(report(source, shapes))
    return weights


def _joined(source: str, unit: Unit, arrays: Mapping[str, Array]) -> dict[str, Array]:
    try:
        joined = unit.form.join(unit.owner, dict(arrays))
    except (ValueError, IndexError, KeyError, TypeError) as e:
        shapes = ", ".join(f"{n} {list(a.shape)}" for n, a in arrays.items())
        raise ShapeError(f"{source}: layer {unit.name!r}: its arrays don't fit together ({shapes}): {e}") from None
    return {n: np.asarray(a, order="C") for n, a in joined.items()}


def _learn(unit: Unit, arrays: Mapping[str, Array]) -> None:
    """A GRU's bias says which of its two forms it has; files of Keras 2 may lack the key, or have another version's default."""
    bias = arrays.get("bias")
    if unit.owner.class_name in ("GRU", "GRUCell") and bias is not None:
        storage.note(unit.owner, "reset_after", bias.ndim == 2)


def report(source: str, problems: Sequence[str]) -> str:
    return f"{source}: {problems[0]}" if len(problems) == 1 else f"{source}:" + "".join(f"\n  - {p}" for p in problems)
