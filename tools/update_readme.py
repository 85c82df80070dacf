"""Write the generated parts of README.md: the measured tables, the pictures' links, the table of supported layers.

    python tools/update_readme.py [--check]

A part stands between <!-- begin NAME --> and <!-- end NAME -->. The numbers come from benchmarks/results/latest.json, which
`python -m benchmarks run` writes; the layers from npinfer.supported(). --check changes nothing and fails where a part is old.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import npinfer
from benchmarks import tables

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PART = re.compile(r"(<!-- begin (\w+) -->\n)(.*?)(<!-- end \2 -->)", re.S)

#: of keras.activations and keras.ops: one line for all names is enough
IN_A_LINE = {
    "activation": "Activations, as strings or functions",
    "operation": "Operations in functional models, of `keras.ops` and of TensorFlow's functions",
}


def latency() -> str:
    return tables.latency(tables.load())


def benchmarks() -> str:
    """The other tables and the pictures, folded so that the page stays short."""
    pictures = "\n\n".join(tables.pictures(tables.RESULTS / "latest.json"))
    folded = (
        "<details><summary>All tables: tails, batches, every width, threads, start-up, memory</summary>\n\n{}\n\n</details>"
    )
    return "\n\n".join(p for p in (pictures, folded.format(tables.details(tables.load()))) if p)


def layers() -> str:
    """One row for the layers that share a description; activations and operations in a line each."""
    shared: dict[str, list[str]] = defaultdict(list)
    named: dict[str, list[str]] = defaultdict(list)
    for row in npinfer.supported():
        if row.kind == "layer":
            shared[row.note].append(row.name)
        elif row.kind in IN_A_LINE:
            named[row.kind].append(row.name)
    rows = [["layer", "what is supported"]]
    rows += [[", ".join(names), cell(note)] for note, names in sorted(shared.items(), key=lambda item: item[1])]
    count = sum(map(len, shared.values()))
    lines = [f"{IN_A_LINE[kind]}: {', '.join(f'`{n}`' for n in names)}." for kind, names in named.items()]
    head = f"{count} layers (`npinfer.supported()` lists them, with those that you register):"
    return "\n\n".join([head, table(rows), *lines])


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(r)} |" for r in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


PARTS: dict[str, Callable[[], str]] = {"latency": latency, "benchmarks": benchmarks, "layers": layers}


def updated(text: str) -> str:
    """The README with every part made anew. Raises KeyError for a part that has no maker."""
    return PART.sub(lambda m: f"{m[1]}{PARTS[m[2]]()}\n{m[4]}", text)


def main(arguments: Sequence[str]) -> int:
    old = README.read_text("utf-8")
    new = updated(old)
    if "--check" in arguments:
        if new != old:
            print("README.md is old: run python tools/update_readme.py", file=sys.stderr)
        return int(new != old)
    README.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
