"""Attention layers against the outputs of real Keras (tests/recurrent), and what files can't show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras_files as kf
import numpy as np
import pytest

import npinfer
from npinfer.errors import ShapeError, UnsupportedError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.attention import Attention, allowed
from npinfer.ops.attention_axes import AxesAttention
from npinfer.ops.attention_heads import HeadAttention
from npinfer.readers.archive import Call, Layer, TensorRef, Version
from npinfer.readers.lower import lower

F32, BOOL = np.dtype(np.float32), np.dtype(bool)


@pytest.mark.parametrize("path", kf.files(attention=True), ids=kf.name)
def test_equals_keras(path: Path, engine: str) -> None:
    """One layer: 1e-6 of the output's scale, queries that may look at nothing included."""
    model = npinfer.load(path, engine=engine)
    kf.assert_near(kf.call(model, kf.arrays(path, "in")), kf.arrays(path, "out"), 1e-6)


@pytest.mark.parametrize("path", kf.files(attention=True), ids=kf.name)
def test_float64(path: Path) -> None:
    xs = [x if x.dtype == bool else np.float64(x) for x in kf.arrays(path, "in")]
    got = kf.call(npinfer.load(path, engine="reference", dtype="float64"), xs)
    assert all(y.dtype == np.float64 for y in got)
    if "mask" not in path.name or "gqa" in path.name:  # -1e9 keeps a masked row's digits in float64, and loses them in float32
        kf.assert_near(got, kf.arrays(path, "out"), 1e-6)


def soft(s: Array) -> Array:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)  # type: ignore[no-any-return]


