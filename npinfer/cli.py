"""The command line. Results go to stdout, progress and errors (one line each) to stderr.

Exit code 0 only on success, 1 where the work failed, 2 for bad use. NumPy and the rest are imported by the commands, not here:
`bench` must set the number of BLAS threads before NumPy starts them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npinfer.cli_parser import Command, make_parser
from npinfer.errors import NpinferError

if TYPE_CHECKING:
    from npinfer.model import Model


class UsageError(Exception):
    """The command line makes no sense; the message says why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = make_parser(COMMANDS)
    try:
        args = parser.parse_args(argv)
    except SystemExit as e:  # argparse has printed what it has to say
        return e.code if isinstance(e.code, int) else 2
    previous, warnings.showwarning = warnings.showwarning, _warn
    try:
        code = int(args.run(args) or 0)
        sys.stdout.flush()
        return code
    except UsageError as e:
        return _fail(str(e), 2)
    except BrokenPipeError:  # `npinfer … | head`: not an error of ours, and nothing more can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except (NpinferError, MemoryError) as e:
        return _fail(str(e) or "not enough memory", 1)
    except OSError as e:
        return _fail(f"{e.filename}: {e.strerror}" if e.filename and e.strerror else str(e), 1)
    finally:
        warnings.showwarning = previous


def _fail(message: str, code: int) -> int:
    print(f"npinfer: {' '.join(message.split())}", file=sys.stderr)
    return code


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"npinfer: warning: {' '.join(str(message).split())}", file=sys.stderr)


# commands


def inspect(args: argparse.Namespace) -> None:
    """What is in a file."""
    if args.weights:
        from npinfer import read_weights

        found = read_weights(args.file)
        rows = [(p, n, list(a.shape), str(a.dtype)) for p, variables in found.items() for n, a in variables.items()]
        if args.json:
            print(json.dumps([{"layer": str(p), "name": n, "shape": s, "dtype": d} for p, n, s, d in rows], indent=1))
        else:
            print("\n".join(f"{p}/{n}  {d}{s}" for p, n, s, d in rows))
        return
    model = _load(args)
    if not args.json:
        print(model.summary())
        return
    from npinfer.summary import notes

    def specs(several: Any) -> list[dict[str, Any]]:
        return [{"name": s.name, "shape": list(s.shape), "dtype": str(s.dtype)} for s in several]

    archive = model._archive
    layers = [
        {"name": k.name, "op": type(k.op).__name__, "shape": list(k.shape), "weights": k.parameters} for k in model.layers
    ]
    what = {
        "name": archive.model.name,
        "source": archive.source,
        "version": str(archive.version),
        "inputs": specs(model.inputs),
        "outputs": specs(model.outputs),
        "layers": layers,
        "weights": sum(a.size for a in model._archive.arrays()),
        "engine": model.engine,
        "notes": notes(model),
    }
    print(json.dumps(what, indent=1, ensure_ascii=False))


def convert(args: argparse.Namespace) -> None:
    """Any Keras file into npinfer's own format."""
    _not_the_input(args.out, args.file)
    if not args.out.lower().endswith(".npz"):
        raise UsageError(f"{args.out}: npinfer's own format has names ending in .npz")
    model = _load(args)
    model.save(args.out, check=args.check)
    print(f"{args.out}: {sum(a.size for a in model._archive.arrays()):,} weights{', with check pairs' if args.check else ''}")


def extract(args: argparse.Namespace) -> None:
    """The weights alone, as a plain .npz of arrays called layer/variable."""
    import numpy as np

    from npinfer import read_weights
    from npinfer.destination import replacing

    _not_the_input(args.out, args.file)
    found = read_weights(args.file)
    arrays = {f"{path}/{name}": a for path, variables in found.items() for name, a in variables.items()}
    with replacing(args.out) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    print(f"{args.out}: {len(arrays)} arrays, {sum(a.size for a in arrays.values()):,} numbers")


