"""Makes the files of this folder; run where Keras is: python make.py FOLDER (Keras 2.2.4, tf.keras 2.15 and Keras 3 did).

Each case is a model with seeded weights, saved as NAME.h5 (NAME.keras from Keras 3 on), and NAME.npz: in0 …, out0 …; for
stateful models then_out0 … of a second call with the same inputs.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import keras
import numpy as np

NEW = int(keras.__version__.split(".")[0]) >= 3
L, Model, Input = keras.layers, keras.models.Model, keras.layers.Input
TF = NEW or not keras.__version__.startswith("2.2")  # masks and wrappers as tf.keras does them


def masked(shape=(5, 3)):
    a = Input(shape, name="a")
    return a, L.Masking(0.0, name="m")(a)


def stacked(states=True, backwards=False, mask=False):
    a, x = masked() if mask else (Input((5, 3), name="a"),) * 2
    cells = [L.LSTMCell(4), L.GRUCell(2), L.SimpleRNNCell(3)]
    y = L.RNN(cells, return_sequences=True, return_state=states, go_backwards=backwards, name="r")(x)
    flat = keras.tree.flatten(y) if NEW else None
    if flat is None:
        import itertools

        whole = y if isinstance(y, (list, tuple)) else [y]
        flat = list(itertools.chain.from_iterable(v if isinstance(v, (list, tuple)) else [v] for v in whole))
    return [a], flat


def mask_initial(kind, unroll=False, **options):
    a, x = masked()
    h = [Input((4,), name=f"h{k}") for k in range(2 if kind == "LSTM" else 1)]
    y = getattr(L, kind)(4, return_sequences=True, return_state=True, unroll=unroll, name="r", **options)(x, initial_state=h)
    return [a, *h], list(y)


def bidirectional(merge="concat", mask=False, initial=False, backward=False, **options):
    a, x = masked() if mask else (Input((5, 3), name="a"),) * 2
    h = [Input((4,), name=f"h{k}") for k in range(4)] if initial else []
    extra = {"backward_layer": L.LSTM(4, activation="relu", go_backwards=True, **options)} if backward else {}
    layer = L.Bidirectional(L.LSTM(4, **options), merge_mode=merge, name="b", **extra)
    y = layer(x, initial_state=h) if h else layer(x)
    return [a, *h], list(y) if isinstance(y, (list, tuple)) else [y]


def masks_taken():
    """What runs before MultiHeadAttention sees its inputs' masks, what runs after it doesn't (Keras 3.8 on)."""
    a = Input((5, 4), name="a")
    x = L.Masking(0.0, name="m")(a)
    early = L.Minimum(name="early")([L.Maximum(name="before")([x, L.ReLU(name="up")(x)]), x])
    y = L.MultiHeadAttention(1, 2, name="first")(x, x)
    late = L.Maximum(name="late")([x, y])
    again = L.MultiHeadAttention(1, 2, name="second")(late, x)
    return [a], [early, late, again, L.Minimum(name="tie")([x, L.ReLU(name="other")(x)])]


def stateful(kind="LSTM", wrap=False, initial=False):
    a = Input(batch_shape=(2, 3, 2), name="a")
    layer = getattr(L, kind)(3, stateful=True, return_sequences=True, name="r")
    if initial:
        h = [Input(batch_shape=(2, 3), name=f"h{k}") for k in range(2)]
        return [a, *h], [layer(a, initial_state=h)]
    return [a], [L.Bidirectional(layer, name="b")(a) if wrap else layer(a)]


def zero_output():
    a, x = masked()
    return [a], [L.LSTM(4, return_sequences=True, zero_output_for_mask=True, name="r")(x)]


def masks_on():
    a, x = masked()
    x = L.LSTM(4, return_sequences=True, name="one")(x)
    x = L.TimeDistributed(L.Dense(3, name="d"), name="td")(x)
    x = L.Bidirectional(L.GRU(2, return_sequences=True), name="two")(x)
    return [a], [L.SimpleRNN(3, name="three")(x)]


def cells(kind):
    a = Input((4,), name="a")
    states = [Input((3,), name=f"s{k}") for k in range(2 if kind == "LSTMCell" else 1)]
    y, new = getattr(L, kind)(3, name="c")(a, states)
    return [a, *states], [y, *(new if isinstance(new, (list, tuple)) else [new])]


def convlstm(rank=2, **options):
    size = (4, 5, 4)[:rank]
    shape = (3, 2, *size) if options.get("data_format") == "channels_first" else (3, *size, 2)
    a = Input(shape, name="a")
    layer = getattr(L, f"ConvLSTM{rank}D")(3, (3, 2, 2)[:rank] if rank > 1 else 3, name="c", **options)
    y = layer(a)
    return [a], list(y) if isinstance(y, (list, tuple)) else [y]


def heads(mask=False, explicit=False, scores=False, causal=False, key=False, cls="MultiHeadAttention", **options):
    q = Input((5, 8), name="q")
    v = Input((4, 8), name="v") if not causal else q
    k = Input((4, 8), name="k") if key else None
    m = Input((5, 4), dtype="bool", name="mask") if explicit else None
    qm, vm = (L.Masking(name="mq")(q), L.Masking(name="mv")(v)) if mask else (q, v)
    call = {"use_causal_mask": True} if causal else {}
    if key:
        call["key"] = L.Masking(name="mk")(k) if mask else k
    if explicit:
        call["attention_mask"] = m
    if scores:
        call["return_attention_scores"] = True
    if cls == "MultiHeadAttention":
        layer = L.MultiHeadAttention(2, 3, name="att", **options)
    else:
        layer = L.GroupQueryAttention(3, 4, 2, name="att", **options)
    y = layer(qm, vm, **call)
    inputs = [i for i in (q, v, k, m) if i is not None]
    return (inputs if not causal else [i for n, i in enumerate(inputs) if n != 1]), list(y) if scores else [y]


def attention(cls="Attention", mask=False, scores=False, causal=False, key=False, then=False, **options):
    q, v = Input((4, 6), name="q"), Input((5, 6), name="v")
    k = [Input((5, 6), name="k")] if key else []
    qm, vm = (L.Masking(name="mq")(q), L.Masking(name="mv")(v)) if mask else (q, v)
    call = {**({"use_causal_mask": True} if causal else {}), **({"return_attention_scores": True} if scores else {})}
    y = getattr(L, cls)(name="att", **options)([qm, vm, *k], **call)
    ys = list(y) if scores else [y]
    return [q, v, *k], [L.GRU(2, name="r")(ys[0])] if then else ys


CASES = {} if NEW else {"bi-backwards": lambda: bidirectional("ave", go_backwards=True, return_sequences=True)}
CASES.update(
    {
        "stacked": lambda: stacked(),
        "mask-init-lstm": lambda: mask_initial("LSTM"),
        "mask-init-gru-unroll": lambda: mask_initial("GRU", unroll=True),
        "bi-mask-seq": lambda: bidirectional(mask=True, return_sequences=True),
        "bi-mask-last-none": lambda: bidirectional(None, mask=True),
        "bi-mask-init-state": lambda: bidirectional("sum", mask=True, initial=True, return_sequences=True, return_state=True),
        "bi-init-none-state": lambda: bidirectional(None, initial=True, return_state=True),
        "stateful-gru": lambda: stateful("GRU"),
        "stateful-initial": lambda: stateful(initial=True),
        "masks-on": masks_on,
        "convlstm2d": lambda: convlstm(),
        "convlstm2d-same": lambda: convlstm(padding="same", return_sequences=True, go_backwards=True),
        "convlstm2d-stride": lambda: convlstm(strides=2, return_sequences=True, use_bias=False),
    }
)
if TF:
    CASES.update(
        {
            "stacked-mask": lambda: stacked(False, mask=True),
            "stacked-mask-back": lambda: stacked(True, backwards=True, mask=True),
            "bi-backward-layer": lambda: bidirectional("mul", mask=True, backward=True, return_sequences=True),
            "stateful-bi": lambda: stateful("LSTM", wrap=True),
            "zero-output": zero_output,
            "zero-output-lstm-init": lambda: mask_initial("LSTM", zero_output_for_mask=True),
            "cell-lstm": lambda: cells("LSTMCell"),
            "cell-gru": lambda: cells("GRUCell"),
            "convlstm1d": lambda: convlstm(1, return_state=True),
            "convlstm1d-dilated": lambda: convlstm(1, dilation_rate=2, padding="same", return_sequences=True),
            "convlstm3d": lambda: convlstm(3),
            "mha-mask": lambda: heads(mask=True),
            "mha-mask-scores": lambda: heads(mask=True, scores=True),
            "mha-mask-key-explicit": lambda: heads(mask=True, explicit=True, key=True),
            "mha-explicit": lambda: heads(explicit=True, value_dim=2, output_shape=(3, 2)),
            "mha-dropout-mask": lambda: heads(mask=True, dropout=0.3),
            "mha-causal-mask": lambda: heads(mask=True, causal=True),
            "attention-mask": lambda: attention(mask=True, use_scale=True, then=True),
            "attention-scores-causal": lambda: attention(scores=True, causal=True, key=True),
            "attention-concat-mask": lambda: attention(mask=True, scores=True, score_mode="concat", use_scale=True),
            "additive": lambda: attention("AdditiveAttention", mask=True, causal=True),
            "additive-plain": lambda: attention("AdditiveAttention", use_scale=False),
        }
    )
if NEW:
    CASES.update(
        {
            "gqa": lambda: heads(cls="GroupQueryAttention"),
            "mha-masks-taken": masks_taken,
            "gqa-mask-scores": lambda: heads(cls="GroupQueryAttention", mask=True, scores=True),
            "mha-gate-window": lambda: heads(use_gate=True, sliding_window=2),
            "gqa-gate-causal": lambda: heads(cls="GroupQueryAttention", causal=True, use_gate=True, use_bias=False),
        }
    )


def main(folder, *wanted):
    os.makedirs(folder, exist_ok=True)
    for name in wanted or CASES:
        random = np.random.RandomState(sum(map(ord, name)))
        keras.backend.clear_session()
        inputs, outputs = CASES[name]()
        model = Model(inputs, outputs)
        model.set_weights([np.float32(random.uniform(-0.9, 0.9, w.shape)) for w in model.get_weights()])
        xs = []
        for i in inputs:
            shape = tuple(i.shape.as_list() if hasattr(i.shape, "as_list") else i.shape)
            shape = tuple(int(n) if n is not None else None for n in (getattr(d, "value", d) for d in shape))
            x = random.randn(shape[0] or 3, *shape[1:]).astype("float32")
            if "bool" in str(i.dtype):
                x = random.rand(*x.shape) > 0.4
            elif x.ndim == 3 and x.shape[1] in (4, 5) and x.shape[0] == 3:
                x[0, 0] = x[0, 3] = 0  # masked at the start and within
                x[1, 2:] = 0  # masked at the end
                if "att" in name or "mha" in name or "gqa" in name:
                    x[2, 0] = 0
            xs.append(x)
        one = xs[0] if len(xs) == 1 else xs
        data = {f"in{k}": x for k, x in enumerate(xs)}
        for prefix in ("", "then_") if name.startswith("stateful") else ("",):
            got = model.predict(one, batch_size=len(xs[0]))
            for k, y in enumerate(got if isinstance(got, (list, tuple)) else [got]):
                data[f"{prefix}out{k}"] = y
        model.save(os.path.join(folder, name + (".keras" if NEW else ".h5")))
        np.savez(os.path.join(folder, name + ".npz"), **data)
        print(name, [v.shape for k, v in data.items() if "out" in k], flush=True)


main(*sys.argv[1:])
