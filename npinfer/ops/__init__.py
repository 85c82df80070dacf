"""The ops and the Keras layers that lower to them, one file a family. To add a layer, add it to the family it belongs to."""

from __future__ import annotations

from importlib import import_module

#: Every file of this folder that registers layers. Loaded on first use, so that `import npinfer` stays quick.
FAMILIES = (
    "activations",
    "activation_operations",
    "softmax",
    "parametric",
    "dense",
    "einsum",
    "affine",
    "norm",
    "reshape",
    "merge",
    "embedding",
    "indexing",
    "joining",
    "arithmetic",
    "size_operations",
    "reductions",
    "norm_operations",
    "products",
    "tf_operations",
    "image_operations",
    "linear_algebra",
    "numpy_operations",
    "identity",
    "wrappers",
    "legacy",
    "conv",
    "conv_transpose",
    "local",
    "pool",
    "spatial",
    "encoding",
    "rnn_layers",
    "bidirectional",
    "convlstm",
    "masking",
    "attention",
    "multi_head",
)

#: The families of the commonest layers. A shortcut only: a file of these alone needn't wait until all families are imported.
COMMON = {
    **dict.fromkeys(("Activation", "ReLU", "LeakyReLU", "ELU"), "activations"),
    **dict.fromkeys(("Dropout", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "ActivityRegularization"), "identity"),
    **dict.fromkeys(("Flatten", "Reshape", "Permute"), "reshape"),
    **dict.fromkeys(("Add", "Multiply", "Average", "Concatenate"), "merge"),
    **dict.fromkeys(("Conv1D", "Conv2D", "DepthwiseConv2D", "SeparableConv2D"), "conv"),
    **dict.fromkeys(("MaxPooling1D", "MaxPooling2D", "AveragePooling2D", "GlobalAveragePooling2D"), "pool"),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), "rnn_layers"),
    "Dense": "dense",
    "Softmax": "softmax",
    "BatchNormalization": "affine",
    "LayerNormalization": "norm",
    "Embedding": "embedding",
    "ZeroPadding2D": "spatial",
}

_loaded = False


def load_family(class_name: str) -> None:
    """Import at least the family of a Keras layer, so that it is registered."""
    if class_name in COMMON:
        import_module(f"npinfer.ops.{COMMON[class_name]}")
    elif class_name != "InputLayer":  # which is in none: lowering makes a graph's inputs of these
        load_families()


def load_families() -> None:
    """Import every family once, so that its layers are registered."""
    global _loaded
    if not _loaded:
        for name in FAMILIES:
            import_module(f"npinfer.ops.{name}")
        _loaded = True  # not before: other threads would go on with half of them
