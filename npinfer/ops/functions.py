"""Python functions of the caller in the place of layers and activations: functions={"lambda_1": f}."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from npinfer.errors import ShapeError, UnsupportedError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.registry import LayerCall, Value
from npinfer.trees import leaves, mapped

PROBED = (3, 5)  # sizes that unknown dimensions get while probing: results that differ depend on them


class FunctionActivation(Op):
    """An elementwise activation that the caller gave for an unknown name. function: array → array of the same shape."""

    function: Callable[[Array], Any]

    def infer(self, x: Spec) -> Spec:
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        y = np.asarray(self.function(x))
        if y.shape != x.shape:
            raise ShapeError(f"the function given for an activation made shape {list(y.shape)} of {list(x.shape)}")
        return y.astype(x.dtype, copy=False)


class PythonFunction(Op):
    """The caller's function of arrays with a batch axis: function(*args, **kwargs) → an array or a tuple of arrays.

    template: (args, kwargs) with `Place(k)` where input k goes. results: what probing found, one Spec a result; floats are cast
    to that dtype after each call. A result whose batch differs from the inputs' is a ShapeError.
    """

    function: Callable[..., Any]
    template: Any
    takes: tuple[Spec, ...]
    results: tuple[Spec, ...]

    def infer(self, *specs: Spec) -> Spec | tuple[Spec, ...]:
        if tuple(s[:2] for s in specs) != tuple(s[:2] for s in self.takes):
            raise ShapeError(f"the function was given for {', '.join(map(str, self.takes))}")
        return self.results[0] if len(self.results) == 1 else self.results

    def __call__(self, *arrays: Array) -> Array | tuple[Array, ...]:
        args, kwargs = _filled(self.template, arrays)
        made = _arrays(self.function(*args, **kwargs))
        if len(made) != len(self.results):
            raise ShapeError(f"the function returned {len(made)} arrays, {len(self.results)} while loading")
        for y, spec in zip(made, self.results):
            fits = y.ndim == len(spec.shape) + 1 and all(m is None or m == n for m, n in zip(spec.shape, y.shape[1:]))
            if not fits or (arrays and len(y) != len(arrays[0])):
                raise ShapeError(
                    f"the function returned shape {list(y.shape)} for a batch of {len(arrays[0])}; expected {spec}"
                )
        cast = tuple(y.astype(s.dtype, copy=False) for y, s in zip(made, self.results))
        return cast[0] if len(cast) == 1 else cast


class Place(int):
    """The number of an input in a PythonFunction's template."""


def _filled(template: Any, arrays: Sequence[Array]) -> Any:
    return mapped(template, Place, lambda k: arrays[k])


def _arrays(result: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(y) for y in (result if isinstance(result, (list, tuple)) else [result]))


def _samples(specs: Sequence[Spec], size: int) -> Iterator[Array]:
    """Two samples an input, unlike each other, moderate numbers."""
    random = np.random.default_rng(7)
    for spec in specs:
        shape = (2, *(size if n is None else n for n in spec.shape))
        floats = random.uniform(0.25, 0.75, shape)
        yield (floats if spec.dtype.kind == "f" else floats > 0.5).astype(spec.dtype)


def probe(function: Callable[..., Any], template: Any, specs: Sequence[Spec], dtype: np.dtype[Any]) -> tuple[Spec, ...]:
    """The specs of a function's results, from running it on one sample and on two.

    Raises ShapeError where it returns another batch size or mixes samples, UnsupportedError where it fails or returns text.
    """
    shapes: list[list[tuple[int, ...]]] = []
    found: list[Array] = []
    for size in PROBED if any(None in s.shape for s in specs) else PROBED[:1]:
        two = list(_samples(specs, size))
        runs = []
        for arrays in (two, [a[:1] for a in two]):
            args, kwargs = _filled(template, arrays)
            try:
                with np.errstate(all="ignore"):
                    runs.append(_arrays(function(*args, **kwargs)))
            except Exception as e:
                given = ", ".join(str(list(a.shape)) for a in arrays)
                raise UnsupportedError(f"the function given failed on arrays of shape {given}: {type(e).__name__}: {e}") from e
        both, alone = runs
        if len(both) != len(alone) or not both:
            raise ShapeError(f"the function returned {len(alone)} arrays for one sample, {len(both)} for two")
        for y, y1 in zip(both, alone):
            if y.dtype.kind not in "fiub":
                raise UnsupportedError(f"the function returned {y.dtype}; numbers are needed")
            if y.ndim < 1 or len(y) != 2 or y1.shape != (1, *y.shape[1:]):
                raise ShapeError(
                    f"the function returned shapes {list(y1.shape)} for one sample and {list(y.shape)} for two; "
                    "the first axis must be the batch"
                )
            if not np.allclose(y[:1], y1, rtol=1e-3, atol=1e-5 * max(1.0, float(np.abs(y1).max(initial=0))), equal_nan=True):
                raise ShapeError("the function's result for a sample depends on the other samples of the batch")
        shapes.append([y.shape[1:] for y in both])
        found = list(both)
    specs_out = []
    for k, y in enumerate(found):
        sizes = [s[k] for s in shapes]
        if len({len(s) for s in sizes}) > 1:
            raise ShapeError("the function's number of axes depends on the size of its input")
        shape = tuple(n[0] if len(set(n)) == 1 else None for n in zip(*sizes))
        specs_out.append(Spec(shape, dtype if y.dtype.kind == "f" else y.dtype))
    return tuple(specs_out)


def lower_function(call: LayerCall, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Lower a caller's NumPy function in the place of a layer: called as the layer was, without Keras's training and mask.

    Returns a Value, or a tuple of them where the function returns several arrays."""
    kept = {k: v for k, v in kwargs.items() if k not in ("training", "mask") and v is not None}
    values = list(leaves((list(args), kept), Value))
    places = map(Place, range(len(values)))
    template = mapped((list(args), kept), Value, lambda _: next(places))
    specs = tuple(v.spec._replace(name="") for v in values)
    try:
        results = probe(function, template, specs, call.dtype)
    except UnsupportedError as e:
        call.refuse(str(e))
    except ShapeError as e:
        raise ShapeError(f"layer {call.name!r}: {e}") from None
    made = call.emit_all(PythonFunction(function, template, specs, results), *values)
    return made[0] if len(made) == 1 else made
