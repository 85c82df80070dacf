"""`python -m benchmarks run`: every network beside its peers, start-up as whole processes, memory over a million calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

import npinfer
from benchmarks.networks import NETWORKS, Network, write_h5
from benchmarks.tflite import Unwritable, write_tflite
from npinfer.bench import measure, plots, runners
from npinfer.bench.command import machine, measured
from npinfer.cli import COMMANDS
from npinfer.cli_parser import make_parser
from npinfer.errors import EngineError, NpinferError

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
SWEEP_BATCHES = (1, 64, 1024)
LARGE_BATCHES = (1, 8, 64)
SHOWN = ("seed", "lenet")  # drawn
STARTED = "seed"  # the network of the start-up and memory measurements
THREADED = "seed"
CALLS = 1_000_000

Say = Callable[[str], None]


def run(o: Namespace) -> int:
    """Measure, write the result file and the pictures; the exit code."""
    names = [n for n in NETWORKS if any(c in n for c in o.cases)] if o.cases else list(NETWORKS)
    if o.quick:
        names = [n for n in names if NETWORKS[n].quick]
    say = partial(print, file=sys.stderr, flush=True)
    start = perf_counter()
    result: dict[str, Any] = {
        "kind": "benchmarks",
        "date": date.today().isoformat(),
        "commit": commit(),
        "quick": o.quick,
        "machine": {**machine(o.threads), "versions": versions()},
        "cases": {},
    }
    out = Path(o.out) if o.out else RESULTS / "latest.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        for name in names:
            say(f"{name}: {NETWORKS[name].what}")
            result["cases"][name] = case(NETWORKS[name], Path(folder), o)
            write(result, out)
        if not o.cases:
            say("start-up, memory, threads")
            result["memory"] = memory(Path(folder), CALLS // 10 if o.quick else CALLS)
            result["threads"] = threads(Path(folder))
            result["start"] = starts(Path(folder), 3 if o.quick else 25)
    result["seconds"] = round(perf_counter() - start)
    write(result, out)
    say(f"{out}: {len(names)} networks in {result['seconds']} s")
    pictures(result, out)
    return 0


def write(result: Mapping[str, Any], out: Path) -> None:
    """The result file; written after each network too, so that an interrupted run leaves what it has."""
    out.write_text(json.dumps(tidy(result), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def pictures(result: Mapping[str, Any], out: Path) -> None:
    """The networks of SHOWN as PNG beside the result file, where matplotlib is installed."""
    for name in (n for n in SHOWN if n in result["cases"]):
        try:
            plots.check("picture.png")
        except EngineError:
            return
        path = out.with_name(f"{out.stem}-{name}.png")
        plots.draw(result["cases"][name], "bench", str(path))
        shrink(path)


def shrink(path: Path) -> None:
    """A picture in 64 colours: a quarter of the bytes, for a repository that people clone."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(64)
    small.save(path, optimize=True)


def files(network: Network, folder: Path) -> tuple[str, list[str]]:
    """(path of the .h5, options that name the peers' files), both made here."""
    h5, tflite = folder / f"{network.name}.h5", folder / f"{network.name}.tflite"
    write_h5(network, h5)
    try:
        write_tflite(network, tflite)
    except (ImportError, Unwritable):
        return str(h5), []
    return str(h5), ["--model", f"litert={tflite}"]


def case(network: Network, folder: Path, o: Namespace) -> dict[str, Any]:
    """What `npinfer bench` measures of one network, and the time of a call inside compiled code ("jit")."""
    path, models = files(network, folder)
    sweep = network.name.startswith("sweep")
    sizes = LARGE_BATCHES if network.large else SWEEP_BATCHES if sweep or o.quick else BATCHES
    calls, rounds, seconds = (2000, 5, 1) if o.quick else (4000, 8, 2) if sweep else (20_000, 20, 5)
    options = {"--threads": o.threads, "--against": ",".join(o.peers), "--engines": ",".join(o.engines), "--starts": 0}
    options |= {"--calls": calls, "--rounds": rounds, "--seconds": seconds, "--batches": ",".join(map(str, sizes))}
    words = ["bench", path, *models, *(str(w) for pair in options.items() for w in pair)]
    words += [*(["--stream"] if network.stream else []), *(w for python in o.python for w in ("--python", python))]
    found = measured(make_parser(COMMANDS).parse_args(words))
    found["file"], found["what"] = network.name, network.what
    found["jit"] = None if network.stream or "native" not in o.engines else inside(path)
    if network.name not in SHOWN:  # only pictures need these
        del found["bandwidth"], found["peak_flops"]
        for row in found["rows"]:
            del row["histogram"]
    return found


def inside(path: str) -> float | None:
    """Nanoseconds of a call from a compiled loop; None where Numba or a native form is missing."""
    try:
        model = npinfer.load(path, engine="native")
        net = model.jit
        import numba
    except (ImportError, NpinferError):
        return None
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        return None

    @numba.njit  # type: ignore[untyped-decorator]
    def loop(net, xs, out, count):  # type: ignore[no-untyped-def]
        for k in range(count):
            net(xs[k % len(xs)], out)

    spec, out = model.inputs[0], np.empty(model.outputs[0].shape, np.float32)
    xs = np.random.default_rng(0).standard_normal((64, *spec.shape)).astype(np.float32)
    loop(net, xs, out, 1)
    count, best = 1, float("inf")
    while count < 1_000_000:
        begin = perf_counter()
        loop(net, xs, out, count)
        if perf_counter() - begin > 0.005:
            break
        count *= 2
    for _ in range(20):
        begin = perf_counter()
        loop(net, xs, out, count)
        best = min(best, (perf_counter() - begin) / count * 1e9)
    return best


