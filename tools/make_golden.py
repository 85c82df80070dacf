"""Make golden cases: small networks saved by the Keras that is installed here, with that Keras's own outputs.

    python tools/make_golden.py OUT [--keras keras] [--env NAME] [--case WORD …] [--list]

Runs where Keras is (1.2 to 3.x; Python 3.6 or newer; needs no npinfer). Adds to OUT/manifest.csv and writes, for each network
of golden_models that this Keras can build, OUT/ENV/tTIER-MODEL.SUFFIX:
.h5 full model · .opt.h5 with the state of an optimizer · .wonly.h5 weights alone in the old layout · .weights.h5 in Keras 3's ·
.keras zip · .json the architecture · .npz inputs and outputs: `meta` (JSON) and, for each batch B of meta["batches"],
B_in0 …, B_out0 … (this Keras's) and B_ref0 … (the same network and weights in float64). Batches: b1, b5 (rows), bx (extreme
rows: zeros, subnormals, 1e4, 1e20, -0.0 …), s0, s1 (two successive calls of a stateful network).

Weights are seeded by case and position: variances 0.25 to 2.5, gamma partly negative, biases not zero. A network or a form that
this Keras lacks is left out and named at the end.
"""

import argparse
import csv
import importlib
import json
import os
import sys
import warnings
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
from golden_models import MODELS

warnings.simplefilter("ignore")

COLUMNS = (
    *("env", "keras_version", "backend", "tier", "model", "files", "expect"),
    *("rtol64", "input_shapes", "output_shapes", "oddity"),
)
#: cases in which Keras keeps a constant in float32 even when it computes in float64 (slopes, GELU's and attention's square
#: roots, whole resizings), so that its float64 run is a reference to fewer digits, or none
ROUGH = dict.fromkeys(("act-object", "leaky-elu", "einsum-bias", "gelu", "transformer", "kops-numbers", "mha-", "gqa"), "1e-7")
ROUGH["bicubic"] = ""
OPEN = 7  # the size of axes that a network leaves open
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


def generator(*key):
    return np.random.RandomState(zlib.crc32("/".join(map(str, key)).encode()) % (1 << 32))


def seeded(kit, model, name):
    """New values for all weights of a model, in the order of get_weights: layer by layer in standalone Keras 1 and 2."""
    by_layer = kit.major < 3 and not kit.tf_keras
    held = [w for layer in model.layers for w in layer.weights] if by_layer else model.weights
    named = [(getattr(w, "path", None) or w.name).lower() for w in held]
    values, found = model.get_weights(), []
    for k, (label, old) in enumerate(zip(named, values)):
        rng, last = generator(name, k), label.split("/")[-1]
        if old.dtype.kind != "f" and str(old.dtype) != "bfloat16":
            new = old
        elif "variance" in last or "running_std" in last:
            new = rng.uniform(0.25, 2.5, old.shape)
        elif "gamma" in last:
            new = 0.4 + 0.8 * rng.normal(size=old.shape)
        elif old.ndim >= 2:
            new = rng.normal(size=old.shape) * 1.2 / np.sqrt(max(np.prod(old.shape[:-1]), 1))
        else:
            new = 0.5 * rng.normal(size=old.shape)
        found.append(np.asarray(new, old.dtype))
    return found


def set_weights(model, weights):
    """Normalization keeps what it derives from its weights; loading a file derives it anew, set_weights alone doesn't."""
    model.set_weights(weights)
    for layer in model.layers:
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()


def draw(kit, name, rows, batch):
    """One array an input."""
    found = []
    for k, (shape, dtype, options) in enumerate(kit.inputs):
        rng = generator(name, batch, k)
        full = (rows, *(OPEN if n is None else n for n in shape))
        if options["vocabulary"]:
            x = rng.randint(0, options["vocabulary"], full)
            x = x.astype(dtype or "int32")
        else:
            x = rng.normal(size=full).astype(dtype if dtype and dtype.startswith("float") else "float32") * options["scale"]
        if options["blank"] is not None or options["vocabulary"]:
            blank(x, 0 if options["blank"] is None else options["blank"])
        found.append(x)
    return found


