"""Plain values, dtypes and shapes, in any spelling that a config has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npinfer.readers import nodes

POLICIES = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16", "infer": None, "infer_with_float32_vars": None, "": None}
SHAPES = ("batch_shape", "batch_input_shape", "input_shape")


def plain(value: Any) -> Any:
    """Serialized tuples, shapes and arrays as lists, tuples and ndarrays; everything else as it is."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("class_name")
    if kind == "__tuple__" and isinstance(value.get("items"), list):
        return tuple(plain(v) for v in value["items"])
    if kind == "TensorShape":
        return plain(value.get("items"))
    if kind in ("__numpy__", "__tensor__"):
        return nodes.value(value, "the config")
    if value.get("type") == "ndarray" and "value" in value:
        return plain(value["value"])
    return value


def policy(dtype: Any) -> str | None:
    """The name of a dtype or policy in any spelling, None where there is none; what is none of them (quantized ones too) gets a
    name that nothing supports."""
    if isinstance(dtype, str) or dtype is None:
        return dtype
    config = dtype.get("config") if isinstance(dtype, Mapping) else None
    if not isinstance(config, Mapping):
        return repr(dtype)[:80]
    if "policy_map" in config or "default_policy" in config:
        others = config.get("policy_map")
        held = {policy(v) for v in others.values()} if isinstance(others, Mapping) else set()
        default = policy(config.get("default_policy"))
        odd = sorted(str(n) for n in held - {default})
        return odd[0] if odd else default
    if "mode" in config:
        source = policy(config.get("source_name")) or "float32"
        return f"{config['mode']}_from_{source}"
    name = config.get("name")
    return name if isinstance(name, str) else repr(dtype)[:80]


def compute_dtype(dtype: Any, class_name: str) -> str | None:
    """The dtype a layer computes in; None where the file doesn't say. An integer dtype of a layer with weights is the dtype of
    its input (Keras up to 2.0 wrote it there), never of its arithmetic."""
    name = policy(dtype)
    name = POLICIES.get(name, name) if name is not None else None
    if name is not None and name.startswith(("int", "uint", "bool")) and "_from_" not in name and class_name == "Embedding":
        return None
    return name


def input_shape(config: Mapping[str, Any], raw: Mapping[str, Any]) -> tuple[int | None, ...] | None:
    """The per-sample shape of a layer's first input, where its entry tells: batch_shape, batch_input_shape, input_shape (which
    has no batch axis), build_config."""
    for key in SHAPES:
        found = shape(config.get(key), batch=key != "input_shape")
        if found is not None:
            return found
    built = raw.get("build_config")
    return shape(built.get("input_shape"), batch=True) if isinstance(built, Mapping) else None


def shape(value: Any, batch: bool) -> tuple[int | None, ...] | None:
    """A shape entry as a tuple without the batch axis, or None where it isn't one shape."""
    value = plain(value)
    if not isinstance(value, (list, tuple)) or (batch and not value):
        return None
    if not all(n is None or (isinstance(n, int) and not isinstance(n, bool) and n >= 0) for n in value):
        return None
    return tuple(value[1:] if batch else value)
