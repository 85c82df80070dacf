"""npinfer: networks that Keras saved, run with NumPy, one sample at the price of the arithmetic.

import npinfer
model = npinfer.load("policy.h5")
y = model(x)                       # a batch, or one sample
step = model.bind()                # the fast callable for one sample
y = step(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npinfer.errors import (
    ArgumentError,
    BusyError,
    CheckError,
    ClosedError,
    DtypeError,
    EngineError,
    FormatError,
    LimitError,
    NotEnoughMemoryError,
    NpinferError,
    NpinferWarning,
    ShapeError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from npinfer.feeding import predict_file
    from npinfer.loading import from_keras, load
    from npinfer.model import Model
    from npinfer.ops.custom import register_layer
    from npinfer.ops.supported import supported
    from npinfer.readers.limits import Limits
    from npinfer.readers.weights import read_weights

__version__ = "0.1.0"

#: imported on first use, so that `import npinfer` costs a few milliseconds
_LAZY = {
    "Limits": "npinfer.readers.limits",
    "Model": "npinfer.model",
    "from_keras": "npinfer.loading",
    "load": "npinfer.loading",
    "predict_file": "npinfer.feeding",
    "read_weights": "npinfer.readers.weights",
    "register_layer": "npinfer.ops.custom",
    "supported": "npinfer.ops.supported",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'npinfer' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


__all__ = [
    "ArgumentError",
    "BusyError",
    "CheckError",
    "ClosedError",
    "DtypeError",
    "EngineError",
    "FormatError",
    "LimitError",
    "Limits",
    "Model",
    "NotEnoughMemoryError",
    "NpinferError",
    "NpinferWarning",
    "ShapeError",
    "UnsupportedError",
    "from_keras",
    "load",
    "predict_file",
    "read_weights",
    "register_layer",
    "supported",
]
