"""`npinfer bench` and `npinfer profile`: from the command line's options to what is measured, printed and drawn."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import npinfer
from npinfer import destination
from npinfer.bench import measure, report, runners
from npinfer.bench.flops import graph_numbers
from npinfer.bench.measure import Runner
from npinfer.bench.peers import Absent, Context, open_peer
from npinfer.checking import random_inputs
from npinfer.errors import EngineError, ShapeError
from npinfer.executors.signature import fix
from npinfer.graph import Array, Graph, Spec
from npinfer.model import Model
from npinfer.progress import Progress

SAMPLES = 64  # different one-sample inputs, used in turn
OPEN_SIZE = 8
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
BINS = 60


def bench(args: argparse.Namespace) -> None:
    """Measure, print the report, write what was asked for."""
    draw = _plotter(args.plot)
    _writable(args.json, args.csv)
    with Progress(None, 0 if args.quiet else "auto", "turns", "bench") as progress:
        result = measured(args, progress.advance)
    if args.json != "-":
        print(report.text(result))
    _write(args, result)
    if args.csv:
        with destination.replacing(args.csv) as temporary:
            temporary.write_text(report.csv_text(result), "utf-8")
    draw(result, "bench")


def profile(args: argparse.Namespace) -> None:
    """Time each layer, print the table, write what was asked for."""
    from npinfer.bench.profile import profiled, table

    draw = _plotter(args.plot)
    _writable(args.json)
    model = npinfer.load(args.file, args.config, dtype=args.dtype, engine=args.engine, outputs=args.outputs)
    with Progress(args.rounds, 0 if args.quiet else "auto", "runs", "profile") as progress:
        result = profiled(model, args.rounds, args.batch, shapes_of(model.inputs, args.shape), progress.advance)
    result["file"], result["machine"] = os.path.basename(args.file), machine(1)
    if args.json != "-":
        print(table(result))
    _write(args, result)
    draw(result, "profile")


def _write(args: argparse.Namespace, result: dict[str, Any]) -> None:
    if args.json == "-":
        print(json.dumps(result, indent=1))
    elif args.json:
        with destination.replacing(args.json) as temporary:
            temporary.write_text(json.dumps(result, indent=1), "utf-8")


def _writable(*targets: str | None) -> None:
    """Complain before anything is measured, not when the results are there."""
    for target in targets:
        if target and target != "-":
            destination.check(target)


def _plotter(target: str | None) -> Callable[[dict[str, Any], str], None]:
    """What draws the result; complains before anything is measured."""
    if target is None or target == "-":
        return lambda result, kind: None if target is None else print(report.picture(result, kind))
    from npinfer.bench import plots

    plots.check(target)
    _writable(target)
    return lambda result, kind: plots.draw(result, kind, target)


def measured(args: argparse.Namespace, tick: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Everything about one network: a dict for report.py, plots.py and JSON. args: as the parser gives them."""

    def load(engine: str) -> Callable[[], Model]:
        return lambda: npinfer.load(
            args.file, args.config, dtype=args.dtype, engine=engine, outputs=args.outputs, threads=args.threads
        )

    base = load("numpy")()
    if args.stream:
        from npinfer.streams import step_graph

        graph = step_graph(base._graph)
    else:
        graph = base._graph
    specs = graph.inputs[: len(graph.inputs) - len(graph.states)]  # initial states are states of a stream, not inputs
    shapes = shapes_of(specs, args.shape)
    fixed = fix(specs, shapes)

    def pool(rows: int) -> list[Array]:
        return random_inputs(graph, rows, fixed)

    many = pool(SAMPLES)
    samples = [tuple(np.ascontiguousarray(x[k]) for x in many) for k in range(SAMPLES)]
    shape = {s.name: n for s, n in zip(specs, shapes)} if any(None in s.shape for s in specs) and not args.stream else None
    found: list[Runner] = []
    models: list[Model | None] = []
    absent: dict[str, str] = {}
    before = measure.resident()
    for engine in args.engines:
        try:
            runner, model = runners.open_engine(load(engine), samples, pool, shape, args.stream)
        except (EngineError, ImportError) as e:
            absent[engine] = str(e)
            continue
        found.append(runner)
        models.append(model)
    if not found:
        raise EngineError("; ".join(absent.values()) or "no engine to measure")
    context = Context(models[0] or base, args.file, dict(args.model), dict(args.python), args.threads, pool, samples)
    for name in args.against:
        try:
            if args.stream or base._graph.states:
                raise Absent("not measured for streams and stateful models")
            found.append(open_peer(name, context))
            models.append(None)
        except Absent as e:
            absent[name] = str(e)
    loaded = measure.resident()
    try:
        return _result(args, base, found, models, absent, fixed, shape, (before, loaded), tick)
    finally:
        for r in found:
            r.close()


