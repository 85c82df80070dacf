"""One layer's config, of any Keras → the canonical dialect: Keras 3's class names, keys and values, defaults made explicit.

Unknown keys and classes pass through untouched; lowering refuses what nobody handles. Initializers, regularizers and
constraints are dropped unread: they don't act at inference, and their classes may be anyone's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npinfer.errors import FormatError
from npinfer.ops import load_families, registry
from npinfer.readers.archive import Layer, Version
from npinfer.readers.values import compute_dtype, input_shape, plain, policy

OWN = "Custom>CustomScaleLayer"  # how tf.keras's InceptionResNetV2 registers a layer: .h5 files don't tell whose it is
APPLICATIONS = ("keras.applications.", "keras.src.applications.", "tf_keras.applications.", "tf_keras.src.applications.")
ALIASES = {
    OWN: "CustomScaleLayer",
    "BatchNormalizationV1": "BatchNormalization",
    "BatchNormalizationV2": "BatchNormalization",
    "SyncBatchNormalization": "BatchNormalization",
    "LSTMV1": "LSTM",
    "LSTMV2": "LSTM",
    "GRUV1": "GRU",
    "GRUV2": "GRU",
    "LSTMCellV2": "LSTMCell",
    "GRUCellV2": "GRUCell",
    "CuDNNLSTM": "LSTM",
    "CuDNNGRU": "GRU",
    "Convolution1D": "Conv1D",
    "Convolution2D": "Conv2D",
    "Convolution3D": "Conv3D",
    "Convolution1DTranspose": "Conv1DTranspose",
    "Convolution2DTranspose": "Conv2DTranspose",
    "Convolution3DTranspose": "Conv3DTranspose",
    "SeparableConvolution1D": "SeparableConv1D",
    "SeparableConvolution2D": "SeparableConv2D",
    "AvgPool1D": "AveragePooling1D",
    "AvgPool2D": "AveragePooling2D",
    "AvgPool3D": "AveragePooling3D",
    "MaxPool1D": "MaxPooling1D",
    "MaxPool2D": "MaxPooling2D",
    "MaxPool3D": "MaxPooling3D",
    "GlobalAvgPool1D": "GlobalAveragePooling1D",
    "GlobalAvgPool2D": "GlobalAveragePooling2D",
    "GlobalAvgPool3D": "GlobalAveragePooling3D",
    "GlobalMaxPool1D": "GlobalMaxPooling1D",
    "GlobalMaxPool2D": "GlobalMaxPooling2D",
    "GlobalMaxPool3D": "GlobalMaxPooling3D",
    "GroupedQueryAttention": "GroupQueryAttention",
    "ThresholdedRelu": "ThresholdedReLU",
    "RandomGaussianNoise": "GaussianNoise",
}
ACTIVATION_KEYS = ("activation", "recurrent_activation")
DROPPED = ("_initializer", "_regularizer", "_constraint")
#: config entries that hold layers
INNER = ("layer", "backward_layer", "forward_layer", "cell", "cells")
#: what wrappers can't be without
NEEDED = {"TimeDistributed": "layer", "Bidirectional": "layer", "SpectralNormalization": "layer", "RNN": "cell"} | {
    "StackedRNNCells": "cells"
}
MAX_INNER = 40
Inner = Callable[[Any, str, int], Layer]


def layer(raw: Any, version: Version, where: str, inner: Inner, depth: int = 0) -> Layer:
    """A layer without its calls. inner: makes a Layer of a nested model's entry (topology.py hands itself in).

    Raises FormatError where the entry isn't a layer at all; a class or option that is merely unknown stays as it is.
    """
    class_name, config, raw = entry(raw, where)
    name = config.get("name", raw.get("name"))
    if not isinstance(name, str) or not name:
        raise FormatError(f"{where}: a {class_name} layer has no name; save the model again")
    module = origin(raw, class_name)
    if module == "custom":
        return _plain(class_name.split(">")[-1], name, config, raw, "custom")
    if version.major == 3 and _is_operation(raw, class_name, config):
        return _plain(class_name, name, config, raw, "ops")
    if version.major == 1 or class_name in ("Merge", "MaxoutDense", "Highway"):  # Keras 2.0 kept these three
        from npinfer.readers.dialect_k1 import modern

        class_name, config = modern(class_name, config, version)
    given, class_name = class_name, ALIASES.get(class_name, class_name)
    made = _plain(class_name, name, config, raw, "")
    known = dict(made.config)
    if given != class_name:
        known["keras_class"] = given
    for key in ACTIVATION_KEYS:
        if key in known:
            known[key] = activation(known[key], version, f"{where}/{name}", inner, depth)
    if class_name in ("Lambda", "TFOpLambda", "SlicingOpLambda", "TensorFlowOpLayer"):
        return made.replace(config=known)
    for key in INNER:
        if depth < MAX_INNER and key in known:
            known[key] = _held(known[key], version, f"{where}/{name}", inner, depth + 1)
    needed = NEEDED.get(class_name)
    if needed is not None and not _layers(known.get(needed)):
        raise FormatError(f"{where}: layer {name!r} ({class_name}): its config holds no layer under {needed!r}")
    rule = _RULES.get(class_name)
    if rule is not None:
        rule(known, version, given)
    if class_name == "Bidirectional" and isinstance(known.get("layer"), Layer):
        _both_ways(known)
    return made.replace(config=known)


def entry(raw: Any, where: str) -> tuple[str, dict[str, Any], Mapping[str, Any]]:
    """class_name, config (a dict) and the whole entry."""
    if not isinstance(raw, Mapping):
        raise FormatError(f"{where}: a layer of the config is a {type(raw).__name__}; it must be a dict")
    class_name, config = raw.get("class_name"), raw.get("config")
    if not isinstance(class_name, str) or not isinstance(config, (dict, list)):
        raise FormatError(f"{where}: a layer's entry lacks class_name or config: it holds {', '.join(map(str, raw))[:80]!r}")
    return class_name, config if isinstance(config, dict) else {"layers": config}, raw


def origin(raw: Mapping[str, Any], class_name: str) -> str:
    """ "custom" for a user's class: Keras 3 (and 2.12+) write the module and the registered name; older files can't tell."""
    registered, module = raw.get("registered_name"), raw.get("module")
    if isinstance(module, str) and module.startswith(APPLICATIONS):
        return ""  # keras.applications registers layers of its own as a user would
    if class_name == OWN and module is None and set(raw["config"]) == {"name", "trainable", "dtype", "scale"}:
        return ""
    if ">" in class_name or (isinstance(registered, str) and ">" in registered):
        return "custom"
    if isinstance(module, str) and module.split(".")[0] not in ("keras", "tf_keras", "tensorflow", "builtins", "keras_core"):
        return "custom"
    return "custom" if "module" in raw and module is None else ""  # None stands for the caller's __main__


def _is_operation(raw: Mapping[str, Any], class_name: str, config: Mapping[str, Any]) -> bool:
    """Whether an entry of Keras 3 is an operation: .keras files name its module; old-layout ones show it by the lack of what
    layers have, which a few layers lack as well."""
    module = raw.get("module")
    if isinstance(module, str):
        return ".ops" in module
    if "trainable" in config or class_name in ("InputLayer", "Functional", "Sequential", "Model"):
        return False
    load_families()
    return class_name not in registry.LAYERS or class_name in registry.OPERATIONS


def _plain(class_name: str, name: str, config: Mapping[str, Any], raw: Mapping[str, Any], module: str) -> Layer:
    """The parts that every layer has; config without what never matters, values as plain data."""
    kept = {k: plain(v) for k, v in config.items() if not k.endswith(DROPPED) and k not in ("name", "dtype")}
    dtype = config.get("dtype")
    if class_name in ("InputLayer", "Cast") or (module == "ops" and dtype is not None):
        kept["dtype"] = policy(dtype)
    trainable = config.get("trainable", True)
    return Layer(
        class_name,
        name,
        kept,
        module=module,
        trainable=trainable is not False,
        dtype=None if module == "ops" or class_name == "InputLayer" else compute_dtype(dtype, class_name),
        input_shape=input_shape(config, raw),
    )


# activations


def activation(entry_: Any, version: Version, where: str, inner: Inner, depth: int = 0) -> Any:
    """A config's activation: None, a canonical name, or a Layer for activation layers given as one.

    hard_sigmoid means two functions: clip(0.2x+0.5, 0, 1) up to Keras 2 ("hard_sigmoid_k2" here), relu6(x+3)/6 in Keras 3.
    """
    if entry_ is None:
        return None
    if isinstance(entry_, str):
        return function_name(entry_, version)
    if not isinstance(entry_, Mapping):
        return repr(entry_)[:80]
    name, config = entry_.get("class_name"), entry_.get("config")
    if name == "function" or (isinstance(config, str) and name not in ("__lambda__",)):
        known = config if isinstance(config, str) else str(config)[:80]
        return _own(known) if origin(entry_, known) == "custom" else function_name(known, version)
    if isinstance(name, str) and isinstance(config, Mapping) and depth < MAX_INNER and name != "__lambda__":
        named = {**config, "name": config.get("name") or name}
        return layer({**entry_, "config": named}, version, where, inner, depth + 1)
    return str(name)[:80]


def _own(name: str) -> str:
    """A user's function by a name that can't be taken for a built-in's."""
    from npinfer.ops.activations import NAMED

    return f"custom>{name}" if name in NAMED or ">" in name else name


