"""A model with an output for each of Keras 3's operations, for make_graph_cases.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from installed_keras import file_of, keras

RNG = np.random.default_rng(0)
ROWS = 3
UNARY = """
absolute negative sign square floor ceil trunc round sin cos tan exp expm1 exp2 arctan sinh cosh arcsinh isnan
isinf isfinite logical_not relu relu6 sigmoid silu softplus softsign log_sigmoid leaky_relu hard_sigmoid
hard_silu elu selu celu gelu tanh soft_shrink hard_shrink tanh_shrink hard_tanh sparse_plus sparse_sigmoid
softmax log_softmax glu squareplus signbit erf ones_like zeros_like copy stop_gradient fliplr cbrt deg2rad
rad2deg sinc
"""
BINARY = """
add subtract multiply divide true_divide floor_divide mod maximum minimum arctan2 logaddexp equal not_equal
greater greater_equal less less_equal logical_and logical_or logical_xor divide_no_nan fmod fmax fmin
"""
REDUCTIONS = """
sum mean max min prod std var all any argmax argmin amax amin median count_nonzero ptp nansum nanmean nanmax
nanmin nanprod
"""
POSITIVE, WITHIN_ONE = "sqrt rsqrt log log1p log2 log10 reciprocal", "arcsin arccos arctanh"


def operations() -> dict[str, Any]:
    """One model with an output for each of Keras 3's operations that keep samples apart."""
    o = keras.ops
    a, b, c = keras.Input((4, 6), name="a"), keras.Input((4, 6), name="b"), keras.Input((3, 4, 6), name="c")
    v, i = keras.Input((5,), name="v"), keras.Input((4,), name="i", dtype="int32")
    table, row = np.linspace(-2, 2, 24, dtype="float32").reshape(4, 6), np.linspace(0.5, 2, 6, dtype="float32")
    positive = o.absolute(a) + 0.1
    y: dict[str, Any] = {}
    for name in UNARY.split():
        y[name] = getattr(o, name)(a)
    for name in POSITIVE.split():
        y[name] = getattr(o, name)(positive)
    for name in WITHIN_ONE.split():
        y[name] = getattr(o, name)(o.tanh(a) * 0.9)
    y["arccosh"] = o.arccosh(positive + 1)
    for name in BINARY.split():
        f = getattr(o, name)
        for label, left, right in (
            ("", a, b), ("-row", a, row), ("-left", table, a), ("-number", a, 2), ("-number-left", 0.5, a),
            ("-one", a, table[None]), ("-integers", i, 3), ("-integers-float", i, 1.5),
        ):  # fmt: skip
            y[name + label] = f(left, right)
    y |= {"hypot": o.hypot(a, b), "heaviside": o.heaviside(a, b), "power": o.power(positive, b), "power-2": a**2}
    y |= {"power-left": 2**a, "negated": -a, "from-one": 1 - a, "inverted": ~(a > 0), "both": (a > 0) & (b > 0)}
    y |= {
        "integer-half": i / 2,
        "integer-root": o.sqrt(o.absolute(i)),
        "mixed": i + v[:, :4],
        "longer": i + o.cast(v[:, :4], "int64"),
    }
    y |= {
        "round-2": o.round(a, 2),
        "clip": o.clip(a, -0.5, 0.7),
        "where": o.where(a > 0, a, b),
        "where-number": o.where(a > 0, a, 0),
    }
    y |= {
        "where-numbers": o.where(a > 0, 1.0, 0.0),
        "where-whole": o.where(a > 0, 1, 0),
        "where-constant": o.where(table > 0, a, b),
    }
    y |= {"where-table": o.where(a > b, table, row), "nan_to_num": o.nan_to_num(o.where(a > 0, a, np.nan), nan=2.0)}
    y |= {"cast-int": o.cast(a, "int32"), "cast-bool": o.cast(a, "bool"), "cast-float64": o.cast(a, "float64")}
    for name in REDUCTIONS.split():
        f = getattr(o, name)
        y |= {name: f(a, axis=-1), f"{name}-integers": f(i, axis=1)}
        if name != "count_nonzero":
            y[f"{name}-keep"] = f(a, axis=1, keepdims=True)
        if not name.startswith("arg"):
            y[f"{name}-axes"] = f(a, axis=(1, 2))
        if name in ("sum", "prod", "mean", "all", "any"):
            y[f"{name}-bools"] = f(a > 0, axis=-1)
    y |= {"logsumexp": o.logsumexp(a, axis=-1), "cumsum": o.cumsum(a, axis=1), "cumprod": o.cumprod(a, axis=-1)}
    y |= {
        "sort": o.sort(a, axis=-1),
        "argsort": o.argsort(a, axis=1),
        "top_k": o.top_k(a, 3)[0],
        "top_k-places": o.top_k(a, 3)[1],
    }
    for order in (None, 1, 3, 0, np.inf):
        y[f"norm-{order}"] = o.norm(a, ord=order, axis=-1)
    y |= {"norm-fro": o.norm(a, ord="fro", axis=(1, 2)), "normalize": o.normalize(a), "normalize-1": o.normalize(a, 1, order=1)}
    y |= {"normalize-3": o.normalize(a, axis=1, order=3, epsilon=1e-3), "moments": o.moments(a, axes=[1])[1]}
    y |= {"tril": o.tril(a), "triu": o.triu(a, k=1), "diff": o.diff(a, axis=1), "diff-2": o.diff(a, n=2)}
    y |= {"average": o.average(a, axis=1), "average-weights": o.average(a, axis=2, weights=row)}
    y |= {"reshape": o.reshape(a, (-1, 3, 8)), "transpose": o.transpose(c, (0, 3, 1, 2)), "swapaxes": o.swapaxes(c, 1, -1)}
    y |= {
        "moveaxis": o.moveaxis(c, (1, 2), (3, 1)),
        "expand": o.expand_dims(a, (1, -1)),
        "squeeze": o.squeeze(o.expand_dims(a, 2)),
    }
    y |= {"concatenate": o.concatenate([a, a > 0], axis=-1), "append": o.append(a, b, axis=1), "stack": o.stack([a, b], axis=1)}
    y |= {"stack-last": o.stack([a, b], axis=-1), "hstack": o.hstack([a, b]), "split": o.split(a, [1, 4], axis=-1)[1]}
    y |= {"split-equal": o.split(a, 2, axis=1)[1], "unstack": o.unstack(a, axis=1)[2], "array_split": o.array_split(a, 4, 2)[0]}
    y |= {
        "flip": o.flip(a, axis=(1, 2)),
        "roll": o.roll(a, 2, axis=-1),
        "repeat": o.repeat(a, 2, axis=1),
        "tile": o.tile(a, (1, 2, 3)),
    }
    for mode in ("constant", "reflect", "symmetric"):
        y[f"pad-{mode}"] = o.pad(a, ((0, 0), (1, 2), (0, 1)), mode=mode)
    y |= {"pad-value": o.pad(a, ((0, 0), (1, 2), (0, 1)), constant_values=3), "take": o.take(a, [[0, 3], [-1, 1]], axis=-1)}
    y |= {"take-table": o.take(table, o.absolute(i) % 4, axis=0), "take-one": o.take(a, 2, axis=1)}
    y |= {"take_along_axis": o.take_along_axis(a, o.argsort(b, axis=-1), axis=-1), "one_hot": o.one_hot(i, 5, axis=1)}
    y |= {
        "full_like": o.full_like(a, 2.5),
        "item-1": a[:, 1],
        "item-2": a[:, -1, ::2],
        "item-3": a[..., 0],
        "item-4": a[:, None, ..., 1:],
    }
    y |= {"item-5": a[:, ::-1], "item-6": a[:, 5:2:-1, -3:], "item-7": a[:, 1:100], "item-8": a[:, :, None, -2]}
    y |= {
        "matmul": o.matmul(c, o.transpose(c, (0, 1, 3, 2))),
        "matmul-table": o.matmul(a, table.T),
        "matmul-vector": o.matmul(v, table[:, :5].T),
    }
    y |= {"einsum": o.einsum("bij,bkj->bik", a, b), "einsum-table": o.einsum("bij,kj->bik", a, table)}
    y |= {"einsum-dots": o.einsum("...ij,...ij->...i", a, b), "einsum-one": o.einsum("bij->bj", a)}
    y |= {"tensordot": o.tensordot(a, table.T, axes=1), "dot": o.dot(a, table.T), "dot-vector": o.dot(a, row)}
    y |= {"threshold": o.threshold(a, 0.3, -1.0), "gelu-exact": o.gelu(a, approximate=False), "softmax-1": o.softmax(a, axis=1)}
    y |= {
        "leaky_relu-0.1": o.leaky_relu(a, negative_slope=0.1),
        "max_pool": o.max_pool(c, 2, 1),
        "average_pool": o.average_pool(c, 2, 2, "same"),
    }
    kernel = RNG.normal(size=(2, 2, 6, 3)).astype("float32")
    y |= {"conv": o.conv(c, kernel, padding="same"), "depthwise_conv": o.depthwise_conv(c, kernel[..., :2])}
    y |= {
        "rms": o.rms_normalization(a),
        "layer_norm": o.layer_normalization(a, row, row),
        "batch_norm": o.batch_normalization(a, row, row, -1),
    }
    y |= {"resize": o.image.resize(c, (5, 7)), "broadcast": a * o.sum(a, axis=1, keepdims=True)}
    inputs = [a, b, c, v, i]
    model = keras.Model(inputs, list(y.values()))
    xs = [RNG.normal(size=(ROWS, *t.shape[1:])).astype("float32") for t in inputs[:4]] + [
        RNG.integers(-3, 6, (ROWS, 4), "int32")
    ]
    xs[0][0, 0, 0] = xs[1][0, 0, 0] = 0
    results = model(xs)
    made = {f"operations/x{k}": x for k, x in enumerate(xs)} | {f"operations/y/{n}": np.asarray(r) for n, r in zip(y, results)}
    return {**made, "operations/names": np.array(list(y)), "operations/file": file_of(model, ".keras")}
