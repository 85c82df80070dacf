"""What a user meets first when an argument is wrong: one error that names the argument at fault, the same in every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npinfer
from npinfer import EngineError, FormatError, Model, ShapeError, UnsupportedError
from npinfer.cli import main

GOLDEN = Path(__file__).resolve().parent / "golden"
DENSE = GOLDEN / "k35" / "t1-dense-inputlayer.h5"
PAIR = GOLDEN / "k3np" / "t2-multi-io.h5"


@pytest.fixture(params=["numpy", "native"])
def pair(request: pytest.FixtureRequest) -> Model:
    """Two inputs, two outputs."""
    return npinfer.load(PAIR, engine=request.param)


def zeros(model: Model, rows: int | None = None) -> list[Any]:
    return [np.zeros(s.shape if rows is None else (rows, *s.shape), np.float32) for s in model.inputs]


def test_bind_takes_numpy_integers(pair: Model) -> None:
    assert [len(y) for y in pair.bind(batch=np.int64(3))(*zeros(pair, 3))] == [3, 3]
    for wrong in (True, 2.0, "2", 0):
        with pytest.raises(ShapeError, match="whole number"):
            pair.bind(batch=wrong)  # type: ignore[arg-type]


def test_outputs_that_share_memory_are_refused(pair: Model) -> None:
    shapes = [s.shape[0] for s in pair.outputs]
    both = np.zeros(max(shapes), np.float32)
    with pytest.raises(ShapeError, match="share memory"):
        pair.bind()(*zeros(pair), *(both[:n] for n in shapes))


@pytest.mark.parametrize("wrong", [0, 1])
def test_the_input_at_fault_is_named(pair: Model, wrong: int) -> None:
    x = zeros(pair)
    x[wrong] = np.zeros(99, np.float32)
    with pytest.raises(ShapeError, match=f"input '{pair.inputs[wrong].name}': expected .* got \\(99,\\)"):
        pair(x)


def test_more_arrays_than_inputs() -> None:
    model = npinfer.load(DENSE, engine="numpy")
    (x,) = zeros(model, 4)
    with pytest.raises(ShapeError, match=r"takes 1 input .* got 2 arrays: \(4, 6\), \(4,\)"):
        model.predict(iter([(x, np.zeros(4))]))
    assert model([x[0], x[1]]).shape == model(x[:2]).shape  # a list of samples is a batch
    assert model([x]).shape == model(x).shape


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"dtype": "float61"}, UnsupportedError, "dtype='float61': needs 'float32' or 'float64'"),
        ({"threads": 0}, EngineError, "threads=0"),
        ({"threads": "a"}, EngineError, "threads='a'"),
    ],
)
def test_options_of_load(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        npinfer.load(DENSE, **options)


def test_a_submodel_of_nothing() -> None:
    with pytest.raises(UnsupportedError, match="at least one layer"):
        npinfer.load(DENSE, engine="numpy").submodel([])


def test_saving_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such folder; make it first: '.*nowhere'"):
        npinfer.load(DENSE, engine="numpy").save(tmp_path / "nowhere" / "m.npz")


def test_an_output_given_as_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 6), np.float32))
    code = main(["predict", str(DENSE), str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), "--engine", "numpy"])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "takes 1 input, got 2 files; results go to a file with -o OUT" in err


def test_check_against_a_single_array(tmp_path: Path) -> None:
    from npinfer.npy_streams import whole

    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(FormatError, match=r"one array; needs an \.npz"):
        whole(str(tmp_path / "x.npy"), npinfer.load(DENSE, engine="numpy").inputs, ("x",))


def test_a_function_for_a_layer_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(npinfer.UnsupportedError, match="no layer or activation of its own called 'typo'"):
        npinfer.load(GOLDEN / "k122" / "t1-mlp-seed.h5", engine="numpy", functions={"typo": np.abs})
