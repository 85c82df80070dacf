"""What a file says, in one dialect of Keras, as plain data: no arrays interpreted, no op chosen, nothing executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from npinfer.frozen import Frozen
from npinfer.graph import Array
from npinfer.trees import leaves

Config = Mapping[str, Any]
Path = tuple[str, ...]  # layer names from the outermost model inwards; wrappers add the attribute ("layer", "cell", "cells/0")


class TensorRef(NamedTuple):
    """Result `tensor` of call number `node` of layer `layer`, inside one model: Keras's keras_history, with `node` an index
    into `Layer.calls` (files count a nested model's own node as well; the reader subtracts it)."""

    layer: str
    node: int
    tensor: int


class Call(Frozen):
    """One call of a layer. args and kwargs are as in Keras's `layer(*args, **kwargs)`, with TensorRef where a tensor stands,
    `slice` and ndarray where Keras wrote __slice__ and __numpy__; lists, tuples and dicts nest."""

    args: tuple[Any, ...] = ()
    kwargs: Config = {}  # noqa: RUF012 (each object has its own)


class Layer(Frozen):
    """A layer and its calls. `config` speaks the canonical dialect (Keras 3's keys and values); layers inside it (of wrappers
    and RNN) are Layer objects too. `model` is set for nested models (class_name "Model"). `module` is "" for built-in layers,
    "ops" for Keras 3 operations and their tf.* forerunners (class_name is then the Keras 3 operation: Add, GetItem …), "custom"
    for a user's class (a file of Keras 3 says so even when the class borrows a built-in name)."""

    class_name: str
    name: str
    config: Config = {}  # noqa: RUF012 (each object has its own)
    calls: tuple[Call, ...] = ()
    model: Model | None = None
    module: str = ""
    trainable: bool = True
    dtype: str | None = None  # the compute dtype its policy names; None: the file doesn't say
    #: per-sample shape of the first input, from batch_input_shape or build_config, where the file says so; () is a scalar
    input_shape: tuple[int | None, ...] | None = None


class Model(Frozen):
    """A Sequential or functional model. inputs and outputs are trees (list, dict) of TensorRef, as Keras returns them.

    A Sequential is written as a functional chain: an InputLayer is added where the file has none, so each later stage knows
    one form. The added InputLayer has config {"shape": None} when nothing gives the shape; lowering finds it from weights.
    """

    name: str
    layers: tuple[Layer, ...]
    inputs: Any
    outputs: Any
    sequential: bool = False
    trainable: bool = True

    def layer(self, name: str) -> Layer:
        return next(k for k in self.layers if k.name == name)


class Version(Frozen):
    """Which Keras wrote the file. `major` is 1, 2 or 3; `tf` is True for tf.keras and tf_keras (version strings "2.2.4-tf",
    and 2.4.0 or later); numbers is () when the file doesn't say."""

    major: int
    numbers: tuple[int, ...] = ()
    tf: bool = False
    backend: str = "tensorflow"

    def __str__(self) -> str:
        return ("tf.keras " if self.tf else "Keras ") + (".".join(map(str, self.numbers)) or f"{self.major}.x")


class Archive(Frozen):
    """A whole file. weights[path][variable] is an array as stored (canonical layout: Keras 3's shapes and variable names);
    order lists (path, variable) as model.get_weights() of the file's Keras does."""

    model: Model
    weights: Mapping[Path, Mapping[str, Array]]
    order: tuple[tuple[Path, str], ...]
    version: Version
    source: str

    def arrays(self) -> Iterator[Array]:
        for variables in self.weights.values():
            yield from variables.values()


class Saved(Frozen):
    """An archive, and what npinfer's own files hold besides: the options of loading; inputs and the outputs they gave when the
    file was written, if any."""

    archive: Archive
    meta: Config = {}  # noqa: RUF012 (each object has its own)
    pairs: tuple[list[Array], list[Array]] | None = None


def walk(model: Model, path: Path = ()) -> Iterator[tuple[Path, Layer]]:
    """All layers with their paths, nested models' and wrappers' included, in config order."""
    for layer in model.layers:
        yield from walk_layer(layer, (*path, layer.name))


def walk_layer(layer: Layer, path: Path) -> Iterator[tuple[Path, Layer]]:
    yield path, layer
    if layer.model is not None:
        yield from walk(layer.model, path)
    for key, value in layer.config.items():
        if isinstance(value, Layer):
            yield from walk_layer(value, (*path, key))
        elif isinstance(value, (list, tuple)):
            for k, item in enumerate(value):
                if isinstance(item, Layer):
                    yield from walk_layer(item, (*path, f"{key}/{k}"))


def tensors(tree: Any) -> Iterator[TensorRef]:
    """The TensorRefs of a tree, in order."""
    return leaves(tree, TensorRef)
