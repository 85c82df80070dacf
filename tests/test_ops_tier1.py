"""The Dense family layer by layer: against real Keras (tests/layers), and what no saved model shows."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras_files as kf
import numpy as np
import pytest
from keras_files import numbers

from npinfer.errors import DtypeError, ShapeError, UnsupportedError
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.model import Model, Options
from npinfer.ops import quantized
from npinfer.ops.activations import Activation
from npinfer.ops.affine import Affine
from npinfer.ops.dense import Dense
from npinfer.ops.einsum import EinsumDense, letters
from npinfer.ops.embedding import Embedding
from npinfer.ops.legacy import Highway, Maxout
from npinfer.ops.masking import StepsKept, ZeroUnless
from npinfer.ops.norm import GroupNorm, LayerNorm, RMSNorm, UnitNorm
from npinfer.ops.parametric import ParametricSoftplus, PReLU, SReLU
from npinfer.ops.wrappers import TimeDistributed
from npinfer.passes import optimise
from npinfer.readers import interpret
from npinfer.readers.archive import Call, Layer, TensorRef, Version
from npinfer.readers.lower import lower
from npinfer.readers.raw import RawFile, stored

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
FOLDER = Path(__file__).resolve().parent / "layers"


# against Keras


def keras_cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.npz")):
        with np.load(path) as data:
            for key in data.files:
                if key.endswith("/config"):
                    yield pytest.param(path, key[:-7], id=f"{path.stem}-{key[:-7]}")


CASES = list(keras_cases())


def loaded(path: Path, name: str, **options: Any) -> tuple[Model, Array, Array]:
    """The model of a case, its input and Keras's output."""
    with np.load(path) as data:
        version, config = str(data["keras_version"]), json.loads(str(data[f"{name}/config"]))
        groups = [
            (layer, [(n, stored(data[f"{name}/w/{layer}/{k}"])) for k, n in enumerate(names)])
            for layer, names in json.loads(str(data[f"{name}/names"]))
        ]
        raw = RawFile(name, config, version, "tensorflow", legacy=groups)
        return Model(interpret(raw, config, version, "tensorflow"), Options(**options)), data[f"{name}/x"], data[f"{name}/y"]


@pytest.mark.parametrize(("path", "name"), CASES)
def test_equals_keras(path: Path, name: str, engine: str) -> None:
    """Within 1e-6 of the output's scale, row by row; no rows give no rows."""
    model, x, y = loaded(path, name, engine=engine)
    got = model(x)
    assert got.dtype == y.dtype
    for mine, row in zip(got.reshape(len(y), -1), y.reshape(len(y), -1)):
        np.testing.assert_allclose(mine, row, rtol=0, atol=1e-6 * np.abs(row).max())
    assert model(x[:0]).shape == (0, *y.shape[1:])


@pytest.mark.parametrize(("path", "name"), CASES)
def test_float64(path: Path, name: str) -> None:
    """The same network in float64 lies within Keras's float32 rounding of it, optimised or not."""
    model, x, y = loaded(path, name, engine="reference", dtype="float64", optimize=False)
    got = model(x.astype(np.float64) if x.dtype.kind == "f" else x)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, y, rtol=0, atol=1e-6 * np.abs(y).max())
    folded, *_ = loaded(path, name, engine="reference", dtype="float64")
    np.testing.assert_allclose(folded(x), got, rtol=0, atol=1e-12 * np.abs(y).max())


# shape rules


