"""Run by the interpreter that has Keras, not imported by npinfer: measures on command, one JSON line a command and an answer.

Arguments: the model's file, the number of threads, an .npz with samples (s0, s1, …: (k, …)), the call: "predict" or "call".
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = sys.argv[2]
# what Keras prints must not mix with the answers
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import numpy as np  # noqa: E402 (after the environment)


def main() -> None:
    path, threads, samples_path, how = sys.argv[1:5]
    try:
        import keras
    except ImportError:
        from tensorflow import keras
    try:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(int(threads))
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except ImportError:
        pass
    start = time.perf_counter()
    model = keras.models.load_model(path, compile=False)
    load = time.perf_counter() - start
    with np.load(samples_path) as file:
        inputs = [file[f"s{k}"] for k in range(len(file.files))]

    def pack(arrays: list[Any]) -> Any:
        return arrays[0] if len(arrays) == 1 else list(arrays)

    def call(arrays: list[Any]) -> Any:
        if how == "predict":
            return model.predict(pack(arrays), verbose=0)
        return model(pack(arrays))

    def wait(result: Any) -> list[Any]:
        several = result.values() if isinstance(result, dict) else result if isinstance(result, (list, tuple)) else [result]
        return [np.asarray(y) for y in several]

    ones = [[x[k : k + 1] for x in inputs] for k in range(len(inputs[0]))]
    start = time.perf_counter()
    wait(call(ones[0]))
    first = time.perf_counter() - start
    answer({"version": keras.__version__, "load": load, "first": first})
    batches: dict[int, list[Any]] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "latency":
            times = []
            for k in range(order["count"]):
                x = ones[k % len(ones)]
                start = time.perf_counter_ns()
                wait(call(x))
                times.append(time.perf_counter_ns() - start)
            answer(times)
        elif order["do"] == "batch":
            rows = order["rows"]
            if rows not in batches:
                batches[rows] = [np.concatenate([x] * (-(-rows // len(x))))[:rows] for x in inputs]
                wait(call(batches[rows]))
            times = []
            for _ in range(order["count"]):
                start = time.perf_counter_ns()
                wait(call(batches[rows]))
                times.append(time.perf_counter_ns() - start)
            answer(times)
        elif order["do"] == "outputs":
            with np.load(order["inputs"]) as file:
                arrays = [file[f"s{k}"] for k in range(len(file.files))]
            np.savez(order["outputs"], **{f"y{k}": y for k, y in enumerate(wait(call(arrays)))})
            answer("ok")


def answer(value: object) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
