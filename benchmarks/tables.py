"""What a result file says, as Markdown: for the terminal and for the README."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.networks import NETWORKS
from benchmarks.runs import RESULTS, SHOWN
from npinfer.bench.report import amount, duration

Result = Mapping[str, Any]
BATCHES = (1, 16, 64, 1024, 16384)
BATCHED = ("tiny", "seed", "rl", "wide", "lenet", "image4")
BUSY = " The machine was busy with other work: runtimes that wake threads (OpenVINO, TensorFlow) suffer most from that."
SHORT = 2000  # ns
CLOSE = 1.02  # below this factor two times are the same


def load(path: str | Path | None = None) -> dict[str, Any]:
    """A result file; the latest one by default."""
    found: dict[str, Any] = json.loads(Path(path or RESULTS / "latest.json").read_text("utf-8"))
    return found


def best(row: Any) -> float:
    """Nanoseconds of one sample: the least single call; the best loop where a call is about as short as reading the clock."""
    t = row["latency"]
    return float(t["loop"] if t["loop"] < SHORT else min(t["loop"], t["min"]))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Markdown; the first row is the head, the first column is to the left, the others to the right."""
    head, *body = rows
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def latency(result: Result) -> str:
    """One sample from Python, the least time: runners by networks."""
    cases = [(n, c) for n, c in result["cases"].items() if NETWORKS[n].shown]
    names = runners(dict(cases))
    rows = [["one sample, from Python", *(c["what"] for _, c in cases)]]
    rows += [[label(name), *(_cell(c, name) for _, c in cases)] for name in names]
    if any(c.get("jit") for _, c in cases):
        rows.append(["npinfer, inside `@njit` code", *(duration(c["jit"]) if c.get("jit") else "–" for _, c in cases)])
    return table(rows) + "\n\n" + machine_line(result)


def _cell(case: Result, name: str) -> str:
    row = row_of(case, name)
    if row is None:
        return "–"
    text = duration(best(row))
    return f"**{text}**" if best(row) == min(map(best, case["rows"])) else text


def runners(cases: Result) -> list[str]:
    """All runners' names, npinfer's first, in the order in which they were measured."""
    names = dict.fromkeys(r["name"] for c in cases.values() for r in c["rows"])
    return sorted(names, key=lambda n: not n.startswith("npinfer"))


def label(name: str) -> str:
    return {
        "npinfer native": "**npinfer**, compiled",
        "npinfer numpy": "**npinfer**, NumPy only",
        "onnxruntime": "ONNX Runtime",
        "litert": "LiteRT",
        "openvino": "OpenVINO (f32)",
        "jax": "JAX (jit)",
        "numpy": "NumPy, `f(x @ W + b)`",
        "keras": "Keras `model.predict`",
    }.get(name, name)


def row_of(case: Result, name: str) -> Any:
    return next((r for r in case["rows"] if r["name"] == name), None)