def predict(args: argparse.Namespace) -> None:
    """Predict all samples of a file into another."""
    from npinfer.arrays_out import ending_of
    from npinfer.feeding import predict_file

    source = _sources(args.input)
    if args.resume and args.out == "-":
        raise UsageError("--resume needs a file to resume: -o OUT")
    model = _load(args)
    if isinstance(source, list) and len(source) != len(model.inputs):
        needed = f"{len(model.inputs)} input{'s' * (len(model.inputs) > 1)}"
        raise UsageError(f"{args.file}: takes {needed}, got {len(source)} files; results go to a file with -o OUT")
    if args.out != "-":
        try:
            ending_of(args.out, len(model.outputs))
        except NpinferError as e:
            raise UsageError(str(e)) from None
        for value in source.values() if isinstance(source, dict) else source if isinstance(source, list) else [source]:
            _not_the_input(args.out, value)
    written = predict_file(
        model, source, args.out, batch_size=args.batch_size, resume=args.resume, header=args.header, verbose=_verbose(args)
    )
    if args.out != "-":
        resumed = f", {written.resumed:,} of them from an earlier run" if written.resumed else ""
        print(f"{written.path}: {written.rows:,} samples{resumed}")


def _sources(given: Sequence[str]) -> Any:
    """What predict takes for INPUT …: one path, several in order, or name=path."""
    named = [g.partition("=") for g in given if "=" in g and not os.path.exists(g)]
    if not named:
        return given[0] if len(given) == 1 else list(given)
    if len(named) < len(given):
        raise UsageError("either all inputs are given as name=FILE or none")
    found = {name: path for name, _, path in named}
    if len(found) < len(named):
        raise UsageError("an input is given twice")
    return found


def check(args: argparse.Namespace) -> None:
    """Compare with stored outputs, or the engine with the reference."""
    model = _load(args)
    if args.against:
        from npinfer.npy_streams import whole

        inputs = whole(args.against, model.inputs, ("x", "in", "input_"))
        outputs = whole(args.against, model.outputs, ("y", "out", "output_"))
        error = model.check(inputs if len(inputs) > 1 else inputs[0], outputs, args.rtol)
        against = args.against
    else:
        from npinfer.checking import compare, random_inputs

        x = random_inputs(model._graph, 16, model.inputs)
        args.engine = "reference"
        error = compare(model.outputs, model._plain(x), _load(args)._plain(x), args.rtol)
        against = "the reference engine, random inputs"
    print(
        f"{args.file}: largest error {error:.2g} of an output's scale, allowed {args.rtol:g} (engine {model.engine}; {against})"
    )


def export(args: argparse.Namespace) -> None:
    """The network as ONNX."""
    from npinfer.export import onnx

    _not_the_input(args.out, args.file)
    onnx.export(_load(args), args.out)
    print(f"{args.out}: {os.path.getsize(args.out):,} bytes")


def cache(args: argparse.Namespace) -> None:
    """The compiled code that the native engine keeps on this machine."""
    from npinfer.executors.native import cache as code
    from npinfer.executors.native import store

    if args.action == "warm":
        print(code.warm())
    elif args.action == "clear":
        print(f"{store.clear()} file(s) removed")
    else:
        width = max(map(len, code.info()))
        print("\n".join(f"{k:{width}}  {'-' if v is None else v}" for k, v in code.info().items()))


def bench(args: argparse.Namespace) -> None:
    """Measure a network, alone or beside other runtimes."""
    _pin_threads(args.threads)
    from npinfer.bench.command import bench as run

    run(args)


def profile(args: argparse.Namespace) -> None:
    """Where a network's time goes, layer by layer."""
    _pin_threads(1)
    from npinfer.bench.command import profile as run

    run(args)


def _pin_threads(count: int) -> None:
    """Before NumPy is imported, BLAS takes its number of threads from here."""
    for name in ("OPENBLAS", "OMP", "MKL", "BLIS", "VECLIB_MAXIMUM"):
        os.environ[f"{name}_NUM_THREADS"] = str(count)


def _load(args: argparse.Namespace) -> Model:
    from npinfer import load

    return load(args.file, args.config, dtype=args.dtype, engine=args.engine, outputs=args.outputs)


def _not_the_input(out: str, source: str) -> None:
    if os.path.exists(out) and os.path.exists(source) and os.path.samefile(out, source):
        raise UsageError(f"{out}: is the input itself; the result needs another name")


def _verbose(args: argparse.Namespace) -> Any:
    return 0 if args.quiet else "auto"


COMMANDS: dict[str, Command] = {
    f.__name__: f for f in (inspect, convert, extract, predict, check, bench, profile, export, cache)
}
