"""Keras 1 (and the Sequential of 0.3) → Keras 2's names and keys; dialect.py goes on from there.

Sources: the configs that Keras 1.0 to 1.2 write, and the meaning their layers give to each key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npinfer.readers.archive import Version

Config = dict[str, Any]

#: class → (canonical class, {old key: new key})
_DENSE = {"output_dim": "units", "bias": "use_bias"}
_RNN = {"output_dim": "units", "inner_activation": "recurrent_activation"}
_CONV = {
    "nb_filter": "filters",
    "border_mode": "padding",
    "subsample": "strides",
    "subsample_length": "strides",
    "dim_ordering": "data_format",
    "bias": "use_bias",
    "atrous_rate": "dilation_rate",
    "inner_activation": "recurrent_activation",
}
_POOL = {"pool_length": "pool_size", "stride": "strides", "border_mode": "padding", "dim_ordering": "data_format"}
_ORDER = {"dim_ordering": "data_format"}
CLASSES: dict[str, tuple[str, Mapping[str, str]]] = {
    "Dense": ("Dense", _DENSE),
    "TimeDistributedDense": ("Dense", _DENSE),
    "MaxoutDense": ("MaxoutDense", _DENSE),
    "TimeDistributedMaxoutDense": ("MaxoutDense", _DENSE),
    "Highway": ("Highway", {"bias": "use_bias"}),
    "SimpleRNN": ("SimpleRNN", _RNN),
    "LSTM": ("LSTM", _RNN),
    "GRU": ("GRU", _RNN),
    "ConvLSTM2D": ("ConvLSTM2D", _CONV),
    "Convolution1D": ("Conv1D", _CONV),
    "Convolution2D": ("Conv2D", _CONV),
    "Convolution3D": ("Conv3D", _CONV),
    "AtrousConvolution1D": ("Conv1D", _CONV),
    "AtrousConvolution2D": ("Conv2D", _CONV),
    "AtrousConv1D": ("Conv1D", _CONV),
    "AtrousConv2D": ("Conv2D", _CONV),
    "Deconvolution2D": ("Conv2DTranspose", _CONV),
    "SeparableConvolution2D": ("SeparableConv2D", _CONV),
    "LocallyConnected1D": ("LocallyConnected1D", _CONV),
    "LocallyConnected2D": ("LocallyConnected2D", _CONV),
    **{f"{kind}{n}D": (f"{kind}{n}D", _POOL) for kind in ("MaxPooling", "AveragePooling") for n in (1, 2, 3)},
    **{f"Global{kind}{n}D": (f"Global{kind}{n}D", _ORDER) for kind in ("MaxPooling", "AveragePooling") for n in (1, 2, 3)},
    "UpSampling1D": ("UpSampling1D", {"length": "size"}),
    "UpSampling2D": ("UpSampling2D", _ORDER),
    "UpSampling3D": ("UpSampling3D", _ORDER),
    "ZeroPadding1D": ("ZeroPadding1D", {}),
    "ZeroPadding2D": ("ZeroPadding2D", _ORDER),
    "ZeroPadding3D": ("ZeroPadding3D", _ORDER),
    "Cropping2D": ("Cropping2D", _ORDER),
    "Cropping3D": ("Cropping3D", _ORDER),
    "Dropout": ("Dropout", {"p": "rate"}),
    "SpatialDropout1D": ("SpatialDropout1D", {"p": "rate"}),
    "SpatialDropout2D": ("SpatialDropout2D", {"p": "rate"}),
    "SpatialDropout3D": ("SpatialDropout3D", {"p": "rate"}),
    "GaussianDropout": ("GaussianDropout", {"p": "rate"}),
    "GaussianNoise": ("GaussianNoise", {"sigma": "stddev"}),
    "Reshape": ("Reshape", {"dims": "target_shape"}),
    "InputLayer": ("InputLayer", {"input_dtype": "dtype"}),
}
MERGES = {"sum": "Add", "mul": "Multiply", "ave": "Average", "max": "Maximum", "concat": "Concatenate"} | dict.fromkeys(
    ("dot", "cos"), "Dot"
)
ORDERS = {"th": "channels_first", "tf": "channels_last", "default": "channels_last"}


def modern(class_name: str, config: Mapping[str, Any], version: Version) -> tuple[str, Config]:
    """Class and config as Keras 2 would write them. Keys that are new already stay; unknown classes pass through."""
    target, keys = CLASSES.get(class_name, (class_name, {}))
    made = {keys.get(k, k) if keys.get(k, k) not in config else k: v for k, v in config.items()}
    if isinstance(made.get("data_format"), str):
        made["data_format"] = ORDERS.get(made["data_format"], made["data_format"])
    if "input_dtype" in made and target != "InputLayer":
        made.setdefault("dtype", made["input_dtype"] if str(made["input_dtype"]).startswith("float64") else None)
    rule = _RULES.get(target)
    if rule is not None:
        rule(made, class_name)
    if class_name == "Merge":
        return merge(made)
    return target, made


def _kernel_size(c: Config, given: str) -> None:
    """filter_length, nb_row × nb_col, kernel_dim1 × 2 × 3 become kernel_size."""
    for names in (("kernel_dim1", "kernel_dim2", "kernel_dim3"), ("nb_row", "nb_col"), ("filter_length",)):
        if names[0] in c and "kernel_size" not in c:
            c["kernel_size"] = [c.get(n) for n in names]
    for key in ("strides", "dilation_rate"):
        if isinstance(c.get(key), int):
            c[key] = [c[key]]
    if given.startswith("Atrous") and given.endswith("2D"):
        c.setdefault("dilation_rate", [1, 1])
    c.setdefault("padding", "valid")


def _pool(c: Config, _: str) -> None:
    if c.get("strides") is None:
        c["strides"] = c.get("pool_size")


def _padding_1d(c: Config, _: str) -> None:
    if isinstance(c.get("padding"), dict):
        sides = c["padding"]
        c["padding"] = [sides.get("left_pad", 0), sides.get("right_pad", 0)]


def _padding_2d(c: Config, _: str) -> None:
    """(rows, columns), or all four sides."""
    sides = c.get("padding")
    if isinstance(sides, dict):
        sides = [sides.get(f"{n}_pad", 0) for n in ("top", "bottom", "left", "right")]
    if isinstance(sides, (list, tuple)) and len(sides) == 4:
        sides = [[sides[0], sides[1]], [sides[2], sides[3]]]
    if sides is not None:
        c["padding"] = sides


def _rnn(c: Config, _: str) -> None:
    c.setdefault("recurrent_activation", "hard_sigmoid")
    c["reset_after"] = False
    c.setdefault("use_bias", True)


def _simple(c: Config, _: str) -> None:
    c.setdefault("use_bias", True)


_RULES: dict[str, Callable[[Config, str], None]] = {
    **dict.fromkeys(
        ("Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose", "SeparableConv2D", "ConvLSTM2D", "LocallyConnected1D"), _kernel_size
    ),
    "LocallyConnected2D": _kernel_size,
    **{f"{kind}{n}D": _pool for kind in ("MaxPooling", "AveragePooling") for n in (1, 2, 3)},
    "ZeroPadding1D": _padding_1d,
    "ZeroPadding2D": _padding_2d,
    "GRU": _rnn,
    "LSTM": _rnn,
    "SimpleRNN": _simple,
}


def merge(c: Config) -> tuple[str, Config]:
    """Keras 1's Merge layer → the merge layer of its mode. A mode that is a function stays "Merge", which nothing supports."""
    mode = c.get("mode", "sum")
    if not isinstance(mode, str) or c.get("mode_type", "raw") not in ("raw", None) or mode not in MERGES:
        return "Merge", {"name": c.get("name"), "mode": str(mode)[:80]}
    made: Config = {k: c[k] for k in ("name", "trainable") if k in c}
    if mode == "concat":
        made["axis"] = c.get("concat_axis", -1)
    if mode in ("dot", "cos"):
        axes = c.get("dot_axes", -1)
        made.update(axes=axes, normalize=mode == "cos")
        if mode == "cos":
            made["keras1_cosine"] = True  # its norms are of the product, and its result has one more axis
    return MERGES[mode], made


def from_zero(raw: Mapping[str, Any]) -> Config:
    """A Sequential of Keras 0.3, whose layers are flat dicts with the class under "name" → the form of Keras 1."""
    layers = []
    for k, held in enumerate(raw["layers"]):
        class_name = held.get("name") if isinstance(held, Mapping) else None
        if not isinstance(class_name, str):
            return {}
        config = {n: v for n, v in held.items() if n not in ("name", "custom_name")}
        shape = config.pop("input_shape", None)
        if k == 0 and isinstance(shape, list):
            config["batch_input_shape"] = [None, *shape]
        config["name"] = f"{str(held.get('custom_name') or class_name).lower()}_{k}"
        layers.append({"class_name": class_name, "config": config})
    return {"class_name": "Sequential", "config": layers}
