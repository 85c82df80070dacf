"""npinfer itself as runners: each engine behind the same interface as the peers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from npinfer.bench.measure import Local
from npinfer.checking import flatten_outputs
from npinfer.executors import make_executor
from npinfer.executors.signature import fix, sizes
from npinfer.graph import Array, Graph
from npinfer.model import Model


def open_engine(
    load: Callable[[], Model],
    samples: Sequence[tuple[Array, ...]],
    pool: Callable[[int], Sequence[Array]],
    shape: Any,
    stream: bool,
) -> tuple[Local, Model]:
    """A runner for one engine: bind(reuse_output=True) for one sample; batches by model(x) or bind(batch=n), the faster."""
    start = perf_counter()
    model = load()
    took = perf_counter() - start
    step = model.bind(reuse_output=True, shape=shape, stream=stream)

    def many(arrays: Sequence[Array]) -> Callable[[], Sequence[Any]]:
        given: Any = arrays[0] if len(arrays) == 1 else list(arrays)
        fixed = model.bind(batch=len(arrays[0]), shape=shape)

        def call() -> Any:
            return list(flatten_outputs(model(given)))

        def bound() -> Any:
            y = fixed(*arrays)
            return y if isinstance(y, tuple) else (y,)

        return min(call, bound, key=quickest)

    stateful = bool(model._graph.states)
    note = "bind(stream=True)" if stream else "bind(reuse_output=True)"
    note += f", {len(model._executor.uncovered())} op(s) by NumPy" if model._executor.uncovered() else ""
    runner = Local(f"npinfer {model.engine}", "", step, samples, None if stream or stateful else many, pool, took, note)
    return runner, model


def quickest(call: Callable[[], Any], times: int = 5) -> float:
    """The least of some times of a call, in seconds."""
    found = []
    for _ in range(times):
        start = perf_counter()
        call()
        found.append(perf_counter() - start)
    return min(found)


def door(model: Model, shapes: Sequence[Sequence[int]]) -> float | None:
    """Nanoseconds of a call of an empty network with the same inputs: what the interface costs. None where an engine can't
    run one."""
    count = len(model._graph.inputs) - len(model._graph.states)
    specs = fix(model._graph.inputs[:count], shapes)
    try:
        step = make_executor(model.engine, Graph(specs, (), (0,))).bind(None, True, lambda: None)
        samples = [tuple(np.zeros(sizes(s), s.dtype) for s in specs)]
        step(*samples[0])
    except Exception:
        return None
    from npinfer.bench.measure import tight

    return min(tight(step, samples, 2000) for _ in range(5)) / 2000


START = """
import json, sys, time
t0 = time.perf_counter()
import numpy as np
t1 = time.perf_counter()
import npinfer
model = npinfer.load({path!r}, {config!r}, engine={engine!r})
t2 = time.perf_counter()
step = model.bind(shape={shape!r})
xs = [np.zeros(s, d) for s, d in {inputs!r}]
t3 = time.perf_counter()
step(*xs)
t4 = time.perf_counter()
print(json.dumps(dict(numpy=t1 - t0, load=t2 - t1, bind=t3 - t2, first=t4 - t3)))
"""


def cold_start(path: str, config: Any, engine: str, shape: Any, inputs: Any, times: int = 3) -> dict[str, float] | None:
    """Seconds of a new process from its start to its first result (the best of some), and the parts of that. None where such a
    process fails."""
    code = START.format(path=path, config=config, engine=engine, shape=shape, inputs=inputs)
    best: dict[str, float] | None = None
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}
    for _ in range(times):
        start = perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
        whole = perf_counter() - start
        if done.returncode:
            return None
        if best is None or whole < best["whole"]:
            best = {"whole": whole, **json.loads(done.stdout.splitlines()[-1])}
    return best
