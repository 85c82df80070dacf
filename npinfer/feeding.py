"""`predict_file`: from samples of any size to a results file, in constant memory, and resumable.

A plain run writes to a temporary file beside the result. A resumable one keeps `OUT.part/`: one growing .npy for each output
and a journal of how many rows are safely in it; when all are there, they become the file that was asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npinfer.arrays_io import Source, is_path, open_source
from npinfer.arrays_out import Csv, Npy, Writer, ending_of, open_writer, pack, unique
from npinfer.destination import check, naming, replacing
from npinfer.errors import ArgumentError, FormatError, shown
from npinfer.graph import Spec
from npinfer.predict import run

if TYPE_CHECKING:
    from npinfer.model import Model

JOURNAL = "journal.json"
JOURNAL_SECONDS = 1.0  # what a crash can cost, besides the chunk at hand
COPY_BYTES = 8 << 20


class Written(NamedTuple):
    """What predict_file did: the rows in the file, how many of them an earlier run had left, and where the file is."""

    rows: int
    resumed: int
    path: str


def predict_file(
    model: Model,
    source: Any,
    out: str | os.PathLike[str],
    *,
    batch_size: int | None = None,
    resume: bool = False,
    header: bool | None = None,
    verbose: Any = "auto",
) -> Written:
    """Predict all samples of `source` into a file, a chunk at a time.

    source: whatever `Model.predict` takes, paths included (.npy, .npz, .csv, .parquet, a folder of .npy; a list or dict of them
    for several inputs). out: .npy (one output), .npz, .csv or .parquet; "-" writes CSV to standard output. It appears when it
    is complete. resume: keep what is done in OUT.part when interrupted, and go on from there when called again with the same
    model and source (anything else starts anew). header: whether CSV has a line of names; None looks.

    Raises ShapeError, DtypeError or FormatError naming the file and row that don't fit, OSError where files can't be written.
    """
    if not is_path(out):
        raise ArgumentError(f"predict_file: out={shown(out)}; needs a path, or '-' for standard output")
    opened = open_source(source, model.inputs, model._structure_in, header)
    if os.fspath(out) == "-":
        writer: Writer = Csv(sys.stdout, model.outputs, close=False)
        return Written(_fill(model, opened, writer, batch_size, verbose), 0, "-")
    target = Path(out)
    ending = ending_of(target, len(model.outputs))
    _refuse_own_input(target, source)
    if resume:
        return _resumed(model, opened, target, ending, batch_size, verbose)
    with replacing(target) as temporary:
        writer = open_writer(temporary, ending, model.outputs)
        rows = _fill(model, opened, writer, batch_size, verbose)
    return Written(rows, 0, str(target))


def _fill(model: Model, source: Source, writer: Writer, batch_size: int | None, verbose: Any) -> int:
    rows = 0
    try:
        for part in run(model, source, batch_size, verbose):
            writer.write(part.results)
            rows += len(part.results[0])
        writer.close()
    except BaseException:
        writer.abort()
        raise
    return rows


def _refuse_own_input(target: Path, source: Any) -> None:
    values = source.values() if isinstance(source, dict) else source if isinstance(source, (list, tuple)) else [source]
    for value in values:
        if is_path(value) and target.exists() and os.path.exists(value) and os.path.samefile(value, target):
            raise FormatError(f"{target}: is the input itself; results need another name")


def _resumed(model: Model, source: Source, target: Path, ending: str, batch_size: int | None, verbose: Any) -> Written:
    folder = target.with_name(target.name + ".part")
    check(target)
    with naming(target, folder.name):
        return _resumed_in(folder, model, source, target, ending, batch_size, verbose)


def _resumed_in(
    folder: Path, model: Model, source: Source, target: Path, ending: str, batch_size: int | None, verbose: Any
) -> Written:
    identity = {"model": fingerprint(model), "source": source.mark, "outputs": [str(s) for s in model.outputs]}
    done = _done(folder, identity)
    if not done:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    parts = [Npy(folder / f"{k}.npy", s, done) for k, s in enumerate(model.outputs)]
    rows, saved = done, time.monotonic()
    try:
        for part in run(model, source, batch_size, verbose, done):
            for file, y in zip(parts, part.results):
                file.write([y])
            rows += len(part.results[0])
            if time.monotonic() - saved >= JOURNAL_SECONDS:
                _save(folder, parts, identity, rows)
                saved = time.monotonic()
    finally:
        if rows:
            _save(folder, parts, identity, rows)
        for file in parts:
            file.abort()
    with replacing(target) as temporary:
        _convert(folder, temporary, ending, model.outputs)
    shutil.rmtree(folder, ignore_errors=True)
    return Written(rows, done, str(target))


def fingerprint(model: Model) -> str:
    """A digest of what decides the results: layers, weights, dtype, engine."""
    digest = hashlib.sha256(f"{model.engine} {model.inputs} {model.outputs} {model.layers}".encode())
    for array in model._archive.arrays():
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()


def _done(folder: Path, identity: dict[str, Any]) -> int:
    """Rows that an earlier run of the same work left, 0 for other work or none."""
    try:
        journal = json.loads((folder / JOURNAL).read_text("utf-8"))
        same = {k: journal[k] for k in identity} == identity
        return int(journal["rows"]) if same else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _save(folder: Path, parts: Sequence[Npy], identity: dict[str, Any], rows: int) -> None:
    """Rows first, then the journal that vouches for them."""
    for part in parts:
        part.mark()
        os.fsync(part.file.fileno())
    with replacing(folder / JOURNAL) as temporary:
        temporary.write_text(json.dumps({**identity, "rows": rows}), "utf-8")


def _convert(folder: Path, path: Path, ending: str, specs: Sequence[Spec]) -> None:
    """The finished parts as the file that was asked for."""
    files = [folder / f"{k}.npy" for k in range(len(specs))]
    if ending == ".npy":
        shutil.copyfile(files[0], path)
        return
    if ending == ".npz":
        pack(path, dict(zip(unique([s.name for s in specs]), files)))
        return
    columns = [np.load(f, mmap_mode="r", allow_pickle=False) for f in files]
    writer = open_writer(path, ending, specs)
    rows = len(columns[0])
    step = max(1, COPY_BYTES // max(1, sum(c[:1].nbytes for c in columns)))
    try:
        for start in range(0, rows, step):
            writer.write([np.asarray(c[start : start + step]) for c in columns])
        writer.close()
    except BaseException:
        writer.abort()
        raise
