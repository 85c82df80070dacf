"""Keras's application networks with weights drawn from seeds, run by the installed Keras: for tests/test_applications.py.

    python tools/make_application_cases.py tests/applications/keras-2.15.npz
    python tools/make_application_cases.py tests/applications/keras-3.15.npz --only MobileNetV2 EfficientNetB0 ResNet50 …
    python tools/make_application_cases.py all.npz --all --files FOLDER            all of them, and real files of each

One .npz: "cases" (JSON, compressed by xz: the version and, by network, config, [layer, [[weight, shape], …]] and the input's
shape), "y" (float32) and "y64" (of the same network in float64), one network after another.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import numpy as np
from application_weights import weight
from draws import draw
from installed_keras import keras, weights

A, ROWS = keras.applications, 2
#: (function, input size, options): what the tests run
KEPT: dict[str, tuple[Callable[..., Any], int, dict[str, Any]]] = {
    "MobileNetV2": (A.MobileNetV2, 96, {"alpha": 0.35}),
    "EfficientNetB0": (A.EfficientNetB0, 32, {}),
    "ResNet50": (A.ResNet50, 32, {}),
    "MobileNetV3Small": (A.MobileNetV3Small, 32, {"alpha": 0.75}),
    "DenseNet121": (A.DenseNet121, 32, {}),
    "EfficientNetV2B0": (A.EfficientNetV2B0, 32, {}),
}
OTHERS: dict[str, tuple[Callable[..., Any], int, dict[str, Any]]] = {
    "MobileNet": (A.MobileNet, 32, {"alpha": 0.25}),
    "MobileNetV3Large": (A.MobileNetV3Large, 32, {"alpha": 0.75}),
    "ResNet50V2": (A.ResNet50V2, 32, {}),
    "Xception": (A.Xception, 71, {}),
    "InceptionV3": (A.InceptionV3, 75, {}),
    "InceptionResNetV2": (A.InceptionResNetV2, 75, {}),
    "NASNetMobile": (A.NASNetMobile, 32, {}),
    "VGG16": (A.VGG16, 32, {}),
}
if hasattr(A, "ConvNeXtTiny"):
    OTHERS["ConvNeXtTiny"] = (A.ConvNeXtTiny, 32, {})


def variables(model: Any) -> list[tuple[str, list[tuple[str, tuple[int, ...]]]]]:
    """By layer, in the order of get_weights: the last part of each weight's name, and its shape."""
    return [
        (layer, [(n.rpartition("/")[2].removesuffix(":0"), tuple(int(k) for k in v.shape)) for n, v in held])
        for layer, held in weights(model)
        if held
    ]


def built(name: str, floatx: str) -> Any:
    make, size, options = (KEPT | OTHERS)[name]
    keras.backend.clear_session()
    keras.backend.set_floatx(floatx)
    model = make(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None, **options)
    for layer, held in variables(model):
        found = model.get_layer(layer)
        found.set_weights([weight(name, layer, n, s, floatx) for n, s in held])
        if hasattr(found, "finalize_state"):  # Normalization computes with copies, which loading a file renews
            found.finalize_state()
    return model


def save(model: Any, folder: Path | None, name: str) -> None:
    """The files that this Keras can write."""
    if folder is None:
        return
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"{name}.json").write_text(model.to_json())
    for ending in (".h5", ".keras", ".weights.h5"):
        try:
            (model.save_weights if ".w" in ending else model.save)(str(folder / (name + ending)))
        except Exception as e:
            print(f"{name}{ending}: {str(e)[:200]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--files", type=Path)
    args = parser.parse_args()
    cases: dict[str, Any] = {}
    outputs: dict[str, list[Any]] = {"float32": [], "float64": []}
    for name in args.only or [*KEPT, *(OTHERS if args.all else ())]:
        for floatx in outputs:
            model = built(name, floatx)
            x = draw(f"{name}/input", (ROWS, *model.input_shape[1:])).astype(floatx)
            y = model.predict(x, verbose=0)
            outputs[floatx].append(y)
            if floatx == "float32":
                cases[name] = {"config": model.to_json(), "layers": variables(model), "input": x.shape}
                save(model, args.files, name)
        small, large = outputs["float32"][-1], outputs["float64"][-1]
        scale = abs(large).max()
        apart, off = np.ptp(large, 0).max() / scale, abs(small - large).max() / scale
        print(
            f"{name}: {model.count_params():,} weights, scale {scale:.2g}, rows differ {apart:.2g}, float32 is off by {off:.2g}"
        )
        if args.files:
            np.savez(args.files / f"{name}.io.npz", y=small, y64=large)
    text = json.dumps({"version": keras.__version__, "cases": cases}, separators=(",", ":"))
    packed = np.frombuffer(lzma.compress(text.encode(), preset=9), np.uint8)
    np.savez(args.out, cases=packed, y=np.stack(outputs["float32"]), y64=np.stack(outputs["float64"]))
    print(f"{len(cases)} networks of Keras {keras.__version__}, {os.path.getsize(args.out)} bytes")


if __name__ == "__main__":
    main()
