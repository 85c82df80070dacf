"""What a container holds, before any meaning is given to it: the hand-over from h5.py, keras_zip.py and npz.py to dialect.py.

Everything here has passed the boundary's checks (kinds, names, dtypes, sizes); no array's bytes are read before `Stored.read`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from npinfer.frozen import Frozen
from npinfer.graph import Array


class Stored(Frozen):
    """One array in a file. `dtype` is the one `read` returns: the file's, in native byte order (bfloat16, which HDF5 keeps as
    a 2-byte void, comes as float32). `where` names it for messages."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    where: str
    load: Callable[[], Array]

    def read(self) -> Array:
        """The array: C-contiguous, native byte order, a fresh one at each call. Raises FormatError where the bytes are
        damaged or the file is closed."""
        return np.ascontiguousarray(self.load(), dtype=self.dtype).reshape(self.shape)


def stored(array: Array, where: str = "array") -> Stored:
    """A Stored of an array in memory, for files whose arrays are read at once, and for tests."""
    native = array.dtype.newbyteorder("=")
    return Stored(array.shape, native, where, lambda: array.astype(native, order="C"))


#: [(layer name, [(weight name, array)])], in the file's own order
Legacy = list[tuple[str, list[tuple[str, Stored]]]]


class RawFile:
    """One open file. Exactly one of legacy, store and canonical is set, except in a file of the architecture alone (none).

    A context manager: arrays are read lazily, so keep it open until they have been.
    """

    def __init__(
        self,
        source: str,
        config: Any = None,
        keras_version: str | None = None,
        backend: str | None = None,
        legacy: Legacy | None = None,
        nb_layers: bool = False,
        top_level: list[tuple[str, Stored]] | None = None,
        store: dict[str, Stored] | None = None,
        store_names: dict[str, str] | None = None,
        canonical: tuple[Any, Mapping[str, Stored]] | None = None,
        ignored: tuple[str, ...] = (),
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.source = source
        #: the parsed architecture, {"class_name": …, "config": …}; None in a file of weights only
        self.config = config
        self.keras_version = keras_version
        self.backend = backend
        #: old layout (full and weights-only .h5 of Keras 1, 2 and 3), in the order of layer_names and weight_names
        self.legacy = legacy
        #: set where `legacy` came from a file of Keras 0.x: layers are called layer_0, layer_1 …, weights param_0 …, and layers
        #: without weights count
        self.nb_layers = nb_layers
        #: names of the legacy layers that hold top-level weights (tf.keras: top_level_model_weights), if any
        self.top_level = top_level or []
        #: Keras 3 layout (.keras, .weights.h5): arrays by HDF5 path below the root ("layers/dense/vars/0",
        #: "_layer_checkpoint_dependencies/…"), "/" in place of the "\\" of files written on Windows; in creation order where
        #: the file keeps it, else names in natural order (vars/2 before vars/10)
        self.store = store
        #: a store's `name` attributes, by the path of the group that has them ("layers/dense/vars", "vars"); newer Keras 3 only
        self.store_names = store_names or {}
        #: (configuration, arrays) of our own .npz, for `npz.restore`
        self.canonical = canonical
        #: what is in the container and wasn't read (assets of a .keras), for people
        self.ignored = ignored
        self.close = close

    def __enter__(self) -> RawFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
