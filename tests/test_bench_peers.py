"""The peers of bench: the same numbers from each, and reasons where one is absent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_files import DENSE, PAIR
from conftest import GOLDEN

import npinfer
from npinfer.bench import peers
from npinfer.checking import flatten_outputs
from npinfer.graph import Array

JAX = [
    str(GOLDEN / f"k3new/{name}.h5")
    for name in (
        "t1-act-gelu", "t1-Embedding-Flatten-Dense", "t1-ln", "t2-dueling", "t3-conv2d-lenet",
        "t3-averagepool2d-same", "t3-maxpool1d-same", "t3-conv1d-causal", "t3-depthwise-mult2-same", "t3-lstm-backwards-seq",
        "t3-gru-return_state", "t1-dense-f64",
    )
]  # fmt: skip


def context(path: str, **changes: Any) -> peers.Context:
    model = npinfer.load(path, engine="numpy")

    def pool(rows: int) -> list[Array]:
        rng = np.random.default_rng(0)
        return [np.abs(rng.normal(size=(rows, *(n or 8 for n in s.shape)))).astype(s.dtype) for s in model.inputs]

    samples = [tuple(x[k] for x in pool(4)) for k in range(4)]
    made = peers.Context(model, path, {}, {}, 1, pool, samples)
    return made._replace(**changes)


def test_inputs_are_matched() -> None:
    c = context(PAIR)  # in_a (6,), in_b (4,)
    assert peers.match(["in_b", "in_a"], [[1, 4], [1, 6]], c) == [1, 0]
    assert peers.match(["serving_default_in_b:0", "serving_default_in_a:0"], [[-1, 4], [-1, 6]], c) == [1, 0]
    assert peers.match(["p", "q"], [["n", 4], ["n", 6]], c) == [1, 0]
    with pytest.raises(peers.Absent, match="3 inputs"):
        peers.match(["p", "q", "r"], [["n", 4], ["n", 6], ["n", 6]], c)


@pytest.mark.parametrize("path", [DENSE, PAIR, *JAX], ids=lambda p: Path(p).stem)
def test_jax_has_the_same_numbers(path: str) -> None:
    """Chains and graphs, several inputs and outputs, convolutions, pooling, recurrent layers, an embedding, normalization."""
    c = context(path)
    runner = peers.open_peer("jax", c)
    x = c.pool(8)
    want = list(flatten_outputs(c.model(x if len(x) > 1 else x[0])))
    for got, y in zip(runner.outputs(x), want, strict=True):
        np.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-5)
    assert runner.batch(3, 1)
    runner.close()


def test_what_jax_cannot_run_is_named() -> None:
    with pytest.raises(peers.Absent, match=r"StepsKept \(layer 'masking'\) has no form in JAX here"):
        peers.open_peer("jax", context(str(GOLDEN / "k3new/t3-mask-lstm.h5")))


def test_a_traced_array_refuses_what_would_be_wrong() -> None:
    from npinfer.bench.jax_net import Traced

    x = Traced(np.ones(3, np.float32))
    for wrong in (
        lambda: np.add(x, 1, out=np.zeros(3)),
        lambda: np.asarray(x),
        lambda: bool(x),
        lambda: np.add.reduceat(x, [0]),
    ):
        with pytest.raises(TypeError):
            wrong()
    y = x
    y += 1  # a new array, as JAX has it
    assert (x.value[0], y.value[0], len(y)) == (1, 2, 3)


def test_peers_say_why_they_are_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("onnxruntime", "jax", "litert"):
        with monkeypatch.context() as patched:
            for module in (name, "ai_edge_litert.interpreter", "tensorflow"):
                patched.setitem(sys.modules, module, None)
            with pytest.raises(peers.Absent, match="not installed"):
                peers.open_peer(name, context(DENSE))
    junk = tmp_path / "junk.tflite"
    junk.write_bytes(b"junk")
    with pytest.raises(peers.Absent):
        peers.open_peer("litert", context(DENSE, files={"litert": str(junk)}))
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such thing >&2\n")
    python.chmod(0o755)
    with pytest.raises(peers.Absent, match="its process ended: no such thing"):
        peers.open_peer("keras", context(DENSE, pythons={"keras": str(python)}))


KERAS = """
import numpy as np
__version__ = "0.0"
class Model:
    def predict(self, x, verbose=0):
        return 2 * x
    __call__ = predict
class models:
    @staticmethod
    def load_model(path, compile):
        print("chatter that must not reach the answers")
        return Model()
"""


TENSORFLOW = """
import sys
print("chatter that must not reach standard output")
class keras:
    class models:
        @staticmethod
        def load_model(path, compile):
            if "refuse" in path:
                raise ValueError("unknown layer")
            return path
class lite:
    class TFLiteConverter:
        def __init__(self, model):
            self.model = model
        @classmethod
        def from_keras_model(cls, model):
            return cls(model)
        def convert(self):
            return b"TFL3 of " + self.model.encode()
"""


def test_tflite_is_made_where_tensorflow_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By a TensorFlow of a few lines, in the process of the interpreter that was given."""
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    c = context(DENSE, pythons={"litert": str(python)})
    assert peers._tflite(c) == b"TFL3 of " + DENSE.encode()
    with pytest.raises(peers.Absent, match=r"ValueError: unknown layer\); pass --model litert=FILE"):
        peers._tflite(c._replace(path="refuse.h5"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["predict", "call"])
def test_keras_in_a_process(tmp_path: Path, how: str) -> None:
    """The worker with a Keras of eight lines: the protocol, not Keras, is under test."""
    from npinfer.bench.keras_peer import KerasRunner

    (tmp_path / "keras.py").write_text(KERAS)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    runner = KerasRunner(context(DENSE, pythons={"keras": str(python)}), how)
    try:
        x = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
        np.testing.assert_array_equal(runner.outputs([x])[0], 2 * x)
        assert len(runner.latency(5)) == 5
        assert len(runner.batch(100, 2)) == 2
        assert runner.loop(2) > 0
        assert runner.version == "0.0"
    finally:
        runner.close()
    assert runner.process.poll() == 0


def test_the_worker_is_alone() -> None:
    """It runs in other environments, so it imports nothing of npinfer and parses under old Pythons."""
    path = Path(peers.__file__).with_name("keras_worker.py")
    text = path.read_text()
    assert "npinfer" not in text.partition('"""')[2].partition('"""')[2]
    compile(text, str(path), "exec")


def test_layers_written_by_hand() -> None:
    c = context(DENSE)
    runner = peers.open_peer("numpy", c)
    assert runner.note == "f(x @ W + b)"
    xs = c.pool(5)
    np.testing.assert_allclose(runner.outputs(xs)[0], c.model(xs[0]), rtol=1e-5, atol=1e-6)
    with pytest.raises(peers.Absent, match="chains of Dense layers"):
        peers.open_peer("numpy", context(str(GOLDEN / "k3new/t3-mask-lstm.h5")))
