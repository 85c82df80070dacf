"""Layers that hold other layers, and Python functions in the place of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npinfer.ops.registry import LayerCall


def lower_function(call: LayerCall, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Lower a caller's NumPy function given for a layer (functions={"lambda_1": f})."""
    raise NotImplementedError
