"""The arrays that a file keeps for each layer, in the order in which each Keras keeps them.

A *unit* is what owns variables: a layer, or one that a wrapper holds. A *part* is one array of a unit as the file has it; for
most layers parts and variables are the same, storage.py knows the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npinfer.frozen import Frozen
from npinfer.ops import registry
from npinfer.readers import storage
from npinfer.readers.archive import Layer, Model, Path, Version


class Unit(Frozen):
    """path: the layer that the archive keys these weights by. prefix: where the owner sits inside it ("", or
    "forward_layer/cell/"). variables: names below the prefix, in creation order."""

    path: Path
    prefix: str
    owner: Layer
    outer: Layer
    variables: tuple[registry.Variable, ...]
    form: storage.Form

    @property
    def name(self) -> str:
        return "/".join((*self.path, self.prefix)).rstrip("/")


class Part(Frozen):
    unit: Unit
    base: str
    trainable: bool
    optional: bool

    @property
    def name(self) -> str:
        return f"{self.unit.name}/{self.base}"


#: known to have no weights although no lowering is registered (functions= gives them one)
WEIGHTLESS = frozenset(("InputLayer", "Lambda"))


def unknown(layer: Layer) -> bool:
    """Whether nothing is known of a layer's variables: an unregistered class, a user's class without `variables`, a quantized
    layer. Its arrays are kept under the names the file gives them."""
    if layer.model is not None or layer.class_name in WEIGHTLESS or layer.module == "ops":
        return False
    if layer.dtype is not None and ("_from_" in layer.dtype or layer.dtype.startswith(("int", "float8"))):
        return layer.class_name not in ("Lambda",)
    kind = registry.find(layer)
    return kind is None or (layer.module == "custom" and not list(kind.variables(layer.config)))


def held(layer: Layer, prefix: str) -> Layer:
    """The layer that owns the variables below a prefix: "forward_layer/cell/" of a Bidirectional is its LSTM."""
    owner: Any = layer
    for step in prefix.rstrip("/").split("/"):
        inner: Any = None
        if isinstance(owner, (list, tuple)):
            inner = owner[int(step)] if step.isdigit() and int(step) < len(owner) else None
        elif isinstance(owner, Layer):
            inner = owner.config.get(step)
            if inner is None and step in ("forward_layer", "backward_layer"):
                inner = owner.config.get("layer")
        if isinstance(inner, (Layer, list, tuple)):
            owner = inner
        elif isinstance(owner, (list, tuple)):
            return layer
    return owner if isinstance(owner, Layer) else layer


def models_in(layer: Layer) -> Iterator[tuple[str, Model]]:
    """Models that a wrapper holds: TimeDistributed(Sequential)."""
    for key, value in layer.config.items():
        if isinstance(value, Layer):
            if value.model is not None:
                yield key, value.model
            else:
                for deeper, model in models_in(value):
                    yield f"{key}/{deeper}", model


def units(layer: Layer, path: Path, version: Version) -> list[Unit]:
    """The units of one layer that is no model; none of a layer that nothing is known of."""
    if unknown(layer):
        return []
    grouped: dict[str, list[registry.Variable]] = {}
    for v in registry.variables_of(layer):
        prefix, slash, base = v.name.rpartition("/")
        grouped.setdefault(prefix + slash, []).append(v.replace(name=base))
    made = []
    for prefix, variables in grouped.items():
        owner = held(layer, prefix) if prefix else layer
        names = tuple(v.name for v in variables)
        made.append(Unit(path, prefix, owner, layer, tuple(variables), storage.form(owner, names, version)))
    return made


def of_unit(unit: Unit) -> list[Part]:
    flags = {v.name: v for v in unit.variables}
    trains = unit.outer.trainable and unit.owner.trainable
    made = []
    for base, variable, optional in unit.form.parts(unit.owner, tuple(flags)):
        known = flags.get(variable)
        trainable = trains and (known is None or known.trainable) and not (unit.form is storage.LORA and base == "kernel")
        made.append(Part(unit, base, trainable, optional or (known is not None and known.optional)))
    return made


def split(layer: Layer, path: Path, version: Version) -> tuple[list[Part], list[Part]]:
    """A layer's parts: its trainable ones, and the others. A model's are its layers' trainable ones first, in order."""
    if layer.model is not None:
        return _split_all(layer.model, path, version)
    trainable: list[Part] = []
    fixed: list[Part] = []
    for unit in units(layer, path, version):
        for part in of_unit(unit):
            (trainable if part.trainable else fixed).append(part)
    for key, model in models_in(layer):
        more, rest = _split_all(model, (*path, *key.split("/")), version)
        trainable += more if layer.trainable else []
        fixed += rest if layer.trainable else [*more, *rest]
    return trainable, fixed


def _split_all(model: Model, path: Path, version: Version) -> tuple[list[Part], list[Part]]:
    trainable: list[Part] = []
    fixed: list[Part] = []
    for layer in model.layers:
        a, b = split(layer, (*path, layer.name), version)
        trainable += a
        fixed += b
    return trainable, fixed


def group(layer: Layer, path: Path, version: Version) -> list[Part]:
    """The parts of one group of an old-layout file: layer.trainable_weights + layer.non_trainable_weights."""
    trainable, fixed = split(layer, path, version)
    return trainable + fixed


def listed(model: Model, version: Version, path: Path = ()) -> list[Part]:
    """The parts in the order of model.get_weights(): layer by layer; inside a nested model or wrapper, Keras 1 and standalone
    Keras 2 put all trainable ones first, tf.keras and Keras 3 go layer by layer again."""
    found: list[Part] = []
    for layer in model.layers:
        inner = (*path, layer.name)
        if layer.model is not None and (version.tf or version.major == 3):
            found += listed(layer.model, version, inner)
        elif version.major == 3:
            own = [p for u in units(layer, inner, version) for p in _own_order(u)]
            found += sorted(own, key=_spectral if layer.class_name == "SpectralNormalization" else _held_last)
            for key, model in models_in(layer):
                found += listed(model, version, (*inner, *key.split("/")))
        else:
            found += group(layer, inner, version)
    return found


def _held_last(part: Part) -> bool:
    return bool(part.unit.prefix)


def _spectral(part: Part) -> int:
    """SpectralNormalization tracks its layer's kernel as its own, before its vector."""
    return 1 if not part.unit.prefix else 0 if part.base in ("kernel", "embeddings") else 2


def _own_order(unit: Unit) -> list[Part]:
    flags = {v.name: v.trainable for v in unit.variables}
    parts = of_unit(unit)
    return [p for p in parts if flags.get(p.base, True)] + [p for p in parts if not flags.get(p.base, True)]


def all_layers(model: Model, path: Path = ()) -> Iterator[tuple[Path, Layer]]:
    """Layers that own weights, nested models' included, without those that wrappers hold."""
    for layer in model.layers:
        inner = (*path, layer.name)
        if layer.model is not None:
            yield from all_layers(layer.model, inner)
        else:
            yield inner, layer
            for key, held_model in models_in(layer):
                yield from all_layers(held_model, (*inner, *key.split("/")))
