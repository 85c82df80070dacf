"""Layers that a user's program adds: npinfer.register_layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from npinfer.graph import Array, Op
from npinfer.ops.functions import lower_function
from npinfer.ops.registry import CUSTOM, LAYERS, LayerCall, LayerType, Value

if TYPE_CHECKING:
    from npinfer.readers.archive import Config

#: (config, weights) → an Op, or a NumPy function of the layer's inputs
Maker = Callable[[Mapping[str, Any], Mapping[str, Array]], "Op | Callable[..., Any]"]


def register_layer(
    class_name: str,
    variables: Iterable[str] | Callable[[Mapping[str, Any]], Iterable[str]] = (),
    mask: str = "stop",
    replace: bool = False,
) -> Callable[[Maker], Maker]:
    """Teach npinfer a layer class of your own, for all models that are loaded afterwards.

        @npinfer.register_layer("Scale")
        def scale(config, weights):
            factor = weights["factor"]
            return lambda x: x * factor

    class_name: as in the file; "Package>Scale", the name under which Keras 3 registers it, counts as "Scale".
    The decorated function gets the layer's config (a dict) and its weights by name, floats in the compute dtype, and returns a
    NumPy function of the layer's inputs, all with a batch axis in front (or an npinfer op). It must treat each sample alone.
    variables: the weights' names in the order in which the layer creates them, ("~name" for a non-trainable one), or a function
    of the config that returns them. Without it the arrays keep the names that the file gives them.
    mask: "pass" if the layer hands Keras's mask on, "stop" if not.
    Raises ValueError for the name of a layer of Keras itself, unless replace=True (a file of Keras 1 or 2 can't tell a subclass
    that is called Dense from Keras's own).
    """
    name = class_name.rpartition(">")[2]
    if mask not in ("pass", "stop"):
        raise ValueError(f"register_layer({class_name!r}): mask={mask!r}; it is 'pass' or 'stop'")
    if not name or not isinstance(name, str):
        raise ValueError(f"register_layer({class_name!r}): a class name is needed")
    from npinfer.ops import load_families

    load_families()
    if name in LAYERS and name == class_name and not replace:
        raise ValueError(f"register_layer({name!r}): Keras itself has this layer; say replace=True to take your own instead")
    if callable(variables):
        listed = variables
    else:
        names = tuple(variables)

        def listed(_: Config) -> Iterable[str]:
            return names

    def register(make: Maker) -> Maker:
        def lower(call: LayerCall, *args: Any) -> Any:
            made = make(dict(call.config), dict(call.weights))
            if isinstance(made, Op):
                return _emit(call, made, args)
            if not callable(made):
                call.refuse(f"the function registered for it returned {type(made).__name__}; an Op or a function is needed")
            kwargs = {k: call.take(k) for k in list(call.kwargs)}
            return lower_function(call, made, args, kwargs)

        CUSTOM[name] = LayerType(name, lower, listed, mask, lambda c: (), lambda c, w: None)
        if replace and name in LAYERS:
            LAYERS[name] = CUSTOM[name]
        return make

    return register


def _emit(call: LayerCall, op: Op, args: Iterable[Any]) -> Value | tuple[Value, ...]:
    values: list[Value] = []
    for a in args:
        values += a if isinstance(a, (list, tuple)) and not isinstance(a, Value) else [a]
    made = call.emit_all(op, *values)
    return made[0] if len(made) == 1 else made
