"""Models whose runs wait for the test, and the samples that wait for them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN

import npinfer
from npinfer.microbatch import MicroBatch

DENSE = "k35/t1-dense-inputlayer.h5"
LONG = 60.0  # seconds after which a test is stuck, however busy the machine


def samples(model: npinfer.Model, count: int) -> Any:
    return np.random.default_rng(5).normal(size=(count, *model.inputs[0].shape)).astype(np.float32)


class Gate:
    """Holds the model's runs until it is opened, so that what waits meanwhile is known."""

    def __init__(self, model: npinfer.Model, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.entered, self.sizes = threading.Event(), threading.Event(), []
        run = model._run

        def held(arrays: list[Any]) -> list[Any]:
            self.entered.set()
            assert self.open.wait(LONG)
            self.sizes.append(len(arrays[0]))
            return run(arrays)

        monkeypatch.setattr(model, "_run", held)


def held(monkeypatch: pytest.MonkeyPatch, max_queue: int) -> tuple[npinfer.Model, Gate, MicroBatch, Any]:
    """A microbatch whose worker is busy and whose queue is full."""
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    gate, x = Gate(model, monkeypatch), samples(model, 1)[0]
    mb = model.microbatch(max_size=1, max_delay_us=0, max_queue=max_queue)
    mb.submit(x)
    assert gate.entered.wait(LONG)
    for _ in range(max_queue):
        mb.submit(x)
    return model, gate, mb, x
