"""Every golden file, in every engine, against the outputs of the Keras that saved it.

Error allowed: 1e-5 of a row's scale, plus four times Keras's own float32 error where a float64 reference of the same network
exists. Half-precision policies, which npinfer computes in float32: the precision of the policy.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Case, cases

import npinfer
from npinfer.checking import flatten_outputs
from npinfer.graph import Array

CASES = cases()
#: adapted in float64 before its float32 weights were written: the file can't give the float64 outputs
FLOAT32_STATISTICS = ("Normalization-adapt",)
JUDGED = [c for c in CASES if c.files() and c.row["expect"] in ("ok", "ok-or-refuse")]
REFUSED = [c for c in CASES if c.row["expect"] == "refuse"]
HALF = {"bfloat16": 5e-2, "float16": 5e-3}  # about 2⁻⁸ and 2⁻¹¹, over a few layers


def load(path: Path, case: Case, **options: Any) -> npinfer.Model:
    if path.name.endswith((".wonly.h5", ".weights.h5", ".weights.json")) and case.architecture().exists():
        options["config"] = case.architecture()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", npinfer.NpinferWarning)
        return npinfer.load(path, **options)


def arrays(data: Any, batch: str, kind: str) -> list[Array]:
    return [data[f"{batch}_{kind}{k}"] for k in range(99) if f"{batch}_{kind}{k}" in data.files]


def run(model: npinfer.Model, xs: list[Array]) -> list[Array]:
    return list(flatten_outputs(model(xs[0] if len(xs) == 1 else xs)))


def assert_close(got: list[Array], want: list[Array], ref: list[Array], rtol: float, extreme: bool, where: str) -> None:
    assert len(got) == len(want), where
    for k, (g, w) in enumerate(zip(got, want)):
        assert g.shape == w.shape, f"{where}, output {k}"
        for i in range(len(w) if w.ndim else 0):
            row, mine = np.float64(w[i]), np.float64(g[i])
            judged = np.isfinite(row) & (np.abs(row) < 1e30)
            if not extreme:
                np.testing.assert_array_equal(np.where(judged, 0, row), np.where(judged, 0, mine), f"{where}, output {k}")
            slack = 0.0
            if ref:
                exact = np.float64(ref[k][i])
                judged &= np.isfinite(exact) & (np.abs(exact) < 1e30)
                slack = 4 * float(np.abs(row - exact)[judged].max(initial=0))
            scale = max(float(np.abs(row)[judged].max(initial=0)), 1e-30)
            error = np.abs(mine - row)[judged]
            assert (error <= rtol * scale + slack).all(), (
                f"{where}, output {k}, row {i}: off by {error.max():.3g} of {scale:.3g}"
            )


def bound_rows(model: npinfer.Model, xs: list[Array]) -> list[Array]:
    step = model.bind()
    rows = []
    for i in range(len(xs[0])):
        y = step(*(np.ascontiguousarray(x[i]) for x in xs))
        rows.append([np.array(a) for a in (y if isinstance(y, tuple) else (y,))])
    return [np.stack(column) for column in zip(*rows)]


@pytest.mark.parametrize("case", JUDGED, ids=str)
def test_outputs_are_those_of_keras(case: Case, engine: str) -> None:
    meta, data = case.io()
    rtol = next((r for name, r in HALF.items() if name in case.row["model"]), 1e-5)
    for path in case.files():
        model = load(path, case, engine=engine)
        for batch in meta["batches"]:
            if batch == "bq":  # NaN and infinity in: frameworks differ among themselves
                continue
            xs, want, ref = (arrays(data, batch, kind) for kind in ("in", "out", "ref"))
            if not want:
                continue
            where = f"{path.name}, {batch}"
            ref = ref if len(ref) == len(want) else []
            with np.errstate(all="ignore"):
                assert_close(run(model, xs), want, ref, rtol, batch == "bx", where)
                fixed = batch == "b5" and all(None not in s.shape for s in model.inputs)
                if fixed and all(len(x) == 5 for x in xs) and all(w.shape[:1] == (5,) for w in want):
                    assert_close(bound_rows(model, xs), want, ref, rtol, False, f"{where}, bind()")


@pytest.mark.parametrize("case", [c for c in JUDGED if c.row["rtol64"] and c.row["model"] not in FLOAT32_STATISTICS], ids=str)
def test_float64_is_exact(case: Case) -> None:
    """Against the float64 run of the same network, and between our own executors to 1e-12."""
    meta, data = case.io()
    path = case.files()[0]
    model, reference = (load(path, case, dtype="float64", engine=e) for e in ("numpy", "reference"))
    for batch in meta["batches"]:
        xs, want, ref = (arrays(data, batch, kind) for kind in ("in", "out", "ref"))
        if batch in ("bq", "bx", "s0", "s1") or not ref or len(ref) != len(want):
            continue
        got = run(model, xs)
        assert_close(got, ref, [], float(case.row["rtol64"]), False, f"{path.name}, {batch}")
        assert_close(got, run(reference, xs), [], 1e-12, False, f"{path.name}, {batch}, numpy against reference")


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused_by_name(case: Case) -> None:
    for path in case.files():
        with pytest.raises(npinfer.NpinferError) as caught:
            load(path, case)
        assert path.name in str(caught.value)
        if "extractable" in case.row["oddity"]:
            assert npinfer.read_weights(path)


@pytest.mark.parametrize("case", [c for c in JUDGED if c.row["env"] in ("k122", "k224", "tf215", "k3new")], ids=str)
def test_round_trip(case: Case, tmp_path: Path) -> None:
    """set_weights(get_weights()) changes nothing; saved and loaded again, the same outputs."""
    meta, data = case.io()
    batch = next(b for b in meta["batches"] if b not in ("bq", "bx"))
    xs = arrays(data, batch, "in")
    model = load(case.files()[-1], case, engine="numpy")
    before = run(model, xs)
    model.reset_states()
    model.set_weights(model.get_weights())
    assert_close(run(model, xs), before, [], 1e-7, False, "set_weights(get_weights())")
    model.reset_states()
    model.save(tmp_path / "again.npz", check=all(None not in s.shape for s in model.inputs))
    again = npinfer.load(tmp_path / "again.npz", engine="numpy")
    assert_close(run(again, xs), before, [], 1e-7, False, "saved and loaded")
