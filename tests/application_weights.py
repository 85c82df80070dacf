"""The weights of tests/applications: drawn anew by tools/make_application_cases.py and the tests, as the networks are big."""

from __future__ import annotations

from typing import Any

import numpy as np
from draws import draw

#: of the kernels' variance, by network. He's 2 suits relu; gates and swish shrink what passes, and the output would hardly
#: depend on the input; branches that are added let it grow. Far more than needed makes a network chaotic: rounding grows too
GAINS = {"EfficientNetB0": 3.5, "MobileNetV3Small": 2.6, "MobileNetV3Large": 2.2, "Xception": 1.2, "ConvNeXtTiny": 4.0}


def weight(network: str, layer: str, name: str, shape: tuple[int, ...], floatx: str = "float32") -> Any:
    """The array `name` (kernel, gamma, moving_variance …) of a layer; the same numbers in float32 and float64."""
    if name == "count":
        return np.ones(shape, "int64")
    x = draw(f"{network}/{layer}/{name}", shape)
    if "kernel" in name:
        depthwise = len(shape) == 4 and shape[-1] == 1
        size = int(np.prod(shape[:2] if depthwise else shape[:-1]))
        x *= np.float32(np.sqrt(GAINS.get(network, 2.0) / size))
    elif "variance" in name:
        x = np.float32(0.5) + abs(x)
    elif name == "gamma":
        x = np.float32(1) + np.float32(0.1) * x
    else:  # bias, beta, means
        x *= np.float32(0.1)
    return x.astype(floatx)
