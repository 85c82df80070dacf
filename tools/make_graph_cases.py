"""Small models of convolution, pooling, spatial, encoding and merge layers, and of Keras 3's operations, run by the installed
Keras: for tests/test_ops_conv.py and tests/test_ops_graph.py.

    python tools/make_graph_cases.py tests/graphs/keras-3.15.npz       with Keras 3, 2.15 or 2.2.4 under another name

One compressed .npz for all: "NAME/file" (the bytes of the saved .h5), "NAME/x0" …, "NAME/y". With Keras 3 also
"operations/file" (a .keras of one model with an output for each operation), "operations/names" and "operations/y/NAME".
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np

L = keras.layers
KERAS3 = keras.__version__.startswith("3")
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
CASES: dict[str, tuple[Any, ...]] = {}


def case(name: str, shape: tuple[int, ...], make: Callable[[], Any], dtype: str = "float32") -> None:
    """A model of one layer; left out where this Keras has no such layer or option."""
    try:
        CASES[name] = (shape, make(), dtype)
    except (AttributeError, TypeError, ValueError, ImportError):
        print(f"{name}: not in Keras {keras.__version__}")


def windows() -> None:
    spans = [(s, d) for s in (1, 2, 3) for d in (1, 2) if s == 1 or d == 1]
    for pad, (s, d) in itertools.product(("valid", "same", "causal"), spans):
        form = {"strides": s, "dilation_rate": d, "padding": pad}
        case(f"conv1-{pad}-{s}{d}", (11, 4), lambda f=form: L.Conv1D(5, 3, activation="tanh", **f))
        case(f"conv1-groups-{pad}-{s}{d}", (11, 4), lambda f=form: L.Conv1D(6, 2, groups=2, **f))
    for pad, (s, d), k in itertools.product(("valid", "same"), [*spans, ((3, 2), 1), (1, (1, 3))], ((1, 1), (2, 3), (5, 4))):
        form = {"strides": s, "dilation_rate": d, "padding": pad}
        case(f"conv2-{pad}-{s}{d}-{k}", (12, 13, 4), lambda f=form, k=k: L.Conv2D(6, k, **f))
        if k == (2, 3):
            case(
                f"conv2-groups-{pad}-{s}{d}", (12, 13, 4), lambda f=form, k=k: L.Conv2D(8, k, groups=2, activation="relu", **f)
            )
            case(
                f"depthwise2-{pad}-{s}{d}",
                (12, 13, 4),
                lambda f=form, k=k: L.DepthwiseConv2D(k, depth_multiplier=2, activation="sigmoid", **f),
            )
            case(f"separable2-{pad}-{s}{d}", (12, 13, 4), lambda f=form, k=k: L.SeparableConv2D(5, k, depth_multiplier=2, **f))
    for pad, s in itertools.product(("valid", "same"), (1, 2)):
        case(f"conv3-{pad}-{s}", (7, 8, 6, 3), lambda p=pad, s=s: L.Conv3D(4, (2, 3, 2), strides=s, padding=p))
        case(f"depthwise1-{pad}-{s}", (11, 4), lambda p=pad, s=s: L.DepthwiseConv1D(3, strides=s, padding=p))
        case(f"separable1-{pad}-{s}", (11, 4), lambda p=pad, s=s: L.SeparableConv1D(5, 3, strides=s, padding=p))
    case("conv3-dilated", (9, 9, 9, 2), lambda: L.Conv3D(3, 3, dilation_rate=2, padding="same"))
    case("depthwise2-wide", (3, 4, 70), lambda: L.DepthwiseConv2D(3, padding="same"))
    case("conv2-one-channel", (20, 40, 1), lambda: L.Conv2D(3, 3))
    case("separable1-causal", (11, 4), lambda: L.SeparableConv1D(5, 3, padding="causal", dilation_rate=2))


def transposes(windows: tuple[int, ...]) -> None:
    for k, s, pad in itertools.product(windows, (1, 2, 3), ("valid", "same")):
        form = {"strides": s, "padding": pad}
        case(f"transpose1-{k}-{s}-{pad}", (5, 3), lambda k=k, f=form: L.Conv1DTranspose(4, k, **f))
        case(f"transpose2-{k}-{s}-{pad}", (5, 4, 3), lambda k=k, f=form: L.Conv2DTranspose(4, (k, 2), activation="relu", **f))
        for extra in range(s if s > 1 else 0):
            if k == 3:
                made = {**form, "output_padding": extra}
                case(f"transpose2-{k}-{s}-{pad}-{extra}", (5, 4, 3), lambda k=k, f=made: L.Conv2DTranspose(4, k, **f))
    case("transpose3", (3, 4, 3, 2), lambda: L.Conv3DTranspose(3, 3, strides=(1, 2, 3), padding="same"))


def pools() -> None:
    sizes = ((11, 3), (11, 9, 3), (7, 8, 9, 2))
    for kind, pad, (k, s) in itertools.product(("Max", "Average"), ("valid", "same"), ((2, None), (3, 1), (2, 3), (5, 2))):
        for rank in (1, 2, 3):
            window = (k, 2, 3)[:rank] if rank > 1 else k
            case(
                f"{kind}Pooling{rank}-{pad}-{k}{s}",
                sizes[rank - 1],
                lambda t=f"{kind}Pooling{rank}D", w=window, s=s, p=pad: getattr(L, t)(w, s, padding=p),
            )
    for kind, rank in itertools.product(("Max", "Average"), (1, 2, 3)):
        shape, name = (6, 5, 4)[:rank], f"Global{kind}Pooling{rank}D"
        case(name, (*shape, 3), lambda n=name: getattr(L, n)())
        case(f"{name}-keep", (*shape, 3), lambda n=name: getattr(L, n)(keepdims=True))
        case(f"{name}-first", (3, *shape), lambda n=name: getattr(L, n)(data_format="channels_first"))
        name = f"Adaptive{kind}Pooling{rank}D"
        case(name, (*(7, 5, 4)[:rank], 3), lambda n=name, r=rank: getattr(L, n)((3, 5, 2)[:r]))


def spatial() -> None:
    case("pad1", (6, 3), lambda: L.ZeroPadding1D((1, 2)))
    case("pad2", (6, 5, 3), lambda: L.ZeroPadding2D(((1, 2), (0, 3))))
    case("pad2-first", (3, 6, 5), lambda: L.ZeroPadding2D((1, 2), data_format="channels_first"))
    case("pad3", (4, 5, 6, 2), lambda: L.ZeroPadding3D((1, 2, 0)))
    case("crop1", (9, 3), lambda: L.Cropping1D((1, 2)))
    case("crop2", (9, 8, 3), lambda: L.Cropping2D(((1, 2), (0, 3))))
    case("crop2-first", (3, 9, 8), lambda: L.Cropping2D((1, 0), data_format="channels_first"))
    case("crop3", (5, 5, 6, 2), lambda: L.Cropping3D((1, 2, 0)))
    case("up1", (5, 3), lambda: L.UpSampling1D(3))
    case("up3", (3, 4, 2, 2), lambda: L.UpSampling3D((2, 1, 3)))
    for kind in ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5", "area", "gaussian", "mitchellcubic"):
        case(f"up2-{kind}", (5, 4, 3), lambda k=kind: L.UpSampling2D((2, 3), interpolation=k))
        case(f"resize-{kind}", (9, 7, 3), lambda k=kind: L.Resizing(5, 11, interpolation=k))
        case(f"resize-tall-{kind}", (9, 7, 3), lambda k=kind: L.Resizing(20, 5, interpolation=k))
    case("resize-crop", (9, 14, 3), lambda: L.Resizing(5, 4, crop_to_aspect_ratio=True))
    case("resize-crop-high", (14, 9, 3), lambda: L.Resizing(7, 11, crop_to_aspect_ratio=True))
    case("resize-pad", (9, 14, 3), lambda: L.Resizing(5, 4, pad_to_aspect_ratio=True, fill_value=0.5))
    case("resize-pad-high", (14, 9, 3), lambda: L.Resizing(7, 11, pad_to_aspect_ratio=True))
    case("resize-antialias", (14, 9, 3), lambda: L.Resizing(5, 4, antialias=True))
    case("resize-first", (3, 14, 9), lambda: L.Resizing(5, 4, data_format="channels_first"))
    case("center-crop", (9, 8, 3), lambda: L.CenterCrop(4, 5))
    case("center-crop-enlarged", (9, 8, 3), lambda: L.CenterCrop(12, 5))
    for mode in ("multi_hot", "count", "one_hot"):
        shape = (1,) if mode == "one_hot" else (4,)
        case(f"category-{mode}", shape, lambda m=mode: L.CategoryEncoding(num_tokens=5, output_mode=m), "int32")
        case(f"lookup-{mode}", shape, lambda m=mode: L.IntegerLookup(vocabulary=[3, 1, 4, 9], output_mode=m), "int64")
        bounds = [-1.0, 0.0, 0.5, 2.0]
        case(f"bins-{mode}", shape, lambda m=mode, b=bounds: L.Discretization(bin_boundaries=b, output_mode=m))
    case("bins", (4,), lambda: L.Discretization(bin_boundaries=[-1.0, 0.0, 0.5, 2.0]))
    case("lookup", (4,), lambda: L.IntegerLookup(vocabulary=[3, 1, 4, 9]), "int64")
    case("lookup-mask", (4,), lambda: L.IntegerLookup(vocabulary=[3, 1, 4, 9], mask_token=0), "int64")
    case("flatten-first", (3, 4, 5), lambda: L.Flatten(data_format="channels_first"))
    case("reshape", (4, 6), lambda: L.Reshape((3, -1)))
    case("permute", (2, 3, 4), lambda: L.Permute((3, 1, 2)))
    case("repeat", (5,), lambda: L.RepeatVector(3))


def merged(kind: str, both: bool, tail: str) -> Any:
    """Two sequences, one or both masked, through a merge layer into one that heeds masks."""
    a, b = keras.Input((6, 4)), keras.Input((6, 4))
    first, second = L.Masking()(a), L.Masking()(b) if both else b
    if kind.startswith("Concatenate"):
        y = L.Concatenate(axis=int(kind[-1]))([first, second])
    else:
        y = getattr(L, kind)()([first, second] if kind != "Add" else [first, second, first])
    return keras.models.Model(
        [a, b], {"pool": L.GlobalAveragePooling1D, "lstm": lambda: L.LSTM(3), "none": lambda: None}[tail]()(y)
    )


def file_of(model: Any, suffix: str) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model" + suffix)
        model.save(path)
        return np.frombuffer(Path(path).read_bytes(), np.uint8)


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


def main() -> None:
    if KERAS3:  # older ones: what has changed since
        windows()
        pools()
    transposes((1, 2, 3, 5) if KERAS3 else (3,))
    spatial()
    models = {}
    for name, (shape, layer, dtype) in CASES.items():
        start = keras.Input(shape, dtype=dtype)
        try:
            models[name] = keras.models.Model(start, layer(start)), [shape], dtype
        except (TypeError, ValueError) as e:
            print(f"{name}: {str(e)[:80]}")
    for kind in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate1", "Concatenate2"):
        for both, tail in ((True, "pool"), (True, "lstm"), (False, "lstm")):
            try:
                name = f"mask-{kind}-{'both' if both else 'one'}-{tail}"
                models[name] = merged(kind, both, tail), [(6, 4), (6, 4)], "float32"
            except ValueError as e:
                print(f"{name}: {str(e)[:80]}")
    arrays: dict[str, Any] = {"keras_version": np.array(keras.__version__)}
    for name, (model, shapes, dtype) in models.items():
        model.set_weights([0.5 * RNG.normal(size=w.shape) for w in model.get_weights()])
        xs = [
            (RNG.normal(size=(ROWS, *s)) if dtype == "float32" else RNG.integers(0, 5, (ROWS, *s))).astype(dtype)
            for s in shapes
        ]
        if len(xs) == 2:  # masked steps: both, one, none of the two
            xs[0][0, 4:], xs[0][1, :2], xs[1][0, 2:], xs[1][1, 5] = 0, 0, 0, 0
        try:
            given = xs if len(xs) > 1 else xs[0]
            y = model.predict(given) if keras.__version__ == "2.2.4" else np.asarray(model(given))
        except Exception as e:
            print(f"{name}: {str(e)[:80]}")
            continue
        arrays.update({f"{name}/x{k}": x for k, x in enumerate(xs)})
        arrays.update({f"{name}/y": y, f"{name}/file": file_of(model, ".h5")})
    if KERAS3:
        arrays |= operations()
    np.savez_compressed(sys.argv[1], **arrays)
    print(f"{sum(k.endswith('/file') for k in arrays)} files of Keras {keras.__version__}")


if __name__ == "__main__":
    main()
