"""What of a file npinfer can't compute, all of it together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from npinfer.errors import UnsupportedError
from npinfer.ops.registry import NeedsFunction, find
from npinfer.readers.archive import Model, Path, tensors, walk
from npinfer.readers.entrances import COMPUTED, INTEGERS


def unsupported(source: str, reasons: Sequence[str]) -> UnsupportedError:
    """One error for all that a file needs and npinfer lacks."""
    lines = "".join(f"\n  - {p}" for p in reasons)
    return UnsupportedError(
        f"{source}: {len(reasons)} layer(s) or option(s) not supported:{lines}\n"
        "npinfer.supported() lists what is; npinfer.register_layer adds a custom layer, functions={name: f} a Lambda.",
        reasons,
    )


def problems(model: Model, functions: Mapping[str, Any], taps: Sequence[str] = ()) -> Iterator[str]:
    """A sentence for each layer and option that isn't supported; needs no weights. Operations that no output and no tap needs
    don't count: tf.keras keeps those of a loss that add_loss was given."""
    idle = set(_idle(model, (), {n.partition("/")[0] for n in taps}))
    for path, layer in walk(model):
        if path in idle or layer.model is not None or layer.class_name == "InputLayer" or layer.name in functions:
            continue
        where = f"layer {'/'.join(path)!r} ({layer.class_name})"
        kind = find(layer)
        if kind is None:
            what = {"ops": "this operation is unknown", "custom": "a custom class"}.get(layer.module, "this class is unknown")
            yield f"{where}: {what}"
        elif not _computed(layer.dtype, kind.quantized):
            yield f"{where}: dtype policy {layer.dtype!r}"
        else:
            for reason in kind.check(layer.config):
                if isinstance(reason, NeedsFunction) and reason.name in functions:
                    continue
                yield f"{where}: {reason}"


def _computed(dtype: str | None, quantized: Sequence[str]) -> bool:
    """Whether layers of this dtype policy are computed; "int8_from_float32" is a quantized one."""
    mode, found, source = (dtype or "").partition("_from_")
    if found:
        return mode.partition("/")[0] in quantized and source in COMPUTED
    return dtype is None or dtype in COMPUTED or dtype in INTEGERS


def _idle(model: Model, path: Path, taps: Iterable[str]) -> Iterator[Path]:
    """The operations that the model's outputs and taps don't need, by path."""
    layers = {k.name: k for k in model.layers}
    left = [*(r.layer for r in tensors(model.outputs)), *taps]
    needed = set[str]()
    while left:
        name = left.pop()
        if name in layers and name not in needed:
            needed.add(name)
            left += [r.layer for call in layers[name].calls for r in tensors([call.args, call.kwargs])]
    for layer in model.layers:
        if layer.module == "ops" and layer.name not in needed:
            yield (*path, layer.name)
        elif layer.model is not None:
            yield from _idle(layer.model, (*path, layer.name), ())
