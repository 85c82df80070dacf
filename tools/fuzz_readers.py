#!/usr/bin/env python3
"""Feed damaged and malicious model files to npinfer and insist that nothing but NpinferError comes out.

    python tools/fuzz_readers.py --seconds 60 --seed 1 tests/golden
    python tools/fuzz_readers.py --seed 1 --case 4711 tests/golden      one case again, in this process

Cases are mutations of the given files, numbered: the same seed, number and files give the same bytes. A worker process runs
them, so that a crash or a hang of a library is a finding too; the parent then writes the file that does it, prints its path,
and goes on. Exit status 1 if anything was found, 2 for bad use.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

SECONDS_A_CASE = 5.0  # of the processor; the library itself promises one second
WALL_SECONDS = 120.0  # by the clock, for a case that waits for ever, and where there is no processor timer
MEGABYTES = 600  # of growth
#: what stands anywhere in a mutated JSON text
POOL: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63), 0.5, -0.0, float("nan"), float("inf")),
    *("", "float16", "relu", "__class__", "Dense", "LSTM", "a/b", "../x", "\0", "é", "x" * 3000),
    *([], [[]], [None], [1, 2, 3], [-1, None], {}, {"class_name": "Dense", "config": {}}),
    {"class_name": "Lambda", "config": {"function": "exec"}},
)


def mutate_bytes(data: bytes, r: random.Random, others: list[bytes]) -> bytes:
    """Damage without knowledge of the format."""
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 1, 2, 4, 16))):
        if not out:
            return b""
        at, n = r.randrange(len(out)), r.choice((1, 2, 4, 8, 16, 64))
        kind = r.randrange(8)
        if kind == 0:
            out[at] ^= 1 << r.randrange(8)
        elif kind == 1:
            out[at] = r.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
        elif kind == 2:
            out[at : at + n] = r.randbytes(n)
        elif kind == 3:
            at -= at % 8
            out[at : at + 8] = r.choice((0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1, len(out), at)).to_bytes(8, "little")
        elif kind == 4:
            del out[at : len(out) if r.random() < 0.3 else at + n]
        elif kind == 5:
            out[at : at + n] = bytes(n)
        elif kind == 6:
            other = r.choice(others)
            start = r.randrange(len(other))
            out[at : at + n] = other[start : start + n]
        else:
            source = r.randrange(len(out))
            out[at : at + n] = out[source : source + n]
    return bytes(out)


def mutate_json(text: str, r: random.Random) -> str:
    """Change some nodes of a JSON text, or the text itself."""
    if r.random() < 0.1:
        at = r.randrange(len(text) + 1)
        return text[:at] + r.choice(('"', "{", "[" * 500, "\\ud800", "NaN", "1e999", "\0", "9" * 5000)) + text[at:]
    try:
        tree = json.loads(text)
    except ValueError:
        return text[: r.randrange(len(text) + 1)]
    for _ in range(r.choice((1, 1, 1, 2, 5))):
        places: list[tuple[Any, Any]] = []
        stack = [tree]
        while stack:
            node = stack.pop()
            keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
            for key in keys:
                places.append((node, key))
                stack.append(node[key])
        if not places:
            break
        node, key = r.choice(places)
        action = r.random()
        if action < 0.2:
            del node[key]
        elif action < 0.4:
            other, place = r.choice(places)
            node[key] = json.loads(json.dumps(other[place])) if place in other or isinstance(other, list) else None
        elif action < 0.5 and isinstance(node, dict):
            node[r.choice(("class_name", "units", "activation", "module", "name", "layers", "\0"))] = deepcopy(r.choice(POOL))
        else:
            node[key] = deepcopy(r.choice(POOL))
    return json.dumps(tree)


def mutate_hdf5(data: bytes, r: random.Random) -> bytes:
    """Rewrite attributes and datasets through h5py, so that the file stays sound and its content doesn't."""
    import h5py
    import numpy as np

    memory = io.BytesIO(data)
    with h5py.File(memory, "r+") as f:
        items: list[Any] = [f]
        f.visititems(lambda _, item: items.append(item))
        for _ in range(r.choice((1, 1, 2, 4))):
            item = r.choice(items)
            attributes = list(item.attrs) if item else []
            if "model_config" in f.attrs and r.random() < 0.5:
                text = f.attrs["model_config"]
                f.attrs["model_config"] = mutate_json(text if isinstance(text, str) else text.decode("utf-8", "replace"), r)
            elif attributes and r.random() < 0.6:
                name = r.choice(attributes)
                value = r.choice((None, 5, -1, "x", b"\xff\xfe", np.zeros((2, 2)), np.array([b"a/../b", b"/etc"]), 1.5, "turn"))
                if value is None:
                    del item.attrs[name]
                else:
                    turn = isinstance(value, str) and value == "turn" and isinstance(item.attrs[name], np.ndarray)
                    item.attrs[name] = item.attrs[name][::-1] if turn else value
            elif isinstance(item, h5py.Dataset):
                path, shape = item.name, list(item.shape)
                kind = r.choice(("f2", "f4", "f8", ">f4", "i4", "u1", "c8", "S3", "bool"))
                if shape and r.random() < 0.7:
                    shape[r.randrange(len(shape))] = r.choice((0, 1, 2, 3, 5, 9))
                elif r.random() < 0.5:
                    shape = shape[:-1] if r.random() < 0.5 else [*shape, 1]
                packed = bool(shape) and min(shape) > 0 and r.random() < 0.4
                options = {"compression": "gzip", "shuffle": True, "fletcher32": True} if packed else {}
                del f[path]
                f.create_dataset(path, data=np.zeros(shape, kind), **options)
                items = [k for k in items if k]
            elif item and item.name != "/" and r.random() < 0.5:
                path = item.name
                target = r.choice(items)
                where = target.name if target else "/"
                del f[path]
                f[path] = r.choice((h5py.SoftLink(where), h5py.SoftLink(path), h5py.ExternalLink("other.h5", "/"), f["/"]))
                items = [k for k in items if k]
    return memory.getvalue()


