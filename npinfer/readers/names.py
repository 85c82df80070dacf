"""What the names of weights in files say: which variable, of which layer. A check on the order, and its replacement where they
are unambiguous."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from npinfer.readers.parts import Part
from npinfer.readers.raw import Legacy, Stored

Named = tuple[str, Stored]

#: how files call variables, where not by Keras 3's names
KINDS = {
    "W": "kernel",
    "b": "bias",
    "U": "recurrent_kernel",
    "alphas": "alpha",
    "betas": "beta",
    "running_mean": "moving_mean",
    "running_std": "moving_variance",
    "running_variance": "moving_variance",
    "embeddings": "kernel",
    "depthwise_kernel": "kernel",
    "depthwise_weights": "kernel",
    "_kernel": "kernel",
    "u": "vector_u",
    "sn_u": "vector_u",
    "W_carry": "carry_kernel",
    "b_carry": "carry_bias",
    "kernel_carry": "carry_kernel",
    "bias_carry": "carry_bias",
    "kernel_t": "carry_kernel",
}
_SHORT = "W|b|U|[WUb]_[ifcozrh]|[Wb]_carry|alphas|betas|gamma|beta|running_mean|running_std|t_left|a_left|t_right|a_right"
_OLD = rf"^(?P<layer>.+)_(?P<kind>{_SHORT}|depthwise_kernel|pointwise_kernel)$"  # not compiled here: few files need it


def _old(name: str) -> tuple[str, str] | None:
    """(layer, kind) of a name as Keras 1 gives them: dense_1_W."""
    found = re.match(_OLD, name)
    return (found["layer"], found["kind"]) if found else None


def _is_parameter(name: str) -> bool:
    return name.startswith("param_") and name.removeprefix("param_").isdecimal()


@lru_cache(maxsize=4096)
def kind(name: str) -> str | None:
    """The variable that a weight's name in a file means: "a/dense_4/kernel:0" and "dense_1_W" are a kernel; None where the
    name doesn't tell."""
    _, slash, last = bare(name).rpartition("/")
    if _is_parameter(last):
        return None
    old = None if slash else _old(last)
    return canonical(old[1] if old else last)


def canonical(base: str) -> str:
    return KINDS.get(base, base)


def bare(name: str) -> str:
    """A weight's name without the ":0" of TensorFlow's tensors."""
    stem, colon, number = name.rpartition(":")
    return stem if colon and number.isdecimal() else name


def old_names(legacy: Legacy) -> bool:
    """Whether weights are called as Keras 1 calls them (dense_1_W)."""
    names = [bare(n) for _, held in legacy for n, _ in held]
    return bool(names) and all("/" not in n for n in names) and any(_old(n) or _is_parameter(n) for n in names)


def by_name(needed: Sequence[Part], held: Sequence[Named]) -> list[tuple[Part, Stored]] | None:
    """The match by names, where each part has exactly one candidate and all arrays are used; else None."""
    places: dict[tuple[str, str | None], list[int]] = {}
    for place, (name, _) in enumerate(held):
        for token in tokens(name):
            places.setdefault((token, kind(name)), []).append(place)
    alone = len({p.unit.path for p in needed}) == 1 and len({p.unit.prefix for p in needed}) == 1
    used: list[int] = []
    for part in needed:
        k = canonical(part.base)
        if alone:
            found = [i for i, (n, _) in enumerate(held) if kind(n) == k]
        elif part.unit.prefix:
            return None
        else:
            found = places.get((part.unit.path[-1], k), [])
        if len(found) != 1:
            if part.optional and not found:
                used.append(-1)
                continue
            return None
        used.append(found[0])
    real = [i for i in used if i >= 0]
    if sorted(real) != list(range(len(held))):
        return None
    return [(p, held[i][1]) for p, i in zip(needed, used) if i >= 0]


def tokens(name: str) -> set[str]:
    """The layer names that a weight's name may hold: the components of its path, or what stands before _W."""
    path = bare(name)
    old = _old(path) if "/" not in path else None
    return {old[0]} if old else set(path.split("/")[:-1])
