"""Every exception npinfer raises, one class a cause, each also a kind of the built-in that Python users expect.

Messages read *where: what was found; what is needed; what to do*.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

SHOWN = 80  # characters of a caller's value in a message


class NpinferError(Exception):
    """Base of everything npinfer raises on purpose."""


class FormatError(NpinferError, ValueError):
    """A file is damaged, isn't what it claims to be, or contradicts itself."""


class LimitError(FormatError):
    """A file declares more (bytes, depth, members) than its content explains or `Limits` allows."""


class UnsupportedError(NpinferError, NotImplementedError):
    """A file asks for layers, options or features that npinfer doesn't compute. `problems` holds one sentence for each."""

    def __init__(self, message: str, problems: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.problems: tuple[str, ...] = tuple(problems)


class ShapeError(NpinferError, ValueError):
    """An array's shape doesn't fit; the message names the array, the expected and the given shape."""


class DtypeError(NpinferError, TypeError):
    """An array's dtype can't be used where it was given."""


class ArgumentError(NpinferError, ValueError, TypeError):
    """An option of a call has a value or a type that it can't have; the message names the option."""


class NotEnoughMemoryError(NpinferError, MemoryError):
    """What was asked for is larger than the memory there is."""


class EngineError(NpinferError, RuntimeError):
    """The engine that was asked for can't run here or can't run this model."""


class BusyError(NpinferError, TimeoutError):
    """A microbatch had no room, or no result, within the time the caller gave."""


class ClosedError(NpinferError, RuntimeError):
    """A microbatch was closed and takes no more samples."""


class CheckError(NpinferError, ValueError):
    """Outputs differ from the ones stored beside the model."""


class NpinferWarning(UserWarning):
    """Something that is right but that a user should know of."""


def shown(value: Any) -> str:
    """A caller's value for a message: its repr in one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a repr is the caller's code; the error that is being made is worth more than its
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
