"""How a Keras layer becomes ops: the `@layer` decorator, and LayerCall, all that a lowering function sees of the file.

A layer is one function beside its op, in one file of this folder:

    @layer("Dense", variables=lambda c: ["kernel", "bias"] if c.get("use_bias", True) else ["kernel"])
    def dense(call: LayerCall, x: Value) -> Value:
        y = call.emit(Dense(call.weights["kernel"], call.weights.get("bias")), x)
        return activate(call, call.config.get("activation"), y)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np

from npinfer.errors import UnsupportedError
from npinfer.frozen import Frozen
from npinfer.graph import Array, Op, Spec

if TYPE_CHECKING:
    from npinfer.readers.archive import Config, Layer, Version


class Value(NamedTuple):
    """A graph value while lowering: its number, what is known of it, and its Keras mask (a boolean value) if it has one."""

    number: int
    spec: Spec
    mask: Any = None  # Value | None; NamedTuple can't name itself under mypy strict on 3.10

    @property
    def shape(self) -> tuple[int | None, ...]:
        return self.spec.shape


class Variable(Frozen):
    """A weight of a layer, in Keras's creation order. `name` is the Keras 3 path below the layer ("kernel", "cell/bias",
    "forward_layer/cell/kernel"). Optional ones are absent from some versions' files."""

    name: str
    trainable: bool = True
    optional: bool = False


class Builder(Protocol):
    """What lowering offers to layer functions (readers/lower.py implements it). unmasked: numbers of values whose masks later
    layers don't see."""

    unmasked: set[int]

    def emit(self, op: Op, inputs: Sequence[Value], name: str) -> tuple[Value, ...]: ...

    def lower_layer(
        self, layer: Layer, path: tuple[str, ...], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> Any: ...

    def subgraph(self, layer: Layer, path: tuple[str, ...], inputs: Sequence[Spec]) -> Any: ...

    def problem(self, path: tuple[str, ...], layer: Layer, reason: str) -> UnsupportedError: ...

    def state(self, spec: Spec) -> tuple[Value, Callable[[Value], None]]: ...

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]: ...


