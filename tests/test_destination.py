"""Places where results go: messages name the path that the user gave, never a temporary file; nothing is left behind."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npinfer
from npinfer import destination
from npinfer.cli import main

GOLDEN = Path(__file__).resolve().parent / "golden"
DENSE = str(GOLDEN / "k35/t1-dense-inputlayer.h5")
SHORT = ("-q", "--engines", "numpy", "--calls", "20", "--rounds", "1", "--batches", "1", "--starts", "0")
PREDICT = ("predict", DENSE, "x.npy", "--engine", "numpy")
#: each command that writes, and the ending of what it writes
WRITERS = {
    "extract": (["extract", DENSE, "OUT"], ".npz"),
    "convert": (["convert", DENSE, "OUT", "--engine", "numpy"], ".npz"),
    "export": (["export", DENSE, "OUT"], ".onnx"),
    **{
        f"predict {e}": (["predict", DENSE, "x.npy", "-o", "OUT", "--engine", "numpy"], e)
        for e in (".npy", ".npz", ".csv", ".pq")
    },
    "predict --resume": (["predict", DENSE, "x.npy", "-o", "OUT", "--engine", "numpy", "--resume"], ".npy"),
    **{f"bench --{k}": (["bench", DENSE, *SHORT, f"--{k}", "OUT"], f".{k}") for k in ("json", "csv")},
    "bench --plot": (["bench", DENSE, *SHORT, "--plot", "OUT"], ".svg"),
    "profile --json": (["profile", DENSE, "-q", "--engine", "numpy", "--json", "OUT"], ".json"),
    "profile --plot": (["profile", DENSE, "-q", "--engine", "numpy", "--plot", "OUT"], ".html"),
}


def refusing(place: str) -> Any:
    """As the system, in a folder where nothing can be made."""

    def make(suffix: str | None = None, prefix: str | None = None, dir: Any = None) -> Any:
        name = f"{prefix or ''}q3x{suffix or ''}"
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.path.join(place, name))

    return make


def failed(capsys: pytest.CaptureFixture[str], args: list[str], out: str) -> str:
    assert main([out if a == "OUT" else a for a in args]) == 1
    printed, error = capsys.readouterr()
    assert printed == ""
    assert error.startswith(f"npinfer: {out}: ")
    assert len(error.splitlines()) == 1
    return error


@pytest.mark.parametrize("what", WRITERS)
def test_places_that_refuse(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((3, 6), np.float32))
    args, ending = WRITERS[what]
    for out in (f"y{ending}", str(tmp_path / f"{'long' * 60}{ending}")):
        with monkeypatch.context() as patch:
            for name in ("mkstemp", "mkdtemp"):
                patch.setattr(tempfile, name, refusing(str(tmp_path)))
            if "--resume" in args:
                patch.setattr(Path, "mkdir", lambda p: refusing(str(p))())
            error = failed(capsys, args, out)
        assert error.endswith("can't be written: Permission denied; choose another place\n")
    (tmp_path / f"folder{ending}").mkdir()
    assert "is a folder; needed is the name of a file in it" in failed(capsys, args, f"folder{ending}")
    assert main([str(tmp_path / "no" / f"y{ending}") if a == "OUT" else a for a in args]) == 1
    assert capsys.readouterr().err == f"npinfer: {tmp_path / 'no'}: no such folder; make it first\n"
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".part") == [f"folder{ending}", "x.npy"]


def test_a_full_disk(tmp_path: Path) -> None:
    """The system names no file when a write fails."""
    place = tmp_path / "a.txt"
    for number in destination.WHILE_WRITING:
        with pytest.raises(OSError, match="can't be written") as caught, destination.replacing(place):
            raise OSError(number, os.strerror(number))
        assert caught.value.filename == str(place)
        assert caught.value.errno == number
    assert list(tmp_path.iterdir()) == []


def test_errors_of_other_files_stay_theirs(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, destination.replacing(tmp_path / "a.txt"):
        (tmp_path / "b.txt").read_text("utf-8")
    assert caught.value.filename == str(tmp_path / "b.txt")
    assert list(tmp_path.iterdir()) == []


def test_names_of_the_greatest_length(tmp_path: Path) -> None:
    model = npinfer.load(DENSE, engine="numpy")
    path = tmp_path / f"{'n' * 251}.npz"
    model.save(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert npinfer.load(path).engine


def test_links_stay_links(tmp_path: Path) -> None:
    os.symlink(tmp_path / "file.npz", tmp_path / "link.npz")
    assert main(["extract", DENSE, str(tmp_path / "link.npz")]) == 0
    assert (tmp_path / "link.npz").is_symlink()
    assert not (tmp_path / "file.npz").is_symlink()
    assert np.load(tmp_path / "file.npz").files


@pytest.mark.parametrize("command", ["extract", "export"])
def test_a_pipe_is_written_to(command: str, tmp_path: Path) -> None:
    """A rename would put a file in its place, and /dev/null would be one from then on."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert main([command, DENSE, str(pipe)]) == 0
    reader.join(60)
    assert pipe.is_fifo()
    assert len(read[0]) > 500
    assert list(tmp_path.iterdir()) == [pipe]
