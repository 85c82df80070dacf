"""Transposed convolutions as table rows. Nothing here needs Numba.

Along an axis with stride s, output o is entry f = o + cut of the whole result, and f = q·s + p sums up kernel[p + u·s]·x[q - u]
over u. So the outputs of one phase p are an ordinary convolution of x, zeros around it, with the kernel's every s-th tap, from
the last to the first. Each combination of the axes' phases is one CONV row; what it gives is put into its places in y. Where s
divides the last axis's window, that axis's phases have the same taps of x, and are computed as filters of one convolution.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from npinfer.executors.native.pack import only_floats
from npinfer.executors.native.pack_images import Described, convolve, deliver, describe, padded, roomy, spilling
from npinfer.executors.native.places import F32, numbered
from npinfer.executors.native.program import Program
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.graph import Array
from npinfer.ops.conv import Conv
from npinfer.ops.conv_transpose import ConvTranspose


class Phase(NamedTuple):
    """A phase of an axis, or all of its phases together.

    first, step: which of the kernel's taps; reach: how far before q they begin in x, -1 if there are none; low, windows: the
    first q, and how many; together: outputs a q. to, of: the outputs, and where they are in what is computed.
    """

    first: int
    step: int
    reach: int
    low: int
    windows: int
    together: int
    to: slice
    of: slice


def phases(taps: int, stride: int, dilation: int, cut: int, size: int, together: bool) -> list[Phase]:
    """Those of an axis with `size` outputs, `cut` of the whole result before them."""
    if together:
        low, high = cut // stride, (cut + size - 1) // stride
        count = high - low + 1
        start = cut - low * stride
        reach = taps // stride - 1
        return [Phase(0, 1, reach, low, count, stride, slice(0, size), slice(start, start + size))]
    found = []
    for p in range(stride):
        low, high = -((p - cut) // stride), (cut + size - 1 - p) // stride
        if low <= high:
            reach = (-(-(taps - p) // stride) - 1) * dilation if p < taps else -1
            to = slice(low * stride + p - cut, size, stride)
            found.append(Phase(p, stride, reach, low, high - low + 1, 1, to, slice(None)))
    return found


def phase_kernel(op: ConvTranspose, chosen: tuple[Phase, ...]) -> Array:
    """The kernel (*window, channels, outputs) of one combination of phases."""
    rank = len(chosen)
    part = op.kernel[tuple(slice(c.first, None, c.step) for c in chosen)]
    together = chosen[-1].together
    if together > 1:  # (…, taps, phases, filters, channels)
        part = part.reshape(*part.shape[: rank - 1], -1, together * part.shape[-2], part.shape[-1])
    return np.ascontiguousarray(np.flip(part, tuple(range(rank))).swapaxes(-1, -2))


@packs(ConvTranspose)
def conv_transpose(p: Program, op: ConvTranspose, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    *image, channels = sizes(p.spec(xs[0]))
    *outputs, filters = sizes(p.spec(ys[0]))
    rank, window = len(image), op.kernel.shape[:-2]
    if rank > 3 or not np.isfinite(op.kernel).all():
        raise NotNative(f"{rank} axes, or a kernel with infinite numbers, which zeros around the image would turn into NaN")
    if any(s > 1 and d > 1 for s, d in zip(op.strides, op.dilation)):
        raise NotNative("strides and dilation along one axis")
    axes = []
    for k, (n, size, s, d) in enumerate(zip(image, outputs, op.strides, op.dilation)):
        cut = max((n - 1) * s + op.spread(k) - size, 0) // 2 if op.padding == "same" else 0
        axes.append(phases(window[k], s, d, cut, size, k == rank - 1 and s > 1 and window[k] % s == 0))

    # zeros around x, as many as the phase that needs most
    before = [max(0, *(c.reach - c.low for c in axis)) for axis in axes]
    after = [max(0, *(c.low + c.windows - n for c in axis)) for axis, n in zip(axes, image)]
    pairs = tuple(zip(before, after))
    source, wide = padded(p, p.places[xs[0]], image, channels, pairs)
    lengths = [channels * int(np.prod(wide[k + 1 :])) for k in range(rank)]
    bias = np.zeros(filters, F32) if op.bias is None else op.bias
    alone = p.constant(bias if op.activation is None else op.activation(bias[None])[0])
    whole = numbered(*outputs, filters)
    alike: dict[tuple[int, ...], Described] = {}
    for chosen in product(*axes):
        to = whole[tuple(c.to for c in chosen)]
        if any(c.reach < 0 for c in chosen):
            p.arrange(p.places[ys[0]], to, alone, np.broadcast_to(np.arange(filters), to.shape))
            continue
        together, counts = chosen[-1].together, tuple(c.windows for c in chosen)
        one = Conv(
            phase_kernel(op, chosen),
            None if op.bias is None else np.tile(op.bias, together),
            (1,) * rank,
            ((0, 0),) * rank,
            op.dilation,
            activation=op.activation,
        )
        start = sum((c.low - c.reach + a) * n for c, a, n in zip(chosen, before, lengths))
        described = alike[counts] = describe(p, one, wide, channels, counts, start, alike.get(counts))
        computed = numbered(*counts[:-1], counts[-1] * together, filters)
        kept = computed[..., chosen[-1].of, :]
        if kept.shape == computed.shape == whole.shape and np.array_equal(to, kept):  # all of y, in its order
            out = roomy(p, ys[0], filters * together)
            convolve(p, out, source, described)
            deliver(p, ys[0], out)
            continue
        part = spilling(computed.size, filters * together)
        convolve(p, part, source, described)
        p.arrange(p.places[ys[0]], to, part, kept)
