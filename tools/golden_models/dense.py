"""Layers in a row: the Dense family, normalizations, activations, shapes, embeddings."""

from golden_models.cases import chains

# name: (input shape, layers[, options of the input])
DENSE = {
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
}

chains(
    1,
    DENSE,
    full=["act-object", "bn-two-sides", "ln-eps", "names-odd", "names-sorted", "norm-axes", "td-seq", "w33-65-129"],
    maybe=["integer-lookup", "spectral-bias", "act-threshold"],
)