def _result(
    args: argparse.Namespace,
    base: Model,
    found: list[Runner],
    models: list[Model | None],
    absent: dict[str, str],
    specs: Sequence[Spec],
    shape: Any,
    memory: tuple[int | None, int | None],
    tick: Callable[[], None],
) -> dict[str, Any]:
    able = [r for r in found if getattr(r, "_many", True) is not None]
    errors = _compared(able, base, specs)
    singles = measure.one_sample(found, args.calls, args.rounds, args.seconds, tick)
    after = measure.resident()
    sizes = [] if not able else args.batches or list(BATCHES)
    timed = dict(zip(map(id, able), measure.batches(able, sizes, max(2, args.rounds // 2), tick)))
    rows = []
    for r, model, single in zip(found, models, singles):
        row = _row(r, single, timed.get(id(r), {}), errors.get(r.name))
        if model is not None:
            row["door"] = runners.door(model, [s.shape for s in specs])  # type: ignore[misc]
            row["memory"] = vars(model._executor.memory())
            inputs = [(tuple(s.shape), s.dtype.name) for s in specs]
            row["start"] = (
                None
                if args.stream
                else runners.cold_start(os.path.abspath(args.file), args.config, model.engine, shape, inputs, args.starts)
            )
            tick()
        rows.append(row)
    flops, weight_bytes = graph_numbers(_sized(base._executor.graph, specs, args.stream))
    return {
        "kind": "bench",
        "file": os.path.basename(args.file),
        "machine": machine(args.threads),
        "network": {
            "inputs": [str(s) for s in specs],
            "outputs": [str(s) for s in base.outputs],
            "weights": sum(a.size for a in base._archive.arrays()),
            "weight_bytes": weight_bytes,
            "flops": flops,
            "stream": args.stream,
        },
        "rounds": args.rounds,
        "rows": rows,
        "absent": absent,
        "resident": {"before": memory[0], "loaded": memory[1], "after_calls": after},
        "bandwidth": measure.bandwidth(),
        "peak_flops": measure.peak_flops(),
    }


def _sized(graph: Graph, specs: Sequence[Spec], stream: bool) -> Graph:
    """The graph with its open sizes filled in, so that its work can be counted."""
    if stream:
        from npinfer.streams import step_graph

        return step_graph(graph)
    states = graph.inputs[len(specs) :]
    return Graph((*specs, *states), graph.nodes, graph.outputs, None, graph.states)


def _row(r: Runner, single: measure.OneSample, batches: dict[int, tuple[float, float]], error: float | None) -> dict[str, Any]:
    times = single.times
    p50, p90, p99, p999 = (float(v) for v in np.percentile(times, measure.PERCENTILES))
    least = {n: t for n, (t, _) in batches.items()}
    fitted = measure.fit(least)
    low, high = max(float(times.min()), 1.0), max(float(np.percentile(times, 99.9)), 2.0)
    counts, edges = np.histogram(times, np.geomspace(low, max(high, low * 1.5), BINS + 1))
    return {
        "name": r.name,
        "own": r.name.startswith("npinfer"),
        "version": r.version,
        "note": r.note,
        "load": r.load,
        "first": r.first,
        "error": error,
        "latency": {
            "calls": len(times), "loop": single.loop, "min": float(times.min()), "p50": p50, "p90": p90, "p99": p99,
            "p99.9": p999, "max": float(times.max()),
        },
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "batches": [{"n": n, "min": t, "median": m} for n, (t, m) in batches.items()],
        "fit": None if fitted is None else fitted._asdict(),
        "jumps": [j._asdict() for j in measure.jumps(least)],
    }  # fmt: skip


def _compared(able: Sequence[Runner], base: Model, specs: Sequence[Spec]) -> dict[str, float]:
    """Each runner's largest difference from the NumPy engine's outputs, relative to an output's scale."""
    if not able:
        return {}
    arrays = random_inputs(base._graph, 32, specs)
    want = base._plain(arrays) if not base._graph.states else []
    found = {}
    for r in able:
        got = r.outputs(arrays)
        if len(got) != len(want):
            raise ShapeError(
                f"{r.name}: gives {len(got)} outputs, the network has {len(want)}; --model names a peer's file of this network"
            )
        found[r.name] = max(_difference(a, b) for a, b in zip(_paired(got, want), want))
    return found


def _paired(got: list[Array], want: list[Array]) -> list[Array]:
    """A peer's outputs in our order: as they are, unless shapes or numbers say that its file lists them otherwise."""
    if len(got) == 1:
        return got
    left, order = list(got), []
    for w in want:
        best = min(left, key=lambda g: _difference(g, w))
        order.append(best)
        left = [g for g in left if g is not best]
    return order


def _difference(got: Array, want: Array) -> float:
    if got.size != want.size:
        return float("inf")
    scale = max(float(np.abs(want).max(initial=0)), 1e-30)
    return float(np.abs(got.reshape(want.shape) - want).max(initial=0)) / scale


def shapes_of(specs: Sequence[Spec], given: Sequence[int] | None) -> list[tuple[int, ...]]:
    """Per-sample shapes without open sizes: `given` for the first input that has some, else a size of 8. Raises ShapeError."""
    found: list[tuple[int, ...]] = []
    for s in specs:
        if None in s.shape and given is not None:
            if len(given) != len(s.shape):
                raise ShapeError(
                    f"--shape {','.join(map(str, given))}: input {s.name!r} has {len(s.shape)} axes a sample; "
                    "give a size for each"
                )
            found.append(tuple(given))
            given = None
        else:
            found.append(tuple(OPEN_SIZE if n is None else n for n in s.shape))
    if given is not None and not any(None in s.shape for s in specs):
        raise ShapeError("--shape: this model leaves no size open; leave the option out")
    return found


def machine(threads: int) -> dict[str, Any]:
    """What the numbers were taken on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "npinfer": npinfer.__version__,
        "threads": threads,
        "blas_threads": _blas_threads(),
    }


def _blas_threads() -> int | None:
    """How many threads NumPy's BLAS really uses, where threadpoolctl is there to tell, else what the environment asks for."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        asked = os.environ.get("OPENBLAS_NUM_THREADS")
        return int(asked) if asked else None
    counts = [int(lib["num_threads"]) for lib in threadpool_info() if lib.get("user_api") == "blas"]
    return max(counts) if counts else None


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
