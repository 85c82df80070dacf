"""The README says what is true: its generated parts are fresh, its examples run, its commands and files exist."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npinfer.cli import COMMANDS, main
from npinfer.cli_parser import make_parser

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.S | re.M)
SPANS = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", TEXT, flags=re.S | re.M))
#: command lines in blocks and in the text
COMMANDS_SHOWN = sorted(
    {
        m.group().rstrip()
        for text in [code for kind, code in BLOCKS if kind == "sh"] + SPANS
        for m in re.finditer(r"(?:\bnpinfer|python -m benchmarks)(?: [^&|;\n]+)", text)
        if not m.group().startswith("npinfer --")
    }
)


@pytest.fixture
def update_readme(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.syspath_prepend(str(ROOT))
    import update_readme

    return update_readme


def test_generated_parts_are_fresh(update_readme: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert update_readme.main(["--check"]) == 0, capsys.readouterr().err
    assert set(update_readme.PARTS) == {m[2] for m in update_readme.PART.finditer(TEXT)}


def test_an_old_part_is_noticed(update_readme: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_readme, "README", tmp_path / "README.md")
    (tmp_path / "README.md").write_text("before\n<!-- begin layers -->\nstale words\n<!-- end layers -->\nafter\n", "utf-8")
    assert update_readme.main(["--check"]) == 1
    assert update_readme.main([]) == 0
    made = (tmp_path / "README.md").read_text("utf-8")
    assert made.startswith("before\n")
    assert made.endswith("\nafter\n")
    assert "Dense" in made
    assert "stale words" not in made
    assert update_readme.main(["--check"]) == 0


def test_the_time_of_compiling_is_told_alike() -> None:
    message = (ROOT / "npinfer/executors/native/cache.py").read_text("utf-8")
    told = [re.findall(r"(\d+ to \d+) seconds", text) for text in (TEXT, message)]
    assert told[0] == told[1] == ["25 to 60"]


@pytest.mark.parametrize("code", [code for kind, code in BLOCKS if kind == "python"], ids=lambda c: c.splitlines()[-1][:40])
def test_examples_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "tests/golden/k122/t1-mlp-seed.h5", "policy.h5")
    names: dict[str, Any] = {"x": np.linspace(-1, 1, 40, dtype=np.float32)}
    exec(compile(code, "README.md", "exec"), names)
    if "y" in names:
        assert np.isfinite(names["y"]).all()


def test_there_are_examples() -> None:
    assert len([kind for kind, _ in BLOCKS if kind == "python"]) >= 1
    assert any(c.startswith("npinfer predict") for c in COMMANDS_SHOWN)


@pytest.mark.parametrize("line", COMMANDS_SHOWN)
def test_commands_exist(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and options; where the text gives the arguments as well, the whole line is parsed."""
    monkeypatch.syspath_prepend(str(ROOT))
    if line.startswith("python -m benchmarks"):
        from benchmarks.__main__ import parser

        parser().parse_args(shlex.split(line)[3:])
        return
    words = shlex.split(line)[1:]
    assert words[0] in COMMANDS, line
    if len(words) > 1:
        make_parser(COMMANDS).parse_args(words)


def test_the_first_command_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    line = next(c for c in COMMANDS_SHOWN if c.startswith("npinfer predict"))
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(line)[1:]) == 0
    printed = np.loadtxt(capsys.readouterr().out.splitlines()[1:], delimiter=",", ndmin=1)  # below the names
    assert printed.size >= 1
    assert np.isfinite(printed).all()


def test_files_exist() -> None:
    """Paths that the text names, of this repository."""
    paths = re.findall(r"(?<![\w/.])((?:npinfer|tools|tests|benchmarks|\.ci)/[\w./-]*\w)", TEXT)
    missing = [p for p in paths if not (ROOT / p).exists()]
    assert paths
    assert not missing
