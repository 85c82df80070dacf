"""TensorFlow's functions of images (tf.image) in functional models, and keras.ops.image.extract_patches. Images are
(height, width, channels) a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.ops.arithmetic import Where, binary, unary
from npinfer.ops.cast import as_float
from npinfer.ops.indexing import GetItem
from npinfer.ops.joining import Pad, Tile, joined
from npinfer.ops.products import matrix_product
from npinfer.ops.reductions import reduce
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.reshape import Reshape, transposed
from npinfer.ops.windows import as_asked, channels_last, pairs_of, several

#: rows: what red, green and blue give to each of the new channels (tf.image's matrices)
COLORS = {
    "grayscale": [[0.2989], [0.5870], [0.1140]],
    "yuv": [
        [0.299, -0.14714119, 0.61497538],
        [0.587, -0.28886916, -0.51496512],
        [0.114, 0.43601035, -0.10001026],
    ],
    "yiq": [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]],
}


def _sizes(call: LayerCall, x: Value) -> tuple[int, int]:
    """Height and width of the images; refused where they are unknown."""
    if len(x.shape) != 3:
        raise ShapeError(f"layer {call.name!r}: takes images (height, width, channels), got {list(x.shape)} a sample")
    height, width = x.shape[:2]
    if height is None or width is None:
        call.refuse("an image size that is unknown")
    return height, width


def _number(call: LayerCall, name: str) -> int:
    found = call.setting(name)
    if not isinstance(found, int) or found < 0:
        call.refuse(f"{name}={found!r}; a whole number is needed")
    return found


def cropped(call: LayerCall, x: Value, top: int, left: int, height: int, width: int) -> Value:
    """The box of height x width pixels from (top, left) on."""
    h, w = _sizes(call, x)
    if top + height > h or left + width > w:
        raise ShapeError(f"layer {call.name!r}: a crop beyond an image of {h} x {w}")
    if (h, w) == (height, width):
        return x
    return call.emit(GetItem((slice(top, top + height), slice(left, left + width))), x)


def framed(call: LayerCall, x: Value, top: int, left: int, height: int, width: int) -> Value:
    """x at (top, left) in height x width zeros."""
    h, w = _sizes(call, x)
    below, right = height - top - h, width - left - w
    if below < 0 or right < 0:
        raise ShapeError(f"layer {call.name!r}: {h} x {w} pixels don't fit")
    return call.emit(Pad(((top, below), (left, right), (0, 0))), x) if (h, w) != (height, width) else x


@operation("ImageCrop", "ImagePad")
def box(call: LayerCall, x: Value) -> Value:
    numbers = [_number(call, n) for n in ("offset_height", "offset_width", "target_height", "target_width")]
    return (cropped if call.layer.class_name == "ImageCrop" else framed)(call, x, *numbers)


@operation("ImageFit")
def fit(call: LayerCall, x: Value) -> Value:
    """The middle of the image where it is larger, the image in the middle of zeros where it is smaller."""
    height, width = _number(call, "target_height"), _number(call, "target_width")
    h, w = _sizes(call, x)
    x = cropped(call, x, max(h - height, 0) // 2, max(w - width, 0) // 2, min(h, height), min(w, width))
    return framed(call, x, max(height - h, 0) // 2, max(width - w, 0) // 2, height, width)


@operation("ImageMiddle")
def middle(call: LayerCall, x: Value) -> Value:
    share = call.config.get("central_fraction")
    if not isinstance(share, (int, float)) or not 0 < share <= 1:
        call.refuse(f"central_fraction={share!r}")
    h, w = _sizes(call, x)
    top, left = int((h - h * share) / 2), int((w - w * share) / 2)
    return cropped(call, x, top, left, h - 2 * top, w - 2 * left)


@operation("ImageTurn")
def turn(call: LayerCall, x: Value) -> Value:
    """By k right angles, against the clock."""
    _sizes(call, x)
    quarters, back = int(call.config.get("k", 1)) % 4, slice(None, None, -1)
    if quarters == 2:
        return call.emit(GetItem((back, back)), x)
    if not quarters:
        return x
    x = transposed(call, x, (1, 0, 2))
    return call.emit(GetItem((back,) if quarters == 1 else (slice(None), back)), x)


@operation("ImageContrast", "ImageStandardization")
def spread_about_mean(call: LayerCall, x: Value) -> Value:
    """(x - mean) · factor + mean for each channel; or (x - mean) / max(deviation, 1/√size) of the whole image."""
    height, width = _sizes(call, x)
    if x.spec.dtype.kind != "f":
        call.refuse(f"{x.spec.dtype} images")
    if call.layer.class_name == "ImageContrast":
        factor = call.config.get("contrast_factor")
        if not isinstance(factor, (int, float)):
            call.refuse(f"contrast_factor={factor!r}; a number is needed")
        mean = reduce(call, "mean", x, (0, 1), True)
        return binary(call, "add", binary(call, "multiply", binary(call, "subtract", x, mean), float(factor)), mean)
    away = binary(call, "subtract", x, reduce(call, "mean", x, (0, 1, 2), True))
    least = 1 / np.sqrt(height * width * (x.shape[2] or 1))
    return binary(call, "divide", away, binary(call, "maximum", reduce(call, "std", x, (0, 1, 2), True), float(least)))


@operation("ImageGamma")
def gamma(call: LayerCall, x: Value) -> Value:
    power, gain = (call.config.get(n, 1) for n in ("gamma", "gain"))
    if x.spec.dtype.kind != "f" or not all(isinstance(n, (int, float)) for n in (power, gain)):
        call.refuse("images or exponents of this kind")
    return binary(call, "multiply", binary(call, "power", x, float(power)), float(gain))


@operation("ImageColors")
def colors(call: LayerCall, x: Value) -> Value:
    """Between red, green, blue and gray, or to YUV and YIQ."""
    to = call.config["to"]
    if x.spec.dtype.kind != "f":
        call.refuse(f"{x.spec.dtype} images")
    if x.shape[-1] != (1 if to == "rgb" else 3):
        raise ShapeError(f"layer {call.name!r}: {x.shape[-1]} channels")
    if to == "rgb":
        return call.emit(Tile((*(1,) * (len(x.shape) - 1), 3)), x)
    return matrix_product(call, x, np.asarray(COLORS[to]))


@operation("RGBToGrayscale")
def rgb_to_grayscale(call: LayerCall, x: Value) -> Value:
    x = channels_last(call, as_float(call, x), 2)
    return as_asked(call, matrix_product(call, x, np.asarray(COLORS["grayscale"])))


@operation("ExtractPatches")
def extract_patches(call: LayerCall, x: Value) -> Value:
    """The pixels of each window, row by row, as the channels of one pixel."""
    c, x = call.config, channels_last(call, x, 2)
    size = several(call, c["size"], 2, "size")
    strides = size if c.get("strides") is None else several(call, c["strides"], 2, "strides")
    steps = several(call, c.get("dilation_rate") or 1, 2, "dilation_rate")
    sizes = _sizes(call, x)
    padding = call.option("padding", "valid", "same", default="valid")
    pairs = pairs_of(padding, sizes, size, strides, steps)
    if any(map(any, pairs)):
        x = call.emit(Pad((*pairs, (0, 0))), x)
    h, w, channels = x.shape
    assert h is not None
    assert w is not None
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip((h, w), size, strides, steps)]
    if min(counts) < 1 or channels is None:
        raise ShapeError(f"layer {call.name!r}: windows of {list(size)} in an image of {h} x {w}")
    if strides == size and steps == (1, 1):
        (a, b), (m, n) = size, counts
        x = cropped(call, x, 0, 0, m * a, n * b)
        x = transposed(call, call.emit(Reshape((m, a, n, b, channels)), x), (0, 2, 1, 3, 4))
        return as_asked(call, call.emit(Reshape((m, n, a * b * channels)), x))
    parts = []
    for i, j in np.ndindex(*size):
        cuts = [slice(p * d, p * d + (m - 1) * s + 1, s) for p, m, s, d in zip((i, j), counts, strides, steps)]
        parts.append(call.emit(GetItem(tuple(cuts)), x))
    return as_asked(call, joined(call, parts, 2))


@operation("RGBToHSV")
def rgb_to_hsv(call: LayerCall, x: Value) -> Any:
    """Hue, saturation and value; hue is 0 where all channels are equal."""
    x = channels_last(call, as_float(call, x), 2)
    r, g, b = (call.emit(GetItem((slice(None), slice(None), slice(k, k + 1))), x) for k in range(3))
    value = reduce(call, "max", x, (2,), True)
    range_ = binary(call, "subtract", value, reduce(call, "min", x, (2,), True))

    def sector(p: Value, q: Value, start: float) -> Value:
        return binary(call, "add", binary(call, "divide_no_nan", binary(call, "subtract", p, q), range_), start)

    red, green = (binary(call, "equal", p, value) for p in (r, g))
    hue = call.emit(Where(), green, sector(b, r, 2.0), sector(r, g, 4.0))
    hue = binary(call, "divide", call.emit(Where(), red, sector(g, b, 0.0), hue), 6.0)
    hue = binary(call, "subtract", hue, unary(call, "floor", hue))
    flat = binary(call, "equal", range_, 0.0)
    hue = call.emit(Where(x1=np.zeros((), x.spec.dtype)), flat, hue)
    return as_asked(call, joined(call, [hue, binary(call, "divide_no_nan", range_, value), value], 2))
