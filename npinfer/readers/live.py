"""A live Keras model of the caller's process → Archive. Nothing here imports Keras: to_json, layers and weights are all it asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from npinfer.errors import FormatError
from npinfer.graph import Array
from npinfer.readers import interpret
from npinfer.readers.archive import Archive
from npinfer.readers.limits import DEFAULT, parse_json
from npinfer.readers.raw import Legacy, RawFile, Stored, stored

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
    config = parse_json(text, DEFAULT, source)
    raw = RawFile(source, config=config, keras_version=_version(model, config), legacy=_legacy(model))
    return interpret(raw, config, raw.keras_version, None)


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
    inner = getattr(layer, "layers", None)
    if isinstance(inner, (list, tuple)):
        for held in inner:
            yield from _values(held)
    else:
        for name in INNER:
            held = getattr(layer, name, None)
            for item in held if isinstance(held, (list, tuple)) else [held]:
                if hasattr(item, "weights") and hasattr(item, "get_weights"):
                    yield from _values(item)
    variables, arrays = list(layer.weights), list(layer.get_weights())
    if inner is None and len(variables) == len(arrays):
        yield from ((id(v), (v, a)) for v, a in zip(variables, arrays))


def _plain(value: Any) -> Array:
    """A copy as a NumPy array; bfloat16, which NumPy lacks, as float32."""
    array = np.array(value)
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array
