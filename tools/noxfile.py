"""The tests under every Python that is installed here, and under the oldest NumPy, h5py and Numba that pyproject.toml allows.

    uvx nox -f tools/noxfile.py                          all of it, and a table of results
    uvx nox -f tools/noxfile.py -s tests-3.12 tests-3.13
    uvx nox -f tools/noxfile.py -s minimum -- -n 1       what stands after -- goes to pytest

Interpreters are looked for on the PATH and among pyenv's. Each session has an environment of its own under .nox/.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent.parent
#: of what is installed without saying so; the extras' own lower bounds for the rest
OLDEST = ("numpy==1.26.*", "h5py==3.10.*", "numba==0.61.*")


def pyenv_folders() -> list[Path]:
    """pyenv's interpreters, the newest patch of each version first: its shims answer for the activated ones only."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [p for p in root.glob("3.*/bin") if re.fullmatch(r"3\.\d+\.\d+", p.parent.name)]
    return sorted(found, key=lambda p: [int(n) for n in p.parent.name.split(".")], reverse=True)


os.environ["PATH"] = os.pathsep.join([*map(str, pyenv_folders()), os.environ["PATH"]])
PYTHONS = [v for v in (f"3.{k}" for k in range(10, 30)) if shutil.which(f"python{v}")]

nox.options.envdir = str(ROOT / ".nox")
nox.options.error_on_missing_interpreters = True


def run(session: nox.Session, *pins: str) -> None:
    """Install as a user does, and test the copy that was installed."""
    session.chdir(ROOT)
    session.install(".[test]", *pins)
    session.run("python", "-m", "pytest", "-q", "-rs", *session.posargs, env={"NPINFER_CACHE_DIR": session.create_tmp()})


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests under one Python."""
    run(session)


@nox.session(python="3.10")
def minimum(session: nox.Session) -> None:
    """All tests with the lowest versions that pyproject.toml admits."""
    run(session, *OLDEST)
