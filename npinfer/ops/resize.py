"""Resizing images as TensorFlow's tf.image.resize does: one matrix of weights an axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec


def _cubic(a: float) -> Callable[[Array], Array]:
    """Keys' cubic convolution kernel with parameter a (IEEE ASSP 29, 1981)."""

    def kernel(x: Array) -> Array:
        near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x < 1, near, np.where(x < 2, far, 0))

    return kernel


def _lanczos(radius: int) -> Callable[[Array], Array]:
    return lambda x: np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0)


def _mitchell(x: Array) -> Array:
    near, far = ((7 * x - 12) * x * x + 16 / 3) / 6, (((-7 / 3 * x + 12) * x - 20) * x + 32 / 3) / 6
    return np.where(x < 1, near, np.where(x < 2, far, 0))


KERNELS: dict[str, Callable[[Array], Array]] = {
    "bilinear": lambda x: np.maximum(1 - x, 0),
    "bicubic": _cubic(-0.5),
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
    "gaussian": lambda x: np.where(x < 1.5, np.exp(-2 * x * x), 0),
    "mitchellcubic": _mitchell,
}
METHODS = ("nearest", "bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic")


def _positions(n: int, m: int, centered: bool) -> Array:
    """Where outputs 0 … m-1 lie among n inputs; TensorFlow computes this in float32, whatever the image's dtype."""
    scale = np.float32(n) / np.float32(m)
    at = np.arange(m, dtype=np.float32)
    return (at + np.float32(0.5)) * scale - np.float32(0.5) if centered else at * scale


@lru_cache(64)
def places(n: int, m: int, centered: bool) -> Array:
    """The nearest input for each output: ⌊(i + ½)·n/m⌋, or ⌊i·n/m⌋ in TensorFlow 1's manner."""
    at = _positions(n, m, centered) + np.float32(0.5 if centered else 0)
    return np.clip(np.floor(at).astype(np.intp), 0, n - 1)


@lru_cache(64)
def weights(n: int, m: int, method: str, antialias: bool, centered: bool) -> Array:
    """(m, n) weights of the inputs in each output, float64; "bilinear" stands for its antialiased form."""
    at = _positions(n, m, centered).astype(np.float64)
    inputs = np.arange(n)
    if method == "area":
        ends = np.arange(m + 1) * (np.float32(n) / np.float32(m))
        overlap = np.minimum(ends[1:, None], inputs + 1) - np.maximum(ends[:-1, None], inputs)
        w = np.maximum(overlap, 0)
    elif method == "bicubic" and not antialias:
        low = np.floor(at)
        share = np.rint((at - low) * 1024) / 1024  # TensorFlow looks the kernel up in a table of 1024 steps
        w = KERNELS[method](np.abs((low + share)[:, None] - inputs))
    else:
        # in float32, because it decides there whether an input lies on the kernel's edge
        scale = np.float32(1) / (np.float32(m) / np.float32(n))
        middle, half = (np.arange(m, dtype=np.float32) + np.float32(0.5)) * scale, np.float32(0.5)
        shrink = np.float32(1) / max(scale, np.float32(1)) if antialias else np.float32(1)
        w = KERNELS[method](np.abs((inputs.astype(np.float32) + half - middle[:, None]) * shrink).astype(np.float64))
    total = w.sum(axis=1, keepdims=True)
    shares: Array = w / np.where(np.abs(total) > 1e-4, total, 1)
    return shares


def bilinear(n: int, m: int, centered: bool) -> tuple[Array, Array, Array]:
    """(lower input, higher input, the higher one's share in float32) of each output; inputs can lie one beyond the ends."""
    at = _positions(n, m, centered)
    low = np.floor(at)
    return low.astype(np.intp), np.ceil(at).astype(np.intp), at - low


def _lerp(x: Array, axis: int, m: int, centered: bool) -> Array:
    """Bilinear along one axis, in TensorFlow's order of operations."""
    n = x.shape[axis]
    low, high, share = bilinear(n, m, centered)
    a, b = (x.take(np.clip(k, 0, n - 1), axis=axis) for k in (low, high))
    return np.asarray(a + (b - a) * share.reshape(-1, *(1,) * (x.ndim - 1 - axis)))


class Resize(Op):
    """Images (n, height, width, channels) in another size.

    size: (height, width), or None and `factors`, by which the sizes are multiplied. antialias: widen the kernel when images
    shrink. centered: pixel i covers i … i+1 and stands at its middle (TensorFlow 2); else it stands at i (TensorFlow 1)."""

    size: tuple[int, int] | None
    method: str = "bilinear"
    antialias: bool = False
    centered: bool = True
    factors: tuple[int, int] = (1, 1)

    def sizes(self, height: int | None, width: int | None) -> tuple[int | None, int | None]:
        if self.size is not None:
            return self.size
        a, b = (None if n is None else n * f for n, f in zip((height, width), self.factors))
        return a, b

    def infer(self, x: Spec) -> Spec:
        if len(x.shape) != 3 or 0 in x.shape or x.dtype.kind != "f":
            raise ShapeError(f"resizes float images (height, width, channels), got {x.dtype}{list(x.shape)} a sample")
        return Spec((*self.sizes(x.shape[0], x.shape[1]), x.shape[2]), x.dtype)

    def __call__(self, x: Array) -> Array:
        height, width = self.sizes(x.shape[1], x.shape[2])
        assert height is not None
        assert width is not None
        if self.method == "nearest":
            rows, columns = places(x.shape[1], height, self.centered), places(x.shape[2], width, self.centered)
            return x.take(rows, axis=1).take(columns, axis=2)
        if self.method == "bilinear" and not self.antialias:
            # tf.image.resize computes float64 images in float32 as well
            narrow = x.astype(np.float32, copy=False)
            y = _lerp(_lerp(narrow, 2, width, self.centered), 1, height, self.centered)
            return y.astype(x.dtype, copy=False)
        down, across = (
            weights(n, m, self.method, self.antialias, self.centered).astype(x.dtype)
            for n, m in zip(x.shape[1:3], (height, width))
        )
        n, old_height, old_width, channels = x.shape
        rows = np.matmul(down, x.reshape(n, old_height, old_width * channels))
        return np.asarray(np.matmul(across, rows.reshape(n * height, old_width, channels))).reshape(n, height, width, channels)
