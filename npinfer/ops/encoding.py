"""Categories to numbers: CategoryEncoding, Discretization, IntegerLookup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.errors import DtypeError, ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.indexing import OneHot
from npinfer.ops.operands import cast
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.reshape import reshaped

if TYPE_CHECKING:
    from npinfer.readers.archive import Config

INT32 = np.dtype("int32")


class Count(Op):
    """How often each of 0 … classes - 1 occurs in a vector of whole numbers; once at most if `once`. Others are dropped."""

    classes: int
    once: bool
    dtype: np.dtype[Any]

    def infer(self, x: Spec) -> Spec:
        if len(x.shape) != 1 or x.dtype.kind not in "iu":
            raise ShapeError(f"counts whole numbers in a vector, got {x.dtype}{list(x.shape)} a sample")
        return Spec((self.classes,), self.dtype)

    def __call__(self, x: Array) -> Array:
        same = x[:, :, None] == np.arange(self.classes)
        return np.asarray(same.any(axis=1) if self.once else same.sum(axis=1), self.dtype)


class Digitize(Op):
    """How many of the rising boundaries are at or below each number."""

    boundaries: Array

    def infer(self, x: Spec) -> Spec:
        if self.boundaries.ndim != 1 or (np.diff(self.boundaries) < 0).any():
            raise ShapeError("the boundaries must be a rising list of numbers")
        return Spec(x.shape, INT32)

    def __call__(self, x: Array) -> Array:
        return np.searchsorted(self.boundaries, x, side="right").astype(np.int32)


class Lookup(Op):
    """places[k] for each number that equals keys[k] (sorted); `default` plus the number modulo `spread` for all others."""

    keys: Array
    places: Array
    default: int
    spread: int = 1

    def infer(self, x: Spec) -> Spec:
        if x.dtype.kind not in "iu":
            raise DtypeError(f"looks up whole numbers, not {x.dtype}")
        return Spec(x.shape, self.places.dtype)

    def __call__(self, x: Array) -> Array:
        at = np.minimum(np.searchsorted(self.keys, x), len(self.keys) - 1)
        other = self.places.dtype.type(self.default) + (x % self.spread).astype(self.places.dtype)
        return np.where(self.keys[at] == x, self.places[at], other)


MODES = ("one_hot", "multi_hot", "count")


def encoded(call: LayerCall, x: Value, mode: str, classes: int, dtype: np.dtype[Any] | None = None) -> Value:
    """Whole numbers as Keras's output_mode asks: one_hot (a last axis of size 1 is replaced), multi_hot or count."""
    if mode == "one_hot":
        if x.shape and x.shape[-1] == 1:
            x = reshaped(call, x, x.shape[:-1])
        return call.emit(OneHot(classes, len(x.shape), dtype or call.dtype), x)
    x = x if x.shape else reshaped(call, x, (1,))
    if len(x.shape) != 1:
        call.refuse(f"option output_mode={mode!r} on {list(x.shape)} a sample")
    return call.emit(Count(classes, mode == "multi_hot", dtype or call.dtype), x)


def _check_encoding(config: Config) -> Iterable[str]:
    if config.get("output_mode", "multi_hot") not in (*MODES, "binary"):
        yield f"option output_mode={config['output_mode']!r}"
    if config.get("sparse"):
        yield "option sparse=True"
    if not isinstance(config.get("num_tokens"), int):
        yield f"option num_tokens={config.get('num_tokens')!r}"


@layer("CategoryEncoding", mask="stop", check=_check_encoding)
def category_encoding(call: LayerCall, x: Value) -> Value:
    """Modes one_hot, multi_hot, count."""
    mode = call.config.get("output_mode", "multi_hot")
    x = x if x.spec.dtype.kind in "iu" else cast(call, x, INT32)
    return encoded(call, x, "multi_hot" if mode == "binary" else mode, int(call.config["num_tokens"]))


def _check_discretization(config: Config) -> Iterable[str]:
    if not config.get("bin_boundaries"):
        yield "its boundaries are not in the config; in Keras, pass bin_boundaries or save the adapted layer again with Keras 3"
    if config.get("output_mode", "int") not in (*MODES, "int"):
        yield f"option output_mode={config['output_mode']!r}"
    if config.get("sparse"):
        yield "option sparse=True"


@layer("Discretization", mask="stop", check=_check_discretization)
def discretization(call: LayerCall, x: Value) -> Value:
    """With its boundaries in the config; modes int, one_hot, multi_hot, count."""
    boundaries = np.asarray(call.config["bin_boundaries"], np.float32)
    places = call.emit(Digitize(boundaries.astype(call.dtype)), cast(call, x, call.dtype))
    mode = call.config.get("output_mode", "int")
    if mode == "int":
        return places if call.version.major == 3 else cast(call, places, np.dtype("int64"))
    return encoded(call, places, mode, len(boundaries) + 1)


def as_count(value: Any) -> int:
    """A whole number above 0 as it is, anything else as 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _check_lookup(config: Config) -> Iterable[str]:
    vocabulary = config.get("vocabulary")
    if not isinstance(vocabulary, (list, tuple)) or not vocabulary or not all(isinstance(v, int) for v in vocabulary):
        yield "its vocabulary is not in the config"
    if config.get("output_mode", "int") not in (*MODES, "int"):
        yield f"option output_mode={config['output_mode']!r}"
    if not 0 < as_count(config.get("num_oov_indices", 1)) < 1 << 31:
        yield f"option num_oov_indices={config['num_oov_indices']!r}"
    if config.get("oov_method") not in (None, "floormod") and config.get("num_oov_indices", 1) != 1:
        yield f"option oov_method={config['oov_method']!r}"
    for name in ("invert", "sparse"):
        if config.get(name):
            yield f"option {name}={config[name]!r}"
    if config.get("pad_to_max_tokens") and not as_count(config.get("max_tokens")):
        yield f"option pad_to_max_tokens with max_tokens={config.get('max_tokens')!r}"


@layer("IntegerLookup", mask="stop", check=_check_lookup)
def integer_lookup(call: LayerCall, x: Value) -> Value:
    """With its vocabulary in the config; modes int, one_hot, multi_hot, count."""
    mask, oov = call.config.get("mask_token"), call.config.get("oov_token", -1)
    mode = call.config.get("output_mode", "int")
    tokens = [v for v in call.config["vocabulary"] if v not in (mask, oov)]
    # Keras: 0 is the mask token (int mode alone), then the places of unknown numbers (by remainder), then the vocabulary
    spread = int(call.config.get("num_oov_indices", 1))
    unknown = 1 if mask is not None and mode == "int" else 0
    keys = np.asarray(tokens if not unknown else [*tokens, mask], np.int64)
    places = np.asarray([*range(unknown + spread, unknown + spread + len(tokens)), *([0] if unknown else [])], np.int64)
    order = np.argsort(keys, kind="stable")
    x = x if x.spec.dtype.kind in "iu" else cast(call, x, np.dtype("int64"))
    found = call.emit(Lookup(keys[order], places[order], unknown, spread), x)
    # Keras 3 leaves the encoding in the dtype of the places
    dtype = found.spec.dtype if call.version.major == 3 else None
    classes = int(call.config["max_tokens"]) if call.config.get("pad_to_max_tokens") else len(tokens) + spread
    return found if mode == "int" else encoded(call, found, mode, classes, dtype)
