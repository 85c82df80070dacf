"""get_weights and set_weights as lists, and weights taken from another file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN
from saved_files import TWO, assert_same_list, dense, model, numbers, read

from npinfer import readers
from npinfer.errors import DtypeError, FormatError, NpinferError, ShapeError
from npinfer.readers import order
from npinfer.readers.raw import RawFile, stored


@pytest.mark.parametrize(
    "path", ["k122/t1-mlp-seed.h5", "k224/t2-nested-double.h5", "k3new/t2-nested-double.h5", "k3new/t1-act-chain.h5"]
)
def test_lists_go_round(path: str) -> None:
    archive = readers.read(GOLDEN / path)
    before = order.weights_to_list(archive)
    after = order.weights_from_list(archive, [a + 1 for a in before])
    assert_same_list(order.weights_to_list(after), [a + 1 for a in before])
    assert_same_list(order.weights_to_list(archive), before)


TWO_ARCHIVE = read(TWO, [dense("a"), dense("b", 2)])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda w: w[:-1], ShapeError, r"got 3 arrays; the model has 4: a/kernel, a/bias"),
        (lambda w: [*w, w[0]], ShapeError, "got 5 arrays"),
        (lambda w: [w[0].T, *w[1:]], ShapeError, r"a/kernel: got the shape \[2, 3\]; needed is \[3, 2\]"),
        (lambda w: [w[0], "x", *w[2:]], ShapeError, r"a/bias: got the shape \[\]"),
        (lambda w: [w[0], w[1].astype("c8"), *w[2:]], DtypeError, "a/bias: got complex64"),
        (lambda w: [w[0], [[1], [2, 3]], *w[2:]], DtypeError, "not an array"),
    ],
)
def test_lists_that_do_not_fit(change: Any, error: type[NpinferError], message: str) -> None:
    with pytest.raises(error, match=message):
        order.weights_from_list(TWO_ARCHIVE, change(order.weights_to_list(TWO_ARCHIVE)))


def test_lists_are_cast_and_copied() -> None:
    given = [np.ones((3, 2)), [1, 2], np.ones((2, 2), "float16"), np.zeros(2, int)]
    found = order.weights_from_list(TWO_ARCHIVE, given)
    assert all(a.dtype == np.float32 for held in found.weights.values() for a in held.values())
    given[0][0, 0] = 9
    assert found.weights["a",]["kernel"][0, 0] == 1


@pytest.mark.parametrize("suffix", ["h5", "wonly.h5", "weights.h5", "keras"])
def test_weights_of_another_file(suffix: str) -> None:
    folder = GOLDEN / "k3new"
    archive = readers.read(folder / "t1-dense-inputlayer.h5")
    blank = order.weights_from_list(archive, [np.zeros_like(a) for a in order.weights_to_list(archive)])
    found = readers.read_weights_into(blank, folder / f"t1-dense-inputlayer.{suffix}")
    assert_same_list(order.weights_to_list(found), order.weights_to_list(archive))
    assert not any(a.any() for a in order.weights_to_list(blank))


def test_weights_of_our_own_file(tmp_path: Path) -> None:
    from npinfer import npz

    npz.save(tmp_path / "m.npz", TWO_ARCHIVE, {})
    blank = order.weights_from_list(TWO_ARCHIVE, [np.zeros_like(a) for a in order.weights_to_list(TWO_ARCHIVE)])
    found = readers.read_weights_into(blank, tmp_path / "m.npz")
    assert_same_list(order.weights_to_list(found), order.weights_to_list(TWO_ARCHIVE))


def test_weights_of_another_shape_change_nothing() -> None:
    def gru(shape: tuple[int, ...]) -> Any:
        held = [("kernel", numbers(3, 6)), ("recurrent_kernel", numbers(2, 6)), ("bias", numbers(*shape))]
        return [("r", [(f"r/{n}:0", a) for n, a in held])]

    config = model(("GRU", "r", {"units": 2}), shape=(4, 3))
    archive = read(config, gru((2, 6)))
    raw = RawFile("other", keras_version="2.2.4", legacy=[(n, [(k, stored(a)) for k, a in h]) for n, h in gru((6,))])
    with pytest.raises(ShapeError, match=r"r/cell/bias has the shape \[6\]; the model needs \[2, 6\]"):
        order.with_weights_of(archive, raw)
    assert archive.model.layer("r").config["reset_after"] is True


def test_files_without_weights() -> None:
    with pytest.raises(FormatError, match="holds no weights"):
        order.with_weights_of(TWO_ARCHIVE, RawFile("other"))


def test_archives_are_values() -> None:
    assert TWO_ARCHIVE.replace(source="other").weights is TWO_ARCHIVE.weights


def test_lists_of_models_with_unknown_layers() -> None:
    config = model(("Dense", "a", {"units": 2}), ("Weird", "w", {}), ("Dense", "b", {"units": 2}))
    archive = read(config, [dense("a"), ("w", [("w/x:0", numbers(2)), ("w/y:0", numbers(1))]), dense("b", 2)])
    listed = [("/".join(p), v) for p, v in archive.order]
    assert listed == [("a", "kernel"), ("a", "bias"), ("w", "x"), ("w", "y"), ("b", "kernel"), ("b", "bias")]
    before = order.weights_to_list(archive)
    after = order.weights_from_list(archive, [2 * a for a in before])
    assert_same_list(order.weights_to_list(after), [2 * a for a in before])


@pytest.mark.parametrize("counted", [True, False])
def test_variables_that_some_versions_lack(counted: bool) -> None:
    held = [("n/mean:0", numbers(3)), ("n/variance:0", numbers(3)), *([("n/count:0", np.array(5))] if counted else [])]
    archive = read(model(("Normalization", "n", {"axis": [-1]})), [("n", held)], "2.15.0")
    assert list(archive.weights["n",]) == [n[2:-2] for n, _ in held]
    assert len(order.weights_to_list(archive)) == len(held)


def test_weights_of_a_file_with_less_in_it() -> None:
    held = [("n/mean:0", numbers(3)), ("n/variance:0", numbers(3)), ("n/count:0", np.array(5))]
    config = model(("Normalization", "n", {"axis": [-1]}))
    archive = read(config, [("n", held)], "2.15.0")
    raw = RawFile("other", keras_version="2.15.0", legacy=[("n", [(n, stored(a)) for n, a in held[:2]])])
    with pytest.raises(FormatError, match="other: has no n/count"):
        order.with_weights_of(archive, raw)