#: names under which some versions write an activation → Keras 3's; "_v2" are TensorFlow's own functions (up to 2.10)
FUNCTIONS = {"swish": "silu", "softmax_v2": "softmax", "log_softmax_v2": "log_softmax", "hard_swish": "hard_silu"}


def function_name(name: str, version: Version) -> str:
    """The canonical name of an activation function."""
    short = name[len("tf.nn.") :] if name.startswith("tf.nn.") else name
    short = FUNCTIONS.get(short, short)
    return "hard_sigmoid_k2" if short == "hard_sigmoid" and version.major < 3 else short


# what single classes need


def _held(value: Any, version: Version, where: str, inner: Inner, depth: int) -> Any:
    if isinstance(value, list):
        return [_held(v, version, where, inner, depth) for v in value]
    if isinstance(value, Mapping) and "class_name" in value and "config" in value:
        return inner(value, where, depth)
    return value


def _layers(value: Any) -> bool:
    return isinstance(value, Layer) or (isinstance(value, list) and bool(value) and all(isinstance(v, Layer) for v in value))


def _both_ways(config: dict[str, Any]) -> None:
    """Bidirectional before Keras 3 writes one layer; the other is its mirror."""
    forward: Layer = config["layer"]
    if not isinstance(config.get("backward_layer"), Layer):
        mirrored = {**forward.config, "go_backwards": not forward.config.get("go_backwards", False)}
        bare = forward.name[len("forward_") :] if forward.name.startswith("forward_") else forward.name
        config["backward_layer"] = forward.replace(name=f"backward_{bare}", config=mirrored, input_shape=None)


