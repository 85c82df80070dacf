"""The picture of `npinfer profile`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npinfer.bench.plots import FAINT, GRID, INK, OTHERS, OWN, canvas, times
from npinfer.bench.report import amount, duration


def profile_figure(result: dict[str, Any]) -> Any:
    """A bar a layer, in the network's order: time, with flops beside it."""
    nodes = _most(result["nodes"], 28)
    figure = canvas(16, max(4.5, 2.2 + 0.42 * len(nodes)))
    m = result.get("machine", {})
    what = f"a batch of {result['batch']}" if result["batch"] else "one sample"
    inch = 1 / figure.get_figheight()
    title = f"{result.get('file', 'network')}: where {what} spends {duration(result['sum'])}"
    below = f"engine {result['engine']} · whole network in one call {duration(result['whole'])} · {m.get('cpu', '')}"
    figure.text(0.04, 1 - 0.3 * inch, title, fontsize=20, fontweight="bold", va="top")
    figure.text(0.04, 1 - 0.78 * inch, below, fontsize=11, color=FAINT, va="top")
    place = {"left": 0.2, "right": 0.96, "top": 1 - 1.6 * inch, "bottom": 0.75 * inch}
    grid = figure.add_gridspec(1, 2, **place, width_ratios=(3, 1), wspace=0.06)
    axes, side = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    kinds = list(dict.fromkeys(n["op"].split()[0] for n in nodes))
    palette = (*OWN[:2], *OTHERS, FAINT)
    shade = {k: palette[j % len(palette)] for j, k in enumerate(kinds)}
    places = range(len(nodes) - 1, -1, -1)
    axes.barh(places, [n["time"] for n in nodes], 0.66, color=[shade[n["op"].split()[0]] for n in nodes])
    for k, n in zip(places, nodes):
        note = f"{duration(n['time'])}  {n['share']:.0%}" + (
            "  by NumPy" if n["engine"] != result["engine"] == "native" else ""
        )
        axes.annotate(note, (n["time"], k), (6, 0), textcoords="offset points", va="center", fontsize=10)
    axes.set_yticks(list(places), [f"{n['layer']}\n{n['op']}" for n in nodes], fontsize=9, color=INK)
    axes.set_xlim(0, max(max(n["time"] for n in nodes) * 1.32, 1))
    side.barh(places, [n["flops"] for n in nodes], 0.66, color=GRID)
    for k, n in zip(places, nodes):
        rate = f", {amount(n['flops'] / n['time'] * 1e9, '')}/s" if n["time"] > 0 and n["flops"] else ""
        side.annotate(f"{amount(n['flops'], '')}{rate}", (0, k), (4, 0), textcoords="offset points", va="center", fontsize=10)
    side.set_yticks([])
    side.set_xticks([])
    side.spines["bottom"].set_visible(False)
    for a in (axes, side):
        a.set_ylim(-0.6, len(nodes) - 0.4)
        a.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    times(axes.xaxis)
    axes.set_title("time")
    side.set_title("flops, and flops a second")
    return figure


def _most(nodes: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The nodes that take longest, in order; the others as one."""
    if len(nodes) <= count:
        return list(nodes)
    least = sorted(nodes, key=lambda n: -float(n["time"]))[count - 2]["time"]
    kept = [n for n in nodes if n["time"] >= least]
    rest = [n for n in nodes if n["time"] < least]
    total = {k: sum(n[k] for n in rest) for k in ("time", "share", "flops")}
    return [*kept, {"layer": f"{len(rest)} others", "op": "together", "engine": "", **total}]
