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
    p.add_argument("--seconds", type=seconds, default=5.0, metavar="S", help="for single calls of a slow runtime (default 5)")
    p.add_argument(
        "--starts", type=count, default=3, metavar="N", help="new processes timed from start to result (default 3; 0: none)"
    )
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
    return _whole(text, 1)


def count(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r}: needs a whole number of at least {least}")
    return value


def seconds(text: str) -> float:
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: needs seconds, more than 0")
    return value


def tolerance(text: str) -> float:
    value = _number(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: needs a number of at least 0, such as 1e-5")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


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
