"""The shapes and kinds of arrays that a layer's config promises, checked before any array is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from npinfer.readers.archive import Config, Layer
from npinfer.readers.raw import Stored

Pattern = tuple["int | None", ...]
#: config entries that are sizes
SIZES = ("units", "filters", "input_dim", "output_dim", "nb_feature", "depth_multiplier")
#: variables that may hold integers
COUNTS = frozenset(("count", "seed_generator_state", "g_idx"))


def _int(config: Config, key: str, default: int | None = None) -> int | None:
    value = config.get(key, default)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _sizes(config: Config, rank: int) -> Pattern:
    value = config.get("kernel_size")
    if isinstance(value, int):
        return (value,) * rank
    if isinstance(value, (list, tuple)) and len(value) == rank:
        return tuple(n if isinstance(n, int) else None for n in value)
    return (None,) * rank


def _dense(c: Config) -> dict[str, Pattern]:
    units = _int(c, "units")
    return {"kernel": (None, units), "bias": (units,)}


def _maxout(c: Config) -> dict[str, Pattern]:
    units, features = _int(c, "units"), _int(c, "nb_feature")
    return {"kernel": (features, None, units), "bias": (features, units)}


def _embedding(c: Config) -> dict[str, Pattern]:
    return {"embeddings": (_int(c, "input_dim"), _int(c, "output_dim"))}


def _conv(rank: int, transposed: bool = False) -> Callable[[Config], dict[str, Pattern]]:
    def shapes(c: Config) -> dict[str, Pattern]:
        filters = _int(c, "filters")
        ends = (filters, None) if transposed else (None, filters)
        return {"kernel": (*_sizes(c, rank), *ends), "bias": (filters,)}

    return shapes


def _depthwise(rank: int) -> Callable[[Config], dict[str, Pattern]]:
    def shapes(c: Config) -> dict[str, Pattern]:
        return {"kernel": (*_sizes(c, rank), None, _int(c, "depth_multiplier", 1)), "bias": (None,)}

    return shapes


def _separable(rank: int) -> Callable[[Config], dict[str, Pattern]]:
    def shapes(c: Config) -> dict[str, Pattern]:
        filters, multiplier = _int(c, "filters"), _int(c, "depth_multiplier", 1)
        return {
            "depthwise_kernel": (*_sizes(c, rank), None, multiplier),
            "pointwise_kernel": (*(1,) * rank, None, filters),
            "bias": (filters,),
        }

    return shapes


def _gated(gates: int) -> Callable[[Config], dict[str, Pattern]]:
    def shapes(c: Config) -> dict[str, Pattern]:
        units = _int(c, "units")
        wide = None if units is None else gates * units
        return {"kernel": (None, wide), "recurrent_kernel": (units, wide)}

    return shapes


def _statistics(c: Config) -> dict[str, Pattern]:
    axis = c.get("axis", -1)
    if isinstance(axis, (list, tuple)) and len(axis) != 1:
        return {}  # tf.keras keeps several axes among ones, in the input's rank
    return dict.fromkeys(("gamma", "beta", "moving_mean", "moving_variance"), (None,))


SHAPES: dict[str, Callable[[Config], dict[str, Pattern]]] = {
    "Dense": _dense,
    "MaxoutDense": _maxout,
    "Embedding": _embedding,
    "BatchNormalization": _statistics,
    **{f"Conv{n}D": _conv(n) for n in (1, 2, 3)},
    **{f"Conv{n}DTranspose": _conv(n, True) for n in (1, 2, 3)},
    **{f"DepthwiseConv{n}D": _depthwise(n) for n in (1, 2)},
    **{f"SeparableConv{n}D": _separable(n) for n in (1, 2)},
    **dict.fromkeys(("SimpleRNN", "SimpleRNNCell"), _gated(1)),
    **dict.fromkeys(("GRU", "GRUCell"), _gated(3)),
    **dict.fromkeys(("LSTM", "LSTMCell"), _gated(4)),
}


def bad_kind(name: str, stored: Stored) -> str | None:
    """Why an array can't be this weight, by its dtype."""
    kind = stored.dtype.kind
    if kind == "f" or (kind in "iu" and name in COUNTS):
        return None
    words = {"i": "integers", "u": "integers", "c": "complex numbers", "b": "booleans"}
    return f"{stored.where}: holds {words.get(kind, str(stored.dtype))}; needed are floats"


def bad_shapes(owner: Layer, shapes: dict[str, tuple[int, ...]], where: dict[str, str]) -> Iterator[str]:
    """One sentence for each variable whose shape its layer's config excludes."""
    rule = SHAPES.get(owner.class_name)
    for key in SIZES if rule is not None else ():
        given = owner.config.get(key)
        if given is not None and (_int(owner.config, key) or 0) < 1:
            yield f"{next(iter(where.values()), owner.name)}: the config says {key}={given!r}; it must be a positive integer"
            return
    patterns: dict[str, Any] = rule(owner.config) if rule is not None else {}
    for name, shape in shapes.items():
        pattern = patterns.get(name)
        if pattern is not None and not fits(shape, pattern):
            needed = ", ".join("?" if n is None else str(n) for n in pattern)
            yield f"{where[name]}: {name} has the shape {list(shape)}; the config needs [{needed}]"
        elif 0 in shape:
            yield f"{where[name]}: {name} is empty, with the shape {list(shape)}"


def fits(shape: tuple[int, ...], pattern: Pattern) -> bool:
    return len(shape) == len(pattern) and all(p is None or n == p for n, p in zip(shape, pattern))
