"""The structure that newcomers rely on: imports point one way, heavy modules load lazily, files stay small."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import keras_files
import numpy as np
import pytest

from npinfer import ops
from npinfer.model import Model
from npinfer.ops import registry
from npinfer.options import Options
from npinfer.readers.archive import Layer

PACKAGE = Path(__file__).resolve().parent.parent / "npinfer"
FILES = sorted(PACKAGE.rglob("*.py"))
ROOT = PACKAGE.parent
EVERY_FILE = [p for folder in ("npinfer", "tests", "tools", "benchmarks") for p in sorted((ROOT / folder).rglob("*.py"))]

#: what each part may import of npinfer, directly or inside functions
ALLOWED = {
    "errors": set(),
    "frozen": set(),
    "destination": set(),
    "trees": set(),
    "graph": {"errors", "frozen"},
    "ops": {"errors", "frozen", "graph", "ops", "trees"},
    "readers": {"errors", "frozen", "graph", "ops", "readers", "npz", "trees"},
    "npz": {"destination", "errors", "frozen", "graph", "readers"},
    "folding": {"errors", "frozen", "graph", "ops"},
    "passes": {"errors", "folding", "frozen", "graph", "ops"},
    "streams": {"errors", "frozen", "graph", "ops", "passes"},
    "executors": {"errors", "frozen", "graph", "ops", "executors"},
    "export": {"destination", "errors", "frozen", "graph", "ops", "executors", "export"},
}
#: third-party modules and the only places that may import them
ONLY_IN = {
    "h5py": ["readers/h5.py"],
    "numba": ["executors/native/"],
    "llvmlite": ["executors/native/"],
}
#: typing-only imports of the readers' plain data by the registry, which lower.py fills
TYPING_ONLY = {("ops", "readers")}


def imports(tree: ast.AST, typing_only: bool = False) -> Iterator[tuple[str, bool]]:
    """(module, whether only for type checking) of every import of a file."""
    for node in ast.iter_child_nodes(tree):
        inside = typing_only or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        if isinstance(node, ast.Import):
            yield from ((a.name, inside) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            if node.module == "npinfer":
                yield from ((f"npinfer.{a.name}", inside) for a in node.names)
            else:
                yield node.module or "", inside
        else:
            yield from imports(node, inside)


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    own, where = part(path), path.relative_to(PACKAGE).as_posix()
    for module, typing_only in imports(ast.parse(path.read_text(encoding="utf-8"))):
        top = module.split(".")[0]
        if top in ONLY_IN:
            assert any(where.startswith(p) for p in ONLY_IN[top]), f"{where} imports {module}"
        if top != "npinfer" or own not in ALLOWED or module == "npinfer":
            continue
        target = module.split(".")[1]
        if typing_only and (own, target) in TYPING_ONLY:
            continue
        assert target in ALLOWED[own], f"{where} imports {module}: {own} may import {sorted(ALLOWED[own])}"


@pytest.mark.parametrize("path", EVERY_FILE, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_fit_in_the_mind(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 330, f"{path.name} has {lines} lines: split it"


def test_no_asserts_guard_file_content() -> None:
    for path in (PACKAGE / "readers").rglob("*.py"):
        found = [n.lineno for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Assert)]
        assert not found, f"{path.name}: assert in lines {found}; raise FormatError instead"


def fresh(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True, timeout=120)
    return done.stdout.strip()


def test_import_is_light() -> None:
    heavy = ("h5py", "numba", "llvmlite", "matplotlib", "tqdm", "onnx", "zipfile", "json", "tensorflow", "scipy")
    loaded = fresh("import numpy, sys; before = set(sys.modules); import npinfer; print(*(set(sys.modules) - before))").split()
    assert not {m.split(".")[0] for m in loaded} & set(heavy)
    assert len([m for m in loaded if m.startswith("npinfer")]) <= 3


def test_public_names_exist() -> None:
    assert fresh("import npinfer; print(all(getattr(npinfer, n) is not None for n in npinfer.__all__))") == "True"


def test_the_shortcut_to_common_layers_is_right() -> None:
    ops.load_families()
    for class_name, family in ops.COMMON.items():
        assert family in ops.FAMILIES
        assert registry.LAYERS[class_name].function.__module__ == f"npinfer.ops.{family}"


FIRST_LAYERS = """
import sys, threading
from npinfer.ops import registry
from npinfer.readers.archive import Layer
sys.setswitchinterval(1e-5)
found, start = {}, threading.Barrier(4)
def find(name):
    start.wait()
    found[name] = registry.find(Layer(name, name, {})) is not None
threads = [threading.Thread(target=find, args=(n,)) for n in ("Cropping2D", "ConvLSTM2D", "UpSampling2D", "MultiHeadAttention")]
for t in threads: t.start()
for t in threads: t.join()
print(all(found.values()), len(found))
"""


def test_threads_that_load_their_first_models_at_once_find_all_layers() -> None:
    assert fresh(FIRST_LAYERS) == "True 4"


#: what the main road, from a file of common layers to a prediction, does without
SLOW_IMPORTS = {
    *("numba", "llvmlite", "zipfile", "pathlib", "logging", "hashlib", "_hashlib", "dataclasses", "concurrent.futures", "html"),
    *("urllib.parse", "shutil", "tempfile", "sysconfig", "subprocess", "npinfer.ops.multi_head", "npinfer.ops.convlstm"),
    *("npinfer.readers.tfops", "npinfer.ops.sized", "npinfer.ops.size_operations"),
}
#: what of npinfer a network of Dense layers on the numpy engine does without, too: each takes part of a millisecond
OF_OTHER_NETWORKS = {
    *("npinfer.checking", "npinfer.summary", "npinfer.folding", "npinfer.readers.h5", "npinfer.readers.dialect"),
    *("npinfer.executors.numpy_spatial", "npinfer.ops.activation_operations", "npinfer.ops.affine", "npinfer.ops.conv"),
    *("npinfer.ops.embedding", "npinfer.ops.joining", "npinfer.ops.merge", "npinfer.ops.quantized", "npinfer.ops.reshape"),
}
ROAD = """
import sys, numpy as np
before = set(sys.modules)
import npinfer
step = npinfer.load({file!r}, engine={engine!r}).bind()
step(np.zeros(step.signature.inputs[0].shape, np.float32))
print(*(set(sys.modules) - before))
"""


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_the_main_road_imports_little(tmp_path: Path, engine: str) -> None:
    weights = {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float32)}
    archive = keras_files.archive(Layer("Dense", "dense", {"units": 3, "activation": "relu"}), [(2,)], weights)
    file = str(tmp_path / "m.npz")
    Model(archive, Options(engine="numpy")).save(file)
    code = ROAD.format(file=file, engine=engine)
    fresh(code)  # compiles where that was never done
    assert not set(fresh(code).split()) & (SLOW_IMPORTS | (OF_OTHER_NETWORKS if engine == "numpy" else set()))