W, B = numbers(4, 3), numbers(3)
BAD: list[tuple[Op, list[tuple[int | None, ...]], str]] = [
    (Dense(W), [(5,)], "takes 4 inputs"),
    (Dense(W), [()], "no entries"),
    (Dense(numbers(4)), [(4,)], "must be"),
    (Dense(W, numbers(4)), [(4,)], "units need"),
    (Affine(numbers(3), numbers(3)), [(4,)], "broadcast"),
    (Affine(numbers(3), numbers(3)), [(1,)], "3"),
    (Affine(numbers(2, 3), numbers(3)), [(3,)], "2, 3"),
    (LayerNorm(gamma=numbers(3)), [(4,)], "broadcast"),
    (LayerNorm((-3,)), [(4,)], "axes"),
    (RMSNorm(gamma=numbers(2, 3)), [(3,)], "weights of shape"),
    (GroupNorm(3), [(4,)], "3 groups"),
    (GroupNorm(3), [(None,)], "3 groups"),
    (PReLU(numbers(3)), [(4,)], "broadcast"),
    (PReLU(numbers(4)), [(1,)], "weights of shape"),
    (EinsumDense("abc,cd->abd", W), [(4,)], "2 axes"),
    (EinsumDense("ab,bc->ac", W), [(5,)], "'b' has 5"),
    (EinsumDense("ab,bc->ca", W), [(4,)], "batch axis"),
    (EinsumDense("ab,ac->bc", W), [(4,)], "batch axis"),
    (EinsumDense("ab,bcd->acd", W), [(4,)], "kernel has 2"),
    (EinsumDense("ab,bc->ac", W, numbers(4)), [(4,)], "broadcast"),
    (EinsumDense("ab,bc->ac", W, numbers(2, 3)), [(4,)], "the bias has shape"),
    (EinsumDense("ab,bc", W), [(4,)], "forms are"),
    (EinsumDense("...b,bc->ac", W), [(4,)], "same side"),
    (EinsumDense("abe,bc->ac", W), [(4, 5)], "one place"),
    (Embedding(numbers(4)), [(4,)], "must be"),
    (StepsKept(0.0), [()], "features"),
    (ZeroUnless(), [(4, 3), (5,)], "mask of shape"),
    (Highway(W, W), [(4,)], "input's width"),
    (Maxout(W), [(4,)], "kernel of shape"),
    (Maxout(numbers(2, 4, 3), numbers(3)), [(4,)], "bias of shape"),
    (quantized.Int8Dense(W, numbers(4)), [(4,)], "scales"),
    (TimeDistributed(Graph([Spec((4,), F32)], [Node(Dense(W), (0,))], [1])), [(5,)], "each step"),
    (TimeDistributed(Graph([Spec((4,), F32)], [Node(Dense(W), (0,))], [1])), [(7, 5)], "each step"),
]


@pytest.mark.parametrize(("op", "shapes", "reason"), BAD, ids=lambda v: type(v).__name__ if isinstance(v, Op) else str(v)[:20])
def test_shapes_that_do_not_fit(op: Op, shapes: list[Any], reason: str) -> None:
    dtypes = [I32 if isinstance(op, Embedding) else F32, np.dtype(bool)]
    with pytest.raises(ShapeError, match=reason):
        op.infer(*(Spec(s, d) for s, d in zip(shapes, dtypes)))


def test_ranks_from_0_to_5() -> None:
    for rank in range(6):
        shape = (2,) * max(rank - 1, 0) + (4,) * min(rank, 1)
        x = numbers(3, *shape)
        ops: list[Op] = [Activation("tanh"), Affine(np.float32(2), np.float32(1))]
        if rank:
            ops += [Dense(W, B), LayerNorm(), UnitNorm(), RMSNorm()]
        for op in ops:
            spec = op.infer(Spec(shape, F32))
            assert isinstance(spec, Spec)
            assert op(x).shape == (3, *spec.shape)
            assert op(x[:0]).shape == (0, *spec.shape)
            assert op(x).dtype == np.float32


# normalizations at the edges


def test_layer_normalization_at_1e20() -> None:
    """The variance overflows to infinity in float32, and beta is left, as in Keras 3; not NaN."""
    x = np.float32([[1e20, -1e20, 3e20]])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(LayerNorm(gamma=numbers(3), beta=B)(x), B[None])
    assert np.isnan(LayerNorm()(np.float32([[np.nan, 1, 2]]))).all()


def test_moments_far_from_zero_keep_their_digits() -> None:
    x = 1e4 + numbers(5, 64, dtype=np.float64)
    exact = LayerNorm(epsilon=1e-3)(x)
    np.testing.assert_allclose(LayerNorm(epsilon=1e-3)(x.astype(np.float32)), exact, atol=3e-3)
    assert np.abs(exact.mean(1)).max() < 1e-10


def test_batch_normalization_far_from_zero() -> None:
    """(x - mean)·scale + beta: with scale and shift in one, 1e4 deviations off, nothing would be left of float32's digits."""
    mean = np.full(4, 1e4)
    weights = {"gamma": np.ones(4), "beta": np.zeros(4), "moving_mean": mean, "moving_variance": np.ones(4)}
    x = np.float32(mean + numbers(5, 4))
    arrays = {n: w.astype(np.float32) for n, w in weights.items()}
    y = lower(kf.archive(Layer("BatchNormalization", "bn", {"epsilon": 0.0}), [(4,)], arrays)).graph(x)[0]
    np.testing.assert_allclose(y, x.astype(np.float64) - mean, rtol=1e-6)


