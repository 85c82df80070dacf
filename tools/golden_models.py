"""The networks that make_golden.py saves, as data: layers in a row (CHAINS), graphs (GRAPHS).

Each is a function of a Kit (`k.Dense(3)`, `k.input((6,))`, `k.model(inputs, outputs)`), so that one list serves every Keras. A
network that a version can't build is left out there. Python 3.6 or newer; imports nothing.
"""

import zlib
from collections import namedtuple

#: expect: "ok", or "ok-or-refuse" for what npinfer may leave out. full: in all forms of files. policy: no float64 reference.
Case = namedtuple("Case", "tier name build expect note full policy")
FORMS = ("input", "built", "functional")

# tier: {name: (input shape, layers[, options of the input])}
CHAINS = {
    1: {
        "w1-1-1": ((1,), lambda k: [k.Dense(1, activation="tanh"), k.Dense(1)]),
        "w33-65-129": ((33,), lambda k: [k.Dense(65, activation="elu"), k.Dense(129, activation="softplus"), k.Dense(2)]),
        "w7-257-16": ((7,), lambda k: [k.Dense(257, activation="relu"), k.Dense(16, activation="softmax")]),
        "w3-64-64-63": ((3,), lambda k: [k.Dense(64, activation="sigmoid"), k.Dense(64, activation="selu"), k.Dense(63)]),
        "nobias-all": ((9,), lambda k: [k.Dense(17, use_bias=False, activation="tanh"), k.Dense(5, use_bias=False)]),
        "silu-gelu-mish": ((6,), lambda k: [k.Dense(8, activation=a) for a in ("silu", "gelu", "mish")]),
        "act-k3-mix": ((6,), lambda k: [k.Dense(8, activation=a) for a in ("celu", "hard_tanh", "squareplus", "soft_shrink")]),
        "act-k3-glu": ((6,), lambda k: [k.Dense(8, activation="glu"), k.Dense(3)]),
        "act-log-softmax": ((6,), lambda k: [k.Dense(8, activation="relu6"), k.Dense(5, activation="log_softmax")]),
        "act-threshold": ((6,), lambda k: [k.Dense(8), k.Activation("threshold"), k.Dense(2)]),
        "act-soft-exp": ((6,), lambda k: [k.Dense(8, activation="softsign"), k.Dense(8, activation="exponential"), k.Dense(2)]),
        "act-hard-sigmoid": ((6,), lambda k: [k.Dense(8, activation="hard_sigmoid"), k.Dense(8), k.Activation("hard_sigmoid")]),
        "act-object": (
            (6,),
            lambda k: [k.Dense(8, activation=k.LeakyReLU(0.13)), k.Dense(8, activation=k.ELU(0.7)), k.Dense(2)],
        ),
        "act-object-relu": ((6,), lambda k: [k.Dense(8, activation=k.ReLU(2.0, 0.25, 0.5)), k.Dense(3)]),
        "relu-full": ((6,), lambda k: [k.Dense(8), k.ReLU(2.0, 0.25, 0.5), k.Dense(8), k.ReLU(None, 0.5, 1.0)]),
        "leaky-elu-layers": ((6,), lambda k: [k.Dense(8), k.LeakyReLU(0.01), k.Dense(8), k.ELU(1.7), k.Dense(2)]),
        "thresholded": ((6,), lambda k: [k.Dense(8), k.ThresholdedReLU(0.4), k.Dense(2)]),
        "prelu-first": ((4, 5), lambda k: [k.PReLU(shared_axes=[1]), k.Dense(3), k.PReLU()]),
        "softmax-middle": ((3, 5, 4), lambda k: [k.Softmax(axis=-2), k.Dense(3), k.Softmax(axis=[1, 3])]),
        "softmax-3d": ((5, 4), lambda k: [k.Dense(6, activation="softmax"), k.Activation("softmax"), k.Dense(2)]),
        "bn-axis-middle": ((3, 4, 5), lambda k: [k.BatchNormalization(axis=2, epsilon=1e-5), k.Dense(3)]),
        "bn-bn-dense": ((6,), lambda k: [k.BatchNormalization(), k.BatchNormalization(scale=False), k.Dense(4)]),
        "bn-after-softmax": (
            (6,),
            lambda k: [k.Dense(5, activation="softmax"), k.BatchNormalization(center=False), k.Dense(2)],
        ),
        "bn-two-sides": (
            (6,),
            lambda k: [k.Dense(9), k.BatchNormalization(), k.Activation("tanh"), k.BatchNormalization(), k.Dense(2)],
        ),
        "bn-only": ((6,), lambda k: [k.BatchNormalization(momentum=0.5)]),
        "bn-flatten-dense": ((4, 3), lambda k: [k.BatchNormalization(), k.Flatten(), k.Dense(3)]),
        "bn-renorm-name": (
            (6,),
            lambda k: [k.Dense(4, name="gamma"), k.BatchNormalization(name="moving_mean"), k.Dense(2, name="beta")],
        ),
        "norm-axes": ((4, 6), lambda k: [k.Normalization(axis=(1, 2)), k.Flatten(), k.Dense(3)]),
        "norm-large-shift": (
            (3,),
            lambda k: [k.Normalization(mean=[1e3, 0.0, -50.0], variance=[1e-2, 2.0, 0.0]), k.Dense(4)],
            {"scale": 30.0},
        ),
        "rescaling-negative": ((4,), lambda k: [k.Rescaling(-0.5, offset=[1.0, 0.0, -1.0, 2.0]), k.Dense(3), k.Rescaling(3.0)]),
        "ln-eps": (
            (4, 6),
            lambda k: [k.LayerNormalization(epsilon=1e-6, scale=False), k.Dense(5), k.LayerNormalization(axis=1)],
        ),
        "ln-axes-reversed": ((3, 4, 5), lambda k: [k.LayerNormalization(axis=[-1, -3])]),
        "gn-1-group": ((4, 6), lambda k: [k.GroupNormalization(groups=1, epsilon=1e-4), k.Dense(3)]),
        "gn-instance": ((4, 4, 6), lambda k: [k.GroupNormalization(groups=-1), k.GroupNormalization(groups=3, center=False)]),
        "unit-norm": ((4, 6), lambda k: [k.UnitNormalization(axis=1), k.Dense(3), k.UnitNormalization()]),
        "rms-axis": ((4, 6), lambda k: [k.RMSNormalization(epsilon=1e-3), k.Dense(3)]),
        "shapes": (
            (2, 3, 4),
            lambda k: [k.Permute((3, 1, 2)), k.Reshape((-1, 6)), k.Dense(5), k.Flatten(), k.RepeatVector(3), k.Dense(2)],
        ),
        "reshape-up": ((12,), lambda k: [k.Reshape((2, -1, 3)), k.Dense(4), k.Reshape((8, 2)), k.Flatten(), k.Dense(2)]),
        "reshape-scalar": ((1,), lambda k: [k.Dense(4), k.Reshape((1, 4)), k.Flatten()]),
        "td-nested": (
            (3, 4, 5),
            lambda k: [k.TimeDistributed(k.TimeDistributed(k.Dense(3, activation="relu"))), k.TimeDistributed(k.Flatten())],
        ),
        "td-bn-ln": (
            (4, 6),
            lambda k: [k.TimeDistributed(k.BatchNormalization()), k.TimeDistributed(k.Dense(3, activation="softmax"))],
        ),
        "td-seq": (
            (4, 6),
            lambda k: [k.TimeDistributed(k.seq([k.Dense(5, activation="tanh"), k.Dense(2)], (6,))), k.Flatten()],
        ),
        "dropouts": ((6,), lambda k: [k.GaussianNoise(0.2), k.Dense(8), k.Dropout(0.4), k.Dense(3), k.GaussianDropout(0.1)]),
        "names-odd": (
            (6,),
            lambda k: [
                k.Dense(4, name="kernel"),
                k.Dense(4, name="bias"),
                k.Dense(4, name="model_weights"),
                k.Dense(4, name="layer_names"),
            ],
        ),
        "names-sorted": (
            (6,),
            lambda k: [k.Dense(6, name=n, activation="tanh") for n in ("z10", "z9", "a", "Z", "1", "dense_10")],
        ),
        "einsum-bias": (
            (4, 6),
            lambda k: [k.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="e", activation="gelu")],
        ),
        "embed-pool": ((5,), lambda k: [k.Embedding(11, 6), k.GlobalAveragePooling1D(), k.Dense(3)], {"vocabulary": 11}),
        "embed-flatten-bn": (
            (5,),
            lambda k: [k.Embedding(11, 3), k.Flatten(), k.BatchNormalization(), k.Dense(3)],
            {"vocabulary": 11},
        ),
        "embed-2d": ((3, 4), lambda k: [k.Embedding(9, 5), k.Dense(3, activation="tanh")], {"vocabulary": 9}),
        "embed-float-in": (
            (5,),
            lambda k: [k.Embedding(11, 3), k.Flatten(), k.Dense(2)],
            {"vocabulary": 11, "dtype": "float32"},
        ),
        "encoding-onehot": ((1,), lambda k: [k.CategoryEncoding(7, output_mode="one_hot"), k.Dense(3)], {"vocabulary": 7}),
        "encoding-multihot": ((4,), lambda k: [k.CategoryEncoding(7, output_mode="multi_hot"), k.Dense(3)], {"vocabulary": 7}),
        "discretization": (
            (4,),
            lambda k: [k.Discretization(bin_boundaries=[-0.5, 0.0, 1.2]), k.Embedding(4, 3), k.Flatten(), k.Dense(2)],
        ),
        "integer-lookup": (
            (4,),
            lambda k: [k.IntegerLookup(vocabulary=[3, 5, 7, 1]), k.Embedding(5, 3), k.Flatten()],
            {"vocabulary": 9},
        ),
        "highway": ((6,), lambda k: [k.Highway(activation="relu"), k.MaxoutDense(5, nb_feature=3), k.Dense(2)]),
        "spectral-bias": ((6,), lambda k: [k.SpectralNormalization(k.Dense(8, activation="relu")), k.Dense(2)]),
        "unitary-deep": (
            (5,),
            lambda k: [k.Dense(5, activation=a) for a in ("tanh", "linear", "sigmoid", "relu", "softplus", "elu") * 3],
        ),
    },
    3: {
        "conv1d-wide-kernel": ((6, 3), lambda k: [k.Conv1D(4, 9, padding="same", activation="tanh"), k.Dense(2)]),
        "conv1d-stride-over-kernel": (
            (11, 3),
            lambda k: [k.Conv1D(4, 2, strides=3, activation="relu"), k.Flatten(), k.Dense(2)],
        ),
        "conv1d-wavenet": (
            (16, 2),
            lambda k: [k.Conv1D(4, 2, padding="causal", dilation_rate=d, activation="relu") for d in (1, 2, 4, 8)],
        ),
        "conv1d-groups-same": (
            (8, 6),
            lambda k: [k.Conv1D(9, 3, groups=3, padding="same", use_bias=False), k.BatchNormalization()],
        ),
        "conv1d-open": (
            (None, 3),
            lambda k: [k.Conv1D(5, 3, padding="causal", activation="elu"), k.GlobalMaxPooling1D(), k.Dense(2)],
        ),
        "conv1d-prelu": (
            (8, 3),
            lambda k: [k.Conv1D(5, 3), k.PReLU(shared_axes=[1]), k.AveragePooling1D(2), k.Flatten(), k.Dense(2)],
        ),
        "conv2d-row-column": (
            (6, 7, 2),
            lambda k: [k.Conv2D(3, (1, 5), padding="same"), k.Conv2D(4, (5, 1), activation="relu"), k.Flatten(), k.Dense(2)],
        ),
        "conv2d-even-stride": (
            (9, 8, 3),
            lambda k: [k.Conv2D(5, (4, 2), strides=(3, 2), padding="same", activation="selu"), k.GlobalMaxPooling2D()],
        ),
        "conv2d-dilated-same": (
            (9, 8, 3),
            lambda k: [k.Conv2D(5, 3, dilation_rate=(2, 3), padding="same"), k.Activation("softmax")],
        ),
        "conv2d-17-channels": (
            (5, 5, 17),
            lambda k: [k.Conv2D(33, 3, activation="relu", padding="same"), k.Conv2D(1, 3), k.Flatten()],
        ),
        "conv2d-larger-than-image": ((3, 3, 2), lambda k: [k.Conv2D(4, 5, padding="same", strides=2), k.Flatten(), k.Dense(2)]),
        "conv2d-bn-relu6": (
            (8, 8, 3),
            lambda k: [
                k.ZeroPadding2D(((0, 1), (0, 1))),
                k.Conv2D(6, 3, strides=2, use_bias=False),
                k.BatchNormalization(epsilon=1e-3),
                k.ReLU(6.0),
                k.DepthwiseConv2D(3, padding="same", use_bias=False),
                k.BatchNormalization(),
                k.ReLU(6.0),
                k.GlobalAveragePooling2D(),
            ],
        ),
        "conv2d-bn-before": (
            (6, 6, 3),
            lambda k: [
                k.BatchNormalization(),
                k.Conv2D(4, 3, padding="same"),
                k.Activation("tanh"),
                k.MaxPooling2D(3, 2, "same"),
            ],
        ),
        "conv2d-hard-swish": (
            (6, 6, 3),
            lambda k: [k.Conv2D(4, 3, activation="hard_swish"), k.Conv2D(4, 3, activation=k.LeakyReLU(0.1)), k.Flatten()],
        ),
        "conv2d-open-size": (
            (None, None, 3),
            lambda k: [k.Conv2D(4, 3, strides=2, padding="same"), k.GlobalAveragePooling2D(), k.Dense(2)],
        ),
        "conv3d-stride": (
            (5, 6, 5, 2),
            lambda k: [k.Conv3D(3, (2, 3, 1), strides=(1, 2, 2), padding="same"), k.MaxPooling3D(2), k.Flatten(), k.Dense(2)],
        ),
        "convT2d-outpad": (
            (4, 5, 3),
            lambda k: [k.Conv2DTranspose(4, 3, strides=2, padding="same", output_padding=1), k.Conv2D(2, 1)],
        ),
        "convT2d-stride3": ((4, 5, 3), lambda k: [k.Conv2DTranspose(4, 2, strides=3, activation="relu"), k.Conv2D(2, 1)]),
        "convT2d-dilated": ((4, 5, 3), lambda k: [k.Conv2DTranspose(4, 3, dilation_rate=2, padding="valid")]),
        "convT1d-same": ((5, 3), lambda k: [k.Conv1DTranspose(4, 5, strides=3, padding="same"), k.Dense(2)]),
        "convT3d": ((3, 3, 3, 2), lambda k: [k.Conv3DTranspose(3, 2, strides=2, padding="same"), k.GlobalAveragePooling3D()]),
        "separable-act": (
            (7, 6, 3),
            lambda k: [
                k.SeparableConv2D(5, 3, depth_multiplier=3, padding="same", activation="elu"),
                k.SeparableConv2D(4, 3, use_bias=False),
            ],
        ),
        "separable1d-dilated": (
            (9, 3),
            lambda k: [k.SeparableConv1D(5, 3, dilation_rate=2, padding="same"), k.Flatten(), k.Dense(2)],
        ),
        "depthwise-rect": (
            (7, 6, 3),
            lambda k: [k.DepthwiseConv2D((3, 2), strides=2, padding="same", depth_multiplier=2, activation="relu")],
        ),
        "depthwise1d-same": ((9, 3), lambda k: [k.DepthwiseConv1D(4, strides=2, padding="same", depth_multiplier=2)]),
        "pool-large": (
            (5, 6, 3),
            lambda k: [
                k.MaxPooling2D((4, 3), strides=(2, 3), padding="same"),
                k.AveragePooling2D(2, 1, "same"),
                k.Flatten(),
                k.Dense(2),
            ],
        ),
        "pool-1d-overlap": (
            (9, 3),
            lambda k: [k.AveragePooling1D(4, strides=2, padding="same"), k.MaxPooling1D(3, strides=1), k.Flatten()],
        ),
        "pool-3d": (
            (5, 6, 5, 2),
            lambda k: [k.AveragePooling3D(2, strides=1, padding="same"), k.MaxPooling3D((2, 3, 2)), k.GlobalMaxPooling3D()],
        ),
        "pad-crop": ((6, 7, 2), lambda k: [k.ZeroPadding2D(((2, 0), (1, 3))), k.Cropping2D(((0, 3), (2, 1))), k.Conv2D(3, 2)]),
        "up-rect": (
            (3, 4, 2),
            lambda k: [k.UpSampling2D((3, 2)), k.Conv2D(3, 3, padding="same"), k.UpSampling2D(2, interpolation="nearest")],
        ),
        "up-bilinear-rect": ((3, 4, 2), lambda k: [k.UpSampling2D((3, 2), interpolation="bilinear"), k.Conv2D(3, 3)]),
        "up1d-3d": ((3, 4, 2), lambda k: [k.TimeDistributed(k.UpSampling1D(3)), k.TimeDistributed(k.ZeroPadding1D((2, 1)))]),
        "resizing-down": ((9, 8, 3), lambda k: [k.Resizing(5, 3), k.Conv2D(2, 2)]),
        "resizing-nearest": ((5, 4, 3), lambda k: [k.Resizing(7, 9, interpolation="nearest"), k.GlobalAveragePooling2D()]),
        "resizing-bicubic": ((5, 4, 3), lambda k: [k.Resizing(7, 9, interpolation="bicubic"), k.Flatten(), k.Dense(2)]),
        "simple-relu-back": (
            (6, 4),
            lambda k: [k.SimpleRNN(5, activation="relu", go_backwards=True, return_sequences=True), k.SimpleRNN(3)],
        ),
        "lstm-odd-acts": (
            (6, 4),
            lambda k: [
                k.LSTM(5, activation="softsign", recurrent_activation="tanh", return_sequences=True),
                k.LSTM(3, activation="linear"),
            ],
        ),
        "lstm-wide": ((4, 3), lambda k: [k.LSTM(65, return_sequences=True), k.LSTM(17, use_bias=False), k.Dense(2)]),
        "lstm-1-unit": ((6, 1), lambda k: [k.LSTM(1, return_sequences=True), k.TimeDistributed(k.Dense(1))]),
        "lstm-open": ((None, 4), lambda k: [k.LSTM(5, return_sequences=True), k.Dense(3, activation="relu"), k.LSTM(2)]),
        "gru-wide-back": ((5, 3), lambda k: [k.GRU(33, go_backwards=True, return_sequences=True), k.GRU(4), k.Dense(2)]),
        "gru-before": (
            (5, 3),
            lambda k: [
                k.GRU(6, reset_after=False, activation="elu", return_sequences=True),
                k.GRU(4, reset_after=False, use_bias=False),
            ],
        ),
        "gru-after-nobias": (
            (5, 3),
            lambda k: [k.GRU(6, reset_after=True, use_bias=False, recurrent_activation="hard_sigmoid")],
        ),
        "gru-one-step": ((1, 3), lambda k: [k.GRU(6), k.Dense(2)]),
        "bi-stack": (
            (5, 3),
            lambda k: [
                k.Bidirectional(k.GRU(4, return_sequences=True), merge_mode="sum"),
                k.Bidirectional(k.LSTM(3)),
                k.Dense(2),
            ],
        ),
        "bi-backward-layer": (
            (5, 3),
            lambda k: [
                k.Bidirectional(
                    k.LSTM(4, return_sequences=True),
                    backward_layer=k.LSTM(4, activation="relu", go_backwards=True, return_sequences=True),
                ),
                k.Dense(2),
            ],
        ),
        "bi-open-seq": (
            (None, 3),
            lambda k: [k.Bidirectional(k.SimpleRNN(4, return_sequences=True), merge_mode="mul"), k.GlobalMaxPooling1D()],
        ),
        "cells-mixed": (
            (5, 3),
            lambda k: [k.RNN([k.LSTMCell(4), k.GRUCell(3), k.SimpleRNNCell(5)], return_sequences=True), k.Dense(2)],
        ),
        "cell-lstm-back": ((5, 3), lambda k: [k.RNN(k.LSTMCell(4, activation="elu"), go_backwards=True), k.Dense(2)]),
        "cells-wrapped": (
            (5, 3),
            lambda k: [k.Bidirectional(k.RNN([k.GRUCell(4), k.GRUCell(3)], return_sequences=True)), k.Dense(2)],
        ),
        "td-lstm": ((3, 5, 2), lambda k: [k.TimeDistributed(k.LSTM(4)), k.LSTM(3)]),
        "td-conv-pool": (
            (3, 6, 6, 2),
            lambda k: [
                k.TimeDistributed(k.Conv2D(3, 3, activation="relu")),
                k.TimeDistributed(k.MaxPooling2D()),
                k.TimeDistributed(k.Flatten()),
                k.GRU(4),
            ],
        ),
        "convlstm2d": (
            (3, 5, 4, 2),
            lambda k: [k.ConvLSTM2D(3, (2, 3), padding="same", return_sequences=True), k.ConvLSTM2D(2, 2, strides=2)],
        ),
        "convlstm1d": ((4, 7, 2), lambda k: [k.ConvLSTM1D(3, 3, padding="valid", use_bias=False, go_backwards=True)]),
        "mask-lstm-td": (
            (5, 3),
            lambda k: [k.Masking(0.5), k.LSTM(4, return_sequences=True), k.TimeDistributed(k.Dense(2)), k.GRU(3)],
            {"blank": 0.5},
        ),
        "mask-bi": (
            (5, 3),
            lambda k: [
                k.Masking(),
                k.Bidirectional(k.GRU(4, return_sequences=True)),
                k.Bidirectional(k.LSTM(3), merge_mode="ave"),
            ],
            {"blank": 0.0},
        ),
        "mask-back": (
            (5, 3),
            lambda k: [k.Masking(), k.LSTM(4, go_backwards=True, return_sequences=True), k.LSTM(2)],
            {"blank": 0.0},
        ),
        "mask-zero-output": (
            (5, 3),
            lambda k: [k.Masking(), k.LSTM(4, return_sequences=True, zero_output_for_mask=True)],
            {"blank": 0.0},
        ),
        "mask-average": (
            (5, 3),
            lambda k: [k.Masking(), k.Dense(4, activation="relu"), k.GlobalAveragePooling1D()],
            {"blank": 0.0},
        ),
        "mask-softmax": (
            (5, 3),
            lambda k: [k.Masking(), k.Dropout(0.5), k.SimpleRNN(4, return_sequences=True), k.GlobalAveragePooling1D()],
            {"blank": 0.0},
        ),
        "mask-cells": (
            (5, 3),
            lambda k: [k.Masking(), k.RNN([k.LSTMCell(4), k.LSTMCell(3)], return_sequences=True)],
            {"blank": 0.0},
        ),
        "embed-mask-bi-average": (
            (6,),
            lambda k: [
                k.Embedding(11, 4, mask_zero=True),
                k.Bidirectional(k.LSTM(3, return_sequences=True)),
                k.GlobalAveragePooling1D(),
                k.Dense(2),
            ],
            {"vocabulary": 11},
        ),
        "embed-mask-conv": (
            (6,),
            lambda k: [k.Embedding(11, 4), k.Conv1D(5, 3, activation="relu"), k.GlobalMaxPooling1D(), k.Dense(2)],
            {"vocabulary": 11},
        ),
        "stateful-gru": (
            (4, 3),
            lambda k: [k.GRU(5, stateful=True, return_sequences=True), k.GRU(2, stateful=True)],
            {"batch": 2},
        ),
        "stateful-lstm-dense": ((1, 3), lambda k: [k.LSTM(5, stateful=True), k.Dense(2)], {"batch": 1}),
        "stateful-rnn-back": (
            (4, 3),
            lambda k: [k.SimpleRNN(5, stateful=True, go_backwards=True, return_sequences=True)],
            {"batch": 2},
        ),
        "locally1d": ((7, 3), lambda k: [k.LocallyConnected1D(4, 3, activation="relu"), k.Flatten(), k.Dense(2)]),
        "locally2d": ((5, 6, 2), lambda k: [k.LocallyConnected2D(3, (2, 3), strides=(1, 2)), k.Flatten(), k.Dense(2)]),
        "adaptive-pool": ((7, 5, 3), lambda k: [k.AdaptiveAveragePooling2D((3, 2)), k.Flatten()]),
    },
}
MAYBE = {"integer-lookup", "locally1d", "locally2d", "spectral-bias", "act-threshold"}  # may be refused
FULL = {
    "w33-65-129",
    "bn-two-sides",
    "names-odd",
    "names-sorted",
    "td-seq",
    "ln-eps",
    "conv2d-bn-relu6",
    "separable-act",
    "bi-stack",
}
FULL |= {
    "cells-mixed",
    "cells-wrapped",
    "convlstm2d",
    "norm-axes",
    "act-object",
    "gru-before",
    "embed-mask-bi-average",
    "mask-bi",
}