def mutate_zip(data: bytes, r: random.Random, others: list[bytes]) -> bytes:
    """Pack a zip again with one member changed, added, dropped or doubled."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        members = [(n, z.read(n)) for n in z.namelist()]
    at = r.randrange(len(members))
    name, content = members[at]
    action = r.random()
    if action < 0.1:
        del members[at]
    elif action < 0.2:
        members.append((r.choice((name, "../x", "/x", "assets/x", "C:\\x", "extra.npy", "\0")), content))
    elif name.endswith(".json") and action < 0.7:
        members[at] = (name, mutate_json(content.decode(), r).encode("utf-8", "surrogatepass"))
    elif name.endswith(".h5") and action < 0.7:
        members[at] = (name, mutate_hdf5(content, r))
    else:
        members[at] = (name, mutate_bytes(content, r, others))
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", r.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
        warnings.simplefilter("ignore")
        for name, content in members:
            z.writestr(name, content)
    return out.getvalue()


def mutate(number: int, seed: int, files: list[bytes]) -> bytes:
    """Case `number` of a run."""
    r = random.Random(f"{seed}/{number}")
    data = r.choice(files)
    knows = r.random() < 0.6
    try:
        if knows and data.startswith(b"\x89HDF"):
            return mutate_hdf5(data, r)
        if knows and data.startswith(b"PK"):
            return mutate_zip(data, r, files)
        if knows and data.startswith(b"{"):
            return mutate_json(data.decode(), r).encode("utf-8", "surrogatepass")
    except Exception:
        pass  # h5py refuses to write some of it
    return mutate_bytes(data, r, files)


def attack(data: bytes, on_disk: bool) -> str:
    """Load the bytes; what is wrong with how that ended, or nothing."""
    import npinfer

    name = None
    if on_disk:
        handle, name = tempfile.mkstemp(suffix=".h5")
        with os.fdopen(handle, "wb") as f:
            f.write(data)
    before = megabytes()
    try:
        for call in (npinfer.read_weights, lambda source: npinfer.load(source, engine="numpy")):
            try:
                call(name or data)
            except npinfer.NpinferError as e:
                str(e).encode()
            except Exception as e:
                return f"{type(e).__name__}: {e}"
    finally:
        if name:
            os.unlink(name)
    grown = megabytes() - before
    return f"took {grown:.0f} MB" if grown > MEGABYTES else ""


def megabytes() -> float:
    """The most this process has used so far; 0 where the system doesn't say."""
    try:
        import resource
    except ImportError:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def limit_processor() -> None:
    """End this process, even within a library, when the next case takes too much processor time."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, SECONDS_A_CASE)


def work(first: int, seed: int, files: list[bytes]) -> None:
    """Run cases for ever, telling the parent on stdout: "number" before a case, "number message" after a bad one."""
    warnings.simplefilter("ignore")
    for number in range(first, sys.maxsize):
        print(number, flush=True)
        limit_processor()
        message = attack(mutate(number, seed, files), number % 2 == 0)
        if message:
            print(number, message.replace("\n", " ")[:300], flush=True)


def watch(options: argparse.Namespace, files: list[bytes]) -> int:
    """Run workers until the time is over; the number of findings."""
    findings, number, end = 0, 0, time.monotonic() + options.seconds
    while time.monotonic() < end:
        command = [sys.executable, __file__, "--work", str(number), "--seed", str(options.seed), *map(str, options.paths)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        seen = time.monotonic()
        lines: list[str] = []

        def follow(worker: Any = worker, lines: list[str] = lines) -> None:
            lines.extend(line.rstrip("\n") for line in worker.stdout)

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        done, over = 0, False
        while not over:
            over = worker.poll() is not None or time.monotonic() > end
            time.sleep(0.02)
            fresh = lines[done:]
            done += len(fresh)
            for line in fresh:
                text, _, message = line.partition(" ")
                number, seen = int(text), time.monotonic()
                if message:
                    findings += report(options, files, number, message)
            if time.monotonic() - seen > WALL_SECONDS:
                findings += report(options, files, number, f"not done after {WALL_SECONDS:.0f} s")
                over = True
        if worker.poll() is None:
            worker.kill()
        elif lines:
            slow = hasattr(signal, "SIGPROF") and worker.returncode == -signal.SIGPROF
            what = f"more than {SECONDS_A_CASE:.0f} s" if slow else f"the process died with status {worker.returncode}"
            findings += report(options, files, number, what)
        else:
            print((worker.stderr.read() if worker.stderr else "")[-2000:], file=sys.stderr)
            return findings + 1
        worker.wait()
        reader.join()
        number += 1
    print(f"{number:,} cases, {findings} findings (seed {options.seed})")
    return findings


def report(options: argparse.Namespace, files: list[bytes], number: int, message: str) -> int:
    options.keep.mkdir(parents=True, exist_ok=True)
    path = options.keep / f"seed{options.seed}-case{number}.bin"
    path.write_bytes(mutate(number, options.seed, files))
    print(f"FINDING {path}: {message}", flush=True)
    return 1


def model_files(paths: list[Path], largest: int = 200_000) -> list[bytes]:
    """The model files of the given files and folders, in a fixed order, the largest left out."""
    found = sorted(p for path in paths for p in ([path] if path.is_file() else path.rglob("*")))
    kinds = (".h5", ".hdf5", ".keras")
    return [p.read_bytes() for p in found if p.suffix in kinds and p.stat().st_size <= largest]


def with_npz(files: list[bytes]) -> list[bytes]:
    """The files and some of them again in npinfer's own format."""
    import npinfer

    made: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in files[:: max(1, len(files) // 12)]:
            try:
                npinfer.load(data, engine="numpy").save(os.path.join(folder, "m.npz"), check=True)
            except npinfer.NpinferError:
                continue
            made.append(Path(folder, "m.npz").read_bytes())
    return files + made * 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="model files or folders of them to start from")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one again, here")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "npinfer-fuzz", help="where findings go")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    files = with_npz(model_files(options.paths))
    if not files:
        print(f"no model files in {', '.join(map(str, options.paths))}", file=sys.stderr)
        return 2
    if options.work is not None:
        work(options.work, options.seed, files)
    if options.case is not None:
        message = attack(mutate(options.case, options.seed, files), options.case % 2 == 0)
        print(message or "nothing wrong")
        return 1 if message else 0
    return 1 if watch(options, files) else 0


if __name__ == "__main__":
    sys.exit(main())
