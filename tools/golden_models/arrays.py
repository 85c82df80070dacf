"""The weights and inputs of golden cases, seeded by case and position. Python 3.6 or newer."""

import zlib

import numpy as np

OPEN = 7  # the size of axes that a network leaves open


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