GRAPHS = []


def graph(tier, name=None, expect="ok", note="", full=False, policy=False):
    """Add a function as a case, under its own name with "-" for "_"."""

    def add(build):
        GRAPHS.append(Case(tier, name or build.__name__.replace("_", "-"), build, expect, note, full, policy))
        return build

    return add


@graph(2, full=True)
def twice_inside_and_out(k):
    shared = k.Dense(4, activation="tanh", name="shared")
    a, b = k.input((4,), name="a"), k.input((4,), name="b")
    inner_in = k.keras.layers.Input(shape=(4,))
    inner = k.model(inner_in, k.merge("Add", [shared(inner_in), inner_in]), name="inner")
    return k.model([a, b], [shared(shared(inner(a))), inner(shared(b)), k.merge("Multiply", [inner(b), a])])


@graph(2, full=True)
def three_levels(k):
    def level(depth, width):
        start = k.keras.layers.Input(shape=(width,))
        x = k.Dense(5, activation="relu", name="dense")(start)
        if depth:
            x = level(depth - 1, 5)(x)
        x = k.BatchNormalization(name="bn")(x)
        return k.model(start, x, name="level")

    a = k.input((3,))
    return k.model(a, k.Dense(2, name="dense")(level(2, 3)(a)))


@graph(2, full=True)
def frozen_parts(k):
    inner = k.seq([k.Dense(4, activation="relu"), k.BatchNormalization(), k.Dense(3), k.BatchNormalization()], (5,))
    inner.layers[-1].trainable = False
    inner.layers[-4].trainable = False
    a = k.input((5,))
    return k.model(a, k.Dense(2)(inner(a)))


