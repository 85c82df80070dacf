"""Arguments that make no sense: one error of npinfer's own that names the argument, what it is and what it should be."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras_files import archive

import npinfer
from npinfer import ArgumentError, EngineError, FormatError, NotEnoughMemoryError, NpinferError, ShapeError, UnsupportedError
from npinfer.cli import main
from npinfer.errors import SHOWN, shown
from npinfer.ops.registry import CUSTOM
from npinfer.readers.archive import Layer
from npinfer.readers.lower import lower

GOLDEN = Path(__file__).resolve().parent / "golden"
DENSE = GOLDEN / "k35" / "t1-dense-inputlayer.h5"
PAIR = GOLDEN / "k3np" / "t2-multi-io.h5"
LONG = "long" * 1000
HUGE = (10**12, 10**17, 10**19, 10**30, 10**400)


def load(**options: Any) -> npinfer.Model:
    return npinfer.load(DENSE, **{"engine": "numpy", **options})


def refused(error: type[Exception], text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, NpinferError)
    assert len(str(caught.value)) < 400


OPTIONS: list[tuple[str, Any, type[Exception], str]] = [
    *(("threads", v, EngineError, "threads=") for v in (0, -1, 2.5, "2", True, [1], LONG)),
    *(("engine", v, EngineError, "engine=.* there are auto") for v in (3, None, [], np.zeros(3), "nat", LONG)),
    *(("dtype", v, UnsupportedError, "dtype=.* needs 'float32'") for v in (3, [], {"names": 1}, "f4,,", np.float16, LONG)),
    *(("outputs", v, ArgumentError, "outputs=.* needs the name") for v in (3, [3], [None], b"x", np.zeros(2))),
    ("outputs", LONG, UnsupportedError, "no layer called 'longlong.*…"),
    *(("functions", v, ArgumentError, "functions=.* needs a dict") for v in (3, [1], abs)),
    ("functions", {"dense": 3}, ArgumentError, "functions: 'dense' is 3; needs"),
    ("functions", {3: abs}, ArgumentError, "functions: 3 is "),
    *(("limits", v, ArgumentError, "limits=.* needs npinfer.Limits") for v in (3, {}, "big")),
    ("config", 3, FormatError, "config is a int"),
    ("config", LONG, FormatError, "'longlong"),
]


@pytest.mark.parametrize(("name", "value", "error", "text"), OPTIONS, ids=[f"{n}-{shown(v)[:12]}" for n, v, _, _ in OPTIONS])
def test_options_of_load(name: str, value: Any, error: type[Exception], text: str) -> None:
    refused(error, text, lambda: load(**{name: value}))


def test_options_that_are_right() -> None:
    assert load(threads=np.int64(2), dtype=np.float64, functions=None, outputs=("dense",)).outputs[0].dtype == np.float64


@pytest.mark.parametrize("value", ["a", None, 2.5, True, -1])
def test_limits_are_whole_numbers(value: Any) -> None:
    refused(ArgumentError, "Limits.json_depth=", lambda: npinfer.Limits(json_depth=value))
    refused(ArgumentError, "limits=", lambda: npinfer.read_weights(DENSE, limits=value or {}))


@pytest.mark.parametrize("engine", ["reference", "numpy", "native"])
@pytest.mark.parametrize("batch", HUGE)
def test_a_batch_larger_than_memory(engine: str, batch: int) -> None:
    refused(NotEnoughMemoryError, r"bind\(batch=1000.*more memory than there is", lambda: load(engine=engine).bind(batch=batch))
    assert issubclass(NotEnoughMemoryError, MemoryError)


@pytest.mark.parametrize("batch", [0, -1, 2.5, "a", [1], LONG])
def test_a_batch_that_is_none(batch: Any) -> None:
    refused(ShapeError, "bind.batch=.*whole number", lambda: load().bind(batch=batch))
    if batch != []:
        refused(ShapeError, "predict.batch_size=.*whole", lambda: load().predict(np.zeros((2, 6)), batch_size=batch))


@pytest.mark.parametrize("shape", ["a", (None,), [[6]], ("a",), {3: 3}, {1: 2, "a": 3}, {LONG: (6,)}, (7,), (6.0,)])
def test_a_shape_that_is_none(shape: Any) -> None:
    refused(ShapeError, "bind.shape", lambda: load().bind(shape=shape))


def test_shapes_of_several_inputs() -> None:
    refused(ShapeError, "needs a list of 2 shapes", lambda: npinfer.load(PAIR, engine="numpy").bind(shape=3))
    refused(ShapeError, "takes", lambda: npinfer.load(PAIR, engine="numpy").bind(shape=[6, "x"]))


MICROBATCH = [
    *(("max_size", v) for v in (0, -1, "a", None, 2.5, True, LONG)),
    *(("max_queue", v) for v in (0, "a")),
    *(("max_delay_us", v) for v in (-1, float("nan"), float("inf"), "a", None)),
]


@pytest.mark.parametrize(("name", "value"), MICROBATCH)
def test_options_of_microbatch(name: str, value: Any) -> None:
    model = load()
    refused(ArgumentError, rf"microbatch\({name}=", lambda: model.microbatch(**{name: value}))
    with pytest.raises(ValueError, match=name):
        model.microbatch(**{name: value})


WAITS: list[Callable[[npinfer.MicroBatch, Any], Any]] = [
    lambda mb, t: mb(np.zeros(6), timeout=t),
    lambda mb, t: mb.submit(np.zeros(6), timeout=t),
    lambda mb, t: asyncio.run(mb.acall(np.zeros(6), timeout=t)),
    lambda mb, t: mb.close(timeout=t),
]


@pytest.mark.parametrize("wait", WAITS)
def test_seconds_to_wait(wait: Callable[[npinfer.MicroBatch, Any], Any]) -> None:
    with load().microbatch() as mb:
        for seconds in ("1", "x", float("nan"), -1, -0.5, True, [1], 1j, np.zeros(2), LONG):
            refused(ArgumentError, r"microbatch.*\(timeout=.*needs seconds, at least 0, or None", lambda: wait(mb, seconds))  # noqa: B023
        assert mb.stats.samples == 0
        for seconds in (10, np.float32(10), np.int64(10), 1e300, float("inf"), None):
            if wait is not WAITS[-1]:
                wait(mb, seconds)
        wait(mb, 1e300)


@pytest.mark.parametrize("rtol", ["1e-5", "x", float("nan"), -1, None, True, [1e-5], 1j, LONG])
def test_tolerances(rtol: Any) -> None:
    model, x = load(), np.zeros((2, 6), np.float32)
    refused(ArgumentError, "check.rtol=.*needs a number of at least 0", lambda: model.check(x, model(x), rtol=rtol))
    assert model.check(x, model(x), rtol=np.float32(0)) == 0


CALLS: list[tuple[type[Exception], str, Callable[[npinfer.Model], Any]]] = [
    (ArgumentError, "submodel", lambda m: m.submodel(3)),  # type: ignore[arg-type]
    (ArgumentError, "submodel", lambda m: m.submodel([None])),  # type: ignore[list-item]
    (UnsupportedError, "no layer called", lambda m: m.submodel(LONG)),
    (ShapeError, "set_weights", lambda m: m.set_weights(3)),  # type: ignore[arg-type]
    (ShapeError, "set_weights", lambda m: m.set_weights(None)),  # type: ignore[arg-type]
    (FormatError, "no model file", lambda m: m.load_weights(3)),  # type: ignore[arg-type]
    (ArgumentError, "save.3", lambda m: m.save(3)),  # type: ignore[arg-type]
    (ArgumentError, "out=3", lambda m: npinfer.predict_file(m, np.zeros((2, 6)), 3)),  # type: ignore[arg-type]
    (FormatError, "no such file", lambda m: m.predict("nothing.npy")),
    (FormatError, "predict", lambda m: m.predict("")),
    (FormatError, "predict", lambda m: m.predict("a\0b")),
    (ShapeError, "no input called 'long", lambda m: m({LONG: 3})),
    (ArgumentError, "takes 1 arguments", lambda m: m.bind()()),
    (ShapeError, "state", lambda m: setattr(m.bind(), "state", 3)),
    (ShapeError, "state", lambda m: setattr(m.bind(), "state", [LONG])),
]


@pytest.mark.parametrize(("error", "text", "call"), CALLS)
def test_calls(error: type[Exception], text: str, call: Callable[[npinfer.Model], Any]) -> None:
    refused(error, text, lambda: call(load()))


def test_the_shell_says_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(DENSE), "nothing.npy", "-o", "y.npy", "--engine", "numpy"]) == 1
    assert capsys.readouterr().err == "npinfer: nothing.npy: no such file; needed are samples to predict\n"


# register_layer

REGISTERED: list[tuple[str, Callable[[], Any]]] = [
    ("needs the name of a class", lambda: npinfer.register_layer(3)),  # type: ignore[arg-type]
    ("needs the name of a class", lambda: npinfer.register_layer(None)),  # type: ignore[arg-type]
    ("needs the name of a class", lambda: npinfer.register_layer("")),
    ("needs the name of a class", lambda: npinfer.register_layer(lambda c, w: abs)),  # type: ignore[arg-type]
    ("registers a function", lambda: npinfer.register_layer("Nobody")(3)),  # type: ignore[arg-type]
    ("variables=3", lambda: npinfer.register_layer("Nobody", 3)),  # type: ignore[arg-type]
    ("variables='kernel'", lambda: npinfer.register_layer("Nobody", "kernel")),
    (r"variables=\[3\]", lambda: npinfer.register_layer("Nobody", [3])),  # type: ignore[list-item]
    ("mask='long", lambda: npinfer.register_layer("Nobody", mask=LONG)),
    ("replace=True", lambda: npinfer.register_layer("Dense")),
]


@pytest.mark.parametrize(("text", "call"), REGISTERED)
def test_registering_what_is_no_layer(text: str, call: Callable[[], Any]) -> None:
    refused(ArgumentError, text, call)
    assert "Nobody" not in CUSTOM


@pytest.mark.parametrize(
    "error", [KeyError("factor"), ValueError("no"), ZeroDivisionError(), ShapeError("mine"), Exception(LONG)]
)
def test_a_registered_function_that_raises(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CUSTOM, "Broken", raising=False)

    @npinfer.register_layer("Broken")
    def broken(config: Any, weights: Any) -> Any:
        raise error

    with pytest.raises(UnsupportedError, match="layer 'b': the function registered for layer class 'Broken' raised") as caught:
        lower(archive(Layer("Broken", "b", {}), [(4,)], {}))
    assert type(error).__name__ in str(caught.value)
    assert caught.value.__cause__ is error
    assert "config" not in str(caught.value)
    monkeypatch.delitem(CUSTOM, "Broken")


# what things are called


def test_values_are_shown_short() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown("a\nb") == r"'a\nb'"
    assert shown(Odd()) == "<Odd>"
    assert len(shown(LONG)) == len(shown(list(range(10**5)))) == SHOWN


@pytest.mark.parametrize("engine", ["reference", "numpy", "native"])
def test_bound_callables_say_what_they_are(engine: str) -> None:
    model = npinfer.load(PAIR, engine=engine)
    for step in (model.bind(batch=3), pickle.loads(pickle.dumps(model.bind(batch=3)))):
        assert repr(step) == (
            "<npinfer step: in_a: float32[6], in_b: float32[4] -> "
            f"{', '.join(map(str, model.outputs))}; bind(batch=3) of {model._archive.model.name!r}, engine {engine}>"
        )


def test_other_objects_say_what_they_are() -> None:
    model = load(engine="native")
    assert repr(model.jit) == (
        "<npinfer function for njit: input_layer: float32[6] -> dense_1: float32[3]; jit of 'sequential', engine native>"
    )
    with model.microbatch(max_size=7) as mb:
        assert repr(mb) == f"<npinfer.MicroBatch of 7: {model!r}>"
