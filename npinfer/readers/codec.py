"""Archive ⇄ plain JSON values and numbered arrays: the text half of the .npz format.

JSON values stand for themselves; whatever JSON lacks is a dict with the one key "$" and a list: ["tuple", …],
["ref", layer, node, tensor], ["slice", start, stop, step], ["ellipsis"], ["array", k], ["dict", [key, value], …],
["layer", {…}], ["model", {…}].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from npinfer.errors import FormatError, UnsupportedError
from npinfer.graph import Array
from npinfer.readers.archive import Archive, Call, Layer, Model, Path, TensorRef, Version

TAG = "$"
Name = tuple[Path, str]


def encode(archive: Archive, names: Sequence[Name], arrays: list[Array]) -> dict[str, Any]:
    """The archive as JSON values. `names` are all its weights, in any order; arrays of configs and calls are appended to
    `arrays`. Where the file came from isn't kept."""
    place = {name: k for k, name in enumerate(names)}
    return {
        "model": _encode(archive.model, arrays),
        "weights": [[list(path), name] for path, name in names],
        "order": [place[name] for name in archive.order],
        "version": {**{n: getattr(archive.version, n) for n in Version.fields}, "numbers": list(archive.version.numbers)},
    }


def _encode(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_encode(v, arrays) for v in value]
    if isinstance(value, Mapping):
        if all(isinstance(k, str) for k in value) and TAG not in value:
            return {k: _encode(v, arrays) for k, v in value.items()}
        return {TAG: ["dict", *([_encode(k, arrays), _encode(v, arrays)] for k, v in value.items())]}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {TAG: ["array", len(arrays) - 1]}
    if isinstance(value, slice):
        return {TAG: ["slice", *(_encode(v, arrays) for v in (value.start, value.stop, value.step))]}
    if value is Ellipsis:  # of x[..., 1:]
        return {TAG: ["ellipsis"]}
    if isinstance(value, TensorRef):
        return {TAG: ["ref", *value]}
    if isinstance(value, tuple):
        return {TAG: ["tuple", *(_encode(v, arrays) for v in value)]}
    if isinstance(value, Layer):
        fields = {
            "class_name": value.class_name,
            "name": value.name,
            "config": dict(value.config),
            "calls": [[list(c.args), dict(c.kwargs)] for c in value.calls],
            "model": value.model,
            "module": value.module,
            "trainable": value.trainable,
            "dtype": value.dtype,
            "input_shape": None if value.input_shape is None else list(value.input_shape),
        }
        return {TAG: ["layer", _encode(fields, arrays)]}
    if isinstance(value, Model):
        names = ("name", "layers", "inputs", "outputs", "sequential", "trainable")
        fields = {n: getattr(value, n) for n in names} | {"layers": list(value.layers)}
        return {TAG: ["model", _encode(fields, arrays)]}
    raise UnsupportedError(f"a config holds a {type(value).__name__}, which the .npz format can't hold")


def decode(value: Any, weights: Sequence[Array], arrays: Sequence[Array], where: str) -> Archive:
    """The archive again, from its JSON values and the arrays that were listed. Raises FormatError for anything that `encode`
    doesn't write."""
    decoder = _Decoder(arrays, where)
    model = decoder.value(decoder.field(value, "model", dict))
    if not isinstance(model, Model):
        decoder.fail("its model is no model")
    names = [decoder.weight(raw) for raw in decoder.field(value, "weights", list)]
    order = decoder.field(value, "order", list)
    if len(set(names)) != len(names) or len(names) != len(weights):
        decoder.fail("its weights aren't one array each")
    if not all(type(k) is int and 0 <= k < len(names) for k in order):
        decoder.fail("its order of weights names others than it has")
    found: dict[Path, dict[str, Array]] = {}
    for (path, name), array in zip(names, weights):
        found.setdefault(path, {})[name] = array
    version = decoder.version(decoder.field(value, "version", dict))
    return Archive(model, found, tuple(names[k] for k in order), version, where)


