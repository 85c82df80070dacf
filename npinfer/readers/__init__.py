"""From files to Archives: the untrusted boundary. h5.py, keras_zip.py and sniff.py give a RawFile; topology.py, dialect.py and
assign.py give it one meaning; lower.py turns the result into a Graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npinfer.readers.archive import Archive, Saved
    from npinfer.readers.limits import Limits
    from npinfer.readers.raw import RawFile


def read(source: Any, config: Any = None, limits: Limits | None = None) -> Archive:
    """The Archive of a model file: what it says in one dialect of Keras, its arrays by layer and variable.

    source: a path, bytes or a binary file. config: the architecture, for files of weights alone: to_json()'s text, the path of
    such a text or of another model file, or the dict.

    Raises FormatError for what is damaged, contradicts itself or lacks a part (the message says what to pass), LimitError,
    ShapeError and DtypeError for arrays that don't fit their layers. Unknown layers are no error here; lowering refuses them.
    """
    return read_all(source, config, limits).archive


def read_all(source: Any, config: Any = None, limits: Limits | None = None) -> Saved:
    """As read, with what npinfer's own files hold besides: options and check pairs (both empty for Keras's files)."""
    from npinfer.readers.archive import Saved
    from npinfer.readers.sniff import open_raw

    with open_raw(source, limits) as raw:
        if raw.canonical is not None:
            from npinfer.npz import restore

            return restore(raw)
        given, said, backend = _architecture(raw, config, limits)
        return Saved(interpret(raw, given, said, backend))


def interpret(raw: RawFile, config: Any, keras_version: str | None, backend: str | None) -> Archive:
    """A RawFile's arrays under an architecture, which may be the file's own."""
    from npinfer.errors import DtypeError, FormatError, LimitError, ShapeError
    from npinfer.readers import assign, order, topology, versions
    from npinfer.readers.archive import Archive
    from npinfer.readers.limits import reading
    from npinfer.readers.problems import problems, unsupported

    with reading(raw.source, "its config doesn't make sense to any Keras"):
        version = versions.checked(versions.of(config, keras_version, backend), raw.source)
        stored = assign.storage_version(raw, version)
        if version.major == 1 or not version.numbers:
            version = version.replace(backend=stored.backend)
        model = topology.model(config, version, raw.source)
        try:
            weights = order.read_weights(raw, model, stored)
        except (FormatError, ShapeError, DtypeError) as e:
            unknown = [] if isinstance(e, LimitError) else list(problems(model, {}))
            if unknown:  # what can't be told apart for want of knowing a layer is that layer's fault
                raise unsupported(raw.source, unknown) from e
            raise
        return Archive(model, weights, order.order(model, weights, version), version, raw.source)


def read_weights_into(archive: Archive, source: Any, limits: Limits | None = None) -> Archive:
    """The archive with the weights of another file, by topology, as Keras's load_weights."""
    from npinfer.readers.order import with_weights_of
    from npinfer.readers.sniff import open_raw

    with open_raw(source, limits) as raw:
        return with_weights_of(archive, raw)


def _architecture(raw: RawFile, config: Any, limits: Limits | None) -> tuple[Any, str | None, str | None]:
    """(architecture, keras_version, backend) of a file: its own, or the one given with it."""
    from npinfer.errors import FormatError
    from npinfer.readers.raw import RawFile

    if config is None:
        if raw.config is not None:
            return raw.config, raw.keras_version, raw.backend
        raise FormatError(
            f"{raw.source}: holds weights but no architecture; pass that too, as Keras's model.to_json() writes it: "
            "load(file, config='model.json'); read_weights(file) extracts the arrays alone"
        )
    found = _parsed(config, limits)
    if isinstance(found, RawFile):
        return found.config, found.keras_version, found.backend
    return found, raw.keras_version, raw.backend


def _parsed(config: Any, limits: Limits | None) -> Any:
    """The architecture behind what a caller passed as config: a dict, JSON text, or the path or bytes of either or of a model
    file (then a RawFile)."""
    import os

    from npinfer.errors import FormatError
    from npinfer.readers.limits import DEFAULT, parse_json
    from npinfer.readers.sniff import open_raw
    from npinfer.readers.source import open_source

    limits = limits or DEFAULT
    if isinstance(config, (dict, list)):
        return _unwrapped(parse_json(_as_json(config), limits, "config"), limits)
    if isinstance(config, str) and config.lstrip()[:1] in ("{", "[", '"'):
        return _unwrapped(parse_json(config, limits, "config"), limits)
    if not isinstance(config, (str, bytes, bytearray, os.PathLike)) and not hasattr(config, "read"):
        raise FormatError(f"config is a {type(config).__name__}; pass the architecture's JSON text, its path, or the dict")
    with open_source(config, limits) as opened:
        head = opened.read_at(0, 64).lstrip(b"\xef\xbb\xbf \t\r\n")
        if head[:1] in (b"{", b"[", b'"'):
            return _unwrapped(parse_json(opened.read_at(0, limits.json_bytes + 1), limits, opened.name), limits)
        where, data = opened.name, opened.path or opened.all()
    with open_raw(data, limits) as raw:
        if raw.config is None:
            raise FormatError(
                f"{where}: given as config, but holds no architecture; "
                "needed is what model.to_json() gives, or a whole model file"
            )
        return raw


def _unwrapped(value: Any, limits: Limits) -> Any:
    """Architectures that were dumped to JSON twice are one parse further in; get_config() lacks the class, which shows."""
    from npinfer.readers.limits import parse_json

    for _ in range(2):
        if isinstance(value, str):
            value = parse_json(value, limits, "config")
    if isinstance(value, list):
        return {"class_name": "Sequential", "config": value}
    if isinstance(value, dict) and "class_name" not in value and isinstance(value.get("layers"), list) and "loss" not in value:
        return {"class_name": "Functional" if "input_layers" in value else "Sequential", "config": value}
    return value


def _as_json(config: Any) -> str:
    """A caller's dict as text, so that it is measured and checked as files are."""
    import json

    from npinfer.errors import FormatError, LimitError

    try:
        return json.dumps(config)
    except RecursionError:
        raise LimitError("config: nested too deep; see Limits.json_depth") from None
    except (TypeError, ValueError) as e:
        raise FormatError(f"config: not plain data as to_json() writes it: {e}") from None
