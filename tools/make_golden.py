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

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
from golden_models import MODELS
from golden_models.arrays import batches, draw, seeded, set_weights
from golden_models.kit import Kit

warnings.simplefilter("ignore")

COLUMNS = (
    *("env", "keras_version", "backend", "tier", "model", "files", "expect"),
    *("rtol64", "input_shapes", "output_shapes", "oddity"),
)
#: cases in which Keras keeps a constant in float32 even when it computes in float64 (slopes, GELU's and attention's square
#: roots, whole resizings), so that its float64 run is a reference to fewer digits, or none
ROUGH = dict.fromkeys(("act-object", "leaky-elu", "einsum-bias", "gelu", "transformer", "kops-numbers", "mha-", "gqa"), "1e-7")
ROUGH["bicubic"] = ""


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
