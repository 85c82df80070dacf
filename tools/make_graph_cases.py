"""Small models of convolution, pooling, spatial, encoding and merge layers, and of Keras 3's operations, run by the installed
Keras: for tests/test_ops_conv.py and tests/test_ops_graph.py.

    python tools/make_graph_cases.py tests/graphs/keras-3.15.npz       with Keras 3, 2.15 or 2.2.4 under another name

One compressed .npz for all: "NAME/file" (the bytes of the saved .h5), "NAME/x0" …, "NAME/y". With Keras 3 also
"operations/file" (a .keras of one model with an output for each operation), "operations/names" and "operations/y/NAME".
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from graph_operations import RNG, ROWS, operations
from installed_keras import KERAS3, file_of, keras

L = keras.layers
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
