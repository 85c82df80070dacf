"""The options of `npinfer bench` and `npinfer profile`; no heavy import, the command line reads this at every start."""

from __future__ import annotations

import argparse
from collections.abc import Callable

PEERS = ("onnxruntime", "litert", "openvino", "jax", "keras", "numpy")
ENGINES = ("native", "numpy", "reference")


def bench_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--engines", type=_some(ENGINES), default=["native", "numpy"], metavar="E,…", help="default: native,numpy")
    p.add_argument("--against", type=_some(PEERS), default=[], metavar="PEER,…", help=f"other runtimes: {', '.join(PEERS)}")
    p.add_argument(
        "--model", action="append", type=_pair, default=[], metavar="PEER=FILE", help="the same network in a peer's own format"
    )
    p.add_argument(
        "--python",
        action="append",
        type=_pair,
        default=[],
        metavar="PEER=PYTHON",
        help="the interpreter that has a peer (keras): it is measured in a process of its own, in turn with the others",
    )
    p.add_argument("--threads", type=positive, default=1, metavar="N", help="for every runtime (default 1)")
    p.add_argument("--calls", type=positive, default=10_000, metavar="N", help="one-sample calls (default 10,000)")
    p.add_argument("--rounds", type=positive, default=10, metavar="N", help="in which the runtimes take turns (default 10)")
    p.add_argument("--batches", type=_sizes, metavar="N,…", help="batch sizes (default 1, 2, 4 … 1,024)")
    p.add_argument("--seconds", type=float, default=5.0, metavar="S", help="for the single calls of a slow runtime (default 5)")
    p.add_argument("--starts", type=int, default=3, metavar="N", help="new processes timed from start to result (default 3)")
    p.add_argument("--shape", type=_sizes, metavar="N,…", help="sizes of a sample whose sizes the model leaves open")
    p.add_argument("--stream", action="store_true", help="one time step a call (recurrent or causal models)")
    outputs(p)
    p.add_argument("--csv", metavar="OUT.csv", help="one line a number")


def profile_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--batch", type=positive, metavar="N", help="a batch of N samples instead of one sample")
    p.add_argument("--rounds", type=positive, default=200, metavar="N", help="runs through all layers (default 200)")
    p.add_argument("--shape", type=_sizes, metavar="N,…", help="sizes of a sample whose sizes the model leaves open")
    outputs(p)


def outputs(p: argparse.ArgumentParser) -> None:
    p.add_argument("--plot", metavar="OUT", help="a picture: .png, .svg or .html (needs matplotlib), or - for the terminal")
    p.add_argument("--json", metavar="OUT.json", help="everything measured; - for standard output")
    p.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: needs a whole number of at least 1")
    return value


def _sizes(text: str) -> list[int]:
    return [positive(t) for t in text.split(",")]


def _some(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [n for n in text.split(",") if n]
        for n in names:
            if n not in known:
                raise argparse.ArgumentTypeError(f"{n!r}: there are {', '.join(known)}")
        return names

    return parse


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or name not in PEERS:
        raise argparse.ArgumentTypeError(f"{text!r}: needs PEER=…, with PEER one of {', '.join(PEERS)}")
    return name, value