def test_normalization_of_constant_features() -> None:
    """The deviation is at least 1e-7, so that a constant feature gives a finite number."""
    arrays = {"mean": np.float32([1, 2]), "variance": np.float32([0, 4]), "count": np.array(3)}
    graph = lower(kf.archive(Layer("Normalization", "n", {"axis": (-1,)}), [(2,)], arrays)).graph
    np.testing.assert_allclose(graph(np.float32([[1, 4], [2, 0]]))[0], [[0, 1], [1e7, -1]], rtol=1e-6)


@pytest.mark.parametrize(("version", "expected"), [(Version(2, (2, 10, 0), True), 12.0), (kf.TF215, 8.0), (kf.KERAS3, 8.0)])
def test_inverted_normalization(version: Version, expected: float) -> None:
    """Keras 2.10 computes (x + mean)·deviation."""
    config = {"axis": None, "mean": 2.0, "variance": 4.0, "invert": True}
    graph = lower(kf.archive(Layer("Normalization", "n", config), [(1,)], {}, version)).graph
    assert graph(np.float32([[4.0]]) if expected == 12 else np.float32([[3.0]]))[0] == expected


@pytest.mark.parametrize(("version", "factor"), [(kf.TF215, 1e6), (Version(3, (3, 5, 0)), 1e6), (kf.KERAS3, 1e12)])
def test_unit_normalization_near_zero(version: Version, factor: float) -> None:
    graph = lower(kf.archive(Layer("UnitNormalization", "u", {}), [(2,)], {}, version)).graph
    np.testing.assert_allclose(graph(np.float32([[1e-15, 0], [0, 0]]))[0], [[1e-15 * factor, 0], [0, 0]], rtol=1e-6)


# embeddings, masks


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_indices_are_checked(dtype: str) -> None:
    op = Embedding(numbers(4, 3))
    assert op(np.zeros((0, 2), dtype)).shape == (0, 2, 3)
    np.testing.assert_array_equal(op(np.array([[3, 0]], dtype)), op.table[None, [3, 0]])
    bad = [4] if dtype == "uint8" else [4, -1, np.iinfo(dtype).max, np.iinfo(dtype).min]
    for index in bad:
        with pytest.raises(ShapeError, match=r"rows are 0 to 3"):
            op(np.array([[0, index]], dtype))
    with pytest.raises(DtypeError, match="integers"):
        op.infer(Spec((2,), F32))


def test_masking() -> None:
    x = np.float32([[[1, 1], [1, 2], [np.nan, 1]], [[0, 0], [1, 1], [2, 2]]])
    mask = StepsKept(1.0)(x)
    np.testing.assert_array_equal(mask, [[False, True, True], [True, False, True]])
    np.testing.assert_array_equal(ZeroUnless()(x, mask), np.where(mask[..., None], x, 0))


def test_a_mask_that_nobody_reads_costs_nothing() -> None:
    graph = lower(kf.archive(Layer("Embedding", "e", {"mask_zero": True}), [(2,)], {"embeddings": W})).graph
    assert [type(n.op).__name__ for n in graph.nodes] == ["Cast", "Embedding", "Differs"]
    assert [type(n.op).__name__ for n in optimise(graph).nodes] == ["Cast", "Embedding"]


def test_reversible_embedding() -> None:
    table = numbers(4, 3)
    x = np.array([[0, 3]], np.int32)
    layer = Layer("ReversibleEmbedding", "e", {"logit_soft_cap": 2.0, "mask_zero": True})
    refs = [TensorRef("in0", 0, 0), TensorRef("in1", 0, 0)]
    calls = [Call((refs[0],)), Call((refs[1],), {"reverse": True})]
    graph = lower(kf.archive(layer, [(2,), (2, 3)], {"embeddings": table}, calls=calls)).graph
    rows, logits = graph(x.astype(np.float32), numbers(1, 2, 3))
    np.testing.assert_array_equal(rows, table[x])
    np.testing.assert_allclose(logits, 2 * np.tanh(numbers(1, 2, 3) @ table.T / 2), rtol=1e-5)
    own = {"embeddings": table, "reverse_embeddings": numbers(3, 5)}
    untied = Layer("ReversibleEmbedding", "e", {"tie_weights": False})
    graph = lower(kf.archive(untied, [(2, 3)], own, calls=[Call((refs[0],), {"reverse": True})])).graph
    np.testing.assert_allclose(graph(numbers(1, 2, 3))[0], numbers(1, 2, 3) @ numbers(3, 5), rtol=1e-5)


