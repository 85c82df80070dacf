"""Pictures of what was measured: .png, .svg, or .html (one page that needs nothing else). Drawn with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from npinfer.bench import report
from npinfer.bench.report import amount, duration
from npinfer.destination import replacing
from npinfer.errors import EngineError, FormatError

ENDINGS = (".png", ".svg", ".html")
INK, FAINT, GRID = "#1c2733", "#6b7885", "#e4e8ec"
OWN = ("#0b6e8f", "#4fb3c8", "#a5d8e2")  # npinfer's engines
OTHERS = ("#d9822b", "#7a5195", "#6a994e", "#b5485d", "#8d6e63")
SHOWN_JUMP = 1.5  # smaller ones, and those of peers, are in the report only
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "svg.fonttype": "path",
    "svg.hashsalt": "npinfer",
}


def check(target: str) -> None:
    """Raise FormatError for endings that can't be drawn, EngineError where matplotlib is missing."""
    if Path(target).suffix.lower() not in ENDINGS:
        raise FormatError(f"{target}: pictures are {', '.join(ENDINGS)}, or - for the terminal")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise EngineError("pictures need matplotlib: pip install npinfer[plot]; --plot - draws on the terminal") from None


def draw(result: dict[str, Any], kind: str, target: str) -> None:
    """Draw a result of `bench` or `profile` into a file."""
    import matplotlib as mpl

    from npinfer.bench.plots_profile import profile_figure

    with mpl.rc_context(STYLE):
        figure = (profile_figure if kind == "profile" else bench_figure)(result)
        ending = Path(target).suffix.lower()
        with replacing(target) as temporary:
            if ending == ".html":
                temporary.write_text(page(result, kind, figure), "utf-8")
            else:
                figure.savefig(temporary, dpi=150, format=ending[1:], facecolor="white")


def page(result: dict[str, Any], kind: str, figure: Any) -> str:
    """A page with the picture and the numbers in text."""
    from npinfer.bench.profile import table

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    svg = buffer.getvalue()
    text = table(result) if kind == "profile" else report.text(result)
    title = escape(f"npinfer {kind}: {result.get('file', '')}")
    return (
        f"<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>{title}</title><style>body{{max-width:1200px;"
        f"margin:2em auto;padding:0 1em;font-family:sans-serif;color:{INK}}}svg{{width:100%;height:auto}}"
        f"pre{{overflow-x:auto;background:#f6f8f9;padding:1em;line-height:1.35}}</style>"
        f"{svg[svg.index('<svg') :]}<pre>{escape(text)}</pre></html>\n"
    )


