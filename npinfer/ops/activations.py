"""Activations: a table of elementwise functions by kind, and the names and layers that configs ask for them by.

To add one: a function in ACTIVATIONS (its parameters positional), and its Keras name with Keras's defaults in NAMED.
Formulas: keras.activations (Keras 3) and its TensorFlow backend; constants and signs of NaN and infinity are TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npinfer.errors import DtypeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops import special
from npinfer.ops.registry import LayerCall, NeedsFunction, Value, Variable, below, layer

if TYPE_CHECKING:
    from npinfer.readers.archive import Config

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # of Klambauer et al. 2017, to double precision


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _gelu_tanh(x: Array) -> Array:
    # 0.5·(1 + tanh(u)) is sigmoid(2u), which keeps the digits of the left tail; beyond ±40 it is 0 or 1. In float64 always,
    # because the tail multiplies u's rounding by u
    wide = x.astype(np.float64)
    near = np.clip(wide, -40, 40)
    u = sqrt(2 / pi) * near * (1 + 0.044715 * near * near)
    return (wide * special.sigmoid(2 * u)).astype(x.dtype, copy=False)


def _relu_general(x: Array, slope: float, maximum: float, threshold: float) -> Array:
    kept = np.clip(np.where(x > threshold, x, 0), 0, maximum) if threshold else np.clip(x, 0, maximum)
    return kept - slope * np.maximum(threshold - x, 0) if slope else kept


def _sparse_plus(x: Array) -> Array:
    near = np.clip(x, -1, 1) + 1
    return np.where(x < 1, 0.25 * near * near, x)


#: elementwise functions of one array; parameters are Python floats; results have the input's dtype
ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu_max": lambda x, maximum: np.clip(x, 0, maximum),
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "relu_general": _relu_general,
    "thresholded_relu": lambda x, theta: x * (x > theta),
    "elu": _elu,
    "selu": lambda x: SELU_SCALE * _elu(x, SELU_ALPHA),
    "celu": lambda x, alpha: np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha),
    "gelu": special.times_normal_cdf,
    "gelu_tanh": _gelu_tanh,
    "sigmoid": special.sigmoid,
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_sigmoid_k2": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "tanh": np.tanh,
    "silu": lambda x: x * special.sigmoid(x),
    "hard_silu": lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    "softplus": special.softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "exponential": np.exp,
    "mish": lambda x: x * np.tanh(special.softplus(x)),
    "log_sigmoid": lambda x: -special.softplus(-x),
    "hard_shrink": lambda x, threshold: np.where(np.abs(x) > threshold, x, 0),
    "soft_shrink": lambda x, threshold: np.where(x > threshold, x - threshold, np.where(x < -threshold, x + threshold, 0)),
    "tanh_shrink": lambda x: x - np.tanh(x),
    "squareplus": lambda x, b: (x + np.sqrt(x * x + b)) / 2,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda x: np.clip(0.5 * (x + 1), 0, 1),
    "threshold": lambda x, threshold, default: np.where(x > threshold, x, default),
    "erf": special.erf,
}
INTEGER_KINDS = ("linear", "relu")


class Activation(Op):
    """An elementwise activation: ACTIVATIONS[kind](x, *parameters). One kind a function: aliases are resolved before."""

    kind: str
    parameters: tuple[float, ...] = ()
    elementwise: ClassVar[bool] = True
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        if x.dtype.kind != "f" and self.kind not in INTEGER_KINDS:
            raise DtypeError(f"{self.kind} takes floats, the input is {x.dtype}")
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        y: Array = ACTIVATIONS[self.kind](x, *self.parameters)
        return y


def _leaky(slope: float) -> Activation:
    # TensorFlow's leaky_relu keeps its slope in float32, in float64 models too
    return Activation("leaky_relu", (float(np.float32(slope)),))


def _relu(negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Activation:
    slope, maximum, start = float(negative_slope or 0), inf if max_value is None else float(max_value), float(threshold or 0)
    if not start and not slope:
        return Activation("relu") if maximum == inf else Activation("relu_max", (maximum,))
    if not start and maximum == inf:
        return _leaky(slope)
    return Activation("relu_general", (slope, maximum, start))


def _plain(kind: str) -> Callable[[], Activation]:
    return lambda: Activation(kind)


#: What a config may name: Keras's parameters and defaults of each function (not of the layer of that name).
NAMED: dict[str, Callable[..., Op]] = {
    **{k: _plain(k) for k in ACTIVATIONS if not k.startswith("relu_") and k != "erf"},
    "relu": _relu,
    "relu6": lambda: Activation("relu_max", (6.0,)),
    "leaky_relu": lambda negative_slope=0.2: _leaky(negative_slope),
    "thresholded_relu": lambda theta=1.0: Activation("thresholded_relu", (float(theta),)),
    "elu": lambda alpha=1.0: Activation("elu", (float(alpha),)),
    "celu": lambda alpha=1.0: Activation("celu", (float(alpha),)),
    "gelu": lambda approximate=False: Activation("gelu_tanh" if approximate else "gelu"),
    "gelu_approximate": _plain("gelu_tanh"),
    "swish": _plain("silu"),
    "hard_swish": _plain("hard_silu"),
    "hard_shrink": lambda threshold=0.5: Activation("hard_shrink", (float(threshold),)),
    "soft_shrink": lambda threshold=0.5: Activation("soft_shrink", (float(threshold),)),
    "squareplus": lambda b=4.0: Activation("squareplus", (float(b),)),
    "threshold": lambda threshold, default_value: Activation("threshold", (float(threshold), float(default_value))),
}
#: functions that need an axis (npinfer/ops/softmax.py holds their ops)
WITH_AXIS = ("softmax", "log_softmax", "sparsemax", "glu")
#: activation layers as functions: the function's name, and the layer's defaults where they differ from the function's
LAYER_FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "ReLU": ("relu", {"negative_slope": 0.0, "max_value": None, "threshold": 0.0}),
    "LeakyReLU": ("leaky_relu", {"negative_slope": 0.3}),
    "ELU": ("elu", {"alpha": 1.0}),
    "ThresholdedReLU": ("thresholded_relu", {"theta": 1.0}),
    "Softmax": ("softmax", {"axis": -1}),
}


def _named(entry: Any) -> tuple[str, dict[str, Any]] | None:
    """A config entry as a function's name and parameters; None where it is of another form."""
    if entry is None:
        return "linear", {}
    if isinstance(entry, str):
        return entry, {}  # "custom>name": a function of the file's author, whatever its name
    if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
        return entry["name"], {k: v for k, v in entry.items() if k != "name"}
    class_name = getattr(entry, "class_name", None)
    if class_name == "Activation" and not entry.module:
        return _named(entry.config.get("activation"))
    if class_name in LAYER_FORMS and not entry.module:
        name, defaults = LAYER_FORMS[class_name]
        return name, {k: entry.config.get(k, v) for k, v in defaults.items()}
    return None