@graph(2, full=True)
def inner_with_two_outputs(k):
    start = k.keras.layers.Input(shape=(4,))
    h = k.Dense(6, activation="tanh")(start)
    inner = k.model(start, [k.Dense(3)(h), k.Dense(2)(h)], name="two")
    a = k.input((4,))
    p, _ = inner(a)
    _, q = inner(k.Dense(4)(a))
    return k.model(a, [q, p])


@graph(2)
def seq_in_seq(k):
    deep = k.seq([k.seq([k.Dense(4, activation="relu"), k.BatchNormalization()], (5,)), k.Dense(3)], (5,))
    return k.chain((5,), [deep, k.Dense(2, activation="softmax")], "functional")


@graph(2)
def recursive_tied(k):
    a, d = k.input((6,)), k.Dense(6, activation="elu")
    x = a
    for _ in range(5):
        x = d(x)
    return k.model(a, x)


@graph(2)
def identity_output(k):
    a = k.input((3,), name="same")
    return k.model(a, [a, k.Dense(2)(a), a])


@graph(2)
def unused_branch(k):
    a, b = k.input((3,), name="zeta"), k.input((2,), name="alpha")
    k.Dense(7)(a)
    return k.model([b, a], [k.merge("Concatenate", [k.Dense(2)(a), b]), k.Dense(1)(b)])