def colours(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """One colour a runner, the same in all panels: npinfer in blues, peers in others."""
    own, others = iter(OWN), iter(OTHERS)
    return {r["name"]: next(own if r["own"] else others, FAINT) for r in rows}


def canvas(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def head(figure: Any, title: str, below: str) -> None:
    figure.text(0.04, 0.965, title, fontsize=20, fontweight="bold", va="top")
    figure.text(0.04, 0.917, below, fontsize=11, color=FAINT, va="top")


def bench_figure(result: dict[str, Any]) -> Any:
    """Four panels: bars, histogram, batches with their fits, roofline. Without batches: three."""
    figure, rows = canvas(16, 9), result["rows"]
    colour = colours(rows)
    m, net = result["machine"], result["network"]
    head(
        figure,
        f"{result['file']}: {net['weights']:,} weights, {amount(net['flops'], 'flop')} a sample",
        f"{m['cpu']} · {m['threads']} thread · {m['python']} · NumPy {m['numpy']} · {len(rows)} runtimes in turns, "
        f"{result['rounds']} rounds · compare within this picture",
    )
    grid = figure.add_gridspec(2, 2, left=0.125, right=0.93, top=0.825, bottom=0.085, hspace=0.42, wspace=0.36)
    bars_panel(figure.add_subplot(grid[0, 0]), rows, colour)
    histogram_panel(figure.add_subplot(grid[0, 1]), rows, colour)
    if any(len(r["batches"]) > 1 for r in rows):
        batch_panel(figure.add_subplot(grid[1, 0]), rows, colour)
        roofline_panel(figure.add_subplot(grid[1, 1]), result, colour)
    else:
        roofline_panel(figure.add_subplot(grid[1, :]), result, colour)
    return figure


def bars_panel(axes: Any, rows: Sequence[dict[str, Any]], colour: dict[str, str]) -> None:
    """Median of one sample for each runner, with a whisker to the 99th percentile."""
    ordered = sorted(rows, key=lambda r: -float(r["latency"]["p50"]))
    values = [max(r["latency"]["p50"], 1.0) for r in ordered]
    tails = [max(r["latency"]["p99"], v) for r, v in zip(ordered, values)]
    wide = max(tails) / min(values) > 30
    axes.barh(range(len(ordered)), values, 0.62, color=[colour[r["name"]] for r in ordered])
    axes.hlines(range(len(ordered)), values, tails, color=INK, lw=1.2)
    axes.plot(tails, range(len(ordered)), "|", color=INK, ms=8)
    if wide:
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 2.5, max(tails) * 4)
    else:
        axes.set_xlim(0, max(tails) * 1.25)
    for k, (value, tail) in enumerate(zip(values, tails)):
        axes.annotate(duration(value), (tail, k), (7, 0), textcoords="offset points", va="center", fontweight="bold")
    axes.set_yticks(range(len(ordered)), [r["name"] for r in ordered], color=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    times(axes.xaxis)
    axes.set_title("One sample: median, whisker to the 99th percentile" + (" (log scale)" if wide else ""))


def histogram_panel(axes: Any, rows: Sequence[dict[str, Any]], colour: dict[str, str]) -> None:
    """How long single calls take: each runner's histogram on a common logarithmic axis, each to its own height."""
    labels = []
    for r in rows:
        edges, counts = np.array(r["histogram"]["edges"]), np.array(r["histogram"]["counts"], float)
        width = np.diff(np.log(edges))
        height = counts / width / max((counts / width).max(), 1e-9)
        axes.stairs(height, edges, fill=True, color=colour[r["name"]], alpha=0.3)
        axes.stairs(height, edges, color=colour[r["name"]], lw=1.6)
        labels.append((float(r["latency"]["p50"]), r["name"]))
    axes.set_xscale("log")
    low = min(float(r["histogram"]["edges"][0]) for r in rows)
    high = max(float(r["histogram"]["edges"][-1]) for r in rows)
    axes.set_xlim(low / 1.3, high * 1.3)
    axes.set_ylim(0, 1.42)
    span = np.log(high * 1.3) - np.log(low / 1.3)
    taken: list[list[tuple[float, float]]] = [[], [], [], []]
    for at, name in sorted(labels):  # names above their peaks, on the lowest of four lines where they fit
        centre, half = (np.log(max(at, 1)) - np.log(low / 1.3)) / span, 0.0092 * len(name) + 0.012
        centre = float(np.clip(centre, half, 1 - half))
        line = next((k for k, t in enumerate(taken) if all(abs(centre - c) > half + h for c, h in t)), 3)
        taken[line].append((centre, half))
        axes.text(
            centre,
            (1.05 + 0.095 * line) / 1.42,
            name,
            transform=axes.transAxes,
            ha="center",
            color=colour[name],
            fontweight="bold",
            fontsize=10,
        )
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    times(axes.xaxis)
    calls = min(r["latency"]["calls"] for r in rows)
    axes.set_title(f"How long a call takes: {calls:,}{' or more' if len(rows) > 1 else ''} calls (log scale)")


def batch_panel(axes: Any, rows: Sequence[dict[str, Any]], colour: dict[str, str]) -> None:
    """Time per sample against batch size, with the fitted a/n + b."""
    ends = []
    for r in rows:
        if not r["batches"]:
            continue
        n = np.array([b["n"] for b in r["batches"]], float)
        t = np.array([b["min"] for b in r["batches"]]) / n
        axes.plot(n, t, "o", color=colour[r["name"]], ms=5.5, zorder=3)
        if r["fit"]:
            line = np.geomspace(n[0], n[-1], 200)
            axes.plot(line, r["fit"]["a"] / line + r["fit"]["b"], color=colour[r["name"]], lw=1.6)
        for j in (j for j in r["jumps"] if r["own"] and j["factor"] >= SHOWN_JUMP):
            at = np.flatnonzero(n == j["after"])[0]
            axes.annotate(
                f"×{j['factor']:.1f}",
                (n[at], t[at]),
                (0, 9),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                color=colour[r["name"]],
            )
        ends.append((n[-1], t[-1], r["name"]))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
    times(axes.yaxis)
    beside(axes, ends, colour)
    axes.set_xlabel("samples in a call (n)")
    axes.set_title("Time per sample; lines: a/n + b fitted to the points")


def roofline_panel(axes: Any, result: dict[str, Any], colour: dict[str, str]) -> None:
    """How long this machine needs to read so many bytes of weights once, and where the runners stand."""
    sizes = np.array([s for s, _ in result["bandwidth"]], float)
    floor = np.maximum.accumulate([s / max(b, 1) * 1e9 for s, b in result["bandwidth"]])
    weights, flops = float(result["network"]["weight_bytes"]), float(result["network"]["flops"])
    compute = flops / result["peak_flops"] * 1e9
    low, high = min(sizes[0], weights / 4), max(sizes[-1], weights * 4)
    axes.loglog(sizes, floor, color=INK, lw=2)
    axes.fill_between(sizes, floor, floor.min() / 1e3, color=GRID, lw=0, zorder=0)
    axes.axvline(weights, color=FAINT, lw=1, ls=":")
    shown = sorted(result["rows"], key=lambda r: float(r["latency"]["p50"]))
    marks = []
    for r in shown:
        axes.plot(weights, r["latency"]["p50"], "o", color=colour[r["name"]], ms=9, zorder=3, clip_on=False)
        marks.append((weights, r["latency"]["p50"], r["name"]))
    axes.plot([low, high], [compute, compute], color=FAINT, lw=1.2, ls="--")
    at = int(np.searchsorted(sizes, weights).clip(1, len(sizes) - 1))
    best = float(np.exp(np.interp(np.log(weights), np.log(sizes), np.log(floor))))
    axes.plot(weights, best, "o", mfc="white", mec=INK, mew=2, ms=9, zorder=4)
    axes.text(
        0.985, 0.03,
        f"○  reading {amount(weights)} once: {duration(best)} at {amount(result['bandwidth'][at][1])}/s\n"
        f"- -  the arithmetic alone: {duration(compute)} at {amount(result['peak_flops'], 'flop')}/s",
        transform=axes.transAxes, ha="right", va="bottom", fontsize=9.5, linespacing=1.5,
    )  # fmt: skip
    axes.set_xlim(low, high)
    bottom = min(floor[0], compute, *(m[1] for m in marks))
    axes.set_ylim(bottom / 4, max(floor[-1], *(m[1] for m in marks)) * 2)
    axes.xaxis.set_major_formatter(lambda v, _: amount(v).replace(".00", "").replace(".0", ""))
    times(axes.yaxis)
    beside(axes, marks, colour, left=True)
    axes.set_xlabel("bytes of weights")
    axes.set_title("Against the machine: its weights, read once")


def beside(axes: Any, ends: Sequence[tuple[float, float, str]], colour: dict[str, str], left: bool = False) -> None:
    """Names beside points (to the right, or left), pushed apart where they would overlap, with lines to the points."""
    axes.figure.canvas.draw()
    scale = 72 / axes.figure.dpi
    placed = sorted((float(axes.transData.transform((x, y))[1]) * scale, x, y, name) for x, y, name in ends)
    box = axes.get_window_extent()
    heights = apart([p[0] for p in placed], 14.5, float(box.y0) * scale + 4, float(box.y1) * scale - 4)
    for (point, x, y, name), height in zip(placed, heights):
        shift = height - point
        axes.annotate(
            name, (x, y), (-16 if left else 16, shift), textcoords="offset points", va="center", ha="right" if left else "left",
            color=colour[name], fontweight="bold", fontsize=10, annotation_clip=False, zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            arrowprops={"arrowstyle": "-", "color": colour[name], "lw": 0.8, "shrinkA": 1, "shrinkB": 3},
        )  # fmt: skip


def apart(heights: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Ascending heights moved as little as is needed to be `step` apart: groups that collide spread around their mean."""
    groups: list[list[float]] = []
    for h in heights:
        groups.append([h])
        while len(groups) > 1 and _top(groups[-2], step) + step > _bottom(groups[-1], step):
            last = groups.pop()
            groups[-1] += last
    found = [_bottom(g, step) + k * step for g in groups for k in range(len(g))]
    for k, h in enumerate(found):  # inside the panel, if that can be
        found[k] = max(h, low if k == 0 else found[k - 1] + step)
    for k in range(len(found) - 1, -1, -1):
        found[k] = min(found[k], high if k == len(found) - 1 else found[k + 1] - step)
    return found


def _bottom(group: Sequence[float], step: float) -> float:
    return sum(group) / len(group) - step * (len(group) - 1) / 2


def _top(group: Sequence[float], step: float) -> float:
    return _bottom(group, step) + step * (len(group) - 1)


def times(axis: Any) -> None:
    """Ticks of an axis of nanoseconds in units a person reads."""
    from matplotlib.ticker import NullFormatter

    axis.set_major_formatter(lambda v, _: short(v))
    axis.set_minor_formatter(NullFormatter())


def short(ns: float) -> str:
    for unit, size in ("s", 1e9), ("ms", 1e6), ("µs", 1e3):
        if ns >= size:
            return f"{ns / size:g} {unit}"
    return f"{ns:g} ns"
