"""npinfer: networks that Keras saved, run with NumPy, one sample at the price of the arithmetic."""

from __future__ import annotations

from npinfer.errors import (
    CheckError,
    DtypeError,
    EngineError,
    FormatError,
    LimitError,
    NpinferError,
    ShapeError,
    UnsupportedError,
)

__version__ = "0.1.0"

__all__ = [
    "CheckError",
    "DtypeError",
    "EngineError",
    "FormatError",
    "LimitError",
    "NpinferError",
    "ShapeError",
    "UnsupportedError",
]