def blank(x, value):
    """Time steps to be masked: none in the first sample, the last, middle, first ones, all but one in the next."""
    if x.ndim < 2 or x.shape[1] < 3:
        return
    patterns = (slice(0, 0), slice(-2, None), slice(1, 3), slice(0, 2), slice(1, None))
    for i in range(len(x)):
        x[i, patterns[i % 5]] = value


def extreme(kit, name):
    """Rows of zeros, subnormals, large and small numbers."""
    found = []
    for k, (shape, _, _) in enumerate(kit.inputs):
        rng, full = generator(name, "bx", k), tuple(OPEN if n is None else n for n in shape)
        sign = np.where(rng.uniform(size=full) < 0.5, -1.0, 1.0)
        rows = [0.0 * sign, 1e-42 * sign, 1e4 * sign, 50 * rng.normal(size=full), 1e20 * sign]
        rows += [np.exp(6 * rng.normal(size=full)) * sign, -0.0 * np.abs(sign), 1e-6 * rng.normal(size=full)]
        found.append(np.stack(rows).astype("float32"))
    return found


def batches(kit, case):
    """The inputs: {batch name: [array]}."""
    if kit.fixed:
        return {b: draw(kit, case.name, kit.fixed, b) for b in ("s0", "s1")}
    found = {"b1": draw(kit, case.name, 1, "b1"), "b5": draw(kit, case.name, 5, "b5")}
    plain = all(o["vocabulary"] is None and o["blank"] is None and d is None for _, d, o in kit.inputs)
    if plain and case.tier in (1, 2):
        found["bx"] = extreme(kit, case.name)
    return found


def reset(kit, model):
    if not kit.fixed:
        return
    if hasattr(model, "reset_states"):
        model.reset_states()
        return
    for layer in model.layers:
        if hasattr(layer, "reset_states"):
            layer.reset_states()


def writers(kit, model, full):
    """(suffix, function(path)) for every form that this Keras may write; training forms come last."""
    yield ".h5", lambda path: model.save(path, **({"save_format": "h5"} if kit.major == 2 and kit.tf_keras else {}))
    yield ".json", lambda path: write_text(path, model.to_json())
    if not full:
        return
    if kit.major == 3:
        yield ".weights.h5", model.save_weights
        yield ".keras", model.save
        yield ".wonly.h5", lambda path: old_weights(kit, model, path)
    else:
        yield ".wonly.h5", model.save_weights
        if kit.tf_keras and kit.number >= (2, 12):
            yield ".keras", lambda path: model.save(path, save_format="keras")
            yield ".weights.h5", model.save_weights

    def trained(path):
        weights = model.get_weights()
        model.compile(optimizer="adam", loss="mse")
        arrays = draw(kit, "train", 4, "b4")
        outputs = kit.run(model, arrays)
        model.train_on_batch(arrays[0] if len(arrays) == 1 else arrays, outputs[0] if len(outputs) == 1 else outputs)
        model.set_weights(weights)
        model.save(path)

    yield ".opt.h5", trained


