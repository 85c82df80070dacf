"""Trees: the lists, tuples, dicts and slices that calls and models nest their tensors in. Named tuples are leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def leaves(tree: Any, kind: type[T] | tuple[type[T], ...]) -> Iterator[T]:
    """The leaves of these classes, in order."""
    if isinstance(tree, kind):
        yield tree
    elif isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        for item in tree:
            yield from leaves(item, kind)
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from leaves(item, kind)
    elif isinstance(tree, slice):
        yield from leaves((tree.start, tree.stop, tree.step), kind)


def holds(tree: Any, kind: type[T] | tuple[type[T], ...]) -> bool:
    """Whether the tree has a leaf of these classes."""
    return any(True for _ in leaves(tree, kind))


def mapped(tree: Any, kind: type[T], f: Callable[[T], Any]) -> Any:
    """The tree with f applied to its leaves of one class."""
    if isinstance(tree, kind):
        return f(tree)
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return type(tree)([mapped(item, kind, f) for item in tree])
    if isinstance(tree, Mapping):
        return {k: mapped(item, kind, f) for k, item in tree.items()}
    if isinstance(tree, slice):
        return slice(*(mapped(item, kind, f) for item in (tree.start, tree.stop, tree.step)))
    return tree
