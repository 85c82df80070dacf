"""Small models of one or two layers, run by the Keras that is installed: configs, weights, outputs for tests/test_ops_tier1.py.

    python tools/make_layer_cases.py tests/layers/keras-3.15.npz       with Keras 3, or 2.15 under another name

One compressed .npz for all cases: "NAME/config" (to_json), "NAME/x", "NAME/y", and the weights as an HDF5 file of old layout
lists them, "NAME/w/LAYER/K" with their names in "NAME/names" (JSON: [[layer, [weight, …]], …]).
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from installed_keras import KERAS3, keras, weights

L = keras.layers
RNG = np.random.default_rng(0)
ROWS = 5
SHRINKING = RNG.normal(size=(ROWS, 4, 6)) * 10.0 ** -np.arange(3 * ROWS)[::3, None, None]
STEPS = np.where(RNG.uniform(size=(ROWS, 4, 1)) < 0.4, 1.0, RNG.normal(size=(ROWS, 4, 3)))
INDICES = RNG.integers(0, 11, (ROWS, 5))

CASES: dict[str, tuple[Any, ...]] = {
    # name: (input shape, layers …), or (input shape, layers …, {"x": input, "dtype": its dtype})
    "ln-negative-axes": ((4, 6), L.LayerNormalization(axis=[-2, -1])),
    "ln-axis1": ((4, 6), L.LayerNormalization(axis=1, epsilon=1e-5)),
    "ln-axes-descending": ((4, 6, 3), L.LayerNormalization(axis=[3, 1])),
    "ln-plain": ((6,), L.LayerNormalization(center=False, scale=False)),
    "gn-vector": ((6,), L.GroupNormalization(groups=3)),
    "gn-image": ((5, 4, 6), L.GroupNormalization(groups=2)),
    "gn-axis1": ((6, 4, 5), L.GroupNormalization(groups=2, axis=1)),
    "gn-instance": ((5, 4, 6), L.GroupNormalization(groups=-1)),
    "unit": (
        (4, 6),
        L.UnitNormalization(),
        {"x": SHRINKING},
    ),
    "unit-axes": ((4, 6), L.UnitNormalization(axis=[1, 2])),
    "bn-axis1": ((4, 6), L.BatchNormalization(axis=1, epsilon=1e-2)),
    "bn-axis2-noscale": ((4, 6, 3), L.BatchNormalization(axis=2, scale=False)),
    "norm-axes": ((4, 6), L.Normalization(axis=[1, 2], mean=RNG.normal(size=(4, 6)), variance=RNG.uniform(0.5, 2, (4, 6)))),
    "norm-axis1": ((4, 6), L.Normalization(axis=1, mean=[1.0, 2.0, 3.0, 4.0], variance=[1.0, 0.0, 1e-20, 4.0])),
    "norm-scalar": ((4, 6), L.Normalization(axis=None, mean=2.0, variance=3.0)),
    "norm-invert": ((4, 6), L.Normalization(axis=-1, invert=True, mean=2.0, variance=3.0)),
    "norm-scalar-input": ((), L.Normalization(axis=None, mean=2.0, variance=3.0)),
    "rescaling-list": ((4, 3), L.Rescaling([1.0, 2.0, 3.0], [0.1, 0.2, 0.3])),
    "rescaling-bytes": ((4, 3), L.Rescaling(1 / 255), {"x": RNG.integers(0, 255, (ROWS, 4, 3)), "dtype": "uint8"}),
    "einsum-dense": ((4, 6), L.EinsumDense("abc,cd->abd", output_shape=(4, 7), bias_axes="d", activation="relu")),
    "einsum-heads": ((4, 6), L.EinsumDense("abc,cde->abde", output_shape=(4, 2, 3), bias_axes="de")),
    "einsum-join": ((4, 2, 6), L.EinsumDense("abcd,cde->abe", output_shape=(4, 5), bias_axes="e")),
    "einsum-left": ((4, 6), L.EinsumDense("...x,xy->...y", output_shape=(4, 5), bias_axes="y")),
    "einsum-right": ((4, 6), L.EinsumDense("ab...,bc->ac...", output_shape=(5,), bias_axes="c")),
    "einsum-kept": ((4, 6), L.EinsumDense("abc,bcd->abd", output_shape=(4, 5), bias_axes="bd")),
    "einsum-swap": ((4, 6), L.EinsumDense("abc,cd->adb", output_shape=(5, 4), bias_axes="d")),
    "td-dense": ((4, 6), L.TimeDistributed(L.Dense(3, activation="softmax"))),
    "td-bn": ((4, 6), L.TimeDistributed(L.BatchNormalization())),
    "td-ln-axis1": ((4, 5, 6), L.TimeDistributed(L.LayerNormalization(axis=1))),
    "td-flatten": ((4, 5, 6), L.TimeDistributed(L.Flatten()), L.TimeDistributed(L.Dense(2))),
    "td-gn": ((4, 5, 6), L.TimeDistributed(L.GroupNormalization(groups=2))),
    "td-any-length": ((None, 6), L.TimeDistributed(L.Dense(3, activation="tanh")), {"x": RNG.normal(size=(ROWS, 7, 6))}),
    "embedding": ((5,), L.Embedding(11, 3), {"x": INDICES}),
    "embedding-mask": (
        (5,),
        L.Embedding(11, 3, mask_zero=True),
        L.TimeDistributed(L.Dense(2)),
        {"x": INDICES},
    ),
    "embedding-scalar": ((), L.Embedding(11, 3), {"x": RNG.integers(0, 11, ROWS), "dtype": "int32"}),
    "embedding-long": ((3, 4), L.Embedding(11, 3), {"x": RNG.integers(0, 11, (ROWS, 3, 4)), "dtype": "int64"}),
    "masking": (
        (4, 3),
        L.Masking(1.0),
        L.Dense(2),
        {"x": STEPS},
    ),
    "prelu-shared": ((4, 5, 3), L.PReLU(shared_axes=[1, 2])),
    "softmax-axis1": ((4, 3), L.Softmax(axis=1)),
    "softmax-axes": ((4, 3, 2), L.Softmax(axis=[1, -1])),
    "dense-leaky": ((6,), L.Dense(4, activation=L.LeakyReLU(0.15))),
    "dense-relu": ((6,), L.Dense(4, activation=L.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.2))),
    "dense-softmax-axis1": ((4, 6), L.Dense(4, activation=L.Softmax(axis=1))),
    "dense-integers": ((6,), L.Dense(4), {"x": RNG.integers(-3, 3, (ROWS, 6)), "dtype": "int32"}),
    "relu-threshold-max": ((6,), L.ReLU(max_value=1.5, threshold=0.3)),
    "relu-max-slope": ((6,), L.ReLU(max_value=1.0, negative_slope=0.3)),
    "spectral": ((6,), L.SpectralNormalization(L.Dense(3))),
}
NAMES = (
    "gelu",
    "mish",
    "exponential",
    "hard_sigmoid",
    "softsign",
    "selu",
    "relu6",
    "leaky_relu",
    "log_softmax",
    "softplus",
    "elu",
)
if KERAS3:
    NAMES += (
        *("celu", "glu", "hard_tanh", "hard_shrink", "soft_shrink", "squareplus", "sparsemax", "hard_silu", "tanh_shrink"),
    )
    NAMES += ("sparse_plus", "sparse_sigmoid", "log_sigmoid", "silu")
    CASES["rms"] = ((4, 6), L.RMSNormalization())
    CASES["rms-axes"] = ((4, 6), L.RMSNormalization(axis=[1, 2]))
    CASES["ln-rms"] = ((4, 6), L.LayerNormalization(rms_scaling=True))
else:
    CASES["bn-axes"] = ((4, 6, 3), L.BatchNormalization(axis=[1, 3]))
    CASES["dense-prelu"] = ((6,), L.Dense(4, activation=L.PReLU()))
for name in NAMES:
    if hasattr(keras.activations, name):
        CASES[f"activation-{name}"] = ((6,), L.Dense(8), L.Activation(name))


def numbers(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return rng.uniform(0.3, 2, shape) if "variance" in name else 0.7 * rng.normal(size=shape)


def main() -> None:
    arrays: dict[str, Any] = {"keras_version": np.array(keras.__version__)}
    for name, (shape, *layers) in CASES.items():
        options = layers.pop() if isinstance(layers[-1], dict) else {}
        dtype = options.get("dtype", "float32")
        start = out = keras.Input(shape, dtype=dtype)
        for layer in layers:
            out = layer(out)
        model = keras.Model(start, out)
        rng = np.random.default_rng(len(name))
        named = [getattr(v, "path", None) or v.name for v in model.weights]
        kept = [
            numbers(n, w.shape, rng).astype(w.dtype) if w.dtype.kind == "f" else w for n, w in zip(named, model.get_weights())
        ]
        model.set_weights(kept)
        x = np.asarray(options["x"] if "x" in options else 1.5 * RNG.normal(size=(ROWS, *shape)), dtype)
        arrays |= {f"{name}/config": np.array(model.to_json()), f"{name}/x": x, f"{name}/y": model.predict(x, verbose=0)}
        groups = []
        for layer, held in weights(model):
            groups.append([layer, [n for n, _ in held]])
            arrays |= {f"{name}/w/{layer}/{k}": np.array(v) for k, (_, v) in enumerate(held)}
        arrays[f"{name}/names"] = np.array(json.dumps(groups))
    np.savez_compressed(sys.argv[1], **arrays)
    print(f"{len(CASES)} cases of Keras {keras.__version__}")


if __name__ == "__main__":
    main()
