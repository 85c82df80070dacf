"""Which function writes the table rows of an op."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from npinfer.graph import Op


class NotNative(Exception):
    """An op, or what it is used on, has no compiled form."""


Rule = Callable[..., None]
RULES: dict[type[Op], Rule] = {}
#: Where the rules are, by the name of the op's own module; the others are in pack.py and what it imports. Imported when a graph
#: has such an op, for they bring the ops' modules along.
ELSEWHERE = {
    "attention": "pack_attention",
    "attention_heads": "pack_attention",
    "causal": "pack_images",
    "conv": "pack_images",
    "conv_transpose": "pack_transposed",
    "convlstm": "pack_convlstm",
    "joining": "pack_images",
    "norm": "pack_norms",
    "pool": "pack_pools",
    "products": "pack_attention",
    "recurrent": "pack_cells",
    "resize": "pack_resize",
}
R = TypeVar("R", bound=Rule)


def packs(*ops: type[Op]) -> Callable[[R], R]:
    """Register rule(program, op, xs, ys): write the rows that compute the Places ys from the Places xs. It may raise NotNative
    before it wrote any, or change program.places (a reshape needs no row)."""

    def register(rule: R) -> R:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register


def rule_for(op: type[Op]) -> Rule:
    """Raises NotNative where there is none."""
    if op not in RULES:
        module = ELSEWHERE.get(op.__module__.rpartition(".")[2], "pack")
        import_module(f"npinfer.executors.native.{module}")
    if op not in RULES:
        raise NotNative(op.__name__)
    return RULES[op]
