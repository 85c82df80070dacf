"""The command line; see the package's docstring. Threads of BLAS are fixed before NumPy is imported."""

from __future__ import annotations

import argparse
import os
import sys


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("benchmarks", description="npinfer beside its peers")
    commands = p.add_subparsers(dest="command", required=True)
    r = commands.add_parser("run", help="measure, write a result file and pictures")
    r.add_argument("--cases", type=words, default=[], metavar="WORD,…", help="only networks whose name contains one of these")
    r.add_argument("--peers", type=words, default=["onnxruntime", "litert", "openvino", "jax", "numpy"], metavar="PEER,…")
    r.add_argument("--engines", type=words, default=["native", "numpy"], metavar="E,…")
    r.add_argument(
        "--python", action="append", default=[], metavar="PEER=PYTHON", help="an interpreter that has a peer (keras)"
    )
    r.add_argument("--threads", type=int, default=1)
    r.add_argument("--quick", action="store_true", help="fewer networks, rounds and batch sizes")
    r.add_argument("--out", metavar="FILE.json", help="default: benchmarks/results/latest.json")
    t = commands.add_parser("report", help="tables of a result file")
    t.add_argument("result", nargs="?", metavar="FILE.json")
    c = commands.add_parser("compare", help="two result files, or two commits measured in turns; exit code 1 for a regression")
    c.add_argument("before", metavar="A")
    c.add_argument("after", metavar="B")
    c.add_argument("--cases", type=words, default=[], metavar="WORD,…")
    c.add_argument("--engines", type=words, default=["native", "numpy"], metavar="E,…")
    c.add_argument("--rounds", type=int, default=6, help="of turns between two commits")
    c.add_argument("--allow", type=float, default=1.15, help="a factor that is no regression (default 1.15)")
    return p


def words(text: str) -> list[str]:
    return [w for w in text.split(",") if w]


def main(argv: list[str] | None = None) -> int:
    o = parser().parse_args(argv)
    for name in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = str(getattr(o, "threads", 1))
    if o.command == "run":
        from benchmarks.runs import run

        return run(o)
    if o.command == "report":
        from benchmarks.tables import load, report

        print(report(load(o.result)))
        return 0
    from benchmarks.compare import compare

    return compare(o)


if __name__ == "__main__":
    sys.exit(main())