def machine_line(result: Result) -> str:
    m = result["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items())
    return (
        f"{m['cpu']}, {m['cores']} cores (load {m['load']:.1f} at the start), {m['threads']} thread, "
        f"{m['system']}, {m['python']}, NumPy {m['numpy']}, {versions}; commit "
        f"{result['commit']}, {result['date']}. Best of many rounds in which all take turns, random inputs, outputs compared."
        + (BUSY if m["load"] > m["cores"] / 2 else "")
    )


def tails(result: Result) -> str:
    """Median and 99th percentile of one sample, every network that isn't part of the sweep."""
    cases = {n: c for n, c in result["cases"].items() if not n.startswith("sweep")}
    names = runners(cases)
    rows = [["one sample: median / p99", *map(label, names), "largest difference"]]
    for case in cases.values():
        cells = [case["what"]]
        for name in names:
            row = row_of(case, name)
            cells.append(f"{duration(row['latency']['p50'])} / {duration(row['latency']['p99'])}" if row else "–")
        errors = [r["error"] for r in case["rows"] if r["error"] is not None]
        rows.append([*cells, f"{max(errors):.0e}" if errors else "–"])
    return table(rows)


def batches(result: Result) -> str:
    """Time per sample in batches."""
    cases = {n: c for n, c in result["cases"].items() if n in BATCHED}
    rows = [["per sample in a batch of", "", *(f"{n:,}" for n in BATCHES)]]
    for case in cases.values():
        title = case["what"]
        for row in case["rows"]:
            least = {b["n"]: b["min"] / b["n"] for b in row["batches"]}
            if least:
                cells = [duration(least[n]) if n in least else "–" for n in BATCHES]
                rows.append([title, label(row["name"]), *cells])
                title = ""
    return table(rows)


def sweep(result: Result) -> str:
    """Two square layers of every width, one sample, beside the best peer."""
    rows = [["w-w-w relu, w =", *(n.removeprefix("sweep-") for n in result["cases"] if n.startswith("sweep"))]]
    cases = [c for n, c in result["cases"].items() if n.startswith("sweep")]
    rows += [
        [label(name), *(duration(best(r)) if (r := row_of(c, name)) else "–" for c in cases)]
        for name in ("npinfer native", "npinfer numpy")
    ]
    rows.append(["best peer", *(duration(_peer(c)) for c in cases)])
    return table(rows) if cases else ""


def _peer(case: Result) -> float | None:
    return min((best(r) for r in case["rows"] if not r["own"]), default=None)


def losses(result: Result) -> list[str]:
    """Where a peer is faster than npinfer's compiled engine (or its only one): by network, one sample and batch sizes."""
    found = []
    for name, case in result["cases"].items():
        own = [r for r in case["rows"] if r["own"]]
        ours = row_of(case, "npinfer native") or own[0]
        mine = {b["n"]: b["min"] for b in ours["batches"]}
        for peer in (r for r in case["rows"] if not r["own"]):
            lost = [("one sample", best(ours) / best(peer))]
            lost += [(f"batch {b['n']:,}", mine[b["n"]] / b["min"]) for b in peer["batches"] if b["n"] in mine]
            worse = [f"{what} ({factor:.2f}×)" for what, factor in lost if factor > CLOSE]
            if worse:
                found.append(f"{name}: slower than {label(peer['name'])} at {', '.join(worse)}")
    return found


def absent(result: Result) -> str:
    """Which runtimes weren't measured, and why; the first reason given."""
    reasons: dict[str, str] = {}
    for name, case in result["cases"].items():
        for peer, why in case.get("absent", {}).items():
            if not NETWORKS[name].stream:
                reasons.setdefault(peer, why)
    return "\n".join(f"Not measured: {label(peer)}: {why}" for peer, why in reasons.items())


def start(result: Result) -> str:
    rows = [["whole process, start to first prediction and end (seed; modules as bytecode)", "least", "median"]]
    for what, t in result.get("start", {}).items():
        rows.append([what, duration(t["min"] * 1e9), duration(t["median"] * 1e9)])
    return table(rows) if len(rows) > 1 else ""


def memory(result: Result) -> str:
    found = result.get("memory", {})
    if not found:
        return ""
    calls = next(iter(found.values()))["calls"]
    parts = (f"{what}: {amount(max(v['bytes'], 0))}" for what, v in found.items())
    return f"Resident memory added by {calls:,} calls (seed): {'; '.join(parts)}."


def threads(result: Result) -> str:
    found = result.get("threads", {})
    if not found:
        return ""
    one, two = found["1"], found["2"]
    rows = [["seed, native engine, batch of", *(f"{int(n):,}" for n in one)]]
    rows += [[f"{k} thread{'s' * (k != '1')}, per sample", *(duration(t / int(n)) for n, t in found[k].items())] for k in found]
    rows.append(["two threads are", *(f"{one[n] / two[n]:.2f}×" for n in one)])
    return table(rows)


def pictures(path: Path) -> Iterator[str]:
    """Links to the pictures beside a result file."""
    for name in SHOWN:
        picture = path.with_name(f"{path.stem}-{name}.png")
        if picture.exists():
            yield f"![{name}: one sample, batches, roofline](benchmarks/results/{picture.name})"


def details(result: Result) -> str:
    """All but the first table."""
    lost = losses(result)
    verdict = "Losses of the compiled engine: " + ("; ".join(lost) + "." if lost else "none.")
    parts = (
        tails(result),
        batches(result),
        verdict,
        sweep(result),
        threads(result),
        start(result),
        memory(result),
        absent(result),
    )
    return "\n\n".join(p for p in parts if p)


def report(result: Result) -> str:
    return latency(result) + "\n\n" + details(result)
