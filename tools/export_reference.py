#!/usr/bin/env python
"""Run where Keras is: write random inputs and Keras's outputs, for `npinfer check MODEL --against OUT.npz` elsewhere.

    python export_reference.py MODEL OUT.npz [--samples 8] [--steps 8] [--seed 0] [--weights FILE]

One file, to be copied to any host with Keras 2 or 3 (or tf.keras) and NumPy. MODEL is what keras.models.load_model takes, or
a JSON architecture together with --weights. OUT.npz holds x0, x1 ... and y0, y1 ..., and `meta`: JSON text with the names of
inputs and outputs and the Keras version. Inputs are standard normal, integers for integer inputs and Embedding's indices.
"""

import argparse
import json
import os

import numpy as np


def import_keras():
    """tf_keras where TF_USE_LEGACY_KERAS asks TensorFlow for it, else keras where it stands alone (2 or 3), else tf.keras."""
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        import tf_keras

        return tf_keras
    try:
        import keras

        if hasattr(keras.models, "load_model"):
            return keras
    except (ImportError, AttributeError):
        pass
    from tensorflow import keras

    return keras


def load(keras, path, weights):
    if path.endswith(".json"):
        with open(path) as f:
            model = keras.models.model_from_json(f.read())
        model.load_weights(weights)
        return model
    return keras.models.load_model(path, compile=False)


def vocabulary(model, tensor):
    """The smallest input_dim of the Embedding layers that read this input directly; None where none does."""
    name = tensor.name.split(":")[0]
    sizes = []
    for layer in model.layers:
        if type(layer).__name__ == "Embedding":
            inputs = layer.input if isinstance(layer.input, (list, tuple)) else [layer.input]
            if any(getattr(t, "name", "").split(":")[0] == name for t in inputs):
                sizes.append(int(layer.input_dim))
    return min(sizes) if sizes else None


def make_input(rng, model, tensor, samples, steps):
    shape = [int(n) if n is not None else None for n in tuple(tensor.shape)]
    shape = [shape[0] or samples] + [n or steps for n in shape[1:]]
    dtype = getattr(tensor.dtype, "name", str(tensor.dtype))
    indices = vocabulary(model, tensor)
    if "int" in dtype or indices:
        return rng.randint(0, indices or 2, shape).astype("int32" if "int" in dtype else "float32")
    return rng.normal(size=shape).astype("float64" if "float64" in dtype else "float32")


def flat(tree):
    if isinstance(tree, dict):
        return [a for k in tree for a in flat(tree[k])]
    if isinstance(tree, (list, tuple)):
        return [a for t in tree for a in flat(t)]
    return [np.asarray(tree)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--weights", help="weights file, where MODEL is a JSON architecture")
    parser.add_argument("--samples", type=int, default=8, help="rows of each input")
    parser.add_argument("--steps", type=int, default=8, help="for sizes that the model leaves open")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    keras = import_keras()
    model = load(keras, args.model, args.weights)
    rng = np.random.RandomState(args.seed)
    xs = [make_input(rng, model, t, args.samples, args.steps) for t in model.inputs]
    if hasattr(model, "reset_states"):
        model.reset_states()
    ys = flat(model.predict(xs[0] if len(xs) == 1 else xs, batch_size=len(xs[0]), verbose=0))
    meta = {
        "keras_version": keras.__version__,
        "inputs": [t.name.split(":")[0] for t in model.inputs],
        "outputs": [str(n) for n in getattr(model, "output_names", range(len(ys)))],
    }
    arrays = {f"{letter}{k}": a for letter, group in (("x", xs), ("y", ys)) for k, a in enumerate(group)}
    np.savez(args.out, meta=json.dumps(meta), **arrays)
    print(f"{len(xs)} inputs, {len(ys)} outputs, {len(xs[0])} rows -> {args.out}")


if __name__ == "__main__":
    main()
