"""What was measured, as text: tables and bars for the terminal, one line a number for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

BAR = 40


def duration(ns: float | None) -> str:
    """A time in the unit a person would use: 87 ns, 1.24 µs, 53.1 ms."""
    if ns is None:
        return "-"
    for unit, size in ("s", 1e9), ("ms", 1e6), ("µs", 1e3):
        if ns >= size:
            return f"{_three(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def amount(count: float | None, unit: str = "B") -> str:
    """A number of bytes or operations: 110 KB, 2.4 GB."""
    if count is None:
        return "-"
    for prefix, size in ("G", 1e9), ("M", 1e6), ("K", 1e3):
        if count >= size:
            return f"{_three(count / size)} {prefix}{unit}"
    return f"{count:.0f} {unit}".rstrip()


def columns(table: Sequence[Sequence[str]], indent: str = "") -> str:
    """Rows of cells, the first column to the left, the others to the right; the first row is the head."""
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
    lines = [
        indent + "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in table
    ]
    lines.insert(1, indent + "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def text(result: dict[str, Any]) -> str:
    """The whole report of `npinfer bench`."""
    return "\n\n".join(part for part in _parts(result) if part)


def _parts(result: dict[str, Any]) -> Iterator[str]:
    m, net = result["machine"], result["network"]
    yield (
        f"{result['file']}: {net['weights']:,} weights ({amount(net['weight_bytes'])}), "
        f"{amount(net['flops'], 'flop')} a sample{', one time step a call' if net['stream'] else ''}\n"
        f"{m['cpu']}, {m['cores']} cores, load {m['load'] or 0:.1f}; {m['python']}, NumPy {m['numpy']}; "
        f"{m['threads']} thread(s), BLAS {m['blas_threads']}; {result['rounds']} rounds in turn"
    )
    if m["load"] is not None and m["load"] > (m["cores"] or 1):
        yield f"note: the machine is busy (load {m['load']:.1f} on {m['cores']} cores): compare within this table only"
    yield "one sample\n" + columns(list(_latency(result)), "  ")
    if any(r["batches"] for r in result["rows"]):
        yield "time per sample in a batch of n (least)\n" + columns(list(_batches(result)), "  ")
        yield "\n".join(_fits(result))
    yield "start and memory\n" + columns(list(_starts(result)), "  ") + "\n  " + _resident(result)
    yield "\n".join(_verdict(result))
    yield "\n".join(f"not measured: {name}: {why}" for name, why in result["absent"].items())


def _latency(result: dict[str, Any]) -> Iterator[list[str]]:
    names = ("min", "p50", "p90", "p99", "p99.9", "max")
    yield ["", "loop", *names, "calls", "empty net", "difference"]
    for r in result["rows"]:
        t = r["latency"]
        error = "-" if r["error"] is None else f"{r['error']:.0e}"
        numbers = [duration(t[n]) for n in ("loop", *names)]
        yield [_name(r), *numbers, f"{t['calls']:,}", duration(r.get("door")), error]


def _name(r: dict[str, Any]) -> str:
    return f"{r['name']} {r['version']}".strip()


def _batches(result: dict[str, Any]) -> Iterator[list[str]]:
    sizes = sorted({b["n"] for r in result["rows"] for b in r["batches"]})
    yield ["n", *(f"{n:,}" for n in sizes)]
    for r in result["rows"]:
        least = {b["n"]: b["min"] for b in r["batches"]}
        yield [r["name"], *(duration(least[n] / n) if n in least else "-" for n in sizes)]


def _fits(result: dict[str, Any]) -> Iterator[str]:
    yield "fitted: time of a call = a + b·n"
    width = max(len(r["name"]) for r in result["rows"])
    for r in result["rows"]:
        if r["fit"]:
            f = r["fit"]
            yield (
                f"  {r['name']:{width}}  a = {duration(f['a'])} a call, b = {duration(f['b'])} a sample "
                f"({1e9 / max(f['b'], 1e-9):,.0f} samples/s at most), every point within {f['worst']:.2f}×"
            )
        for j in r["jumps"]:
            yield f"  {'':{width}}  jump: from {j['before']:,} to {j['after']:,} the time per sample rises {j['factor']:.1f}×"


def _starts(result: dict[str, Any]) -> Iterator[list[str]]:
    yield ["", "load", "first call", "process start to result", "weights", "packed", "scratch"]
    for r in result["rows"]:
        memory, start = r.get("memory") or {}, r.get("start") or {}
        whole = start.get("whole")
        yield [
            r["name"],
            duration(r["load"] * 1e9),
            duration(r["first"] * 1e9),
            "-" if whole is None else duration(whole * 1e9),
            *(amount(memory.get(k)) for k in ("weights", "packed", "scratch")),
        ]


def _resident(result: dict[str, Any]) -> str:
    r = result["resident"]
    if r["before"] is None:
        return "resident memory: this system doesn't tell"
    grown = (r["after_calls"] or 0) - (r["loaded"] or 0)
    more = amount(max(grown, 0))
    return f"process: {amount(r['before'])} before loading, {amount(r['loaded'])} after, {more} more after all calls"


def _verdict(result: dict[str, Any]) -> Iterator[str]:
    """npinfer against each peer, losses first-class."""
    own = [r for r in result["rows"] if r["own"]]
    peers = [r for r in result["rows"] if not r["own"]]
    if not own or not peers:
        return
    best = min(own, key=lambda r: float(r["latency"]["p50"]))
    mine = {b["n"]: b["min"] for b in best["batches"]}
    sizes = [n for n in sorted(mine) if any(b["n"] == n for p in peers for b in p["batches"])]
    table = [["", "one sample", *(f"{n:,}" for n in sizes)]]
    lost = []
    for p in peers:
        theirs = {b["n"]: b["min"] for b in p["batches"]}
        ratios = [
            p["latency"]["p50"] / max(best["latency"]["p50"], 1),
            *(theirs[n] / mine[n] if n in theirs else None for n in sizes),
        ]
        table.append([p["name"], *("-" if v is None else _three(v) + (" " if v >= 1 else "▼") for v in ratios)])
        worse = [name for name, v in zip(table[0][1:], ratios) if v is not None and v < 1]
        if worse:
            lost.append(f"{p['name']} ({', '.join(worse)})")
    yield f"how many times as fast as the others {best['name']} is: median of one sample, least of a batch; ▼ slower"
    yield columns(table, "  ")
    yield "  lost to: " + ("; ".join(lost) if lost else "nobody")


def bars(pairs: Sequence[tuple[str, float]], show: Any = duration) -> str:
    """Horizontal bars of text."""
    if not pairs:
        return ""
    most, width = max(v for _, v in pairs), max(len(n) for n, _ in pairs)
    return "\n".join(f"  {n:{width}}  {_bar(v / most if most else 0)} {show(v)}" for n, v in pairs)


def _bar(share: float) -> str:
    eighths = round(share * BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip() or "▏"


def picture(result: dict[str, Any], kind: str) -> str:
    """The picture where there is no matplotlib: bars."""
    if kind == "profile":
        return "\n" + bars([(f"{n['layer']} ({n['op']})", n["time"]) for n in result["nodes"]])
    parts = ["\none sample, median\n" + bars([(r["name"], r["latency"]["p50"]) for r in result["rows"]])]
    for r in result["rows"][:1]:
        edges, counts = r["histogram"]["edges"], r["histogram"]["counts"]
        step = max(1, len(counts) // 12)
        pairs = [(duration(edges[k]), float(sum(counts[k : k + step]))) for k in range(0, len(counts), step)]
        parts.append(f"{r['name']}: how long calls take\n" + bars(pairs, lambda v: f"{v:,.0f}"))
        if r["batches"]:
            pairs = [(f"{b['n']:,}", b["min"] / b["n"]) for b in r["batches"]]
            parts.append(f"{r['name']}: time per sample in a batch of n\n" + bars(pairs))
    return "\n\n".join(parts)


def csv_text(result: dict[str, Any]) -> str:
    """name, version, metric, batch, value (nanoseconds, bytes or a ratio) of everything measured."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["name", "version", "metric", "batch", "value"])
    for r in result["rows"]:
        head = [r["name"], r["version"]]
        for name, value in r["latency"].items():
            writer.writerow([*head, f"latency {name}", 1, value])
        for b in r["batches"]:
            writer.writerow([*head, "batch min", b["n"], b["min"]])
            writer.writerow([*head, "batch median", b["n"], b["median"]])
        for name, value in (r["fit"] or {}).items():
            writer.writerow([*head, f"fit {name}", "", value])
        for name in ("load", "first"):
            writer.writerow([*head, name, "", r[name] * 1e9])
        for name, value in (("door", r.get("door")), ("difference", r["error"])):
            if value is not None:
                writer.writerow([*head, name, "", value])
        for name, value in (r.get("memory") or {}).items():
            writer.writerow([*head, f"bytes {name}", "", value])
    return out.getvalue()
