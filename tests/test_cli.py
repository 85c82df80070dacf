"""The command line: results on stdout, one-line errors on stderr, exit codes 0, 1 and 2."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npinfer
from npinfer.cli import main
from npinfer.cli_parser import make_parser
from npinfer.errors import NpinferWarning

GOLDEN = Path(__file__).resolve().parent / "golden"
DENSE = str(GOLDEN / "k35/t1-dense-inputlayer.h5")
PAIR = str(GOLDEN / "k3np/t2-multi-io.h5")
WEIGHTS = GOLDEN / "k3new/t1-Normalization-adapt"
NUMPY = ("--engine", "numpy")


class Ran:
    """What a command printed and returned."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> Ran:
        code = main([str(a) for a in args])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return call


@pytest.fixture
def io_file(tmp_path: Path) -> tuple[npinfer.Model, Path]:
    """Inputs and the outputs of the pair model as tools/export_reference.py writes them."""
    model = npinfer.load(PAIR, engine="numpy")
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(20, *s.shape)).astype(np.float32) for s in model.inputs]
    y = model(x)
    path = tmp_path / "io.npz"
    np.savez(path, x0=x[0], x1=x[1], y0=y[0], y1=y[1])
    return model, path


def test_inspect(run: Any) -> None:
    shown = run("inspect", DENSE, *NUMPY)
    assert (shown.code, shown.err) == (0, "")
    assert "engine numpy" in shown.out
    found = json.loads(run("inspect", PAIR, "--json", *NUMPY).out)
    assert [i["name"] for i in found["inputs"]] == ["in_a", "in_b"]
    assert found["weights"] > 0
    assert found["layers"]


def test_inspect_weights_alone(run: Any) -> None:
    needs = run("inspect", f"{WEIGHTS}.wonly.h5", *NUMPY)
    assert needs.code == 1
    assert run("inspect", f"{WEIGHTS}.wonly.h5", "--config", f"{WEIGHTS}.json", *NUMPY).code == 0
    listed = run("inspect", f"{WEIGHTS}.wonly.h5", "--weights")
    assert listed.code == 0
    assert "kernel" in listed.out
    assert {r["dtype"] for r in json.loads(run("inspect", DENSE, "--weights", "--json").out)} == {"float32"}


def test_convert_extract_check(run: Any, tmp_path: Path) -> None:
    assert run("convert", DENSE, "m.npz", "--check", *NUMPY).code == 0
    assert run("check", "m.npz", *NUMPY).code == 0
    assert run("extract", DENSE, "w.npz").code == 0
    model = npinfer.load(DENSE, engine="numpy")
    with np.load(tmp_path / "w.npz") as weights:
        assert sum(weights[k].size for k in weights.files) == sum(w.size for w in model.get_weights())
    assert run("convert", f"{WEIGHTS}.wonly.h5", "n.npz", "--config", f"{WEIGHTS}.json", *NUMPY).code == 0


def test_check_against(run: Any, io_file: tuple[npinfer.Model, Path]) -> None:
    _, path = io_file
    good = run("check", PAIR, "--against", path, *NUMPY)
    assert good.code == 0
    assert "largest error" in good.out
    with np.load(path) as file:
        arrays = dict(file)
    arrays["y1"] = arrays["y1"] + 1
    np.savez("bad.npz", **arrays)
    bad = run("check", PAIR, "--against", "bad.npz", *NUMPY)
    assert bad.code == 1
    assert "output 'val': off by" in bad.err
    assert bad.out == ""
    np.savez("named.npz", in_a=arrays["x0"], in_b=arrays["x1"], cls=arrays["y0"], val=arrays["y1"] - 1)
    assert run("check", PAIR, "--against", "named.npz", *NUMPY).code == 0
    np.savez("less.npz", x0=arrays["x0"])
    less = run("check", PAIR, "--against", "less.npz", *NUMPY)
    assert less.code == 1
    assert "needs 'in_a', 'in_b'" in less.err


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
def test_predict_by_name_and_position(run: Any, io_file: tuple[npinfer.Model, Path], ending: str, tmp_path: Path) -> None:
    _, path = io_file
    with np.load(path) as file:
        np.save("a.npy", file["x0"])
        np.save("b.npy", file["x1"])
    results = []
    for given in (["in_b=b.npy", "in_a=a.npy"], ["a.npy", "b.npy"], [path]):
        done = run("predict", PAIR, *given, "-o", f"y{ending}", *NUMPY)
        assert (done.code, done.err) == (0, "")
        assert "20 samples" in done.out
        if ending == ".npz":
            with np.load(tmp_path / "y.npz") as results_file:
                results.append({k: results_file[k] for k in results_file.files})
    for r in results:
        np.testing.assert_array_equal(r["cls"], results[0]["cls"])


