"""Calls of bound callables with random, hostile arguments: `python fuzz_step.py SECONDS [SEED]`."""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from standin import Standin, compiled

from npinfer.errors import NpinferError

DTYPES = ["f4", "f8", ">f4", "i4", "f2", "c8", "O", "S3", "M8[s]", "?", "f4,f4", "U1", "u1", "V4"]


class Evil(np.ndarray):
    def __array_finalize__(self, other: Any) -> None:
        if isinstance(other, Evil) and np.random.default_rng().random() < 0.01:
            raise RuntimeError("no")


class Liar:
    """Says it is an array, in several ways."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.mode = rng.integers(4)

    @property
    def __array_interface__(self) -> Any:
        if self.mode == 0:
            raise AttributeError
        return {"shape": (4,), "typestr": "<f4", "version": 3, "data": (X.ctypes.data, False)} if self.mode == 1 else {}

    def __len__(self) -> int:
        return 4

    def __getitem__(self, k: Any) -> Any:
        if self.mode == 3:
            raise KeyError(k)
        if isinstance(k, int) and k >= 4:
            raise IndexError(k)
        return float(k) if isinstance(k, int) else iter(())

    def __float__(self) -> float:
        gc.collect()
        return 1.0


X = np.ones(4, np.float32)


def value(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Something that may or may not be an array of that shape."""
    kind = rng.integers(16)
    good = np.arange(max(int(np.prod(shape)), 0), dtype=np.float32).reshape(shape)
    if kind < 4:
        return good
    if kind == 4:
        return rng.choice(np.array([None, 1, 2.5, "text", (), object(), np.ndarray, np.dtype("f4"), b"x", Ellipsis], object))
    if kind == 5:
        return good.astype(rng.choice([d for d in DTYPES if d not in ("f4,f4", "V4", "M8[s]", "c8")]))
    if kind == 6:
        return np.zeros(shape, rng.choice(DTYPES))
    if kind == 7:
        return np.zeros(tuple(rng.integers(0, 4, rng.integers(0, 6))), np.float32)
    if kind == 8:
        return good.view(Evil) if rng.random() < 0.5 else Liar(rng)
    if kind == 9:
        return np.zeros((*shape, 2), np.float32)[..., 0]
    if kind == 10:
        raw = np.zeros(good.nbytes + 1, np.uint8)[1:]
        return raw.view(np.float32).reshape(shape)
    if kind == 11:
        good.flags.writeable = False
        return good
    if kind == 12:
        big = np.zeros(1000, np.float32)
        big.resize(good.size, refcheck=False)
        return big.reshape(shape)
    if kind == 13:
        return np.broadcast_to(np.zeros((), np.float32), shape)
    if kind == 14:
        return np.asfortranarray(good)
    return good.tolist()


def main(seconds: float, seed: int) -> None:
    rng, code = np.random.default_rng(seed), compiled()
    plans = [
        ([(4,)], [(2,)], 0),
        ([(2, 3), ()], [(2,), (1, 3)], 0),
        ([(3,), (3,)], [(3,), (3,)], 1),
        ([(1,)] * 5, [(2,)] * 4, 0),
    ]
    nets = [
        Standin(code, i, o, states=s, scratch=(int(rng.choice([64, 20_000])), 0), work=w)
        for i, o, s in plans
        for w in (1, 1 << 40)
    ]
    ends, calls, answers = time.monotonic() + seconds, 0, 0
    memory = np.zeros(64, np.float32)
    while time.monotonic() < ends:
        net = nets[rng.integers(len(nets))]
        step = net.bind(None if rng.random() < 0.5 else int(rng.integers(1, 4)), bool(rng.integers(2)))
        signature = step.signature
        shapes = [*signature.input_shapes, *signature.output_shapes]
        k = len(signature.inputs)
        for _ in range(40):
            count = [k, len(shapes), int(rng.integers(0, 12))][rng.integers(3)]
            args = [value(rng, shapes[j] if j < len(shapes) else (2,)) for j in range(count)]
            if rng.random() < 0.2:  # views of one memory
                args = [
                    memory[s : s + int(np.prod(shapes[j]))].reshape(shapes[j]) if j < len(shapes) else memory
                    for j, s in enumerate(rng.integers(0, 30, count))
                ]
            keywords = {"out": X} if rng.random() < 0.02 else {}
            given = [np.array(a, copy=True) if type(a) is np.ndarray else None for a in args[:k]]
            calls += 1
            try:
                got = step(*args, **keywords)
            except (NpinferError, TypeError, RuntimeError, ValueError, KeyError):
                continue
            answers += 1
            if not net.graph.states and all(g is not None and g.dtype == np.float32 for g in given):
                single = signature.rows is None
                with np.errstate(all="ignore"):
                    want = net.graph(*(g[None] if single else g for g in given))
                for a, b in zip(got if isinstance(got, tuple) else (got,), want):
                    np.testing.assert_allclose(np.asarray(a).real, b[0] if single else b, rtol=1e-3)
        if rng.random() < 0.05:
            gc.collect()
    print(f"{calls} calls, {answers} answers")
    assert answers > calls // 50


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
