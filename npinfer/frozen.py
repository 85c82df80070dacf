"""`Frozen`: records like frozen dataclasses. Those compile their methods when the class is made, a millisecond each; this base
does the same work without that, so that the whole package imports in a few milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Frozen:
    """A subclass annotates its fields like a dataclass (`name: str`, `calls: tuple[Call, ...] = ()`). A default that is a dict
    or a list is copied for each object. `__post_init__` checks the fields, where a subclass has one."""

    fields: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = [n for n, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)]
        cls.fields = (*(n for n in cls.fields if n not in own), *own)
        cls.defaults = {**cls.defaults, **{n: cls.__dict__[n] for n in own if n in cls.__dict__}}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(self.fields):
            raise TypeError(f"{type(self).__name__} takes at most {len(self.fields)} fields, got {len(args)}")
        values = self.__dict__
        values.update(zip(self.fields, args))
        for name in kwargs:
            if name not in self.fields or name in values:
                raise TypeError(f"{type(self).__name__}: unexpected or repeated field {name!r}")
            values[name] = kwargs[name]
        if len(values) < len(self.fields):
            self._fill(values)
        self.__post_init__()

    def _fill(self, values: dict[str, Any]) -> None:
        for name in self.fields:
            if name not in values:
                if name not in self.defaults:
                    raise TypeError(f"{type(self).__name__}: field {name!r} is missing")
                default = self.defaults[name]
                values[name] = default.copy() if isinstance(default, (dict, list)) else default

    def __post_init__(self) -> None:
        pass

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one with replace()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def _values(self) -> tuple[Any, ...]:
        return tuple([self.__dict__[n] for n in self.fields])

    def __eq__(self, other: object) -> Any:
        return self._values() == other._values() if isinstance(other, Frozen) and type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={self.__dict__[n]!r}' for n in self.fields)})"

    def replace(self: T, **changes: Any) -> T:
        """A copy with some fields changed."""
        assert isinstance(self, Frozen)
        return type(self)(**{**{n: self.__dict__[n] for n in self.fields}, **changes})
