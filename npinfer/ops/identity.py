"""Layers that do nothing at inference, and the dtype cast."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.graph import Array, Op, Spec
from npinfer.ops.registry import LayerCall, Value, layer


class Cast(Op):
    """Convert to another dtype as Keras's autocast does (float to integer truncates)."""

    dtype: np.dtype[Any]

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, self.dtype)

    def __call__(self, x: Array) -> Array:
        return x.astype(self.dtype, copy=False)


def as_float(call: LayerCall, x: Value) -> Value:
    """x in the layer's compute dtype: layers with float weights take integers too."""
    return x if x.spec.dtype == call.dtype else call.emit(Cast(call.dtype), x)


@layer(
    *("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
    *("ActivityRegularization", "Identity"),
)
def nothing(call: LayerCall, x: Value) -> Value:
    """Nothing at inference: the input itself."""
    return x


#: Keras 3's and tf.keras's random augmentation; RandomCrop (crops the centre), RandomHeight and RandomWidth (resize) aren't
AUGMENTATION = (
    *("AugMix", "AutoContrast", "CLAHE", "CutMix", "MixUp", "RandAugment", "RandomBrightness", "RandomColorDegeneration"),
    *("RandomColorJitter", "RandomContrast", "RandomElasticTransform", "RandomErasing", "RandomFlip", "RandomGaussianBlur"),
    *("RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective", "RandomPosterization", "RandomRotation"),
    *("RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom"),
)