def test_augmentation() -> None:
    """Nothing at inference; a crop only where it cuts nothing."""
    images = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)
    for name in ("RandomFlip", "Dropout", "GaussianNoise", "Solarization"):
        np.testing.assert_array_equal(lower(kf.archive(Layer(name, "n", {}), [(4, 4, 3)], {})).graph(images)[0], images)
    for size in (4, 3):
        crop = kf.archive(Layer("RandomCrop", "c", {"height": size, "width": 4}), [(4, 4, 3)], {})
        if size == 4:
            np.testing.assert_array_equal(lower(crop).graph(images)[0], images)
        else:
            with pytest.raises(UnsupportedError, match="cropping"):
                lower(crop)


def test_mask_refusals() -> None:
    masking = Layer("Masking", "m", {"mask_value": 0.0})
    for layer in (
        Layer("Softmax", "s", {}),
        Layer("TimeDistributed", "t", {"layer": Layer("Softmax", "s", {})}),
    ):
        with pytest.raises(UnsupportedError, match="mask"):
            lower(kf.archive(layer, [(4, 3)], {}, before=[masking]))
    with pytest.raises(UnsupportedError, match="mask_value"):
        lower(kf.archive(Layer("Masking", "m", {"mask_value": "x"}), [(4, 3)], {}))
    with pytest.raises(UnsupportedError, match="mask on GroupNormalization"):
        lower(kf.archive(Layer("GroupNormalization", "g", {"groups": 1}), [(4, 3)], {}, kf.TF215, before=[masking]))


# wrappers


def test_time_distributed_needs_no_loop_where_axes_count_from_the_end() -> None:
    inner = Layer("Dense", "d", {"units": 3, "activation": "softmax"})
    graph = lower(
        kf.archive(Layer("TimeDistributed", "t", {"layer": inner}), [(None, 4)], {"layer/kernel": W, "layer/bias": B})
    ).graph
    assert [type(n.op).__name__ for n in graph.nodes] == ["Dense", "Softmax"]
    loop = Layer("TimeDistributed", "t", {"layer": Layer("Flatten", "f", {})})
    graph = lower(kf.archive(loop, [(None, 2, 2)], {})).graph
    assert [type(n.op).__name__ for n in graph.nodes] == ["TimeDistributed"]
    assert graph.specs[-1].shape == (None, 4)
    assert graph(np.zeros((0, 3, 2, 2), np.float32))[0].shape == (0, 3, 4)
    assert graph(np.zeros((2, 0, 2, 2), np.float32))[0].shape == (2, 0, 4)


# Keras 1


def test_keras_1_activations_with_weights() -> None:
    x = np.linspace(-3, 3, 13)[:, None]
    a, b = np.array([0.5]), np.array([2.0])
    np.testing.assert_allclose(ParametricSoftplus(a, b)(x), 0.5 * np.log1p(np.exp(2 * x)), rtol=1e-14)
    y = SReLU(np.array([-1.0]), np.array([0.25]), np.array([2.0]), np.array([0.5]))(x)
    np.testing.assert_allclose(y, np.where(x < -1, -1 + 0.25 * (x + 1), np.where(x > 2, 2 + 0.5 * (x - 2), x)), rtol=1e-14)


def test_batch_normalization_by_the_batch_is_refused() -> None:
    for mode in (1, 2):
        with pytest.raises(UnsupportedError, match="mode="):
            lower(kf.archive(Layer("BatchNormalization", "b", {"mode": mode}), [(4,)], {}, Version(1, (1, 2, 2))))


# all ops


def test_ops_pickle() -> None:
    for op in (Dense(W, B, Activation("relu")), LayerNorm(gamma=B), Embedding(W), EinsumDense("ab,bc->ac", W)):
        again = pickle.loads(pickle.dumps(op))
        assert {n: str(getattr(again, n)) for n in op.fields} == {n: str(getattr(op, n)) for n in op.fields}
        assert all(not a.flags.writeable for a in again.arrays())


def test_einsum_letters() -> None:
    assert letters("...x,xy->...y", 3) == ("ABx", "xy", "ABy")
    assert letters("ab..., bc -> ac...", 4) == ("abAB", "bc", "acAB")