@graph(2)
def concat_of_four(k):
    a = k.input((4, 3))
    parts = [k.Dense(3)(a), a, k.Activation("tanh")(a), k.Dense(3, activation="relu")(a)]
    return k.model(a, k.Dense(2)(k.merge("Concatenate", parts, axis=1)))


@graph(2)
def concat_middle_axis(k):
    a, b = k.input((3, 2, 4)), k.input((3, 5, 4))
    return k.model([a, b], k.Flatten()(k.merge("Concatenate", [a, b], axis=-2)))


@graph(2)
def concat_then_dense(k):
    a, b, c = k.input((1,), name="c"), k.input((4,), name="b"), k.input((9,), name="a")
    x = k.merge("Concatenate", [c, k.Dense(3, activation="tanh")(b), a, c])
    return k.model([a, b, c], [k.Dense(5, activation="softmax")(x), k.Dense(1, activation="tanh")(x)])


@graph(2)
def merges_of_four(k):
    a = k.input((5,))
    x = [k.Dense(4, activation="tanh")(a) for _ in range(4)]
    return k.model(a, [k.merge(m, x) for m in ("Add", "Multiply", "Average", "Maximum")])


@graph(2)
def minimum_subtract(k):
    a, b = k.input((4, 3)), k.input((1, 3))
    return k.model([a, b], [k.Minimum()([a, b]), k.Subtract()([k.Dense(3)(a), b])])


