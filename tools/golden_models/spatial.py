"""Layers in a row: convolutions, pooling, padding, resizing."""

from golden_models.cases import chains

# name: (input shape, layers[, options of the input])
SPATIAL = {
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
    "locally1d": ((7, 3), lambda k: [k.LocallyConnected1D(4, 3, activation="relu"), k.Flatten(), k.Dense(2)]),
    "locally2d": ((5, 6, 2), lambda k: [k.LocallyConnected2D(3, (2, 3), strides=(1, 2)), k.Flatten(), k.Dense(2)]),
    "adaptive-pool": ((7, 5, 3), lambda k: [k.AdaptiveAveragePooling2D((3, 2)), k.Flatten()]),
}

chains(
    3,
    SPATIAL,
    full=["conv2d-bn-relu6", "separable-act"],
)
