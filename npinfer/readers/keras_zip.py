"""The .keras file of Keras 2.12 and later: a zip of config.json, metadata.json and model.weights.h5."""

from __future__ import annotations

import re

from npinfer.errors import FormatError
from npinfer.readers.layouts import architecture, read_h5, read_shards
from npinfer.readers.limits import parse_json
from npinfer.readers.raw import RawFile
from npinfer.readers.source import Source
from npinfer.readers.zipped import Zip

CONFIG, METADATA, WEIGHTS, SHARDS = "config.json", "metadata.json", "model.weights.h5", "model.weights.json"
NPZ = "model.weights.npz"
EXPECTED = re.compile(
    r"config\.json|metadata\.json|model\.weights\.(h5|json|npz)|model_\d{5}\.weights\.h5|assets[/\\].*|assets"
)
METADATA_BYTES = 1 << 20


def read_keras(archive: Zip) -> RawFile:
    """A RawFile of a .keras zip. The weights are read from memory: nothing is written to disk. It owns the zip's source."""
    source = archive.source
    archive.only(lambda name: EXPECTED.fullmatch(name) is not None, "a .keras file")
    where = source.name
    config = architecture(archive.read(CONFIG, source.limits.json_bytes), source, f"{where}: {CONFIG}")
    version = _version(archive) if METADATA in archive else None
    if NPZ in archive:
        raise FormatError(f"{where}: weights in {NPZ}, which npinfer doesn't read; load it in Keras and save it again (as h5)")

    def member(name: str) -> Source:
        return source.inner(archive.read(name), name)

    if SHARDS in archive and WEIGHTS not in archive:
        raw = read_shards(archive.read(SHARDS, source.limits.json_bytes), member(SHARDS), member)
    else:
        raw = read_h5(member(WEIGHTS))
    if raw.store is None:
        raw.close()
        raise FormatError(f"{where}: {WEIGHTS} is not in the layout of .keras files; save the model again")
    inner = raw.close

    def close() -> None:
        inner()
        source.close()

    raw.source, raw.config, raw.keras_version, raw.close = where, config, version, close
    raw.ignored = tuple(n for n in archive.names if n.startswith(("assets/", "assets\\")) and not n.endswith("/"))
    return raw


def _version(archive: Zip) -> str | None:
    where = f"{archive.source.name}: {METADATA}"
    value = parse_json(archive.read(METADATA, METADATA_BYTES), archive.source.limits, where)
    version = value.get("keras_version") if isinstance(value, dict) else None
    if version is not None and not isinstance(version, str):
        raise FormatError(f"{where}: keras_version is a {type(version).__name__}; it must be a string")
    return version
