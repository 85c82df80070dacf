"""What a model and a bound callable were asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from npinfer.model import Model


class Options(NamedTuple):
    """What `load` was asked for, besides the file; see its docstring."""

    dtype: str | None = None
    engine: str = "auto"
    optimize: bool = True
    outputs: tuple[str, ...] | None = None
    threads: int | None = None
    functions: Mapping[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Rebind:
    """How a bound callable was made, so that pickles, copies and forks make it again."""

    model: Model
    options: dict[str, Any]

    def __call__(self) -> Any:
        return self.model.bind(**self.options)