def test_heads_one_by_one() -> None:
    """Every head alone, with loops: grouped keys, a window, a mask for each head, axes in front."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, t, n)) for t, n in ((5, 12), (4, 6), (4, 4)))
    mask = rng.random((2, 4, 5, 4)) > 0.3
    op = HeadAttention(4, 2, 0.7, window=3, masks=("attention",), penalised=False, scores=True)
    y, w = op(q, k, v, mask)
    near = np.abs(np.arange(5)[:, None] - np.arange(4)) < 3
    for b in range(2):
        for h in range(4):
            own, keys, values = q[b, :, 3 * h : 3 * h + 3], k[b, :, 3 * (h // 2) :][:, :3], v[b, :, 2 * (h // 2) :][:, :2]
            want = soft(np.where(mask[b, h] & near, 0.7 * own @ keys.T, -1e300))
            np.testing.assert_allclose(w[b, h], want, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(y[b, :, 2 * h : 2 * h + 2], want @ values, rtol=1e-12)
    plain = HeadAttention(4, 2, 0.7)
    stacked = [np.stack([x, x[::-1]], axis=1) for x in (q, k, v)]
    np.testing.assert_allclose(plain(*stacked)[:, 1], plain(*(x[::-1] for x in (q, k, v))), rtol=1e-12)


def test_nothing_to_look_at() -> None:
    """A query whose places are all masked: the mean of all values, or zeros where Keras 3.10 and later zero the weights."""
    x, mask = np.random.default_rng(1).random((1, 3, 2), np.float32), np.zeros((1, 3), bool)
    for penalised in (True, False):
        y = HeadAttention(1, 1, 1.0, masks=("value",), penalised=penalised)(x, x, x, mask)
        np.testing.assert_allclose(y, np.broadcast_to(x.mean(1, keepdims=True), x.shape), rtol=1e-6)
        assert not HeadAttention(1, 1, 1.0, masks=("value",), penalised=penalised, zeroed=True)(x, x, x, mask).any()


def test_infinite_scores() -> None:
    """+inf among the scores gives NaN; weights that are exactly 0 stay 0."""
    q, k = np.array([[[1e20]]], np.float32), np.array([[[1e20], [-1e20], [0]]], np.float32)
    with np.errstate(all="ignore"):
        y, w = Attention("dot", scores=True)(q, k, k)
    assert np.isnan(y).all()
    np.testing.assert_array_equal(w, [[[np.nan, 0, 0]]])


def test_allowed_combines_masks() -> None:
    query, value = np.array([[True, False]]), np.array([[True, True, False]])
    each = np.ones((1, 2, 3), bool)
    each[0, 0, 0] = False
    heads = np.stack([each, ~each], axis=1)
    got = allowed(("query", "value", "attention"), (query, value, each), True, None, 2, 3)
    assert got is not None
    np.testing.assert_array_equal(got, [[[False, False, False], [False, False, False]]])
    got = allowed(("value", "attention"), (value, heads), False, None, 2, 3)
    assert got is not None
    assert got.shape == (1, 2, 2, 3)
    assert allowed((), (), False, None, 2, 3) is None


S = Spec
WRONG: list[tuple[Op, list[Spec], str]] = [
    (HeadAttention(2, 2, 1.0), [S((5, 6), F32), S((4, 6), F32), S((4,), F32)], "two at least"),
    (HeadAttention(2, 2, 1.0), [S((5, 7), F32), S((4, 7), F32), S((4, 6), F32)], "don't make 2"),
    (HeadAttention(2, 2, 1.0), [S((5, 6), F32), S((4, None), F32), S((4, 6), F32)], "must be known"),
    (HeadAttention(2, 2, 1.0), [S((5, 6), F32), S((4, 6), F32), S((3, 6), F32)], "broadcast"),
    (HeadAttention(2, 2, 1.0, masks=("value",)), [S((5, 6), F32), S((4, 6), F32), S((4, 6), F32)], "0 masks"),
    (HeadAttention(2, 2, 1.0, masks=("value",)), [S((5, 6), F32), S((4, 6), F32), S((4, 6), F32), S((5,), BOOL)], "value mask"),
    (
        HeadAttention(2, 2, 1.0, masks=("query",)),
        [S((2, 5, 6), F32), S((2, 4, 6), F32), S((2, 4, 6), F32), S((5,), BOOL)],
        "3 axes",
    ),
    (AxesAttention(2, 2, 1.0, axes=(0,)), [S((5, 6), F32)] * 2 + [S((6,), F32)], "same number of axes"),
    (AxesAttention(2, 2, 1.0, axes=(0,), masks=("query",)), [S((5, 6), F32)] * 3, "the masks be there"),
    (AxesAttention(2, 2, 1.0, axes=()), [S((5, 6), F32)] * 3, "over the axes []"),
    (AxesAttention(2, 2, 1.0, axes=(1,)), [S((5, 6), F32)] * 3, "over the axes [1] of 1"),
    (AxesAttention(2, 2, 1.0, axes=(0,)), [S((5, 3, 6), F32), S((4, 2, 6), F32), S((4, 2, 6), F32)], "should be equal"),
    (AxesAttention(2, 2, 1.0, axes=(0,)), [S((5, 3, 6), F32), S((4, 3, 6), F32), S((5, 3, 6), F32)], "should be equal"),
    (
        AxesAttention(2, 2, 1.0, True, axes=(0, 1)),
        [S((5, 3, 6), F32)] * 3,
        "comes to 3 axes, the batch's counted; attention over 2",
    ),
    (AxesAttention(2, 2, 1.0, True, axes=(1,)), [S((5, 3, 6), F32)] * 3, "mask has shape [5, 5], the scores have [5, 2, 3, 3]"),
    (
        AxesAttention(2, 2, 1.0, axes=(1,), masks=("query", "attention")),
        [*[S((5, 3, 6), F32)] * 3, S((3,), BOOL), S((5, 3, 3), BOOL)],
        "different numbers of axes",
    ),
    (Attention("dot"), [S((5, 6), F32), S((4, 6), F32), S((6,), F32)], "(steps, features)"),
    (Attention("additive", np.ones(5)), [S((5, 6), F32), S((4, 6), F32), S((4, 6), F32)], "broadcast"),
    (Attention("dot", np.ones(1)), [S((5, 6), F32), S((4, 6), F32), S((4, 6), F32)], "[] is needed"),
]


@pytest.mark.parametrize(("op", "specs", "words"), WRONG)
def test_what_does_not_fit(op: Op, specs: list[Spec], words: str) -> None:
    with pytest.raises(ShapeError) as caught:
        op.infer(*specs)
    assert words in str(caught.value)


def heads(**config: Any) -> tuple[Layer, dict[str, Array]]:
    rng = np.random.default_rng(7)
    shapes = {"query": (6, 2, 3), "key": (6, 2, 3), "value": (6, 2, 3), "output": (2, 3, 6)}
    held = {f"{n}_dense/kernel": rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    return Layer("MultiHeadAttention", "m", {"num_heads": 2, "key_dim": 3, "use_bias": False, **config}), held


A, B = TensorRef("in0", 0, 0), TensorRef("in1", 0, 0)
SIX = [(5, 6), (5, 6)]


def refusals() -> list[tuple[str, Any, str]]:
    score = Layer("Attention", "m", {"score_mode": "cosine"})
    masked = [Call(([A, B],), {"mask": [3, None]})]
    fixed = [Call((A, B), {"attention_mask": [True]})]
    several = [Call((A, B), {"attention_mask": [[[1]], [[0]]]})]
    return [
        ("score", kf.archive(score, SIX, {}), "score_mode='cosine'"),
        ("batch", kf.archive(*_with(SIX, *heads(attention_axes=[0, 1], dropout=0.1))), "attention_axes=[0, 1] on inputs of 3"),
        ("beyond", kf.archive(*_with([(4, 5, 6)] * 2, *heads(attention_axes=4))), "attention_axes=4 on inputs of 4 axes"),
        ("name", kf.archive(*_with([(4, 5, 6)] * 2, *heads(attention_axes=["a"]))), "attention_axes=['a'] on inputs"),
        ("mask", kf.archive(Layer("Attention", "m", {}), SIX, {}, calls=masked), "a mask that isn't"),
        ("constant", kf.archive(*_with(SIX, *heads()), calls=fixed), "neither a tensor of the model nor"),
        ("batch mask", kf.archive(*_with(SIX, *heads()), calls=several), "neither a tensor of the model nor"),
        ("argument", kf.archive(*_with(SIX, *heads()), calls=[Call((A, B), {"odd": 1})]), "odd=1"),
    ]


def _with(inputs: Any, layer: Layer, held: dict[str, Array]) -> Any:
    return layer, inputs, held


@pytest.mark.parametrize(("archive", "words"), [r[1:] for r in refusals()], ids=[r[0] for r in refusals()])
def test_refusals(archive: Any, words: str) -> None:
    calls = archive.model.layers[-1].calls
    if not calls[0].kwargs:
        several = archive.model.layers[-1].class_name == "MultiHeadAttention"
        archive = kf.archive(
            archive.model.layers[-1],
            [k.config["shape"] for k in archive.model.layers[:-1]],
            archive.weights[("m",)],
            calls=[Call((A, B) if several else ([A, B],))],
        )
    with pytest.raises(UnsupportedError) as caught:
        lower(archive)
    assert words in str(caught.value)
    assert "layer 'm'" in str(caught.value)


def test_wrong_calls() -> None:
    layer, held = heads()
    with pytest.raises(ShapeError, match="takes query, value"):
        lower(kf.archive(layer, SIX, held, calls=[Call((A,))]))
    with pytest.raises(ShapeError, match=r"takes \[query, value\]"):
        lower(kf.archive(Layer("Attention", "m", {}), SIX, {}, calls=[Call((A,))]))


def test_one_axis_of_images() -> None:
    """attention_axes=(2,) of (n, a, t, d): each of the a rows by itself."""
    layer, held = heads(attention_axes=[2])
    x = np.random.default_rng(3).normal(size=(2, 4, 5, 6)).astype(np.float32)
    y = lower(kf.archive(layer, [(4, 5, 6)], held, calls=[Call((A, A))])).graph(x)[0]
    alone, held = heads()
    rows = lower(kf.archive(alone, [(5, 6)], held, calls=[Call((A, A))])).graph(x.reshape(8, 5, 6))[0]
    np.testing.assert_allclose(y.reshape(8, 5, 6), rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("version", "options", "penalised", "zeroed"),
    [
        (Version(2, (2, 15), True), {}, True, False),
        (Version(3, (3, 5)), {}, True, False),
        (Version(3, (3, 7)), {}, False, False),
        (Version(3, (3, 7)), {"dropout": 0.1}, True, False),
        (Version(3, (3, 10)), {"dropout": 0.1}, True, True),
        (Version(3), {}, False, False),
        (Version(3), {"dropout": 0.1}, True, True),
    ],
    ids=str,
)
def test_rule_for_masked_scores(version: Version, options: dict[str, Any], penalised: bool, zeroed: bool) -> None:
    made = kf.archive(*_with(SIX, *heads(**options)), version=version, calls=[Call((A, B))])
    (op,) = (n.op for n in lower(made).graph.nodes if isinstance(n.op, HeadAttention))
    assert (op.penalised, op.zeroed) == (penalised, zeroed)


@pytest.mark.parametrize(("version", "kinds"), [(Version(2, (2, 9), True), ()), (kf.TF215, ("query", "value"))], ids=str)
def test_masks_of_the_tensors(version: Version, kinds: tuple[str, ...]) -> None:
    """TensorFlow before 2.10 left them aside."""
    masking = Layer("Masking", "mask", {"mask_value": 0.0})
    refs = (TensorRef("mask", 0, 0), TensorRef("mask", 0, 0))
    made = kf.archive(*_with(SIX[:1], *heads()), version=version, calls=[Call(refs)], before=[masking])
    (op,) = (n.op for n in lower(made).graph.nodes if isinstance(n.op, HeadAttention))
    assert op.masks == kinds


def test_causal_in_the_config() -> None:
    """tf.keras up to 2.10 wrote causal into Attention's config."""
    x = np.random.default_rng(3).normal(size=(2, 5, 6)).astype(np.float32)
    made = kf.archive(Layer("Attention", "m", {"causal": True}), SIX, {}, kf.TF215)
    y = lower(made).graph(x, x)[0]
    np.testing.assert_allclose(y[:, 0], x[:, 0], rtol=1e-6)