class _Decoder:
    def __init__(self, arrays: Sequence[Array], where: str) -> None:
        self.arrays, self.where = arrays, where

    def fail(self, what: str) -> NoReturn:
        raise FormatError(f"{self.where}: {what}; save the model again")

    def field(self, fields: Any, name: str, *kinds: type) -> Any:
        """One entry of a dict, of one of these types exactly."""
        if not isinstance(fields, dict) or type(fields.get(name)) not in kinds:
            self.fail(f"its field {name!r} is missing or of the wrong type")
        return fields[name]

    def value(self, raw: Any) -> Any:
        if isinstance(raw, list):
            return [self.value(v) for v in raw]
        if not isinstance(raw, dict):
            return raw
        if TAG not in raw:
            return {k: self.value(v) for k, v in raw.items()}
        tagged = raw[TAG]
        if len(raw) != 1 or not isinstance(tagged, list) or not tagged or not isinstance(tagged[0], str):
            self.fail(f"a value is marked {TAG!r} but has no kind")
        make = _KINDS.get(tagged[0])
        if make is None:
            self.fail(f"a value is of the unknown kind {tagged[0]!r}")
        return make(self, tagged[1:])

    def read_tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple([self.value(v) for v in items])

    def read_ref(self, items: list[Any]) -> TensorRef:
        if [type(v) for v in items] != [str, int, int]:
            self.fail(f"a reference to a tensor is {items!r:.200}")
        return TensorRef(*items)

    def read_slice(self, items: list[Any]) -> slice:
        if len(items) != 3:
            self.fail(f"a slice has {len(items)} parts")
        return slice(*(self.value(v) for v in items))

    def read_ellipsis(self, items: list[Any]) -> Any:
        if items:
            self.fail("an ellipsis has parts")
        return Ellipsis

    def read_array(self, items: list[Any]) -> Array:
        if len(items) != 1 or type(items[0]) is not int or not 0 <= items[0] < len(self.arrays):
            self.fail("an array of the config is missing")
        return self.arrays[items[0]]

    def read_dict(self, items: list[Any]) -> dict[Any, Any]:
        result = {}
        for item in items:
            if not isinstance(item, list) or len(item) != 2 or isinstance(item[0], (list, dict)):
                self.fail("a dict's entry is no pair of a plain key and a value")
            result[item[0]] = self.value(item[1])
        return result

    def read_layer(self, items: list[Any]) -> Layer:
        fields = items[0] if len(items) == 1 else None
        config = self.value(self.field(fields, "config", dict))
        model = self.value(self.field(fields, "model", type(None), dict))
        if not isinstance(config, dict) or not (model is None or isinstance(model, Model)):
            self.fail("a layer's config is no dict, or its model is no model")
        return Layer(
            self.field(fields, "class_name", str),
            self.field(fields, "name", str),
            config,
            tuple([self.call(c) for c in self.field(fields, "calls", list)]),
            model,
            self.field(fields, "module", str),
            self.field(fields, "trainable", bool),
            self.field(fields, "dtype", str, type(None)),
            self.shape(self.field(fields, "input_shape", list, type(None))),
        )

    def call(self, raw: Any) -> Call:
        if not isinstance(raw, list) or [type(v) for v in raw] != [list, dict]:
            self.fail("a layer's call is no pair of arguments and keywords")
        kwargs = self.value(raw[1])
        if not isinstance(kwargs, dict):
            self.fail("a layer's call has no keywords")
        return Call(tuple(self.value(raw[0])), kwargs)

    def shape(self, raw: list[Any] | None) -> tuple[int | None, ...] | None:
        if raw is not None and not all(n is None or (type(n) is int and n >= 0) for n in raw):
            self.fail(f"a shape is {raw!r:.200}")
        return None if raw is None else tuple(raw)

    def read_model(self, items: list[Any]) -> Model:
        fields = items[0] if len(items) == 1 else None
        layers = [self.value(v) for v in self.field(fields, "layers", list)]
        if not all(isinstance(k, Layer) for k in layers) or len({k.name for k in layers}) != len(layers):
            self.fail("a model's layers aren't layers with names of their own")
        return Model(
            self.field(fields, "name", str),
            tuple(layers),
            self.value(self.field(fields, "inputs", list, dict)),
            self.value(self.field(fields, "outputs", list, dict)),
            self.field(fields, "sequential", bool),
            self.field(fields, "trainable", bool),
        )

    def weight(self, raw: Any) -> tuple[Path, str]:
        if not isinstance(raw, list) or [type(v) for v in raw] != [list, str] or not all(isinstance(p, str) for p in raw[0]):
            self.fail("a weight's name is no pair of a path and a name")
        return tuple(raw[0]), raw[1]

    def version(self, raw: dict[str, Any]) -> Version:
        major, numbers = self.field(raw, "major", int), self.field(raw, "numbers", list)
        if major not in (1, 2, 3) or not all(type(n) is int for n in numbers):
            self.fail(f"Keras {major} is not known")
        return Version(major, tuple(numbers), self.field(raw, "tf", bool), self.field(raw, "backend", str))


_KINDS: dict[str, Callable[[_Decoder, list[Any]], Any]] = {
    "tuple": _Decoder.read_tuple,
    "ref": _Decoder.read_ref,
    "slice": _Decoder.read_slice,
    "ellipsis": _Decoder.read_ellipsis,
    "array": _Decoder.read_array,
    "dict": _Decoder.read_dict,
    "layer": _Decoder.read_layer,
    "model": _Decoder.read_model,
}
