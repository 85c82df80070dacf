"""Results of predict in files: resumption after a break, and nothing left or lost by one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import feeding_files
import numpy as np
import pytest
from conftest import GOLDEN
from feeding_files import ROWS, Break, breaking, read

import npinfer
from npinfer import feeding
from npinfer.destination import replacing
from npinfer.errors import FormatError

model, x = feeding_files.model, feeding_files.x


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".parquet"])
def test_resume(model: npinfer.Model, x: Any, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"y{ending}"
    with pytest.raises(Break):
        npinfer.predict_file(model, breaking(x, 40), out, resume=True)
    assert not out.exists()
    written = npinfer.predict_file(model, breaking(x, 10_000), out, resume=True)
    assert (written.rows, written.resumed) == (ROWS, 40)
    np.testing.assert_allclose(read(out, [model.outputs[0].name])[0], model(x), rtol=1e-5, atol=1e-6)
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_resume_after_a_crash_in_a_chunk(model: npinfer.Model, x: Any, tmp_path: Path) -> None:
    """Rows beyond the journal's count are dropped: a crash may leave half a chunk."""
    with pytest.raises(Break):
        npinfer.predict_file(model, breaking(x, 40), tmp_path / "y.npy", resume=True)
    with open(tmp_path / "y.npy.part" / "0.npy", "ab") as f:
        f.write(b"half a row")
    assert npinfer.predict_file(model, breaking(x, 10_000), tmp_path / "y.npy", resume=True).resumed == 40
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("change", ["source", "model", "journal"])
def test_other_work_starts_anew(model: npinfer.Model, x: Any, tmp_path: Path, change: str) -> None:
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "y.npy"
    with pytest.raises(Break):
        npinfer.predict_file(model, breaking(x, 40), out, resume=True)
    other = model
    source: Any = breaking(x, 10_000)
    if change == "source":
        source = tmp_path / "x.npy"
    elif change == "model":
        other = npinfer.load(GOLDEN / "k35/t1-dense-inputlayer.h5", engine="reference")
        other.set_weights([w + 1 for w in other.get_weights()])
    else:
        (tmp_path / "y.npy.part" / feeding.JOURNAL).write_text('{"rows": "many"')
    assert npinfer.predict_file(other, source, out, resume=True).resumed == 0
    np.testing.assert_allclose(np.load(out), other(x), rtol=1e-5, atol=1e-6)


def test_failure_leaves_nothing(model: npinfer.Model, x: Any, tmp_path: Path) -> None:
    for ending in (".npy", ".npz", ".csv", ".parquet"):
        with pytest.raises(Break):
            npinfer.predict_file(model, breaking(x, 40), tmp_path / f"y{ending}")
    assert list(tmp_path.iterdir()) == []


def test_old_results_stay_until_new_ones_are_complete(model: npinfer.Model, x: Any, tmp_path: Path) -> None:
    out = tmp_path / "y.npy"
    out.write_bytes(b"old")
    with pytest.raises(Break):
        npinfer.predict_file(model, breaking(x, 40), out)
    assert out.read_bytes() == b"old"
    npinfer.predict_file(model, x, out)
    assert np.load(out).shape == (ROWS, *model.outputs[0].shape)
    (tmp_path / "plain").touch()
    assert out.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_input_is_never_overwritten(model: npinfer.Model, x: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x)
    os.symlink(tmp_path / "x.npy", tmp_path / "link.npy")
    for source, out in (("x.npy", "x.npy"), ("link.npy", "x.npy"), ("x.npy", "link.npy")):
        with pytest.raises(FormatError, match="is the input itself"):
            npinfer.predict_file(model, tmp_path / source, tmp_path / out)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)


def test_replacing_cleans_up(tmp_path: Path) -> None:
    def fail() -> None:
        with replacing(tmp_path / "a.txt") as temporary:
            temporary.write_text("x")
            raise Break

    with pytest.raises(Break):
        fail()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "no" / "a.txt"):
        pass
