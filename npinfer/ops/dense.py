"""Dense: a matrix product over the last axis, plus bias, plus activation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.activations import Activation, activate, activation_variables, check_activation
from npinfer.ops.cast import as_float
from npinfer.ops.registry import LayerCall, Value, Variable, layer

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


class Dense(Op):
    """y = activation(x @ kernel + bias) over the last axis of x, any rank.

    kernel: (n_in, n_out); bias: (n_out,) or None; activation: an elementwise Activation fused by a pass, or None.
    """

    kernel: Array
    bias: Array | None = None
    activation: Activation | None = None
    linear: ClassVar[bool] = True
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        if self.kernel.ndim != 2:
            raise ShapeError(f"the kernel has shape {self.kernel.shape}; it must be (inputs, units)")
        n_in, n_out = self.kernel.shape
        if not x.shape or x.shape[-1] != n_in:
            raise ShapeError(
                f"the kernel takes {n_in} inputs, the last axis of the input has {x.shape[-1] if x.shape else 'no'} entries"
            )
        if self.bias is not None and self.bias.shape != (n_out,):
            raise ShapeError(f"the bias has shape {self.bias.shape}; the kernel's units need ({n_out},)")
        return Spec((*x.shape[:-1], n_out), x.dtype)

    def __call__(self, x: Array) -> Array:
        y = np.matmul(x, self.kernel)
        if self.bias is not None:
            y = y + self.bias
        return y if self.activation is None else self.activation(y)


def _variables(config: Config) -> Iterator[str | Variable]:
    yield "kernel"
    if config.get("use_bias", True):
        yield "bias"
    yield from activation_variables(config)


def _input_shape(config: Config, weights: Mapping[str, Array]) -> tuple[int | None, ...] | None:
    kernel = weights.get("kernel")
    return None if kernel is None else kernel.shape[:1]


def _check(config: Config) -> Iterator[str]:
    yield from check_activation(config)
    if "quantization_config" in config:
        from npinfer.ops import quantized

        yield from quantized.check(config)


@layer("Dense", variables=_variables, check=_check, input_shape=_input_shape, quantized=("int8", "int4", "float8"))
def dense(call: LayerCall, x: Value) -> Value:
    """Over the last axis of inputs of any rank; LoRA; quantized to int8, int4 or float8."""
    x = as_float(call, x)
    if call.quantization:
        from npinfer.ops import quantized

        y = quantized.dense(call, x)
    else:
        y = call.emit(Dense(call.weights["kernel"], call.weights.get("bias")), x)
    return activate(call, call.config.get("activation"), y)
