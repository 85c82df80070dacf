"""Keras as a peer, in a process of its own: TensorFlow's threads and memory stay out of the others' way."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.graph import Array

if TYPE_CHECKING:
    from npinfer.bench.peers import Context


class KerasRunner:
    """`model.predict(x)` by default (what people call), `model(x)` with how="call"; every answer of the process is awaited, so
    it measures only in its turn."""

    def __init__(self, context: Context, how: str = "predict") -> None:
        from npinfer.bench.peers import Absent

        python = context.pythons.get("keras", sys.executable)
        if python == sys.executable and find_spec("keras") is None and find_spec("tensorflow") is None:
            raise Absent("not installed here; --python keras=/path/to/python names an interpreter that has it")
        path = context.files.get("keras", context.path)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self._save("samples.npz", context.pool(64))
        worker = Path(__file__).with_name("keras_worker.py")
        self.log = open(self.path / "log.txt", "w+", encoding="utf-8")  # noqa: SIM115 (closed in close)
        self.process = subprocess.Popen(
            [python, "-I", str(worker), path, str(context.threads), str(self.path / "samples.npz"), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        try:
            about = self._answer()
        except RuntimeError as e:
            self.close()
            raise Absent(f"its process ended: {e}") from None
        self.name = "keras" if how == "predict" else "keras model(x)"
        self.version, self.load, self.first = about["version"], about["load"], about["first"]
        self.note = "model.predict" if how == "predict" else "model(x)"

    def _save(self, name: str, arrays: Sequence[Array]) -> None:
        np.savez(self.path / name, **{f"s{k}": a for k, a in enumerate(arrays)})  # type: ignore[arg-type]

    def _ask(self, **order: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            said = [t.strip() for t in self.log.read().splitlines() if t.strip()]
            raise RuntimeError(said[-1][:200] if said else "without a word")
        return json.loads(line)

    def latency(self, count: int) -> Array:
        return np.array(self._ask(do="latency", count=count), np.int64)

    def loop(self, count: int) -> float:
        return float(self.latency(count).mean())

    def batch(self, rows: int, count: int) -> Array:
        return np.array(self._ask(do="batch", rows=rows, count=count), np.int64)

    def outputs(self, arrays: Sequence[Array]) -> list[Array]:
        self._save("in.npz", arrays)
        self._ask(do="outputs", inputs=str(self.path / "in.npz"), outputs=str(self.path / "out.npz"))
        with np.load(self.path / "out.npz") as file:
            return [file[k] for k in file.files]

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()