@graph(2)
def dot_products(k):
    a, b = k.input((4, 3)), k.input((5, 3))
    d = k.merge("Dot", [a, b], axes=(2, 2))  # (4, 5)
    return k.model([a, b], [k.Flatten()(d), k.merge("Dot", [a, d], axes=(1, 1)), d])


@graph(2)
def dot_vectors_normalized(k):
    a, b = k.input((6,)), k.input((6,))
    return k.model([a, b], k.Dense(2)(k.Dot(axes=-1, normalize=True)([k.Dense(4)(a), k.Dense(4)(b)])))


@graph(2)
def squeeze_excite(k):
    a = k.input((6, 6, 4))
    s = k.Dense(4, activation="sigmoid")(k.Dense(2, activation="relu")(k.GlobalAveragePooling2D()(a)))
    return k.model(a, k.merge("Multiply", [a, k.Reshape((1, 1, 4))(s)]))


@graph(2)
def dueling_wide(k):
    a = k.input((10,))
    h = k.Dense(32, activation="relu")(a)
    v, adv = k.Dense(1)(h), k.Dense(6)(h)
    return k.model(
        a, k.merge("Add", [k.RepeatVector(1)(v), k.Reshape((1, 6))(adv)]) if k.major == 3 else k.merge("Concatenate", [v, adv])
    )


@graph(2)
def siamese_distance(k):
    tower = k.seq([k.Dense(8, activation="relu"), k.Dropout(0.3), k.Dense(4)], (6,))
    a, b = k.input((6,), name="left"), k.input((6,), name="right")
    p, q = tower(a), tower(b)
    return k.model([a, b], k.Dense(1, activation="sigmoid")(k.Subtract()([p, q])))


