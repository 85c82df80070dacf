"""npinfer's own files, turned against it: the text and the arrays are as untrusted as Keras's."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_files import outcome, pack

import npinfer
from npinfer import FormatError, LimitError
from npinfer.npz import save
from npinfer.readers.archive import Archive, Call, Layer, Model, TensorRef, Version

X = TensorRef("input", 0, 0)
MODEL = Model(
    "net",
    (
        Layer("InputLayer", "input", {"shape": (6,)}, (Call(),)),
        Layer("Dense", "dense", {"units": 3, "activation": "relu", "use_bias": True}, (Call((X,)),)),
    ),
    [X],
    [TensorRef("dense", 0, 0)],
)
WEIGHTS = {("dense",): {"kernel": np.ones((6, 3), "f4"), "bias": np.arange(3, dtype="f4")}}
ORDER = ((("dense",), "kernel"), (("dense",), "bias"))


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    x = np.ones((2, 6), "f4")
    path = tmp_path / "sound.npz"
    save(path, Archive(MODEL, WEIGHTS, ORDER, Version(3), "x"), {"dtype": None}, ([x], [x @ np.ones((6, 3), "f4") + [0, 1, 2]]))
    return path


def content(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as z:
        return {name: z.read(name) for name in z.namelist()}


def refuse(path: Path, kind: type[Exception], says: str) -> None:
    for call in (npinfer.read_weights, npinfer.load):
        error = outcome(lambda call=call: call(path))
        assert type(error) is kind, error
        assert says in str(error)


def test_sound(sound: Path) -> None:
    model = npinfer.load(sound)
    assert model(np.ones((1, 6), "f4")).tolist() == [[6, 7, 8]]


def npy(array: Any) -> bytes:
    memory = io.BytesIO()
    np.lib.format.write_array(memory, array, allow_pickle=True)
    return memory.getvalue()


def header(text: str, version: tuple[int, int] = (1, 0), body: bytes = b"") -> bytes:
    line = text.encode() + b"\n"
    return b"\x93NUMPY" + bytes(version) + len(line).to_bytes(2 if version[0] == 1 else 4, "little") + line + body


SHAPE = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"

ARRAYS: dict[str, tuple[bytes, type[Exception], str]] = {
    "objects": (npy(np.array([{}, ()], object)), FormatError, "needed are numbers"),
    "pickled bytes": (pickle.dumps([1]), FormatError, "damaged"),
    "text": (npy(np.array(["a", "b"])), FormatError, "needed are numbers"),
    "records": (npy(np.zeros(3, [("a", "f4")])), FormatError, "needed are numbers"),
    "dates": (npy(np.zeros(3, "M8[s]")), FormatError, "needed are numbers"),
    "more than there is": (header(SHAPE % "(1000000, 1000000)", body=bytes(72)), FormatError, "doesn't fit its"),
    "less than there is": (header(SHAPE % "(2,)", body=bytes(72)), FormatError, "doesn't fit its"),
    "negative sizes": (header(SHAPE % "(-6, -3)", body=bytes(72)), FormatError, "doesn't fit its"),
    "sizes no numbers": (header(SHAPE % "('a',)", body=bytes(72)), FormatError, "damaged"),
    "a call in the header": (header("{'descr': __import__('os').getcwd(), 'shape': (1,)}"), FormatError, "damaged"),
    "a long header": (header(SHAPE % ("(1," + " " * 5000 + ")"), (2, 0)), FormatError, "damaged"),
    "a deep header": (header("(" * 900), FormatError, "damaged"),
    "a later version": (header(SHAPE % "(1,)", (3, 0)), FormatError, "version (3, 0)"),
    "nothing": (b"", FormatError, "damaged"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(sound: Path, tmp_path: Path, name: str) -> None:
    data, kind, says = ARRAYS[name]
    refuse(pack(tmp_path / "bad.npz", {**content(sound), "dense/kernel.npy": data}), kind, says)


def test_bomb(sound: Path, tmp_path: Path) -> None:
    data = {**content(sound), "dense/kernel.npy": npy(np.zeros((5000, 5000), "f4"))}
    refuse(pack(tmp_path / "bad.npz", data, zipfile.ZIP_DEFLATED), LimitError, "asks for 100,")


def without(data: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {k: v for k, v in data.items() if k != name}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: without(d, "dense/kernel.npy"), "'dense/kernel' is missing"),
        (lambda d: without(d, "npinfer.json"), "arrays alone"),
        (lambda d: without(d, "check/in0.npy"), "'check/in0' is missing"),
        (lambda d: {**d, "run.py": b"x"}, "no place in npinfer's .npz"),
        (lambda d: {**d, "../x.npy": b"x"}, "leads out"),
    ],
)
def test_members(sound: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]], says: str) -> None:
    bad = pack(tmp_path / "bad.npz", change(content(sound)))
    error = outcome(lambda: npinfer.load(bad))
    assert type(error) is FormatError
    assert says in str(error)


def at(*path: Any) -> Callable[[Any, Any], None]:
    """Put a value at a place in the text."""

    def change(text: Any, value: Any) -> None:
        for key in path[:-1]:
            text = text[key]
        text[path[-1]] = value

    return change


MODEL_TEXT = ("archive", "model", "$", 1)
LAYER_TEXT = (*MODEL_TEXT, "layers", 1, "$", 1)
UNITS = (*LAYER_TEXT, "config", "units")

TEXTS: list[tuple[Callable[[Any, Any], None], list[Any], str]] = [
    (at("format"), ["other", None], "isn't npinfer's"),
    (at("version"), [2, None, "1", [1]], "reads version 1"),
    (at("meta"), [None, 5, {"dtype": "S9"}, {"dtype": 5}, {"outputs": "x"}, {"outputs": [1]}], "meta data"),
    (at("pairs"), [5, [1], {}], "meta data"),
    (at("pairs"), [[1, -1], [1, 10**9], [1, "x"], [True, 1]], "a count of arrays"),
    (at("constants"), [None, -1, 10**9], "a count of arrays"),
    (at("constants"), [1], "'constants/0' is missing"),
    (at("weights"), [None, ["dense/kernel", "dense/kernel"], {}], "one array each"),
    (at("weights"), [["dense/kernel"], []], "one array each"),
    (at("weights"), [["dense/kernel", 5], ["dense/kernel", "../x"]], "is missing"),
    (at("archive"), [None, [], 5], "missing or of the wrong type"),
    (at("archive", "model"), [None, []], "missing or of the wrong type"),
    (at("archive", "model"), [{}, {"$": ["tuple"]}], "no model"),
    (at("archive", "model"), [{"$": 5}, {"$": []}, {"$": [5]}, {"$": ["tuple"], "b": 1}], "has no kind"),
    (at("archive", "model"), [{"$": ["builtins.exec", "1"]}], "unknown kind 'builtins.exec'"),
    (at("archive", "model"), [{"$": ["model"]}, {"$": ["model", 5]}], "missing or of the wrong type"),
    (at("archive", "order"), [[5], [-1], [True], ["a"]], "order of weights"),
    (at("archive", "order"), [None], "missing or of the wrong type"),
    (at("archive", "weights", 0), [None, ["dense", "kernel"], [["dense"], 5], [[5], "kernel"]], "no pair of a path"),
    (at("archive", "weights", 0), [[["dense"], "bias"]], "one array each"),
    (at("archive", "version"), [None, 3], "missing or of the wrong type"),
    (at("archive", "version", "major"), [0, 4], "is not known"),
    (at("archive", "version", "numbers"), [["3"]], "is not known"),
    (at(*MODEL_TEXT, "layers"), [[5], [{"$": ["layer"]}], [None]], ""),
    (at(*MODEL_TEXT, "name"), [None, 5], "missing or of the wrong type"),
    (at(*MODEL_TEXT, "inputs"), [None, "input"], "missing or of the wrong type"),
    (at(*MODEL_TEXT, "outputs"), [[{"$": ["ref", "dense", "0", 0]}], [{"$": ["ref"]}]], "a reference to a tensor"),
    (at(*LAYER_TEXT, "config"), [None, []], "missing or of the wrong type"),
    (at(*LAYER_TEXT, "config"), [{"$": ["tuple"]}], "is no dict"),
    (
        at(*LAYER_TEXT, "config", "units"),
        [{"$": ["array", 0]}, {"$": ["array"]}, {"$": ["array", -1]}],
        "an array of the config",
    ),
    (at(*UNITS), [{"$": ["slice", 1]}], "a slice has"),
    (at(*UNITS), [{"$": ["ellipsis", 1]}], "an ellipsis has"),
    (
        at(*LAYER_TEXT, "config", "units"),
        [{"$": ["dict", [[], 1]]}, {"$": ["dict", [1]]}, {"$": ["dict", 5]}],
        "a dict's entry",
    ),
    (at(*LAYER_TEXT, "model"), [{"$": ["tuple"]}, {}], "its model is no model"),
    (at(*LAYER_TEXT, "name"), ["input"], "names of their own"),
    (at(*LAYER_TEXT, "calls"), [[5], [[[], []]], [[1, 2, 3]]], "no pair of arguments"),
    (at(*LAYER_TEXT, "calls"), [[[[], {"$": ["tuple"]}]]], "has no keywords"),
    (at(*LAYER_TEXT, "input_shape"), [[-1], ["a"], [1.5]], "a shape is"),
    (at(*LAYER_TEXT, "dtype"), [5], "missing or of the wrong type"),
    (at(*LAYER_TEXT, "trainable"), [1, None], "missing or of the wrong type"),
]
CASES = [(change, value, says) for change, values, says in TEXTS for value in values]


@pytest.mark.parametrize(("change", "value", "says"), CASES, ids=[str(k) for k in range(len(CASES))])
def test_texts(sound: Path, tmp_path: Path, change: Callable[[Any, Any], None], value: Any, says: str) -> None:
    data = content(sound)
    text = json.loads(data["npinfer.json"])
    change(text, value)
    refuse(pack(tmp_path / "bad.npz", {**data, "npinfer.json": json.dumps(text).encode()}), FormatError, says)


@pytest.mark.parametrize("raw", [b"", b"[]", b"5", b"\xff", b'{"format": "npinfer", "format": "npinfer"}'])
def test_raw_texts(sound: Path, tmp_path: Path, raw: bytes) -> None:
    refuse(pack(tmp_path / "bad.npz", {**content(sound), "npinfer.json": raw}), FormatError, "npinfer.json")


def test_deep_text(sound: Path, tmp_path: Path) -> None:
    bad = pack(tmp_path / "bad.npz", {**content(sound), "npinfer.json": b"[" * 10_000})
    refuse(bad, LimitError, "nested 10,000 deep")


def test_wrong_pairs(sound: Path, tmp_path: Path) -> None:
    """Check pairs that the weights don't give: one error, whatever their shapes are."""
    shapes = ((2, 3), (2, 4), (2, 5), (3,), (6,), (0, 3), (0, 6), (2, 1, 6), ())
    wrong = [np.zeros(shape, "f4") for shape in shapes] + [np.zeros((2, 3), "c16"), np.zeros((2, 6), "c16")]
    for name in ("check/in0.npy", "check/out0.npy"):
        for array in wrong:
            bad = pack(tmp_path / "bad.npz", {**content(sound), name: npy(array)})
            assert outcome(lambda bad=bad: npinfer.load(bad)) is not None, (name, array.shape)
