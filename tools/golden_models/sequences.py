"""Graphs of tier 3: states, masks, attention, networks of convolutions."""

from golden_models.cases import graph


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
    return k.model([q, v], k.GroupQueryAttention(4, 6, 2)(q, v))


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
