"""Layers that a user's program adds: npinfer.register_layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from npinfer.errors import ArgumentError, UnsupportedError, shown
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
    Raises ArgumentError (a ValueError) for arguments that make no sense, and for the name of a layer of Keras itself, unless
    replace=True (a file of Keras 1 or 2 can't tell a subclass that is called Dense from Keras's own). What the function raises
    when a file is loaded comes out as UnsupportedError that says so, with the function's own error as its cause.
    """
    where = f"register_layer({shown(class_name)})"
    name = class_name.rpartition(">")[2] if isinstance(class_name, str) else ""
    if not name:
        raise ArgumentError(f'{where}: needs the name of a class, as in @npinfer.register_layer("Scale")')
    if mask not in ("pass", "stop"):
        raise ArgumentError(f"{where}: mask={shown(mask)}; it is 'pass' or 'stop'")
    from npinfer.ops import load_families

    load_families()
    if name in LAYERS and name == class_name and not replace:
        raise ArgumentError(f"{where}: Keras itself has this layer; say replace=True to take your own instead")
    if callable(variables):
        listed = _guarded(name, variables)
    else:
        names = () if isinstance(variables, str) or not isinstance(variables, Iterable) else tuple(variables)
        if not all(isinstance(n, str) for n in names) or (variables and not names):
            raise ArgumentError(f"{where}: variables={shown(variables)}; needs a list of the weights' names, or a function")

        def listed(_: Config) -> Iterable[str]:
            return names

    def register(make: Maker) -> Maker:
        if not callable(make):
            raise ArgumentError(f"{where}: registers a function f(config, weights), got {shown(make)}")

        def lower(call: LayerCall, *args: Any) -> Any:
            made = _guarded(name, make, call)(dict(call.config), dict(call.weights))
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


def _guarded(name: str, function: Callable[..., Any], call: LayerCall | None = None) -> Callable[..., Any]:
    """The user's function, whose errors are told from those of a file."""

    def guarded(*args: Any) -> Any:
        try:
            return function(*args)
        except UnsupportedError:
            raise
        except Exception as e:
            where = f"layer {call.name!r}: " if call is not None else ""
            raise UnsupportedError(
                f"{where}the function registered for layer class {name!r} raised {type(e).__name__}: {shown(str(e))[1:-1]}; "
                "correct that function (register_layer), its own error is above"
            ) from e

    return guarded


def _emit(call: LayerCall, op: Op, args: Iterable[Any]) -> Value | tuple[Value, ...]:
    values: list[Value] = []
    for a in args:
        values += a if isinstance(a, (list, tuple)) and not isinstance(a, Value) else [a]
    made = call.emit_all(op, *values)
    return made[0] if len(made) == 1 else made
