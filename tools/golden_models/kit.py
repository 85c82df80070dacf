"""The installed Keras under one set of names. Python 3.6 or newer."""

import importlib

import numpy as np

#: Keras 1's names of what later versions call otherwise
KERAS1 = {
    "units": "output_dim",
    "filters": "nb_filter",
    "use_bias": "bias",
    "padding": "border_mode",
    "strides": "subsample",
    "recurrent_activation": "inner_activation",
}


OLD_NAMES = {"Conv1D": "Convolution1D", "Conv2D": "Convolution2D", "Conv3D": "Convolution3D"}
OLD_NAMES["SeparableConv2D"] = "SeparableConvolution2D"


def old_layer(kind, name, args, kwargs):
    """A layer of Keras 1 from the arguments of Keras 2."""
    axes = int(name[-2]) if name[-1] == "D" else 0
    if "Pooling" in name and not name.startswith("Global"):
        if axes > 1:
            args = [(n,) * axes if isinstance(n, int) else n for n in args]
        return kind(*args, **{"border_mode" if k == "padding" else k: v for k, v in kwargs.items()})
    if name.startswith(("Convolution", "Separable", "ConvLSTM", "Locally")) and axes > 1:
        filters, size = args
        args = [filters, *((size,) * axes if isinstance(size, int) else size)]
        if isinstance(kwargs.get("strides"), int):
            kwargs = {**kwargs, "strides": (kwargs["strides"],) * axes}
    return kind(*args, **{KERAS1.get(k, k): v for k, v in kwargs.items()})


