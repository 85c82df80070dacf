"""Weights: listed in Keras's order, exchanged as a whole, seen by everything that shares them."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN

import npinfer

MLP = GOLDEN / "k122" / "t1-mlp-seed.h5"
NORMALIZED = GOLDEN / "tf215" / "t1-Normalization-adapt.keras"
RNG = np.random.default_rng(5)


def scaled(model: npinfer.Model, factor: float) -> list[np.ndarray]:
    return [w * np.asarray(factor, w.dtype) for w in model.get_weights()]


def test_everything_sees_new_weights(engine: str) -> None:
    model = npinfer.load(MLP, engine=engine)
    x = RNG.normal(size=(3, 40)).astype(np.float32)
    step, kept, batch = model.bind(), model.bind(reuse_output=True), model.bind(batch=3)
    inner = model.submodel(outputs=["dense_2"])
    tap = inner(x)
    array = kept(x[0])
    new = scaled(model, 0.5)
    model.set_weights(new)
    want = npinfer.load(MLP, engine="reference")
    want.set_weights(new)
    for got in (model(x), np.stack([step(r) for r in x]), batch(x)):
        np.testing.assert_allclose(got, want(x), rtol=1e-5, atol=1e-6)
    assert kept(x[0]) is array
    np.testing.assert_allclose(array, want(x)[0], rtol=1e-5, atol=1e-6)
    assert not np.allclose(inner(x), tap)
    np.testing.assert_allclose(inner(x), want.submodel(outputs="dense_2")(x), rtol=1e-5, atol=1e-6)


def test_a_submodel_changes_its_root(engine: str) -> None:
    model = npinfer.load(MLP, engine=engine)
    x = RNG.normal(size=(2, 40)).astype(np.float32)
    before = model(x)
    model.submodel(outputs=["dense_1"]).set_weights(scaled(model, 0.5))
    assert not np.allclose(model(x), before)


def test_new_weights_may_change_what_is_folded(engine: str) -> None:
    """A Normalization with moderate numbers moves into the layer behind it, one with a huge mean must not: the structure that
    runs changes with the weights, and bound callables follow."""
    model = npinfer.load(NORMALIZED, engine=engine)
    step = model.bind()
    width = model.inputs[0].shape[0]
    weights = model.get_weights()
    places = [k for k, w in enumerate(weights) if w.shape == (width,)]
    weights[places[0]] = np.full(width, 1e5, np.float32)
    weights[places[1]] = np.ones(width, np.float32)
    x = (1e5 + RNG.normal(size=(4, width)) * 0.5).astype(np.float32)
    exact = npinfer.load(NORMALIZED, dtype="float64", engine="reference", optimize=False)
    exact.set_weights(weights)
    want = exact(x.astype(np.float64))
    for _ in range(2):  # there and back and there again
        model.set_weights(weights)
        np.testing.assert_allclose(model(x), want, rtol=0, atol=1e-5 * np.abs(want).max())
        np.testing.assert_allclose(np.stack([step(r) for r in x]), want, rtol=0, atol=1e-5 * np.abs(want).max())
        model.load_weights(NORMALIZED)
        again = npinfer.load(NORMALIZED, engine="reference")
        np.testing.assert_allclose(step(x[0]), again(x[:1])[0], rtol=1e-4)


@pytest.mark.parametrize("change", ["fewer", "shape", "text"])
def test_weights_that_do_not_fit_change_nothing(change: str, engine: str) -> None:
    model = npinfer.load(MLP, engine=engine)
    x = RNG.normal(size=(2, 40)).astype(np.float32)
    before = model(x)
    bad: list[object] = list(scaled(model, 2))
    if change == "fewer":
        bad.pop()
    elif change == "shape":
        bad[-2] = np.zeros((3, 3), np.float32)
    else:
        bad[-1] = np.array(["a"])
    with pytest.raises(npinfer.NpinferError):
        model.set_weights(bad)
    np.testing.assert_array_equal(model(x), before)


def test_no_call_sees_half_of_a_swap(engine: str) -> None:
    """Four layers scaled alike: with a mix of old and new ones the output would be neither of the two that exist."""
    model = npinfer.load(MLP, engine=engine)
    x = RNG.normal(size=40).astype(np.float32)
    sets = [model.get_weights(), scaled(model, 0.5)]
    steps = [model.bind(), model]
    allowed = []
    for weights in sets:
        model.set_weights(weights)
        allowed.append([np.array(f(x)).item() for f in steps])
    wrong: list[float] = []
    done = threading.Event()

    def call(which: int) -> None:
        while not done.is_set():
            y = np.array(steps[which](x)).item()
            if y not in (allowed[0][which], allowed[1][which]):
                wrong.append(y)

    threads = [threading.Thread(target=call, args=(k % 2,)) for k in range(4)]
    for t in threads:
        t.start()
    for k in range(60):
        model.set_weights(sets[k % 2])
    done.set()
    for t in threads:
        t.join()
    assert not wrong


def test_pickles_and_copies(engine: str, tmp_path: Path) -> None:
    model = npinfer.load(MLP, engine=engine)
    x = RNG.normal(size=40).astype(np.float32)
    want = model(x)
    step = model.bind()
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(again(x), want)
        again.set_weights(scaled(again, 0.5))
        assert not np.array_equal(again(x), want)
    for again in (pickle.loads(pickle.dumps(step)), copy.deepcopy(step)):
        np.testing.assert_array_equal(again(x), step(x))
    np.testing.assert_array_equal(model(x), want)


def test_weights_are_exchanged_everywhere_or_nowhere(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever executor of a family fails to get ready, all of them keep the old weights; then the new ones go to all."""
    model = npinfer.load(GOLDEN / "k3new/t3-lstm-varlen.h5", engine=engine)
    size = tuple(n or 5 for n in model.inputs[0].shape)
    part = model.submodel([model.layers[0].name])
    steps = [model.bind(shape=size), model.bind(shape=size, reuse_output=True), model.bind(shape=size, batch=1)]
    stream = model.bind(stream=True)
    x = np.random.default_rng(8).normal(size=size).astype(np.float32)

    def results() -> list[Any]:
        stream.reset()
        found = [model(x), part(x), *(np.array(s(x[None] if k == 2 else x)) for k, s in enumerate(steps)), stream(x[0])]
        return [np.array(y) for y in found]

    before, weights = results(), [w / 2 for w in model.get_weights()]
    executors = [m._executor for m in (model, part)] + [e for e, _ in model._bound.values()]
    assert len(executors) == 4
    for executor in executors:
        with monkeypatch.context() as patched:
            patched.setattr(executor, "prepare", lambda graph: (_ for _ in ()).throw(MemoryError("full")))
            with pytest.raises(MemoryError, match="full"):
                model.set_weights(weights)
        for a, b in zip(results(), before):
            np.testing.assert_array_equal(a, b)
        assert all((a != b).any() for a, b in zip(model.get_weights(), weights) if b.any())
    model.set_weights(weights)
    assert all((a != b).any() for a, b in zip(results(), before))
