"""The ops and the Keras layers that lower to them, one file a family. To add a layer, add it to the family it belongs to."""

from __future__ import annotations

from importlib import import_module

#: Every file of this folder that registers layers. Loaded on first use, so that `import npinfer` stays quick.
FAMILIES = (
    "activations",
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
    "reductions",
    "norm_operations",
    "products",
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

_loaded = False


def load_families() -> None:
    """Import every family once, so that its layers are registered."""
    global _loaded
    if not _loaded:
        _loaded = True
        for name in FAMILIES:
            import_module(f"npinfer.ops.{name}")
