"""Which Keras wrote a file: version strings as files hold them, and what a config without one gives away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from npinfer.errors import UnsupportedError
from npinfer.readers.archive import Version

#: the newest generation whose rules are known; a newer minor version of it is read as the newest known one
NEWEST = 3
#: Keys that only configs of one major version use
_KERAS3 = frozenset({"batch_shape", "registered_name", "module"})
_KERAS1 = frozenset({"output_dim", "nb_filter", "border_mode", "inner_activation", "input_dtype", "dim_ordering", "bias"})
_KERAS2 = frozenset({"units", "filters", "use_bias", "kernel_initializer", "batch_input_shape"})


def parse(text: str | None, backend: str | None = None) -> Version:
    """The version that a keras_version entry names: "2.2.4", "2.2.4-tf", "3.15.1", "2.18.0" (tf_keras). None and anything
    that isn't a version give Keras 1, whose files don't say."""
    name = text if isinstance(text, str) else ""
    found = re.match(r"\s*v?(\d{1,4}(?:\.\d{1,6}){0,3})", name)
    if found is None:
        return Version(1, (), False, backend or "tensorflow")
    numbers = tuple(int(n) for n in found.group(1).split("."))
    tf = "-tf" in name or (2, 4) <= numbers < (3,)
    return Version(max(numbers[0], 1), numbers, tf, backend or "tensorflow")


def checked(version: Version, source: str) -> Version:
    """The version, where its rules are known. Raises UnsupportedError for a generation that came later: what its configs mean
    would be a guess."""
    if version.major > NEWEST:
        written = ".".join(map(str, version.numbers))
        raise UnsupportedError(
            f"{source}: written by Keras {written}, of a generation that this npinfer doesn't know; known are Keras 0.3 to "
            f"{NEWEST}.x and tf.keras; use a newer npinfer, or save the model again with Keras {NEWEST} "
            "(read_weights still extracts the arrays)",
            [f"a file of Keras {written}"],
        )
    return version


def guess(config: Any) -> Version:
    """The version of a config that doesn't name one, by the keys it uses (newer ones win: Keras 2 reads some old keys)."""
    seen: set[str] = set()
    todo, steps = [config], 0
    while todo and steps < 2000:
        steps += 1
        item = todo.pop()
        if isinstance(item, Mapping):
            seen.update(k for k in item if isinstance(k, str))
            todo.extend(item.values())
        elif isinstance(item, (list, tuple)):
            todo.extend(item)
    for major, keys in ((3, _KERAS3 - {"module"}), (1, _KERAS1 - {"bias"}), (2, _KERAS2), (1, _KERAS1)):
        if seen & keys:
            tf = major == 3 and "batch_shape" not in seen
            return Version(2 if tf and "batch_input_shape" in seen else major, (), tf)
    return Version(1)


def of(config: Any, keras_version: str | None, backend: str | None) -> Version:
    """The version of a file: what it states beside the config, inside the config, or by the keys it uses."""
    inner = config.get("keras_version") if isinstance(config, Mapping) else None
    for text in (inner, keras_version):
        known = config.get("backend") if isinstance(config, Mapping) else None
        found = parse(text, backend or (known if isinstance(known, str) else None))
        if found.numbers:
            return found
    return guess(config).replace(backend=backend or "tensorflow")
