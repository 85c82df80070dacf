"""What a model and a bound callable were asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.errors import ArgumentError, EngineError, UnsupportedError, shown
from npinfer.frozen import Frozen

if TYPE_CHECKING:
    from npinfer.model import Model


class Options(Frozen):
    """What `load` was asked for, besides the file; see its docstring."""

    dtype: str | None = None
    engine: str = "auto"
    optimize: bool = True
    outputs: tuple[str, ...] | None = None
    threads: int | None = None
    functions: Mapping[str, Callable[..., Any]] = {}


def options(dtype: Any, engine: Any, optimize: Any, outputs: Any, threads: Any, functions: Any) -> Options:
    """A caller's options, checked, before any file is read.

    Raises UnsupportedError for a dtype, EngineError for an engine or a number of threads, ArgumentError for anything else.
    """
    from npinfer.executors import known_engine

    if threads is not None:
        if not is_count(threads):
            raise EngineError(f"threads={shown(threads)}: needs a whole number of at least 1, or None for those of the process")
        threads = int(threads)
    given = {} if functions is None else functions
    if not isinstance(given, Mapping):
        raise ArgumentError(f"functions={shown(given)}: needs a dict of Python functions by the names of layers")
    for name, function in given.items():
        if not isinstance(name, str) or not callable(function):
            raise ArgumentError(f"functions: {shown(name)} is {shown(function)}; needs a layer's name and a Python function")
    return Options(
        None if dtype is None else _dtype(dtype),
        known_engine(engine),
        bool(optimize),
        None if outputs is None else layer_names(outputs, "outputs"),
        threads,
        dict(given),
    )


def is_count(value: Any) -> bool:
    """Whether this is a whole number of at least 1, Python's or NumPy's."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= 1)


def timeout(where: str, value: Any) -> float | None:
    """Seconds to wait, or None for as long as it takes. Raises ArgumentError."""
    if value is None:
        return None
    if not is_number(value) or not value >= 0:
        raise ArgumentError(f"{where}(timeout={shown(value)}): needs seconds, at least 0, or None to wait as long as it takes")
    return min(float(value), threading.TIMEOUT_MAX)


def is_number(value: Any) -> bool:
    """Whether this is one real number, Python's or NumPy's."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def layer_names(outputs: Any, where: str) -> tuple[str, ...]:
    """One name of a layer or several. Raises ArgumentError."""
    try:
        names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    except TypeError:
        names = (outputs,)
    if not all(isinstance(n, str) for n in names):
        raise ArgumentError(f"{where}={shown(outputs)}: needs the name of a layer, or a list of names; model.layers lists them")
    return names


def _dtype(asked: Any) -> str:
    try:
        name = str(np.dtype(asked).name)
    except Exception:  # NumPy parses strings, so it isn't TypeError alone
        name = ""
    if name not in ("float32", "float64"):
        raise UnsupportedError(f"dtype={shown(asked)}: needs 'float32' or 'float64'")
    return name


class Rebind(Frozen):
    """How a bound callable was made, so that pickles, copies and forks make it again: model.bind(**options), or model.jit or
    model.jit_step without options. Its text names both."""

    model: Model
    of: str = "bind"
    options: dict[str, Any] = {}  # noqa: RUF012 (each object has its own)

    def __call__(self) -> Any:
        made = getattr(self.model, self.of)
        return made(**self.options) if self.of == "bind" else made

    def __str__(self) -> str:
        asked = ", ".join(f"{k}={shown(v)}" for k, v in self.options.items() if v is not None and v is not False)
        how = f"bind({asked})" if self.of == "bind" else self.of
        return f"{how} of {self.model._archive.model.name!r}, engine {self.model.engine}"
