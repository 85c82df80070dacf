"""Where an architecture may come from: a file of its own in every form, or a live Keras model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN
from saved_files import TWO, assert_same_list, dense, dense_entry

from npinfer import readers
from npinfer.errors import FormatError, LimitError, NpinferError, UnsupportedError
from npinfer.graph import Array
from npinfer.readers import order
from npinfer.readers.live import from_keras

FOLDER = GOLDEN / "k3new"
WEIGHTS, ARCHITECTURE = FOLDER / "t1-dense-inputlayer.weights.h5", FOLDER / "t1-dense-inputlayer.json"


@pytest.mark.parametrize(
    "config",
    [
        ARCHITECTURE,
        str(ARCHITECTURE),
        ARCHITECTURE.read_text(),
        ARCHITECTURE.read_bytes(),
        json.loads(ARCHITECTURE.read_text()),
        json.loads(ARCHITECTURE.read_text())["config"],
        json.dumps(ARCHITECTURE.read_text()),
        FOLDER / "t1-dense-inputlayer.h5",
        FOLDER / "t1-dense-inputlayer.keras",
    ],
    ids=["path", "str", "text", "bytes", "dict", "get_config", "twice", "h5", "keras"],
)
def test_architectures_in_every_form(config: Any) -> None:
    archive = readers.read(WEIGHTS, config)
    full = readers.read(FOLDER / "t1-dense-inputlayer.h5")
    assert_same_list(order.weights_to_list(archive), order.weights_to_list(full))


def test_a_sequentials_get_config_of_old_is_a_list() -> None:
    layers = [
        {"class_name": "Dense", "config": {"name": "a", "output_dim": 8, "batch_input_shape": [None, 6]}},
        dense_entry("b"),
    ]
    layers[1]["config"] = {"name": "b", "output_dim": 3}
    assert readers.read(GOLDEN / "k122" / "t1-dense-inputlayer.h5", layers).model.name == "sequential"


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (None, FormatError, "no architecture; pass that too"),
        (3.5, FormatError, "config is a float"),
        (WEIGHTS, FormatError, "holds no architecture"),
        ({"class_name": {1, 2}}, FormatError, "not plain data"),
        ("{", FormatError, "not valid JSON"),
        ("/no/such/file.json", FormatError, "no such file"),
    ],
)
def test_architectures_that_are_none(config: Any, error: type[NpinferError], message: str) -> None:
    with pytest.raises(error, match=message):
        readers.read(WEIGHTS, config)


def test_a_dict_without_end() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(LimitError, match="nested too deep"):
        readers.read(WEIGHTS, {"class_name": "Sequential", "config": deep})


class Variable:
    def __init__(self, name: str, value: Array) -> None:
        self.name, self.value = name, value


class FakeLayer:
    """What from_keras needs of a live layer."""

    def __init__(self, name: str, trainable: list[Variable], fixed: list[Variable]) -> None:
        self.name, self.trainable_weights, self.non_trainable_weights = name, trainable, fixed
        self.weights = trainable + fixed

    def get_weights(self) -> list[Array]:
        return [v.value for v in self.weights]


class FakeModel(FakeLayer):
    built = True

    def __init__(self, config: Any, layers: list[FakeLayer]) -> None:
        super().__init__("live", [], [])
        self.config, self.layers = config, layers

    def to_json(self) -> str:
        return json.dumps(self.config)


def live() -> FakeModel:
    layers = [FakeLayer(n, [Variable(k, a) for k, a in held], []) for n, held in (dense("a"), dense("b", 2))]
    return FakeModel({**TWO, "keras_version": "2.2.4"}, layers)


def test_a_live_model_is_copied() -> None:
    keras_model = live()
    archive = from_keras(keras_model)
    value = keras_model.layers[0].weights[0].value
    np.testing.assert_array_equal(archive.weights["a",]["kernel"], value)
    value[:] = 0
    assert archive.weights["a",]["kernel"].any()
    assert archive.version.numbers == (2, 2, 4)


def test_live_models_that_are_none() -> None:
    with pytest.raises(FormatError, match="int is no Keras model"):
        from_keras(3)
    unbuilt = live()
    unbuilt.built = False
    with pytest.raises(FormatError, match="not built yet"):
        from_keras(unbuilt)


def test_a_live_model_that_cannot_be_written_down() -> None:
    class Silent(FakeModel):
        def to_json(self) -> str:
            raise NotImplementedError("no get_config")

    with pytest.raises(FormatError, match="can't be written down"):
        from_keras(Silent({}, []))


def test_live_layers_with_borrowed_names() -> None:
    keras_model = live()
    keras_model.layers[0].__class__ = type("Dense", (FakeLayer,), {"__module__": "mine"})
    with pytest.raises(UnsupportedError, match=r"'a' \(mine.Dense\): a custom class with a built-in's name"):
        from_keras(keras_model)


def test_the_version_of_a_live_model_may_be_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    package = types.ModuleType("keras")
    package.__version__ = "3.9.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keras", package)
    keras_model = live()
    keras_model.config = TWO
    keras_model.__class__ = type("Functional", (FakeModel,), {"__module__": "keras.src.models.functional"})
    assert from_keras(keras_model).version.numbers == (3, 9, 0)