@graph(2)
def dict_in_and_out(k):
    a, b = k.input((3,), name="speed"), k.input((2,), name="angle")
    x = k.merge("Concatenate", [a, b])
    return k.model({"speed": a, "angle": b}, {"z": k.Dense(2)(x), "a": k.Dense(1)(x)})


@graph(2, policy=True)
def mixed_float16_graph(k):
    policy = "mixed_float16"
    a = k.input((6,))
    x = k.Dense(8, activation="relu", dtype=policy)(a)
    x = k.BatchNormalization(dtype=policy)(x)
    return k.model(a, k.Dense(3, activation="softmax", dtype="float32")(x))


@graph(2, policy=True)
def mixed_bfloat16_conv(k):
    a = k.input((6, 5, 3))
    x = k.Conv2D(4, 3, activation="relu", dtype="mixed_bfloat16")(a)
    return k.model(a, k.Dense(3, dtype="float32")(k.Flatten(dtype="mixed_bfloat16")(x)))


@graph(2, policy=True, note="one float64 layer among float32 ones")
def float64_middle(k):
    a = k.input((6,))
    x = k.Dense(5, dtype="float64", activation="tanh")(k.Dense(5)(a))
    return k.model(a, k.Dense(2, dtype="float32")(x))


@graph(2)
def names_with_slashes(k):
    a = k.input((4,), name="in/put")
    x = k.Dense(4, name="block/dense", activation="relu")(a)
    x = k.Dense(4, name="block")(x)
    return k.model(a, k.Dense(2, name="block/dense_1")(x))


@graph(2)
def names_unicode(k):
    a = k.input((4,), name="eingabe")
    return k.model(a, k.Dense(2, name="größe")(k.Dense(3, name="層", activation="tanh")(a)))


@graph(2)
def names_twice_nested(k):
    def block():
        return k.seq([k.Dense(3, name="dense", activation="tanh"), k.BatchNormalization(name="bn")], (3,), name="dense")

    a = k.input((3,))
    return k.model(a, k.Dense(2, name="dense_out")(block()(a)))


# Keras 3's operations inside functional models, one or a few a case


def operations(name, shape, function, expect="ok", **options):
    def build(k):
        if k.ops is None:
            raise AttributeError("no keras.ops in Keras " + k.version)
        a = k.input(shape, **options)
        out = function(k.ops, k.Dense(shape[-1], activation="tanh")(a) if not options else a)
        return k.model(a, list(out) if isinstance(out, (list, tuple)) else out)

    GRAPHS.append(Case(2, "kops-" + name, build, expect, "", False, False))


operations("python", (4, 6), lambda o, x: [-x, x**2, 1 - x, 2 / (x + 3), abs(x), x @ o.transpose(x, (0, 2, 1))])
operations("slices", (4, 6), lambda o, x: [x[:, 1:3], x[:, -1], x[..., ::2], x[:, ::-1, 1:-1], x[:, None, 0]])
operations(
    "compare", (4, 6), lambda o, x: [o.where(x > 0.1, x, -x), o.maximum(x, 0.2), o.minimum(x, x * 2), o.cast(x >= 0, "float32")]
)
operations(
    "reduce",
    (4, 6),
    lambda o, x: [
        o.sum(x, axis=1),
        o.mean(x, axis=-1, keepdims=True),
        o.max(x, axis=(1, 2)),
        o.min(x, axis=2),
        o.prod(x, axis=1),
    ],
)
operations("variance", (4, 6), lambda o, x: [o.var(x, axis=1), o.std(x, axis=-1, keepdims=True), o.logsumexp(x, axis=1)])
operations("norms", (4, 6), lambda o, x: [o.norm(x, axis=-1), o.normalize(x, axis=1), o.layer_normalization(x)], "ok-or-refuse")
operations(
    "unary",
    (6,),
    lambda o, x: [o.exp(x), o.log1p(o.abs(x)), o.sin(x), o.cos(x), o.tan(x), o.sign(x), o.square(x), o.rsqrt(o.abs(x) + 1)],
)
operations(
    "unary2",
    (6,),
    lambda o, x: [
        o.floor(x * 3),
        o.ceil(x * 3),
        o.round(x * 3),
        o.expm1(x),
        o.sqrt(o.abs(x)),
        o.reciprocal(x + 3),
        o.erf(x),
        o.arctan(x),
    ],
    "ok-or-refuse",
)
operations(
    "shapes",
    (4, 6),
    lambda o, x: [
        o.reshape(x, (-1, 3, 8)),
        o.expand_dims(x, 1),
        o.squeeze(o.expand_dims(x, -1), -1),
        o.swapaxes(x, 1, 2),
        o.moveaxis(x, -1, 1),
    ],
)
operations(
    "stacking",
    (4, 6),
    lambda o, x: [o.stack([x, x * 2], axis=1), o.concatenate([x, x], axis=-1), o.repeat(x, 2, axis=1), o.tile(x, (1, 2, 1))],
)
operations(
    "splitting",
    (4, 6),
    lambda o, x: [*o.split(x, 3, axis=-1), *o.split(x, [1, 4], axis=2), *o.unstack(x, axis=1)],
    "ok-or-refuse",
)
operations(
    "moving",
    (4, 6),
    lambda o, x: [o.flip(x, axis=1), o.roll(x, 2, axis=-1), o.pad(x, ((0, 0), (1, 2), (0, 1))), o.take(x, [2, 0], axis=1)],
    "ok-or-refuse",
)
operations(
    "ordering",
    (4, 6),
    lambda o, x: [o.sort(x, axis=-1), o.cumsum(x, axis=1), o.cast(o.argmax(x, axis=-1), "float32"), o.top_k(x, 2)[0]],
    "ok-or-refuse",
)
operations(
    "einsum",
    (4, 6),
    lambda o, x: [o.einsum("bij,bkj->bik", x, x), o.einsum("bij->bji", x), o.tensordot(x, o.ones((6, 2)), 1)],
    "ok-or-refuse",
)
operations(
    "softmaxes",
    (4, 6),
    lambda o, x: [
        o.softmax(x, axis=1),
        o.log_softmax(x, axis=-1),
        o.sigmoid(x),
        o.silu(x),
        o.gelu(x),
        o.relu6(x * 9),
        o.hard_sigmoid(x),
        o.elu(x, 0.5),
        o.selu(x),
        o.celu(x, 0.7),
    ],
)
operations(
    "logic",
    (4, 6),
    lambda o, x: [
        o.cast(o.logical_and(x > 0, x < 0.5), "float32"),
        o.cast(o.any(x > 0.9, axis=1), "float32"),
        o.cast(o.logical_not(x > 0), "float32"),
        o.isnan(x),
    ],
    "ok-or-refuse",
)
operations(
    "numbers",
    (4, 6),
    lambda o, x: [
        x * o.convert_to_tensor([1.0, 2, 3, 4, 5, 6]),
        o.add(x, 1.5),
        o.subtract(2.0, x),
        o.power(o.abs(x) + 0.1, 1.5),
        o.floor_divide(x, 0.3),
        o.mod(x, 0.7),
    ],
)
operations("one-hot", (4,), lambda o, x: o.one_hot(x, 5), "ok-or-refuse", vocabulary=5, dtype="int32")
operations(
    "mixed-ranks", (4, 6), lambda o, x: [x + o.mean(x, axis=(1, 2), keepdims=True), x * x[:, :1], o.matmul(x, o.ones((6, 3)))]
)