START = {
    "import numpy": "import numpy",
    "import numpy, h5py": "import numpy, h5py",
    "npinfer native .npz": "import npinfer; step = npinfer.load({npz!r}, engine='native').bind(); step(x)",
    "npinfer native .h5": "import npinfer; step = npinfer.load({h5!r}, engine='native').bind(); step(x)",
    "npinfer numpy .npz": "import npinfer; step = npinfer.load({npz!r}, engine='numpy').bind(); step(x)",
    "npinfer numpy .h5": "import npinfer; step = npinfer.load({h5!r}, engine='numpy').bind(); step(x)",
    "onnxruntime .onnx": "import onnxruntime as o; s = o.InferenceSession({onnx!r}, providers=['CPUExecutionProvider']);"
    " s.run(None, {{s.get_inputs()[0].name: x[None]}})",
    "litert .tflite": "from ai_edge_litert.interpreter import Interpreter as I; i = I({tflite!r}, num_threads=1);"
    " i.allocate_tensors(); i.set_tensor(i.get_input_details()[0]['index'], x[None]); i.invoke();"
    " i.get_tensor(i.get_output_details()[0]['index'])",
}


def starts(folder: Path, times: int) -> dict[str, dict[str, float]]:
    """Seconds of whole processes, from start to first prediction and end, in turns: {what: {"min": s, "median": s}}.

    All have their modules as bytecode, as installed packages do, whatever this process was told about writing it.
    """
    network = NETWORKS[STARTED]
    path, _ = files(network, folder)
    names = {kind: str(folder / f"{network.name}.{kind}") for kind in ("h5", "npz", "onnx", "tflite")}
    model = npinfer.load(path, engine="numpy")
    model.save(names["npz"])
    try:
        from npinfer.export import onnx

        onnx.export(model, names["onnx"])
    except NpinferError:
        pass
    width = model.inputs[0].shape[0]
    head = f"import numpy as np; x = np.linspace(-1, 1, {width}, dtype=np.float32); "
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    taken: dict[str, list[float]] = {k: [] for k in START}
    for k in range(times + 1):  # the first round warms the caches
        for j in measure.rotated(len(START), k):
            what = list(START)[j]
            code = ("" if what.startswith("import") else head) + START[what].format(**names)
            begin = perf_counter()
            done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
            if k and done.returncode == 0:
                taken[what].append(perf_counter() - begin)
    return {k: {"min": min(t), "median": float(np.median(t))} for k, t in taken.items() if t}


def memory(folder: Path, calls: int) -> dict[str, dict[str, float]]:
    """Bytes of resident memory that so many one-sample calls add, by engine and form of call."""
    path, _ = files(NETWORKS[STARTED], folder)
    found = {}
    for engine in ("native", "numpy"):
        try:
            model = npinfer.load(path, engine=engine)
        except EngineError:
            continue
        x, out = np.ones(model.inputs[0].shape, np.float32), np.empty(model.outputs[0].shape, np.float32)
        fresh, reused = model.bind(), model.bind(reuse_output=True)
        forms: dict[str, Callable[[], Any]] = {
            "step(x)": lambda: fresh(x),  # noqa: B023 (called in this round of the loop)
            "step(x, out)": lambda: fresh(x, out),  # noqa: B023
            "reuse_output": lambda: reused(x),  # noqa: B023
        }
        for form, call in forms.items():
            for _ in range(1000):
                call()
            before = measure.resident() or 0
            for _ in range(calls):
                call()
            found[f"npinfer {engine} {form}"] = {"calls": calls, "bytes": (measure.resident() or 0) - before}
    return found


def threads(folder: Path) -> dict[str, dict[str, float]]:
    """Least times of batches in the native engine with one and two threads, in turns: {threads: {batch: ns}}."""
    path, _ = files(NETWORKS[THREADED], folder)
    rng = np.random.default_rng(1)

    def pool(rows: int) -> list[Any]:
        return [rng.standard_normal((rows, 40)).astype(np.float32)]

    made = []
    for count in (1, 2):
        try:
            load = partial(npinfer.load, path, engine="native", threads=count)
            made.append(runners.open_engine(load, [(x,) for x in pool(16)[0]], pool, None, False)[0])
        except EngineError:
            return {}
    found = measure.batches(made, (1, 64, 256, 1024, 4096, 16384), 10, lambda: None)
    return {str(k + 1): {str(n): t for n, (t, _) in f.items()} for k, f in enumerate(found)}


def commit() -> str | None:
    """The short name of the commit that was measured, with "+" where files differ from it."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--untracked-files=no", "--", "npinfer") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def versions() -> dict[str, str]:
    return dict(_versions())


def _versions() -> Iterator[tuple[str, str]]:
    for name in ("numba", "llvmlite", "h5py", "onnxruntime", "ai-edge-litert", "openvino", "jax"):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def tidy(value: Any) -> Any:
    """Numbers with five digits: what is finer is noise, and result files are kept."""
    if isinstance(value, dict):
        return {k: tidy(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [tidy(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return value
