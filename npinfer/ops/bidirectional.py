"""Bidirectional: a recurrent layer and its mirror image, and what becomes of their two outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from npinfer.errors import FormatError
from npinfer.ops.joining import Concatenate
from npinfer.ops.merge import Merge
from npinfer.ops.registry import LayerCall, Value, Variable, below, layer
from npinfer.ops.rnn_layers import RECURRENT, REVERSED, arguments

if TYPE_CHECKING:
    from npinfer.readers.archive import Config, Layer

MODES = ("concat", "sum", "ave", "mul", None)
MERGED = {"sum": "add", "ave": "average", "mul": "multiply"}


def _directions(config: Config) -> tuple[Layer, Layer]:
    """The two layers; the reader has written the second out where a file leaves it to be the mirror image of the first."""
    return config["layer"], config["backward_layer"]


def _variables(config: Config) -> list[Variable]:
    forward, backward = _directions(config)
    return [*below("forward_layer", forward), *below("backward_layer", backward)]


def _check(config: Config) -> Iterator[str]:
    if config.get("merge_mode", "concat") not in MODES:
        yield f"option merge_mode={config['merge_mode']!r} (supported: {', '.join(map(repr, MODES))})"
    for held in _directions(config):
        if getattr(held, "class_name", None) not in RECURRENT or held.module:
            yield f"holds {getattr(held, 'class_name', held)!r}, not a recurrent layer"
            break


def _width(config: Config, weights: Any) -> tuple[int | None, ...] | None:
    kernel = weights.get("forward_layer/cell/kernel")
    return None if kernel is None or kernel.ndim != 2 else (None, kernel.shape[0])


@layer("Bidirectional", variables=_variables, mask="own", check=_check, input_shape=_width)
def bidirectional(call: LayerCall, first: Any, initial_state: Any = None) -> Any:
    """Both layers on the same sequence, the second backwards; initial states are the first's, then the second's."""
    x, states, mask, passed = arguments(call, first, initial_state)
    forward, backward = _directions(call.config)
    if len(states) % 2:
        raise FormatError(f"layer {call.name!r}: called with {len(states)} initial states; two layers need an even number")
    half = len(states) // 2
    y, *last = _run(call, forward, "forward_layer", x, states[:half], mask)
    y_back, *last_back = _run(call, backward, "backward_layer", x, states[half:], mask)
    sequences = bool(forward.config.get("return_sequences"))
    if sequences:
        y_back = call.emit(REVERSED, y_back)
    ys = [v._replace(mask=passed if sequences else None) for v in merge(call, y, y_back)]
    if len(ys) == 1 and not last:
        return ys[0]
    return (*ys, *last, *last_back)


def _run(call: LayerCall, held: Layer, attribute: str, x: Value, states: list[Value], mask: Value | None) -> list[Value]:
    """One direction's results. The layer is called with its states in one list, a form in which its mask is never ignored."""
    changes: dict[str, Any] = {}
    if call.version.tf or call.version.major >= 3:
        # sequences have zeros at masked steps, whatever the layer itself was told; standalone Keras 2 leaves the layer alone
        changes["zero_output_for_mask"] = bool(held.config.get("return_sequences"))
    changed = held.replace(config={**held.config, **changes}, calls=call.layer.calls)
    result = call.builder.lower_layer(changed, (*call.path, attribute), [[x, *states]], {"mask": mask})
    return [v._replace(mask=None) for v in ([result] if isinstance(result, Value) else result)]


def merge(call: LayerCall, y: Value, y_back: Value) -> list[Value]:
    """The layer's output or outputs from those of both directions."""
    mode = call.config.get("merge_mode", "concat")
    if mode is None:
        return [y, y_back]
    op = Concatenate(len(y.shape) - 1) if mode == "concat" else Merge(MERGED[mode])
    return [call.emit(op, y, y_back)]