def _leaky_relu(c: dict[str, Any], _: Version, __: str) -> None:
    if "alpha" in c:
        c.setdefault("negative_slope", c.pop("alpha"))
    c.setdefault("negative_slope", 0.3)


def _recurrent(c: dict[str, Any], version: Version, given: str) -> None:
    if given.startswith("CuDNN"):
        c.update(activation="tanh", recurrent_activation="sigmoid", use_bias=True, stored_layout="cudnn")
        if given == "CuDNNGRU":
            c["reset_after"] = True
        return
    old = version.major == 1 or (version.major == 2 and bool(version.numbers) and version.numbers[:2] < (2, 3))
    c.setdefault("activation", "tanh")
    c.setdefault("recurrent_activation", "hard_sigmoid_k2" if old else "sigmoid")
    c.setdefault("use_bias", True)


def _batch_norm(c: dict[str, Any], version: Version, _: str) -> None:
    c.setdefault("epsilon", 1e-3 if version.major > 1 or version.numbers[:2] >= (1, 2) else 1e-5)


def _data_format(c: dict[str, Any], _: Version, __: str) -> None:
    c.setdefault("data_format", "channels_last")


_RULES: dict[str, Callable[[dict[str, Any], Version, str], None]] = {
    "LeakyReLU": _leaky_relu,
    "BatchNormalization": _batch_norm,
    **dict.fromkeys(("LSTM", "GRU", "LSTMCell", "GRUCell", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _recurrent),
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2D", "SeparableConv2D", "Conv2DTranspose"), _data_format),
}
