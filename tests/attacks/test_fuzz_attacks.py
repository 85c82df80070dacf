"""A few cases of the fuzzer; CI runs it for longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import npinfer

TOOL = Path(__file__).resolve().parent.parent.parent / "tools" / "fuzz_readers.py"
GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "k3new"


def fuzz(*arguments: object) -> subprocess.CompletedProcess[str]:
    # In a process of its own: a finding may be a crash.
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    root = str(Path(npinfer.__file__).resolve().parent.parent)
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": root})


def test_a_short_run(tmp_path: Path) -> None:
    files = GOLDEN / "t1-act-relu.h5", GOLDEN / "t8-plain.weights.h5"
    done = fuzz("--seconds", 8, "--seed", 11, "--keep", tmp_path / "found", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings (seed 11)" in done.stdout


def test_one_case_again() -> None:
    done = fuzz("--seed", 11, "--case", 3, GOLDEN / "t1-act-relu.h5")
    assert (done.returncode, done.stdout) == (0, "nothing wrong\n"), done.stderr


def test_bad_use(tmp_path: Path) -> None:
    done = fuzz(tmp_path)
    assert done.returncode == 2
    assert "no model files" in done.stderr
