"""Padding, cropping, enlarging and resizing of sequences, images and volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from npinfer.errors import ShapeError
from npinfer.ops.indexing import GetItem
from npinfer.ops.joining import Pad, Repeat
from npinfer.ops.operands import cast
from npinfer.ops.registry import LayerCall, Value, layer, operation
from npinfer.ops.reshape import Reshape, transposed
from npinfer.ops.resize import METHODS, Resize
from npinfer.ops.sizes import Size, entries, shape_of
from npinfer.ops.windows import as_asked, channels_last, several

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


def _format(config: Config) -> Iterable[str]:
    found = config.get("data_format")
    if found not in (None, "channels_last", "channels_first"):
        yield f"option data_format={found!r}"


def _borders(call: LayerCall, name: str, rank: int) -> list[tuple[int, int]]:
    """(before, after) for each spatial axis from Keras's forms: a number, one number an axis, or a pair an axis (for one axis
    also the pair alone)."""
    found: Any = call.config[name]
    if rank == 1 and isinstance(found, (list, tuple)) and len(found) == 2:
        found = [found]
    each = found if isinstance(found, (list, tuple)) else [found] * rank
    pairs = [tuple(e) if isinstance(e, (list, tuple)) else (e, e) for e in each]
    if len(pairs) != rank or not all(len(p) == 2 and all(isinstance(n, int) and n >= 0 for n in p) for p in pairs):
        call.refuse(f"option {name}={found!r}")
    return [(a, b) for a, b in pairs]


def _axes(call: LayerCall, x: Value, rank: int) -> int:
    """The first spatial axis of x; checks the number of axes."""
    if len(x.shape) != rank + 1:
        raise ShapeError(f"layer {call.name!r}: takes {rank + 1} axes a sample, got {list(x.shape)}")
    return 1 if call.config.get("data_format") == "channels_first" else 0


def _zero_padding(rank: int) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Any borders, both data formats."""
        first, widths = _axes(call, x, rank), [(0, 0)] * (rank + 1)
        widths[first : first + rank] = _borders(call, "padding", rank)
        return call.emit(Pad(tuple(widths)), x)

    return lower


def _cropping(rank: int) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Any borders, both data formats."""
        first, key = _axes(call, x, rank), [slice(None)] * (rank + 1)
        for axis, (a, b) in enumerate(_borders(call, "cropping", rank), first):
            n = x.shape[axis]
            if n is not None and a + b >= n:
                raise ShapeError(f"layer {call.name!r}: cropping {a} + {b} leaves nothing of an axis of size {n}")
            key[axis] = slice(a or None, -b if b else None)
        return call.emit(GetItem(tuple(key)), x)

    return lower


def _up_sampling(rank: int) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Nearest, and for images TensorFlow's other interpolations, as the writer's version placed pixels."""
        factors = several(call, call.config.get("size", 2), rank, "size")
        method = str(call.config.get("interpolation") or "nearest").lower()
        if method == "nearest":
            for axis, times in enumerate(factors, _axes(call, x, rank)):
                x = call.emit(Repeat(times, axis), x) if times > 1 else x
            return x
        if rank != 2 or method not in METHODS:
            call.refuse(f"option interpolation={method!r}")
        version = call.version
        centered = version.major == 3 or version.tf  # standalone Keras calls TensorFlow 1's resize_bilinear
        if not centered and (method != "bilinear" or version.backend != "tensorflow"):
            call.refuse(f"option interpolation={method!r} of {version} on {version.backend}")
        op = Resize(None, method, centered=centered, factors=(factors[0], factors[1]))
        return as_asked(call, call.emit(op, channels_last(call, x, 2)))

    return lower


for _rank in (1, 2, 3):
    layer(f"ZeroPadding{_rank}D", mask="stop", check=_format)(_zero_padding(_rank))
    layer(f"Cropping{_rank}D", mask="stop", check=_format)(_cropping(_rank))
    layer(f"UpSampling{_rank}D", mask="stop", check=_format)(_up_sampling(_rank))


def _check_resizing(config: Config) -> Iterable[str]:
    yield from _format(config)
    method = config.get("interpolation", "bilinear")
    if not isinstance(method, str) or method.lower() not in METHODS:
        yield f"option interpolation={method!r}"


def to_aspect(call: LayerCall, x: Value, height: int, width: int) -> Value:
    """The largest centred part of a channels-last image with the aspect ratio height : width (keras.utils.smart_resize)."""
    h, w = x.shape[:2]
    if h is None or w is None:
        call.refuse("cropping to an aspect ratio with an image size that is unknown")
    tall, wide = max(min(h, int(w * height / width)), 1), max(min(w, int(h * width / height)), 1)
    a, b = (h - tall) // 2, (w - wide) // 2
    return x if (tall, wide) == (h, w) else call.emit(GetItem((slice(a, a + tall), slice(b, b + wide))), x)


