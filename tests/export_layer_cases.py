"""Ops for the tests of export: attention, images and recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from export_op_case import OpCase, w

from npinfer.ops.activations import Activation
from npinfer.ops.attention import Attention
from npinfer.ops.attention_axes import AxesAttention
from npinfer.ops.attention_heads import HeadAttention
from npinfer.ops.conv import Conv
from npinfer.ops.conv_transpose import ConvTranspose
from npinfer.ops.convlstm import ConvLSTMCell
from npinfer.ops.local import LocallyConnected
from npinfer.ops.pool import AdaptivePool, GlobalPool, Pool
from npinfer.ops.recurrent import GRUCell, LSTMCell, MaskedStep, Recurrent, SimpleRNNCell
from npinfer.ops.resize import METHODS, Resize
from npinfer.ops.softmax import Softmax


def lstm(**changes: Any) -> LSTMCell:
    fields = {"activation": Activation("tanh"), "recurrent_activation": Activation("sigmoid"), "bias": w(16)}
    return LSTMCell(**{**fields, "kernel": w(3, 16), "recurrent_kernel": w(4, 16), **changes})


def gru(**changes: Any) -> GRUCell:
    fields = {"activation": Activation("tanh"), "recurrent_activation": Activation("sigmoid"), "bias": w(12)}
    return GRUCell(**{**fields, "kernel": w(3, 12), "recurrent_kernel": w(4, 12), **changes})


def simple(**changes: Any) -> SimpleRNNCell:
    return SimpleRNNCell(Activation("tanh"), None, **{"kernel": w(3, 4), "recurrent_kernel": w(4, 4), "bias": w(4), **changes})


def conv_lstm() -> ConvLSTMCell:
    one = (1, 1)
    return ConvLSTMCell(
        Activation("tanh"),
        Activation("hard_sigmoid"),
        Conv(w(3, 3, 2, 12), w(12), one, "valid", one),
        Conv(w(2, 2, 3, 12), None, one, "same", one),
    )


def attention_cases() -> Iterator[OpCase]:
    qvk = ((3, 4), (5, 2), (5, 4))
    mask_q, mask_s = ("bool", 3), ("bool", 5)
    for kind, scale in (("dot", np.float32(0.7)), ("concat", np.float32(0.7)), ("additive", w(4))):
        array = np.asarray(scale)
        weight = np.asarray(1.3, np.float32) if kind == "concat" else None
        free = ((0, 0), (1, 0), (2, 0))
        yield OpCase(f"{kind} attention", Attention(kind, array, weight, True, scores=True), qvk, free)
        masked = Attention(kind, masks=("query", "value"))
        yield OpCase(f"{kind} attention with masks", masked, (*qvk, mask_q, mask_s), (*free, (3, 0), (4, 0)))
    heads = ((3, 8), (5, 8), (5, 12))
    free = ((0, 0), (1, 0), (2, 0))
    yield OpCase("heads", HeadAttention(4, 4, 0.5, scores=True), heads, free)
    yield OpCase("heads on images", HeadAttention(4, 4, 0.5), tuple((2, *s) for s in heads))
    few = ((3, 8), (5, 4), (5, 6))
    yield OpCase("grouped heads", HeadAttention(4, 2, 0.5, True, 2), few, free)
    for penalised, zeroed in ((True, False), (True, True), (False, False)):
        op = HeadAttention(4, 2, 0.5, masks=("query", "value", "attention"), penalised=penalised, zeroed=zeroed, scores=True)
        yield OpCase(f"masked heads {penalised} {zeroed}", op, (*few, mask_q, mask_s, ("bool", 3, 5)), free)
        whole = (*few, ("bool", 4, 3, 5), mask_s)
        yield OpCase(f"mask of heads {penalised} {zeroed}", op.replace(masks=("attention", "key")), whole)
    yield from axes_cases()


def axes_cases() -> Iterator[OpCase]:
    """Attention over several axes, or over another than the last."""
    image, other = ((3, 2, 4, 8), (3, 5, 4, 8), (3, 5, 4, 12)), ((2, 3, 8), (5, 3, 8), (5, 3, 12))
    fields = {"scores": True, "zeroed": True}
    open_sizes = tuple((k, a) for k in range(3) for a in (0, 1))
    for axes in ((1, 2), (2, 1), (0, 1, 2)):
        given = image if 0 not in axes else ((3, 2, 4, 8), (2, 3, 4, 8), (2, 3, 4, 12))
        yield OpCase(f"over axes {axes}", AxesAttention(4, 4, 0.5, scores=True, axes=axes), given, open_sizes)
    yield OpCase("over the first axis", AxesAttention(4, 2, 0.5, axes=(0,)), ((2, 3, 8), (5, 3, 4), (5, 3, 6)), open_sizes)
    yield OpCase("over the heads", AxesAttention(1, 1, 0.5, axes=(1,), headless=True, scores=True), ((5, 4, 2),) * 3)
    yield OpCase("over heads and steps", AxesAttention(1, 1, 0.5, axes=(2, 0), headless=True), ((5, 4, 2, 3),) * 3)
    mask = ("bool", 3, 2, 4, 5, 4)
    several = AxesAttention(4, 4, 0.5, axes=(1, 2), masks=("attention",), **fields)
    yield OpCase("mask over axes", several, (*image, mask), ((0, 1), (1, 1), (2, 1)))
    yield OpCase("mask of heads over axes", several, (*image, ("bool", 3, 4, *mask[2:])))
    one = AxesAttention(4, 4, 0.5, axes=(0,), masks=("attention",), penalised=False, **fields)
    yield OpCase("mask over the first axis", one, (*other, ("bool", 3, 2, 5)))
    yield OpCase("causal over the first axis", one.replace(causal=True, window=2), (*other, ("bool", 1, 2, 5)))
    kinds = AxesAttention(4, 4, 0.5, True, axes=(1,), masks=("query", "key"), **fields)
    yield OpCase("masks over the second axis", kinds, (*((3, 3, 8),) * 2, (3, 3, 12), ("bool", 3, 3), ("bool", 3, 3)))
    early = kinds.replace(early=True, causal=False, penalised=True)
    yield OpCase("early masks", early, (*((3, 3, 8),) * 2, (3, 3, 12), ("bool", 3), ("bool", 3)))
    headless = AxesAttention(1, 1, 0.5, axes=(0,), headless=True, masks=("attention",))
    yield OpCase("mask of heads alone", headless, ((4, 2), (4, 2), (4, 3), ("bool", 4, 4)))


def image_cases() -> Iterator[OpCase]:
    relu, one, two = Activation("relu"), (1, 1), (2, 2)
    image, free = (7, 6, 4), ((0, 0), (0, 1))
    for padding in ("valid", "same", ((1, 2), (0, 1))):
        for strides, dilation in ((one, one), ((2, 3), one), (one, (2, 1))):
            op = Conv(w(3, 2, 4, 6), w(6), strides, padding, dilation, 1, relu)
            yield OpCase(f"conv {padding} {strides} {dilation}", op, (image,), free)
        yield OpCase(f"conv groups {padding}", Conv(w(3, 2, 2, 6), w(6), two, padding, one, 2), (image,), free)
        yield OpCase(f"depthwise {padding}", Conv(w(3, 2, 1, 8), None, one, padding, one, 4, relu), (image,), free)
        if padding != ((1, 2), (0, 1)):
            for strides, extra, dilation in ((one, None, one), ((2, 3), None, one), (two, (1, 1), one), (one, None, two)):
                op = ConvTranspose(w(3, 2, 5, 4), w(5), strides, padding, extra, dilation, relu)
                yield OpCase(f"transposed {padding} {strides} {extra} {dilation}", op, (image,), free)
        for kind in ("max", "average"):
            yield OpCase(f"{kind} pool {padding}", Pool(kind, (3, 2), (2, 1), padding), (image,), free)
    yield OpCase("transposed by more than its window", ConvTranspose(w(1, 2, 5, 4), None, (3, 3), "same", None, one), (image,))
    yield OpCase("causal", Conv(w(3, 4, 6), w(6), (1,), "causal", (2,)), ((7, 4),), ((0, 0),))
    for kernel, window, strides, padding, shape in (
        ((3, 8, 3), (4,), (2,), ((0, 0),), (9, 2)),
        ((4, 3, 12, 5), (2, 3), (1, 2), ((1, 0), (1, 2)), (4, 4, 2)),
        ((3, 4, 2, 5), (1, 1), (2, 1), ((0, 0), (0, 0)), (5, 4, 2)),
    ):
        op = LocallyConnected(w(*kernel), w(*kernel[:-2], kernel[-1]), window, strides, padding)
        yield OpCase(f"locally connected {window}", op, (shape,), ((0, 0),) if window == (4,) else ())
        yield OpCase(f"locally connected {window} without bias", op.replace(bias=None), (shape,))
    yield OpCase("conv 3d", Conv(w(2, 2, 2, 3, 5), w(5), (1,) * 3, "same", (1,) * 3), ((4, 3, 5, 3),), ((0, 1),))
    yield OpCase("pool of integers", Pool("max", (2, 2), (2, 2), "same"), (("int32", 5, 4, 2),))
    for kind in ("max", "average"):
        yield OpCase(f"global {kind}", GlobalPool(kind), (image,), free)
        yield OpCase(f"global {kind} kept", GlobalPool(kind, True), (image,), free)
        yield OpCase(f"adaptive {kind}", AdaptivePool(kind, (3, 1)), (image,), free)
    yield OpCase("global masked", GlobalPool("average"), ((5, 3), ("bool:true", 5)))
    for method in METHODS:
        # TensorFlow and npinfer find bilinear positions in float32, in float64 models too
        same = {"rtol64": 1e-6} if method == "bilinear" else {}
        open_sizes = free if method in ("nearest", "bilinear") else ()
        yield OpCase(f"resize {method}", Resize((5, 9), method), (image,), open_sizes, **same)
        yield OpCase(f"resize {method} antialias", Resize((5, 9), method, True), (image,), () if method != "nearest" else free)
    for method in ("nearest", "bilinear"):
        for centered in (True, False):
            op = Resize(None, method, False, centered, (2, 3))
            yield OpCase(f"enlarge {method} {centered}", op, (image,), free, rtol64=1e-6)


def recurrent_cases() -> Iterator[OpCase]:
    x, s, mask = (5, 3), (4,), ("bool", 5)
    kinds: dict[str, tuple[Any, int]] = {
        "lstm": (lstm(), 2),
        "lstm other gates": (
            lstm(recurrent_activation=Activation("hard_sigmoid_k2"), activation=Activation("relu"), bias=None),
            2,
        ),
        "lstm linear": (lstm(activation=None, recurrent_activation=Activation("hard_sigmoid"), kernel=w(3, 16) / 4), 2),
        "lstm unusual": (lstm(activation=Activation("gelu")), 2),
        "lstm softmax": (lstm(recurrent_activation=Softmax()), 2),
        "gru": (gru(), 1),
        "gru elu": (gru(activation=Activation("elu", (0.5,))), 1),
        "gru after": (gru(reset_after=True, recurrent_bias=w(12)), 1),
        "gru after without bias": (gru(reset_after=True, bias=None), 1),
        "gru unusual": (gru(recurrent_activation=Activation("softsign"), activation=Activation("mish")), 1),
        "gru after unusual": (gru(reset_after=True, recurrent_bias=w(12), activation=Activation("mish")), 1),
        "simple": (simple(), 1),
        "simple linear": (simple(recurrent_kernel=w(4, 4) / 4).replace(activation=None), 1),
    }
    for name, (cell, count) in kinds.items():
        states = (s,) * count
        yield OpCase(f"cell {name}", cell, ((3,), *states))
        for sequences in (True, False):
            yield OpCase(f"{name} {sequences}", Recurrent(cell, sequences), (x,), ((0, 0),))
            yield OpCase(f"{name} {sequences} backwards", Recurrent(cell, sequences, True), (x, *states), ((0, 0),))
        for rule in ("previous", "state", "zero"):
            yield OpCase(f"{name} masked {rule}", Recurrent(cell, True, False, rule), (x, *states, mask), ((0, 0), (-1, 0)))
            yield OpCase(f"{name} masked {rule} last", Recurrent(cell, False, True, rule), (x, mask))
            before = (s,) if rule == "previous" else ()
            yield OpCase(f"step {name} masked {rule}", MaskedStep(cell, rule), ((3,), *states, *before, ("bool",)))
    images, state = (3, 5, 6, 2), (3, 4, 3)
    yield OpCase("conv lstm", Recurrent(conv_lstm(), True), (images,), ((0, 0),))
    yield OpCase("conv lstm open", Recurrent(conv_lstm(), True), (images,), ((0, 1), (0, 2)))
    yield OpCase("conv lstm masked", Recurrent(conv_lstm(), False, True, "zero"), (images, state, state, ("bool", 3)))
    yield OpCase("conv lstm step", conv_lstm(), (images[1:], state, state))