class LayerCall:
    """One call of one Keras layer.

    config: the layer's config in the canonical dialect. weights: its arrays by variable name, floats already in `dtype`.
    dtype: the compute dtype (float32 or float64); inputs of other float dtypes have been cast to it, as Keras's autocast does.
    kwargs are fetched with `take`; whatever a function leaves there is refused, so no call argument is ever ignored.
    """

    def __init__(
        self,
        builder: Builder,
        layer: Layer,
        path: tuple[str, ...],
        weights: Mapping[str, Array],
        dtype: np.dtype[Any],
        version: Version,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.builder, self.layer, self.path = builder, layer, path
        self.config: Config = layer.config
        self.weights, self.dtype, self.version = weights, dtype, version
        self.kwargs = dict(kwargs or {})

    @property
    def name(self) -> str:
        return "/".join(self.path)

    @property
    def quantization(self) -> str:
        """What Keras 3 quantized the layer to: "int8", "int4", "float8"; "" for other layers."""
        policy = self.layer.dtype or ""
        return policy.partition("_from_")[0].partition("/")[0] if "_from_" in policy else ""

    def emit(self, op: Op, *inputs: Value) -> Value:
        """Add a node and return its only (or first) result."""
        return self.builder.emit(op, inputs, self.name)[0]

    def emit_all(self, op: Op, *inputs: Value) -> tuple[Value, ...]:
        """Add a node and return all its results."""
        return self.builder.emit(op, inputs, self.name)

    def take(self, name: str, default: Any = None) -> Any:
        """The call's keyword argument (a Value where the caller passed a tensor)."""
        return self.kwargs.pop(name, default)

    def setting(self, name: str, default: Any = None) -> Any:
        """A config entry that one call may give by itself, because tensors or sizes of the model are in it."""
        return self.kwargs.pop(name) if name in self.kwargs else self.config.get(name, default)

    def lower_inner(self, layer: Layer, attribute: str, *args: Any) -> Any:
        """Lower a layer held in this one's config (of TimeDistributed, Bidirectional …); its weights are this layer's below
        `attribute`/."""
        return self.builder.lower_layer(layer, (*self.path, attribute), args)

    def subgraph(self, layer: Layer, attribute: str, *inputs: Spec) -> Any:
        """Lower a held layer into a Graph of its own, for ops that run it many times."""
        return self.builder.subgraph(layer, (*self.path, attribute), inputs)

    def state(self, spec: Spec) -> tuple[Value, Callable[[Value], None]]:
        """A value that the model keeps from call to call (zeros at first), and the function that names its successor."""
        return self.builder.state(spec)

    def refuse(self, reason: str) -> NoReturn:
        """Stop with an UnsupportedError that names this layer."""
        raise self.builder.problem(self.path, self.layer, reason)

    def option(self, name: str, *allowed: Any, default: Any) -> Any:
        """A config entry that must be one of a few values; refused by name otherwise."""
        value = self.config.get(name, default)
        if value not in allowed:
            self.refuse(f"option {name}={value!r} (supported: {', '.join(map(repr, allowed))})")
        return value


class NeedsFunction(str):
    """A sentence of a check that no longer holds when the caller passes a function of this name (functions={name: f})."""

    def __new__(cls, sentence: str, name: str) -> NeedsFunction:
        made = super().__new__(cls, sentence)
        made.name = name
        return made

    name: str


LayerFunction = Callable[..., Any]
F = TypeVar("F", bound=LayerFunction)
Variables = Callable[["Config"], Iterable["str | Variable"]]
Check = Callable[["Config"], Iterable[str]]
#: (config, weights) -> per-sample shape of the input, where a file's config doesn't say it; None where weights don't tell
InputShape = Callable[["Config", Mapping[str, Array]], "tuple[int | None, ...] | None"]


class LayerType(Frozen):
    """A registered layer. mask: "pass" (result carries the first input's mask), "stop" (no mask leaves), "own" (the function
    sets masks itself). check yields what of a config is unsupported, without weights or shapes, for the joint report.
    quantized: which of Keras 3's quantization modes the function handles. takes: what a call may hold besides tensors and plain
    values: "sizes" that only a call knows, "steps" in the place of the batch (sizes.py)."""

    class_name: str
    function: LayerFunction
    variables: Variables
    mask: str
    check: Check
    input_shape: InputShape
    quantized: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


LAYERS: dict[str, LayerType] = {}
OPERATIONS: dict[str, LayerType] = {}
CUSTOM: dict[str, LayerType] = {}  # filled by npinfer.register_layer


def _none(_: Config) -> Iterable[str]:
    return ()


def _unknown(_: Config, weights: Mapping[str, Array]) -> None:
    return None


def layer(
    *class_names: str,
    variables: Variables = _none,
    mask: str = "pass",
    check: Check = _none,
    input_shape: InputShape = _unknown,
    quantized: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Register the decorated function as the lowering of these Keras layer classes."""

    def register(function: F) -> F:
        for name in class_names:
            LAYERS[name] = LayerType(name, function, variables, mask, check, input_shape, quantized)
        return function

    return register


def operation(*class_names: str, mask: str = "stop", takes: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Register the decorated function as the lowering of these Keras 3 operations (keras.ops.*) inside functional models."""

    def register(function: F) -> F:
        for name in class_names:
            OPERATIONS[name] = LayerType(name, function, _none, mask, _none, _unknown, (), takes)
        return function

    return register


def variables_of(held: Layer) -> list[Variable]:
    """A layer's variables in Keras's creation order; nested models' are numbered by the reader, not here."""
    kind = find(held)
    if kind is None:
        return []
    return [
        v if isinstance(v, Variable) else Variable(v.lstrip("~"), not v.startswith("~")) for v in kind.variables(held.config)
    ]


def below(attribute: str, held: Layer) -> list[Variable]:
    """The variables of a held layer as its wrapper names them: attribute/variable."""
    return [v.replace(name=f"{attribute}/{v.name}") for v in variables_of(held)]


def find(held: Layer) -> LayerType | None:
    """The registered type of a layer, or None."""
    from npinfer.ops import load_family

    load_family("" if held.module else held.class_name)
    if held.module:
        return (OPERATIONS if held.module == "ops" else CUSTOM).get(held.class_name)
    return LAYERS.get(held.class_name) or CUSTOM.get(held.class_name)