def tf_functions(name, shape, function, expect="ok"):
    def build(k):
        tf = k.tf
        if k.name == "keras" and not k.tf_keras:
            raise AttributeError("TensorFlow's functions in Keras " + k.version)
        a = k.input(shape)
        out = function(tf, k.Dense(shape[-1], activation="tanh")(a))
        return k.model(a, list(out) if isinstance(out, (list, tuple)) else out)

    GRAPHS.append(Case(2, "tf-" + name, build, expect, "", False, False))


tf_functions("python", (4, 6), lambda tf, x: [-x, 1 - x, x * 2 + 1, x / 3.0, 2.0 / (x + 3), x**2])
tf_functions("slices", (4, 6), lambda tf, x: [x[:, 1:3], x[:, -1], x[..., 2:], x[:, :, ::2]])
tf_functions(
    "math",
    (6,),
    lambda tf, x: [
        tf.exp(x),
        tf.abs(x),
        tf.square(x),
        tf.sqrt(tf.abs(x)),
        tf.math.log(tf.abs(x) + 1),
        tf.sign(x),
        tf.maximum(x, 0.1),
        tf.minimum(x, 0.2),
    ],
)
tf_functions(
    "reduce",
    (4, 6),
    lambda tf, x: [tf.reduce_sum(x, axis=1, keepdims=True), tf.reduce_max(x, axis=-1), tf.reduce_mean(x, axis=[1, 2])],
)
tf_functions(
    "shapes",
    (4, 6),
    lambda tf, x: [
        tf.reshape(x, [-1, 8, 3]),
        tf.transpose(x, [0, 2, 1]),
        tf.expand_dims(x, 1),
        tf.squeeze(tf.expand_dims(x, -1), -1),
        tf.concat([x, x], 1),
        tf.stack([x, x], 1),
    ],
)
tf_functions(
    "nn",
    (4, 6),
    lambda tf, x: [
        tf.nn.relu(x),
        tf.nn.softmax(x),
        tf.nn.sigmoid(x),
        tf.nn.elu(x),
        tf.nn.leaky_relu(x, 0.3),
        tf.tanh(x),
        tf.nn.softplus(x),
        tf.nn.swish(x),
    ],
)
tf_functions("split", (4, 6), lambda tf, x: [*tf.split(x, 2, axis=-1), *tf.unstack(x, axis=1)], "ok-or-refuse")
tf_functions(
    "matmul", (4, 6), lambda tf, x: [tf.matmul(x, x, transpose_b=True), tf.einsum("bij,bkj->bik", x, x)], "ok-or-refuse"
)
tf_functions(
    "where",
    (4, 6),
    lambda tf, x: [tf.where(x > 0.0, x, -x), tf.cast(x > 0.1, tf.float32), tf.clip_by_value(x, -0.5, 0.5)],
    "ok-or-refuse",
)


# tier 3 graphs: states, masks, attention


@graph(3, full=True)
def encoder_decoder(k):
    source, target = k.input((5, 3), name="source"), k.input((4, 2), name="target")
    _, h, c = k.LSTM(6, return_state=True)(source)
    y, _, _ = k.LSTM(6, return_sequences=True, return_state=True)(target, initial_state=[h, c])
    return k.model([source, target], k.Dense(3, activation="softmax")(y))


@graph(3)
def states_as_inputs(k):
    x, h = k.input((4, 3), name="x"), k.input((5,), name="h")
    y, s = k.GRU(5, return_sequences=True, return_state=True)(x, initial_state=h)
    return k.model([x, h], [y, s])


@graph(3)
def bidirectional_states(k):
    a = k.input((5, 3))
    y, fh, fc, bh, bc = k.Bidirectional(k.LSTM(4, return_state=True, return_sequences=True))(a)
    z = k.Bidirectional(k.LSTM(4))(y, initial_state=[fh, fc, bh, bc])
    return k.model(a, [z, fh, bc])


@graph(3)
def stacked_cells_states(k):
    a = k.input((5, 3))
    found = k.RNN([k.LSTMCell(4), k.GRUCell(3)], return_state=True)(a)
    return k.model(a, [found[0], found[-1]])


@graph(3)
def shared_lstm_nested(k):
    inner = k.seq([k.LSTM(4, return_sequences=True), k.Dense(3)], (5, 3))
    a, b = k.input((5, 3)), k.input((5, 3))
    return k.model([a, b], k.merge("Concatenate", [inner(a), inner(inner(b))]))


@graph(3)
def masked_merge(k):
    a, b = k.input((5, 3), blank=0.0), k.input((5, 3), blank=0.0)
    x = k.merge("Add", [k.Masking()(a), k.Dense(3)(k.Masking()(b))])
    return k.model([a, b], k.GRU(4)(x))


@graph(3)
def masked_concat(k):
    a, b = k.input((5,), vocabulary=9), k.input((5,), vocabulary=9)
    x = k.merge("Concatenate", [k.Embedding(9, 3, mask_zero=True)(a), k.Embedding(9, 2, mask_zero=True)(b)])
    return k.model([a, b], k.LSTM(4)(x))