def old_weights(kit, model, path):
    import h5py

    module = importlib.import_module(kit.name + ".src.legacy.saving.legacy_h5_format")
    with h5py.File(path, "w") as f:
        module.save_weights_to_hdf5_group(f, model)


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def make(kit, case, folder, env):
    """Write one case; returns its manifest row. Raises whatever Keras raises where it lacks something."""
    kit.clear("float32")
    model = case.build(kit)
    kit.sort_inputs(model)
    weights = seeded(kit, model, case.name)
    set_weights(model, weights)
    base, given, arrays = f"t{case.tier}-{case.name}", batches(kit, case), {}
    inputs = list(kit.inputs)
    reset(kit, model)
    for batch, xs in given.items():
        arrays.update((f"{batch}_in{k}", x) for k, x in enumerate(xs))
        arrays.update((f"{batch}_out{k}", y) for k, y in enumerate(kit.run(model, xs)))
    files, errors = [], []
    reset(kit, model)
    for suffix, write in writers(kit, model, case.full):
        path = os.path.join(folder, base + suffix)
        try:
            write(path)
            files.append(base + suffix)
        except Exception as e:
            errors.append(f"{suffix}: {type(e).__name__}: {str(e)[:120]}")
            if os.path.exists(path):
                os.remove(path)
    outputs = [list(arrays[b + "_out0"].shape) for b in list(given)[:1]]
    reference = False if case.policy else exact(kit, case, weights, given, arrays)
    meta = {
        "env": env,
        "keras": kit.version,
        "tier": case.tier,
        "model": case.name,
        "batches": list(given),
        "expect": case.expect,
    }
    meta.update(note=case.note, errors=errors, in_shapes=[[None, *shape] for shape, _, _ in inputs])
    np.savez_compressed(os.path.join(folder, base + ".npz"), meta=np.array(json.dumps(meta)), **arrays)
    saved = [f for f in files if not f.endswith(".json")]
    row = (env, kit.version, kit.label, case.tier, case.name, " ".join(saved), case.expect)
    digits = next((d for word, d in ROUGH.items() if word in case.name), "1e-9")
    if kit.major == 1 and "pool" in case.name:  # always in float32 there
        digits = ""
    row += (digits if reference else "", json.dumps(meta["in_shapes"])[1:-1], json.dumps(outputs)[1:-1], case.note)
    return dict(zip(COLUMNS, row)), errors


def exact(kit, case, weights, given, arrays):
    """Add the outputs of the same network in float64; False where this Keras can't compute them."""
    try:
        kit.clear("float64")
        model = case.build(kit)
        kit.sort_inputs(model)
        set_weights(model, [w.astype("float64") if w.dtype.kind == "f" else w for w in weights])
        reset(kit, model)
        found = {}
        for batch, xs in given.items():
            wide = [x.astype("float64") if x.dtype.kind == "f" else x for x in xs]
            found.update((f"{batch}_ref{k}", y) for k, y in enumerate(kit.run(model, wide)))
        if any(y.dtype == np.float32 for y in found.values()):
            return False
        arrays.update(found)
        return True
    except Exception:
        return False
    finally:
        kit.clear("float32")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--keras", default="keras", help="the module: keras, tf_keras or tensorflow.keras")
    p.add_argument("--env", help="the folder's name (default: the module and its version)")
    p.add_argument("--case", action="append", default=[], help="only cases whose name contains it")
    p.add_argument("--list", action="store_true", help="name the cases, make nothing")
    o = p.parse_args()
    cases = [c for c in MODELS if not o.case or any(w in c.name for w in o.case)]
    if o.list:
        print("\n".join(f"{c.tier}  {c.name}" for c in cases))
        return 0
    for module in ("", ".backend", ".layers", ".models", ".activations"):
        importlib.import_module(o.keras + module) if o.keras != "tensorflow.keras" else None
    keras = importlib.import_module(o.keras)
    kit = Kit(keras, o.keras)
    env = o.env or f"{o.keras}-{kit.version}"
    folder = os.path.join(o.out, env)
    os.makedirs(folder, exist_ok=True)
    manifest = os.path.join(o.out, "manifest.csv")
    rows, left = [], []
    if os.path.exists(manifest):
        with open(manifest, newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
    for case in cases:
        try:
            row, errors = make(kit, case, folder, env)
        except Exception as e:
            left.append("{}: {}: {}".format(case.name, type(e).__name__, " ".join(str(e).split())[:140]))
            continue
        left += [f"{case.name}{e}" for e in errors]
        rows = [r for r in rows if (r["env"], str(r["tier"]), r["model"]) != (env, str(case.tier), case.name)] + [row]
        print("{}: {}".format(case.name, row["files"]), flush=True)
        with open(manifest, "w", newline="", encoding="utf-8") as f:
            writer = csv.DictWriter(f, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    print(f"left out by Keras {kit.version}:", *left, sep="\n  ", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
