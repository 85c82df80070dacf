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
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

from fuzz_mutations import mutate

SECONDS_A_CASE = 5.0  # of the processor; the library itself promises one second
WALL_SECONDS = 120.0  # by the clock, for a case that waits for ever, and where there is no processor timer
MEGABYTES = 600  # of growth


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