class Kit:
    """The installed Keras under the names of Keras 2 and 3: kit.Dense(3), kit.input((6,)), kit.model(inputs, outputs).

    What a version lacks raises AttributeError, TypeError or ValueError, and the case is left out.
    """

    def __init__(self, keras, name):
        self.keras, self.name = keras, name
        self.version = getattr(keras, "__version__", "1")
        self.number = tuple(int(n) for n in self.version.split("-")[0].split(".")[:2])
        self.major = self.number[0]
        self.tf_keras = self.major == 2 and (name != "keras" or self.number >= (2, 4))
        self.shapeless = self.major == 2 and self.number < (2, 3)  # InputLayer leaves no shape in a Sequential's file
        self.label = keras.backend.backend() if hasattr(keras.backend, "backend") else "tensorflow"
        self.ops = getattr(keras, "ops", None)
        self.inputs = []  # (per-sample shape, dtype, options) in the order of `input` calls
        self.tensors = []  # what `input` returned
        self.keys = None  # of a model that takes a dict, in the order of its inputs
        self.fixed = None  # batch size of stateful networks

    @property
    def tf(self):
        if self.major == 3:
            raise AttributeError("TensorFlow's functions in Keras 3")
        return importlib.import_module("tensorflow")

    def __getattr__(self, name):
        layers = self.keras.layers
        name = OLD_NAMES.get(name, name) if self.major == 1 else name
        if not hasattr(layers, name):
            raise AttributeError(f"no layer {name} in Keras {self.version}")
        kind = getattr(layers, name)
        return kind if self.major > 1 else lambda *args, **kwargs: old_layer(kind, name, args, kwargs)

    def input(self, shape, dtype=None, name=None, batch=None, vocabulary=None, blank=None, scale=1.0):
        """An input. vocabulary: whole numbers below it; blank: some time steps hold this value (for masks)."""
        dtype = dtype or ("int32" if vocabulary and self.major > 1 else None)
        self.inputs.append((shape, dtype, {"vocabulary": vocabulary, "blank": blank, "scale": scale}))
        self.fixed = batch or self.fixed
        options = {"name": name} if name else {}
        if dtype:
            options["dtype"] = dtype
        if batch:
            tensor = self.keras.layers.Input(batch_shape=(batch, *shape), **options)
        else:
            tensor = self.keras.layers.Input(shape=tuple(shape), **options)
        self.tensors.append(tensor)
        return tensor

    def model(self, inputs, outputs, **options):
        if self.major == 1:
            return self.keras.models.Model(input=inputs, output=outputs, **options)
        if isinstance(inputs, dict):
            self.keys = inputs
        return self.keras.models.Model(inputs, outputs, **options)

    def seq(self, layers, shape=None, **options):
        """A Sequential, to be used inside a network; its input shape may be left out."""
        model = self.keras.models.Sequential(**options)
        if shape is not None:
            model.add(self._first(shape))
        for layer in layers:
            model.add(layer)
        return model

    def _first(self, shape, dtype=None):
        if self.major == 3:
            return self.keras.layers.Input(shape=tuple(shape), dtype=dtype)
        return self.keras.layers.InputLayer(
            input_shape=tuple(shape), **({"input_dtype" if self.major == 1 else "dtype": dtype} if dtype else {})
        )

    def chain(self, shape, layers, form, **options):
        """Layers in a row, as a model of one of three forms."""
        if form == "functional" or options.get("vocabulary") or options.get("batch"):
            x = start = self.input(shape, **options)
            for layer in layers:
                x = layer(x)
            return self.model(start, x)
        self.inputs.append((shape, None, {"vocabulary": None, "blank": None, "scale": 1.0, **options}))
        if form == "built" and self.major > 1 and not (self.shapeless and len(shape) > 1):
            model = self.seq(layers)
            model.build((None, *shape))
            return model
        if self.major < 3 and (form == "built" or (self.shapeless and len(shape) > 1)):
            name = "_batch_input_shape" if self.tf_keras else "batch_input_shape"  # as if given to the first layer
            setattr(layers[0], name, (None, *shape))
            if getattr(layers[0], "dtype", None) is None:
                layers[0].dtype = "float32"
            return self.seq(layers)
        return self.seq(layers, shape)

    def merge(self, kind, values, **options):
        """Add, Concatenate …, as a call on a list."""
        if self.major == 1:
            mode = {"Add": "sum", "Multiply": "mul", "Average": "ave", "Concatenate": "concat", "Dot": "dot", "Maximum": "max"}[
                kind
            ]
            if kind == "Concatenate":
                options = {"concat_axis": options.pop("axis", -1), **options}
            if kind == "Dot":
                options = {"dot_axes": options.pop("axes"), **options}
            return self.keras.layers.merge(values, mode=mode, **options)
        return getattr(self, kind)(**options)(values)

    def activation(self, name):
        """A function of keras.activations."""
        return getattr(self.keras.activations, name)

    def clear(self, floatx):
        backend = self.keras.backend
        getattr(backend, "clear_session", lambda: None)()  # Keras 1 on Theano has none
        (self.keras.config if hasattr(self.keras, "config") and self.major == 3 else backend).set_floatx(floatx)
        self.inputs, self.tensors, self.fixed, self.keys = [], [], None, None

    def sort_inputs(self, model):
        """Put `inputs` into the order in which the model lists them."""
        given = model.inputs
        if len(self.tensors) == len(given) > 1:
            order = [next(k for k, mine in enumerate(self.tensors) if mine is t) for t in given]
            self.inputs = [self.inputs[k] for k in order]
        if self.keys:
            self.keys = [next(k for k, mine in self.keys.items() if mine is t) for t in given]

    def run(self, model, arrays):
        given = dict(zip(self.keys, arrays)) if self.keys else arrays[0] if len(arrays) == 1 else list(arrays)
        eager = self.major == 3 or (hasattr(model, "_build_input_shape") and self._eager())
        got = model(given, training=False) if eager else model.predict_on_batch(given)
        if isinstance(got, dict):
            got = [got[k] for k in got]
        got = got if isinstance(got, (list, tuple)) else [got]
        return [np.asarray(y if isinstance(y, np.ndarray) else self._numpy(y)) for y in got]

    def _numpy(self, value):
        if hasattr(value, "numpy"):
            value = value.numpy()
        elif self.major == 3:
            value = self.keras.ops.convert_to_numpy(value)
        return value.astype("float32") if str(getattr(value, "dtype", "")) == "bfloat16" else value

    def _eager(self):
        try:
            return importlib.import_module("tensorflow").executing_eagerly()
        except (ImportError, AttributeError):
            return False
