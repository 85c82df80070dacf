"""Layers in a row: recurrent ones, wrappers, masks, states."""

from golden_models.cases import chains

# name: (input shape, layers[, options of the input])
RECURRENT = {
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
        lambda k: [
            k.ConvLSTM2D(3, (2, 3), padding="same", return_sequences=True),
            k.ConvLSTM2D(2, 2, **({} if k.major == 1 else {"strides": 2})),  # Keras 1 leaves the strides out of its files
        ],
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
}

chains(
    3,
    RECURRENT,
    full=["bi-stack", "cells-mixed", "cells-wrapped", "convlstm2d", "embed-mask-bi-average", "gru-before", "mask-bi"],
    maybe=[],
)