def _problem(entry: Any) -> str | None:
    named = _named(entry)
    if named is None:
        if hasattr(entry, "class_name"):
            return None  # a layer used as an activation: the walk over the file's layers reports on it
        return f"activation {entry!r}"
    name, parameters = named
    if name in WITH_AXIS:
        return None if set(parameters) <= {"axis"} else f"activation {name!r} with {parameters}"
    if name not in NAMED:
        own = _own_name(name)
        return NeedsFunction(f"activation {own!r} is unknown; pass functions={{{own!r}: f}} if it is your own", own)
    try:
        NAMED[name](**parameters)
    except (TypeError, ValueError):
        return f"activation {name!r} with {parameters}"
    return None


def _own_name(name: str) -> str:
    return name.rpartition(">")[2]


def check_activation(config: Config, *keys: str) -> Iterator[str]:
    """For a layer's `check=`: a sentence for each of these config entries that asks for an unknown activation."""
    for key in keys or ("activation",):
        problem = _problem(config.get(key))
        if problem:
            yield problem


def activation_variables(config: Config, key: str = "activation") -> list[Variable]:
    """The weights of a layer used as an activation (PReLU), as the layer that holds it lists them after its own."""
    entry: Any = config.get(key)
    return [] if _named(entry) is not None or not hasattr(entry, "class_name") else below(key, entry)


def activation_op(call: LayerCall, entry: Any, rank: int = 1) -> Op | None:
    """The op of a config entry for samples of `rank` axes, to be held by another op; None: linear.

    Layers with weights (PReLU as an activation) have no such form and are refused."""
    named = _named(entry)
    if named is not None and named[0] not in NAMED and _own_name(named[0]) in call.builder.functions:
        from npinfer.ops.functions import FunctionActivation

        return FunctionActivation(call.builder.functions[_own_name(named[0])])
    problem = _problem(entry)
    if problem or named is None:
        call.refuse(problem or f"the layer {entry.class_name} as an activation inside another layer's arithmetic")
    name, parameters = named
    if name == "linear":
        return None
    if name in WITH_AXIS:
        from npinfer.ops.softmax import with_axis

        return with_axis(call, name, parameters.get("axis", -1), rank)
    return NAMED[name](**parameters)


def activate(call: LayerCall, activation: Any, x: Value) -> Value:
    """Emit the activation that a config entry asks for: None, a name, {"name": …, parameters} or a Layer."""
    if _named(activation) is None and hasattr(activation, "class_name"):
        return call.lower_inner(activation, "activation", x)  # type: ignore[no-any-return]
    op = activation_op(call, activation, len(x.shape))
    return x if op is None else call.emit(op, x)


@layer("Activation", check=check_activation)
def activation_layer(call: LayerCall, x: Value) -> Value:
    """Any activation of Keras 1 to 3, by name or as a layer."""
    return activate(call, call.config.get("activation"), x)


@layer("ReLU", "LeakyReLU", "ELU", "ThresholdedReLU")
def activation_by_class(call: LayerCall, x: Value) -> Value:
    """With their slopes, thresholds and limits."""
    return activate(call, call.layer, x)
