"""Layers that do nothing at inference."""

from __future__ import annotations

from npinfer.ops.cast import Cast, as_float
from npinfer.ops.registry import LayerCall, Value, layer

__all__ = ["Cast"]


@layer(
    *(
        "Dropout",
        "AlphaDropout",
        "GaussianDropout",
        "GaussianNoise",
        "SpatialDropout1D",
        "SpatialDropout2D",
        "SpatialDropout3D",
    ),
    *("ActivityRegularization", "Identity", "AddLoss", "AddMetric"),
)
def nothing(call: LayerCall, x: Value) -> Value:
    """Nothing at inference: the input itself."""
    return x


# AutoContrast and CLAHE are active at inference as well, so they aren't here
@layer(
    *("AugMix", "CutMix", "Equalization", "MixUp", "RandAugment", "RandomBrightness", "RandomColorDegeneration"),
    *("RandomColorJitter", "RandomContrast", "RandomElasticTransform", "RandomErasing", "RandomFlip", "RandomGaussianBlur"),
    *("RandomGrayscale", "RandomHeight", "RandomHue", "RandomInvert", "RandomPerspective", "RandomPosterization"),
    *("RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation", "RandomWidth", "RandomZoom"),
    "Solarization",
)
def augmentation(call: LayerCall, x: Value) -> Value:
    """Random augmentation is for training: at inference the images pass as floats."""
    return as_float(call, x)


@layer("RandomCrop")
def random_crop(call: LayerCall, x: Value) -> Value:
    """Where the images have the crop's size already."""
    wanted = (call.config.get("height"), call.config.get("width"))
    spatial = x.shape[-2:] if call.config.get("data_format") == "channels_first" else x.shape[-3:-1]
    if tuple(spatial) != wanted:
        call.refuse(f"cropping images of {list(spatial)} to {list(wanted)}")
    return as_float(call, x)