def padded_to_aspect(call: LayerCall, x: Value, height: int, width: int, fill: float) -> Value:
    """A channels-last image with borders that give it the aspect ratio height : width."""
    h, w = x.shape[:2]
    if h is None or w is None:
        call.refuse("padding to an aspect ratio with an image size that is unknown")
    tall, wide = max(h, int(w * height / width)), max(w, int(h * width / height))
    a, b = (tall - h) // 2, (wide - w) // 2
    return call.emit(Pad(((a, a), (b, b), (0, 0)), "constant", fill), x) if a or b else x


@layer("Resizing", mask="stop", check=_check_resizing)
def resizing(call: LayerCall, x: Value) -> Value:
    """All interpolations, antialias, crop_to_aspect_ratio, pad_to_aspect_ratio."""
    c = call.config
    return as_asked(call, _resized(call, channels_last(call, x, 2), int(c["height"]), int(c["width"])))


def _resized(call: LayerCall, x: Value, height: int, width: int) -> Value:
    c = call.config
    if x.spec.dtype.kind != "f":
        if call.version.major == 3 and c.get("interpolation", "bilinear") != "nearest":
            call.refuse(f"resizes {x.spec.dtype} images, which Keras rounds back to whole numbers")
        x = cast(call, x, call.dtype)
    if c.get("crop_to_aspect_ratio", False):
        x = to_aspect(call, x, height, width)
    elif c.get("pad_to_aspect_ratio", False):
        if c.get("fill_mode", "constant") != "constant":
            call.refuse(f"option fill_mode={c['fill_mode']!r}")
        x = padded_to_aspect(call, x, height, width, float(c.get("fill_value") or 0))
    return call.emit(_resize(call, (height, width)), x)


def _resize(call: LayerCall, size: tuple[int, int] | None, factors: tuple[int, int] = (1, 1)) -> Resize:
    c = call.config
    method = str(c.get("interpolation") or "bilinear").lower()
    return Resize(size, method, bool(c.get("antialias")), c.get("centered") is not False, factors)


@layer("CenterCrop", mask="stop", check=_format)
def center_crop(call: LayerCall, x: Value) -> Value:
    """Images smaller than the crop are enlarged to it."""
    height, width = int(call.config["height"]), int(call.config["width"])
    x = cast(call, channels_last(call, x, 2), call.dtype)
    h, w = x.shape[:2]
    if h is None or w is None:
        call.refuse("an image size that is unknown")
    if h >= height and w >= width:
        a, b = (h - height) // 2, (w - width) // 2
        y = call.emit(GetItem((slice(a, a + height), slice(b, b + width))), x)
    else:
        y = call.emit(Resize((height, width)), to_aspect(call, x, height, width))
    return as_asked(call, y)


def _factor(x: Value, size: Any, axis: int) -> int | None:
    """The whole number of times that a size is the size of an axis of x, where a call alone knows both."""
    if not isinstance(size, Size) or len(x.shape) != 3:
        return None
    whole = shape_of(x).array[axis + 1]
    if size.same(whole):
        return 1
    a, b = size.operands if size.kind == "multiply" else (None, None)
    times, of = (a, b) if isinstance(a, int) else (b, a)
    return times if isinstance(times, int) and times > 0 and isinstance(of, Size) and of.same(whole) else None


@operation("Resize", takes=("sizes",))
def resize_operation(call: LayerCall, x: Value) -> Value:
    size = entries(call, call.setting("size"))
    for reason in _check_resizing(call.config):
        call.refuse(reason)
    down, across = (_factor(x, n, k) for k, n in enumerate(size)) if len(size) == 2 else (None, None)
    if down and across and x.spec.dtype.kind == "f":
        return call.emit(_resize(call, None, (down, across)), x)
    if len(size) != 2 or any(isinstance(n, Size) or n < 1 for n in size):
        call.refuse(f"size={call.config.get('size')!r}; two whole numbers are needed")
    return as_asked(call, _resized(call, channels_last(call, x, 2), int(size[0]), int(size[1])))


@operation("DepthToSpace", "SpaceToDepth")
def depth_and_space(call: LayerCall, x: Value) -> Value:
    """Each pixel's channels are a block of pixels, row by row, or the other way round (keras.ops.depth_to_space)."""
    for reason in _format(call.config):
        call.refuse(reason)
    b, x = int(call.config["block_size"]), channels_last(call, x, 2)
    h, w, c = x.shape
    if h is None or w is None or c is None:
        call.refuse("an image size that is unknown")
    if call.layer.class_name == "DepthToSpace":
        if b < 1 or c % (b * b):
            raise ShapeError(f"layer {call.name!r}: {c} channels don't make blocks of {b} x {b}")
        parts, made = (h, w, b, b, c // (b * b)), (h * b, w * b, c // (b * b))
    else:
        if b < 1 or h % b or w % b:
            raise ShapeError(f"layer {call.name!r}: {h} x {w} pixels don't make blocks of {b} x {b}")
        parts, made = (h // b, b, w // b, b, c), (h // b, w // b, b * b * c)
    blocks = transposed(call, call.emit(Reshape(parts), x), (0, 2, 1, 3, 4))
    return as_asked(call, call.emit(Reshape(made), blocks))