def test_predict_to_stdout(run: Any, io_file: tuple[npinfer.Model, Path]) -> None:
    model, path = io_file
    shown = run("predict", PAIR, path, *NUMPY)
    assert shown.code == 0
    head, *lines = shown.out.splitlines()
    assert head == "cls_0,cls_1,cls_2,val"
    with np.load(path) as file:
        got = np.array([[np.float32(v) for v in line.split(",")] for line in lines])
        np.testing.assert_array_equal(got, np.concatenate([file["y0"], file["y1"]], 1))
    assert model.outputs[0].name == "cls"


def test_predict_from_stdin(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    npy = io.BytesIO()
    np.save(npy, x)
    texts = "\n".join(",".join(map(str, row.tolist())) for row in x)
    shown = []
    for data in (npy.getvalue(), texts.encode()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        done = run("predict", DENSE, "-", *NUMPY)
        assert done.code == 0
        shown.append(done.out)
    assert shown[0] == shown[1]


def test_predict_resumes(run: Any) -> None:
    np.save("x.npy", np.zeros((5, 6), np.float32))
    assert run("predict", DENSE, "x.npy", "-o", "y.npy", "--resume", *NUMPY).code == 0
    assert np.load("y.npy").shape[0] == 5


def test_header_options(run: Any) -> None:
    Path("x.csv").write_text("1,2,3,4,5,6\n1,2,3,4,5,6\n")
    counts = {}
    for option in ("--header", "--no-header"):
        counts[option] = len(run("predict", DENSE, "x.csv", option, *NUMPY).out.splitlines()) - 1
    assert counts == {"--header": 1, "--no-header": 2}


# errors

BAD_USE = {
    "no command": [],
    "unknown command": ["bogus"],
    "unknown option": ["inspect", DENSE, "--bogus"],
    "unknown engine": ["inspect", DENSE, "--engine", "gpu"],
    "missing argument": ["convert", DENSE],
    "not an npz": ["convert", DENSE, "out.h5"],
    "over the input": ["predict", DENSE, "x.npy", "-o", "x.npy", *NUMPY],
    "unknown ending": ["predict", DENSE, "x.npy", "-o", "y.zip", *NUMPY],
    "several outputs in npy": ["predict", PAIR, "x.npy", "-o", "y.npy", *NUMPY],
    "half named": ["predict", PAIR, "in_a=x.npy", "x.npy", *NUMPY],
    "named twice": ["predict", PAIR, "in_a=x.npy", "in_a=x.npy", *NUMPY],
    "resume to stdout": ["predict", DENSE, "x.npy", "--resume", *NUMPY],
    "no rows in a batch": ["predict", DENSE, "x.npy", "--batch-size", "0"],
    "unknown peer": ["bench", DENSE, "--against", "magic"],
    "model of no peer": ["bench", DENSE, "--model", "net.onnx"],
    "no thread": ["bench", DENSE, "--threads", "0"],
    **{f"{v} seconds": ["bench", DENSE, f"--seconds={v}"] for v in ("-1", "0", "nan", "inf", "x")},
    **{f"{v} starts": ["bench", DENSE, f"--starts={v}"] for v in ("-3", "1.5", "x")},
    **{f"batches of {v}": ["bench", DENSE, f"--batches={v}"] for v in ("0", "1,x", "")},
    **{f"a batch of {v}": ["profile", DENSE, f"--batch={v}"] for v in ("0", "-1", "x")},
    **{f"a tolerance of {v}": ["check", DENSE, f"--rtol={v}"] for v in ("-1", "nan", "x")},
}
FAILURES = {
    "no file": (["inspect", "nothing.h5"], "nothing.h5"),
    "no input": (["predict", DENSE, "nothing.npy", *NUMPY], "nothing.npy: no such file"),
    "no folder": (["predict", DENSE, "x.npy", "-o", "no/y.npy", *NUMPY], "no such folder"),
    "not a model": (["inspect", "x.npy"], "x.npy"),
    "wrong width": (["predict", DENSE, "wide.npy", *NUMPY], "wide.npy, rows 0 to 4: input"),
    "one input of two": (["predict", PAIR, "in_a=x.npy", *NUMPY], "'in_b' missing"),
    "unknown input": (["predict", PAIR, "in_a=x.npy", "in_c=x.npy", *NUMPY], "'in_c'"),
    "unknown layer": (["inspect", DENSE, "--outputs", "bogus", *NUMPY], "bogus"),
    "a picture of another kind": (["bench", DENSE, "--plot", "x.gif"], ".png, .svg, .html"),
    "a folder for a file": (["inspect", "."], ""),
}


@pytest.mark.parametrize("what", BAD_USE)
def test_bad_use(run: Any, what: str) -> None:
    np.save("x.npy", np.zeros((5, 6), np.float32))
    before = Path("x.npy").read_bytes()
    done = run(*BAD_USE[what])
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("npinfer")
    assert len(done.err.splitlines()) == 1
    assert Path("x.npy").read_bytes() == before


@pytest.mark.parametrize("what", FAILURES)
def test_failures(run: Any, what: str) -> None:
    np.save("x.npy", np.zeros((5, 6), np.float32))
    np.save("wide.npy", np.zeros((5, 7), np.float32))
    args, message = FAILURES[what]
    done = run(*args)
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("npinfer: ")
    assert len(done.err.splitlines()) == 1
    assert message in done.err


def test_failures_leave_no_files(run: Any, tmp_path: Path) -> None:
    np.save("wide.npy", np.zeros((5, 7), np.float32))
    run("predict", DENSE, "wide.npy", "-o", "y.npz", *NUMPY)
    run("extract", "wide.npy", "w.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["wide.npy"]


def test_warnings_are_one_line(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    from npinfer import cli

    def warn(_: object) -> None:
        warnings.warn("weights are\nodd", NpinferWarning, stacklevel=1)

    monkeypatch.setitem(cli.COMMANDS, "inspect", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = run("inspect", DENSE)
    assert (done.code, done.err) == (0, "npinfer: warning: weights are odd\n")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (MemoryError, 1), (OSError("disk full"), 1)])
def test_interrupts(run: Any, monkeypatch: pytest.MonkeyPatch, error: Any, code: int) -> None:
    from npinfer import cli

    def fail(_: object) -> None:
        raise error

    monkeypatch.setitem(cli.COMMANDS, "inspect", fail)
    done = run("inspect", DENSE)
    assert done.code == code
    assert len(done.err.splitlines()) == 1


def test_cache(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NPINFER_CACHE_DIR", str(tmp_path / "cache"))
    shown = run("cache", "info")
    assert shown.code == 0
    assert str(tmp_path / "cache") in shown.out
    assert run("cache", "clear").out == "0 file(s) removed\n"


def test_every_command_explains_itself(run: Any) -> None:
    from npinfer.cli import COMMANDS

    make_parser(COMMANDS)
    for name in COMMANDS:
        shown = run(name, "--help")
        assert shown.code == 0
        assert f"usage: npinfer {name}" in shown.out
    assert run("--version").out == f"npinfer {npinfer.__version__}\n"


# as a process


def shell(*args: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).resolve().parent.parent)
    return subprocess.run(
        [sys.executable, "-m", "npinfer", *args],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": root},
        **kwargs,
    )


def test_as_a_process(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 6), np.float32))
    done = shell("predict", DENSE, str(tmp_path / "x.npy"), *NUMPY)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 4


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((200_000, 6), np.float32))
    root = str(Path(__file__).resolve().parent.parent)
    with subprocess.Popen(
        [sys.executable, "-m", "npinfer", "predict", DENSE, str(tmp_path / "x.npy"), *NUMPY],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_the_parser_imports_nothing_heavy() -> None:
    """BLAS threads are set between parsing and NumPy's import, so parsing must not import NumPy."""
    code = "import sys; from npinfer.cli import main; main(['--version']); sys.exit('numpy' in sys.modules)"
    root = str(Path(__file__).resolve().parent.parent)
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, check=False)
    assert done.returncode == 0