@graph(3)
def masked_concat_time(k):
    a, b = k.input((5, 3), blank=0.0), k.input((4, 3))
    x = k.merge("Concatenate", [k.Masking()(a), b], axis=1)
    return k.model([a, b], k.GRU(4)(x))


@graph(3)
def masked_wavenet(k):
    a = k.input((6, 3))
    x = k.Conv1D(4, 2, padding="causal", activation="tanh")(a)
    y = k.Conv1D(4, 2, padding="causal", dilation_rate=2, activation="sigmoid")(x)
    return k.model(a, k.merge("Add", [k.merge("Multiply", [x, y]), k.Conv1D(4, 1)(a)]))


@graph(3)
def attention_all(k):
    q, v, key = k.input((4, 3)), k.input((5, 3)), k.input((5, 3))
    return k.model([q, v, key], [k.Attention(use_scale=True)([q, v, key]), k.AdditiveAttention()([q, v])])


@graph(3)
def attention_causal(k):
    q = k.input((5, 3))
    return k.model(q, k.Attention(score_mode="concat")([q, q], use_causal_mask=True))


@graph(3)
def attention_masked(k):
    a = k.input((5,), vocabulary=9)
    e = k.Embedding(9, 4, mask_zero=True)(a)
    return k.model(a, k.Flatten()(k.Attention()([k.Dense(4)(e), e])))


@graph(3, full=True)
def mha_sizes(k):
    q, v = k.input((4, 6)), k.input((5, 3))
    return k.model([q, v], k.MultiHeadAttention(3, key_dim=5, value_dim=2, output_shape=7)(q, v))


@graph(3)
def mha_axes(k):
    q = k.input((3, 4, 6))
    return k.model(q, k.MultiHeadAttention(2, key_dim=3, attention_axes=(2,))(q, q))


@graph(3)
def mha_two_axes(k):
    q = k.input((3, 4, 6))
    return k.model(q, k.MultiHeadAttention(2, key_dim=3, attention_axes=(1, 2), use_bias=False)(q, q))


@graph(3)
def mha_mask_embedding(k):
    a = k.input((5,), vocabulary=9)
    e = k.Embedding(9, 6, mask_zero=True)(a)
    x = k.LayerNormalization()(k.merge("Add", [e, k.MultiHeadAttention(2, key_dim=3)(e, e)]))
    return k.model(a, k.GlobalAveragePooling1D()(x))


@graph(3)
def mha_causal_masked(k):
    a = k.input((5,), vocabulary=9)
    e = k.Embedding(9, 6, mask_zero=True)(a)
    return k.model(a, k.Dense(2)(k.MultiHeadAttention(2, key_dim=3)(e, e, use_causal_mask=True)))


@graph(3)
def mha_scores(k):
    q, v = k.input((4, 6)), k.input((5, 6))
    y, s = k.MultiHeadAttention(2, key_dim=3)(q, v, return_attention_scores=True)
    return k.model([q, v], [y, s])


@graph(3)
def gqa(k):
    q, v = k.input((4, 8)), k.input((5, 8))
    return k.model([q, v], k.GroupedQueryAttention(4, 6, 2)(q, v))


@graph(3, full=True)
def transformer(k):
    a = k.input((6, 8))
    x = a
    for _ in range(2):
        y = k.LayerNormalization(epsilon=1e-6)(x)
        x = k.merge("Add", [x, k.MultiHeadAttention(2, key_dim=4, dropout=0.1)(y, y)])
        y = k.Dense(8)(k.Dropout(0.1)(k.Dense(16, activation="gelu")(k.LayerNormalization()(x))))
        x = k.merge("Add", [x, y])
    return k.model(a, k.Dense(3, activation="softmax")(k.GlobalAveragePooling1D()(x)))


@graph(3, full=True)
def unet(k):
    a = k.input((8, 8, 2))
    c1 = k.Conv2D(4, 3, padding="same", activation="relu")(a)
    c2 = k.BatchNormalization()(k.Conv2D(6, 3, padding="same")(k.MaxPooling2D()(c1)))
    u = k.Conv2DTranspose(4, 2, strides=2, padding="same")(k.Activation("relu")(c2))
    x = k.merge("Concatenate", [u, c1], axis=-1)
    return k.model(a, k.Conv2D(1, 1, activation="sigmoid")(x))


@graph(3)
def shared_conv_towers(k):
    tower = k.seq([k.Conv2D(3, 3, activation="relu"), k.MaxPooling2D(), k.Flatten(), k.Dense(4)], (8, 8, 1))
    a, b, c = k.input((8, 8, 1), name="left"), k.input((8, 8, 1), name="right"), k.input((3,), name="aux")
    x = k.merge("Concatenate", [tower(a), tower(b), k.Dense(2, activation="tanh")(c)])
    return k.model([a, b, c], [k.Dense(2)(x), k.Dense(1, activation="sigmoid")(x)])


@graph(3)
def inception(k):
    a = k.input((7, 7, 3))
    parts = [k.Conv2D(2, 1, padding="same")(a), k.Conv2D(3, 3, padding="same")(a), k.Conv2D(2, 5, padding="same")(a)]
    parts.append(k.Conv2D(2, 1)(k.MaxPooling2D(3, strides=1, padding="same")(a)))
    return k.model(a, k.GlobalAveragePooling2D()(k.Activation("relu")(k.merge("Concatenate", parts))))


@graph(3, policy=True)
def mixed_float16_lstm(k):
    a = k.input((5, 3))
    return k.model(a, k.Dense(2, dtype="float32")(k.LSTM(4, dtype="mixed_float16")(a)))


def form_of(name):
    """Which of the three forms a chain takes: fixed by its name, all three are used about as often."""
    return FORMS[zlib.crc32(name.encode()) % 3]


def chained(shape, layers, form, options):
    return lambda k: k.chain(shape, layers(k), form, **options)


MODELS = [
    Case(tier, name, chained(entry[0], entry[1], form_of(name), entry[2] if len(entry) > 2 else {}),
         "ok-or-refuse" if name in MAYBE else "ok", "", name in FULL, False)
    for tier, chains in CHAINS.items()
    for name, entry in chains.items()
] + GRAPHS  # fmt: skip
