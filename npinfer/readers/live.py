"""A live Keras model of the caller's process → Archive. Nothing here imports Keras: to_json, layers and weights do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from npinfer.errors import FormatError
from npinfer.graph import Array
from npinfer.ops import registry
from npinfer.readers import interpret
from npinfer.readers.archive import Archive, Layer
from npinfer.readers.limits import DEFAULT, parse_json
from npinfer.readers.problems import unsupported
from npinfer.readers.raw import Legacy, RawFile, Stored, stored

PACKAGES = ("keras", "tf_keras", "keras_core", "tensorflow", "tensorflow_core")
#: attributes under which layers hold others
INNER = ("layer", "forward_layer", "backward_layer", "cell", "cells")


def from_keras(model: Any) -> Archive:
    """The Archive of a live Keras 2 or 3 model (Sequential or functional), with copies of its present weights.

    Raises FormatError for what isn't one, or isn't built, or whose layers can't say their config.
    """
    for name in ("to_json", "layers", "get_weights", "name"):
        if not hasattr(model, name):
            raise FormatError(f"from_keras: a {type(model).__name__} is no Keras model: it has no {name}")
    source = f"the live model {model.name!r}"
    try:
        text = model.to_json()
    except NotImplementedError as e:
        raise FormatError(
            f"{source}: its architecture can't be written down ({e}); only Sequential and functional models of layers with a "
            "get_config can be run"
        ) from e
    if not getattr(model, "built", True):
        raise FormatError(f"{source}: not built yet; call it once, or model.build(input_shape), so that it has weights")
    _refuse_borrowed(model, source)
    config = parse_json(text, DEFAULT, source)
    raw = RawFile(source, config=config, keras_version=_version(model, config), legacy=_legacy(model))
    return interpret(raw, config, raw.keras_version, None)


def _refuse_borrowed(model: Any, source: str) -> None:
    """A user's class under a built-in's name would be taken for it: some versions' configs don't tell them apart."""
    registry.find(Layer("", ""))  # loads the families
    odd = []
    todo = list(model.layers)
    while todo:
        layer = todo.pop()
        todo += _inner(layer)
        cls = type(layer)
        if cls.__name__ in registry.LAYERS and cls.__module__.partition(".")[0] not in PACKAGES:
            odd.append(f"layer {layer.name!r} ({cls.__module__}.{cls.__name__}): a custom class with a built-in's name")
    if odd:
        raise unsupported(source, odd)


def _inner(layer: Any) -> list[Any]:
    """The layers that a model, wrapper or recurrent layer holds."""
    held: list[Any] = []
    for name in ("layers", *INNER):
        found = getattr(layer, name, None)
        held += found if isinstance(found, (list, tuple)) else [found]
    return [k for k in held if hasattr(k, "weights") and hasattr(k, "get_weights")]


def _version(model: Any, config: Any) -> str | None:
    """What to_json says, or the version of the package that the model's class comes from."""
    said = config.get("keras_version") if isinstance(config, Mapping) else None
    if isinstance(said, str):
        return said
    for cls in type(model).__mro__:
        package = sys.modules.get(cls.__module__.partition(".")[0])
        if package is not None and package.__name__ in ("keras", "tf_keras", "keras_core"):
            found = getattr(package, "__version__", None)
            if isinstance(found, str):
                return found
    return None


def _legacy(model: Any) -> Legacy:
    """The weights as an old-layout file of the same Keras would list them."""
    groups: Legacy = []
    for layer in model.layers:
        values = dict(_values(layer))
        listed = [*layer.trainable_weights, *layer.non_trainable_weights]
        held: list[tuple[str, Stored]] = []
        for variable in dict.fromkeys(map(id, listed)):
            known, value = values[variable]
            name = str(getattr(known, "path", None) or known.name)
            held.append((name, stored(_plain(value), f"{layer.name}: {name}")))
        groups.append((layer.name, held))
    return groups


def _values(layer: Any) -> Iterator[tuple[int, tuple[Any, Any]]]:
    """(id of a variable, (variable, its array)) for all of a layer's. In graph mode get_weights alone has the numbers; nested
    models of standalone Keras 2 list `weights` and `get_weights` in different orders, so these go layer by layer."""
    for held in _inner(layer):
        yield from _values(held)
    variables, arrays = list(layer.weights), list(layer.get_weights())
    if not hasattr(layer, "layers") and len(variables) == len(arrays):
        yield from ((id(v), (v, a)) for v, a in zip(variables, arrays))


def _plain(value: Any) -> Array:
    """A copy as a NumPy array; bfloat16, which NumPy lacks, as float32."""
    array = np.array(value)
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array
