"""One process's turn in a comparison of commits; uses npinfer's public interface alone, since it runs old commits too.

python child.py ENGINE,… MODEL.h5:STREAM …        prints {what: nanoseconds} as JSON
"""

import json
import sys
from pathlib import Path
from time import perf_counter_ns

import numpy as np

import npinfer

ROUND_NS = 20_000_000
ROUNDS = 5
BATCH = 1024


def least(call, *args):  # type: ignore[no-untyped-def]
    """The least mean time of a call over some rounds, in nanoseconds."""
    call(*args)
    start = perf_counter_ns()
    call(*args)
    count = max(1, ROUND_NS // max(perf_counter_ns() - start, 1))
    best = float("inf")
    for _ in range(ROUNDS):
        start = perf_counter_ns()
        for _ in range(count):
            call(*args)
        best = min(best, (perf_counter_ns() - start) / count)
    return best


def main() -> None:
    engines, models = sys.argv[1].split(","), sys.argv[2:]
    found = {}
    rng = np.random.default_rng(0)
    for entry in models:
        path, _, stream = entry.rpartition(":")
        name = Path(path).stem
        for engine in engines:
            try:
                model = npinfer.load(path, engine=engine)
            except npinfer.NpinferError:
                continue
            if stream == "1":
                step, x = model.bind(stream=True, reuse_output=True), rng.standard_normal(1).astype(np.float32)
                found[f"{name}, {engine}, one step"] = least(step, x)
                continue
            xs = [rng.standard_normal((BATCH, *s.shape)).astype(np.float32) for s in model.inputs]
            step = model.bind(reuse_output=True)
            found[f"{name}, {engine}, one sample"] = least(step, *(np.ascontiguousarray(x[0]) for x in xs))
            if len(xs) == 1 and xs[0].ndim == 2:
                found[f"{name}, {engine}, batch {BATCH}"] = least(model, xs[0])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
