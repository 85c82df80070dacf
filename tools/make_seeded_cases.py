"""Small models whose weights and inputs are drawn from seeds, run by the installed Keras: for tests/test_seeded.py.

    python tools/make_seeded_cases.py tests/seeded/keras-3.15.npz       with Keras 3, 2.15 or 2.2.4 under another name

One .npz for all: "cases" (compressed JSON: the version and, by name, config, [layer, [[weight, shape], …]], inputs and the
shapes of outputs) and "y", the outputs one after another. tests/draws.py draws the rest.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import numpy as np
from draws import draw
from installed_keras import KERAS3, keras, weights

L, Input = keras.layers, keras.layers.Input
TF2 = keras.__version__.startswith("2.15")
ROWS = 2
CASES: dict[str, Callable[[], Any]] = {}  # name: a function that gives (inputs, outputs)


def chain(name: str, shape: tuple[int | None, ...], make: Callable[[], Any]) -> None:
    def model() -> Any:
        x = Input(shape)
        return [x], [make()(x)]

    CASES[name] = model


def local() -> None:
    """LocallyConnected1D and 2D: all implementations, paddings, strides and data formats that this Keras has."""
    forms: list[dict[str, Any]] = [{}, {"strides": 2}, {"use_bias": False, "strides": 3}]
    if TF2:
        forms += [{"implementation": i, **f} for i in (2, 3) for f in ({}, {"strides": 2, "padding": "same"})]
        forms += [{"implementation": i, "padding": "same"} for i in (2, 3)]
    for k, f in enumerate(forms):
        chain(f"local1-{k}", (7, 3), lambda f=f: L.LocallyConnected1D(2, 4, activation="tanh", **f))
        for order in ("last", "first"):
            shape = (5, 6, 2) if order == "last" else (2, 5, 6)
            full = {"data_format": f"channels_{order}", "activation": "softmax" if k == 1 else "relu", **f}
            chain(f"local2-{order}-{k}", shape, lambda f=full: L.LocallyConnected2D(3, (2, 3), **f))
        if TF2:
            chain(f"local1-first-{k}", (3, 7), lambda f=f: L.LocallyConnected1D(2, 3, data_format="channels_first", **f))
    if TF2:
        wide = {"padding": "same", "strides": 2}
        chain("local1-wide-3", (3, 2), lambda: L.LocallyConnected1D(2, 11, implementation=3, **wide))
        chain("local1-wide-2", (3, 2), lambda: L.LocallyConnected1D(2, 11, implementation=2, **wide))


def attention() -> None:
    """MultiHeadAttention over several axes, over the first of them, over the heads."""

    def case(
        name: str,
        axes: Any,
        q: tuple[int | None, ...],
        v: Any = None,
        masks: tuple[int, ...] = (),
        mask: Any = None,
        **call: Any,
    ) -> None:
        options = {"dropout": 0.1} if call.pop("dropout", False) else {}
        only = call.pop("newest", False)
        if only and not KERAS3:
            return

        def model() -> Any:
            query = Input(q)
            inputs = [query] + ([] if v is None else [Input(v)])
            passed = [L.Masking(0.5)(x) if k in masks else x for k, x in enumerate(inputs)]
            if mask is not None:
                inputs.append(Input(mask, dtype="bool"))
                call["attention_mask"] = inputs[-1]
            layer = L.MultiHeadAttention(2, 3, value_dim=4, attention_axes=axes, **options)
            y = layer(passed[0], passed[-1], **call)
            return inputs, list(y) if isinstance(y, (list, tuple)) else [y]

        CASES[f"heads-{name}"] = model

    image, other = (3, 2, 5), (4, 2, 5)
    case("all", None, image)
    case("both", (1, 2), image, (2, 4, 5))
    case("both-scores", (1, 2), image, (2, 4, 5), return_attention_scores=True)
    case("turned", (2, 1), image, (2, 4, 5), return_attention_scores=True)
    case("first", (1,), image, other, return_attention_scores=True)
    case("first-alone", (1,), image)
    case("second", (2,), image, (3, 5, 5), return_attention_scores=True)
    case("unknown", (1, 2), (None, None, 5))
    case("three-of-four", (1, 3), (2, 3, 2, 4), return_attention_scores=True)
    case("mask", (1, 2), image, (2, 4, 5), mask=(3, 2, 2, 4), return_attention_scores=True)
    case("mask-heads", (1, 2), image, (2, 4, 5), mask=(2, 3, 2, 2, 4))
    case("mask-one", (1, 2), image, mask=(3, 1, 1, 2))
    case("mask-first", (1,), image, other, mask=(3, 4))
    case("mask-lead", (1,), image, other, mask=(2, 3, 4), return_attention_scores=True)
    case("causal", (1,), image, use_causal_mask=True)
    case("causal-second", (2,), (3, 3, 5), use_causal_mask=True, return_attention_scores=True)
    case("causal-mask", (2,), (3, 3, 5), use_causal_mask=True, mask=(3, 3, 3))
    case("masked-second", (2,), (3, 3, 5), masks=(0,), return_attention_scores=True)
    case("masked-cross", (2,), (3, 3, 5), (3, 3, 5), masks=(0, 1), newest=True)
    case("heads", 3, image, return_attention_scores=True)
    case("heads-and-first", (1, 3), image, other)
    case("heads-of-sequence", (2,), (4, 5), return_attention_scores=True)
    case("heads-fused", (2,), (4, 5))
    case("heads-dropout", (2,), (4, 5), dropout=True)
    case("negative", (-2,), image)
    case("negative-both", (-3, -2), image, return_attention_scores=True)


def products() -> None:
    """Products of computed tensors, of a tensor with itself, and with constants on either side."""
    shapes = {"a": (4, 5), "b": (5, 3), "c": (4, 5), "d": (2, 4, 5), "e": (2, 5, 3)}
    table = np.linspace(-1, 1, 20, dtype="float32").reshape(5, 4)
    stack = np.linspace(-1, 1, 40, dtype="float32").reshape(2, 5, 4)
    made: dict[str, tuple[str, Callable[..., Any]]] = {
        "ab": ("ab", lambda o, a, b: o.matmul(a, b)),
        "at": ("ab", lambda o, a, b: a @ b),
        "self": ("a", lambda o, a: o.matmul(a, o.transpose(a, (0, 2, 1)))),
        "squared": ("d", lambda o, d: o.matmul(d[..., :4], d[..., :4])),
        "de": ("de", lambda o, d, e: o.matmul(d, e)),
        "right": ("d", lambda o, d: o.matmul(d, table)),
        "left": ("b", lambda o, b: o.matmul(table.T, b)),
        "left-deep": ("e", lambda o, e: o.matmul(table.T, e)),
        "stack": ("d", lambda o, d: o.matmul(d, stack)),
        "stack-left": ("e", lambda o, e: o.matmul(stack.swapaxes(1, 2), e)),
        "stack-one": ("d", lambda o, d: o.matmul(d, stack[:1])),
        "tensordot": ("a", lambda o, a: o.tensordot(a, table, axes=[[2], [0]])),
        "tensordot-1": ("d", lambda o, d: o.tensordot(d, table, 1)),
    }
    if KERAS3:
        made |= {
            "vector": ("d", lambda o, d: o.matmul(d, table[:, 0])),
            "vector-left": ("b", lambda o, b: o.matmul(table[:, 0], b)),
            "broadcast": ("d", lambda o, d: o.matmul(d[:, :1], stack)),
            "dot": ("a", lambda o, a: o.dot(a, table)),
        }
        module: Any = keras.ops
    elif TF2:
        import tensorflow

        module = tensorflow
        made |= {
            "turned": ("ac", lambda o, a, c: o.matmul(a, c, transpose_b=True)),
            "turned-a": ("ac", lambda o, a, c: o.matmul(a, c, True)),
            "self-adjoint": ("a", lambda o, a: o.linalg.matmul(a, a, adjoint_a=True)),
            "turned-constant": ("a", lambda o, a: o.matmul(a, table.T, transpose_b=True)),
            "turned-left": ("b", lambda o, b: o.matmul(table, b, transpose_a=True)),
            "matvec": ("ab", lambda o, a, b: o.linalg.matvec(a, b[:, :, 0])),
            "v1": ("ab", lambda o, a, b: o.compat.v1.matmul(a, b)),
            "batch_dot": ("ab", lambda o, a, b: L.Dot((2, 1))([a, b])),
        }
    for name, (letters, f) in made.items():

        def model(letters: str = letters, f: Callable[..., Any] = f) -> Any:
            inputs = [Input(shapes[c]) for c in letters]
            return inputs, [f(module, *inputs)]

        CASES[f"product-{name}"] = model


def main() -> None:
    if not KERAS3:
        local()
    if KERAS3 or TF2:
        attention()
        products()
    cases, outputs = {}, []
    for name, make in CASES.items():
        keras.backend.clear_session()
        try:
            starts, ends = make()
            model = keras.models.Model(starts, ends)
        except Exception as e:
            print(f"{name}: {str(e)[:90]}")
            continue
        layers = []
        for layer, held in weights(model):
            shapes = [tuple(w.shape) for w in model.get_layer(layer).get_weights()]
            model.get_layer(layer).set_weights([draw(f"{name}/{layer}/{k}", s) for k, s in enumerate(shapes)])
            if held:
                layers.append([layer, [[n, list(s)] for (n, _), s in zip(held, shapes)]])
        inputs = []
        for t in starts:
            shape = [ROWS] + [4 if n is None else int(n) for n in t.shape[1:]]
            inputs.append([shape, str(getattr(t.dtype, "name", t.dtype)).replace("<dtype: '", "").replace("'>", "")])
        xs = [draw(f"{name}/in{k}", tuple(s), d) for k, (s, d) in enumerate(inputs)]
        for x in xs:
            if x.ndim > 2 and x.dtype != bool:
                x[0, -1] = x[1, 0, 0] = 0.5  # what Masking hides
        try:
            got = model.predict(xs if len(xs) > 1 else xs[0], **({"verbose": 0} if KERAS3 or TF2 else {}))
        except Exception as e:
            print(f"{name}: {str(e)[:90]}")
            continue
        ys = got if isinstance(got, (list, tuple)) else [got]
        cases[name] = {"config": model.to_json(), "layers": layers, "inputs": inputs, "outputs": [list(y.shape) for y in ys]}
        outputs += [np.ravel(y) for y in ys]
    text = json.dumps({"version": keras.__version__, "cases": cases})
    packed = np.frombuffer(zlib.compress(text.encode(), 9), np.uint8)
    np.savez(sys.argv[1], cases=packed, y=np.concatenate(outputs).astype("float32"))
    print(f"{len(cases)} cases of Keras {keras.__version__}, {os.path.getsize(sys.argv[1])} bytes")


if __name__ == "__main__":
    main()
