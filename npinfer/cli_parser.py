"""The commands and options of the command line. Imported at every start, so it imports nothing heavy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import NoReturn

from npinfer import __version__
from npinfer.bench.options import bench_options, positive, profile_options, tolerance

Command = Callable[[argparse.Namespace], "int | None"]


class Parser(argparse.ArgumentParser):
    """Errors in one line, as all of npinfer's are; argparse would print the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; see {self.prog} --help\n")


def make_parser(runs: Mapping[str, Command]) -> argparse.ArgumentParser:
    """All commands and their options; `runs` has the function for each, whose docstring is its help."""

    parser = Parser("npinfer", description="Run networks that Keras saved, with NumPy.")
    parser.add_argument("--version", action="version", version=f"npinfer {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=runs[name].__doc__, description=runs[name].__doc__)
        found.set_defaults(run=runs[name])
        return found

    def network(p: argparse.ArgumentParser, engine: bool = True) -> None:
        p.add_argument("file", metavar="FILE", help=".h5, .keras, .weights.h5 or .npz")
        p.add_argument("--config", metavar="JSON", help="the architecture (to_json), for files of weights alone")
        p.add_argument("--dtype", choices=["float32", "float64"], help="compute in this instead of the file's own")
        p.add_argument("--outputs", type=_names, metavar="LAYER,…", help="these layers' results instead of the model's outputs")
        if engine:
            p.add_argument("--engine", choices=["auto", "native", "numpy", "reference"], default="auto")
        else:
            p.set_defaults(engine="auto")

    p = add("inspect")
    network(p)
    p.add_argument("--json", action="store_true", help="for programs")
    p.add_argument("--weights", action="store_true", help="list the weights only; needs no architecture")

    p = add("convert")
    network(p)
    p.add_argument("out", metavar="OUT.npz")
    p.add_argument("--check", action="store_true", help="store inputs and outputs that every later load verifies")

    p = add("extract")
    p.add_argument("file", metavar="FILE")
    p.add_argument("out", metavar="OUT.npz")

    p = add("predict")
    network(p)
    p.add_argument(
        "input", nargs="+", metavar="INPUT", help=".npy, .npz, .csv, .parquet, a folder of .npy, or - ; or name=INPUT"
    )
    p.add_argument("-o", "--out", default="-", metavar="OUT", help=".npy, .npz, .csv or .parquet; default: CSV on stdout")
    p.add_argument("--batch-size", type=positive, metavar="N", help="rows that are computed together")
    p.add_argument("--resume", action="store_true", help="keep what is done when interrupted (OUT.part), and go on from there")
    p.add_argument("--header", action=argparse.BooleanOptionalAction, help="CSV input has a line of names (default: look)")
    p.add_argument("-q", "--quiet", action="store_true", help="no progress bar")

    p = add("check")
    network(p)
    p.add_argument("--against", metavar="IO.npz", help="inputs and expected outputs: by name, or x0 … and y0 … (in0 …, out0 …)")
    p.add_argument("--rtol", type=tolerance, default=1e-5, help="largest error against an output's scale (default 1e-5)")

    p = add("export")
    network(p, engine=False)
    p.add_argument("out", metavar="OUT.onnx")

    p = add("cache")
    p.add_argument("action", choices=["warm", "clear", "info"], nargs="?", default="info")

    p = add("bench")
    network(p, engine=False)
    bench_options(p)
    p = add("profile")
    network(p)
    profile_options(p)
    return parser


def _names(text: str) -> list[str]:
    return [n for n in text.split(",") if n]
