"""A model's config, of any Keras → archive.Model: layers, the calls between them, inputs and outputs.

Nothing recurses along the graph, so chains may be thousands of layers long; nesting of models is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npinfer.errors import FormatError, LimitError, UnsupportedError
from npinfer.readers import dialect, nodes, values
from npinfer.readers.archive import Call, Layer, Model, TensorRef, Version, tensors
from npinfer.readers.numbering import refs, renumber
from npinfer.trees import holds

SEQUENTIAL = ("Sequential",)
FUNCTIONAL = ("Functional", "Model", "Container", "Network")
TENSORFLOW = ("TFOpLambda", "SlicingOpLambda", "TensorFlowOpLayer")
MAX_DEPTH = 60


def model(config: Any, version: Version, source: str) -> Model:
    """The outermost model of a file. Raises FormatError where the config contradicts itself or isn't one, UnsupportedError for
    a model class of a user's; unknown layers stay in place for lowering to refuse, together."""
    if isinstance(config, Mapping) and "class_name" not in config and config.get("name") == "Sequential" and "layers" in config:
        from npinfer.readers.dialect_k1 import from_zero

        config = from_zero(config) if isinstance(config["layers"], list) else config
    if not isinstance(config, Mapping) or not isinstance(config.get("class_name"), str):
        held = f"a {type(config).__name__}" if not isinstance(config, Mapping) else "no class_name"
        raise FormatError(f"{source}: the architecture holds {held}; it must be the config of a Sequential or functional model")
    return _Reader(version, source).model(config, 0)


class _Reader:
    def __init__(self, version: Version, source: str) -> None:
        self.version, self.source = version, source

    def where(self, name: str = "") -> str:
        return f"{self.source}: layer {name!r}" if name else self.source

    def model(self, raw: Mapping[str, Any], depth: int) -> Model:
        if depth > MAX_DEPTH:
            raise LimitError(f"{self.source}: models are nested more than {MAX_DEPTH} levels deep")
        class_name, config, raw = dialect.entry(raw, self.source)
        graph = isinstance(config.get("layers"), list) and "input_layers" in config and "output_layers" in config
        custom = dialect.origin(raw, class_name) == "custom"
        if custom or class_name not in SEQUENTIAL + FUNCTIONAL or (class_name in FUNCTIONAL and not graph):
            raise UnsupportedError(
                f"{self.source}: the model is a {class_name}: a class of its author's, whose code the file doesn't hold; "
                "only Sequential and functional models can be run (read_weights still extracts the arrays)",
                [f"a model of the class {class_name}"],
            )
        if class_name in SEQUENTIAL:
            return self.sequential(raw, config, depth)
        return self.functional(config, depth)

    def layer(self, raw: Any, depth: int) -> Layer:
        """A layer or nested model, without its calls."""
        if isinstance(raw, Mapping) and raw.get("class_name") in SEQUENTIAL + FUNCTIONAL:
            class_name, config, _ = dialect.entry(raw, self.source)
            if "layers" in config and dialect.origin(raw, class_name) != "custom":
                name = config.get("name", raw.get("name"))
                made = self.model(raw, depth + 1)
                named = name if isinstance(name, str) and name else made.name
                sequential = class_name in SEQUENTIAL
                return Layer("Model", named, {"sequential": sequential}, (), made, "", made.trainable, None, _first_shape(made))
        return dialect.layer(raw, self.version, self.source, lambda r, _, d: self.layer(r, depth + d), depth)

    # Sequential

    def sequential(self, raw: Mapping[str, Any], config: Mapping[str, Any], depth: int) -> Model:
        items = config.get("layers")
        if not isinstance(items, list) or not items:
            raise FormatError(f"{self.source}: the Sequential model has no layers; add some in Keras, and save it again")
        name = config.get("name", raw.get("name"))
        name = name if isinstance(name, str) else "sequential"
        first = items[0]
        if isinstance(first, Mapping) and first.get("class_name") == "Merge" and _branches(first) is not None:
            return self.merged(name, items, depth)
        layers = [self.layer(r, depth) for r in items]
        layers, tail = self.chain(layers, _shape_of(raw, config), self.input_dtype(first))
        trainable = config.get("trainable", True) is not False
        return self.checked(name, layers, [TensorRef(layers[0].name, 0, 0)], [tail], True, trainable)

    def chain(self, layers: list[Layer], shape: tuple[int | None, ...] | None, dtype: str) -> tuple[list[Layer], TensorRef]:
        """The layers of a Sequential with their calls; an InputLayer comes first where the file has none."""
        if layers[0].class_name == "InputLayer":
            head, rest = layers[0], layers[1:]
            known = head.input_shape if head.input_shape is not None else shape
            head = _input(head.name, known, head.config.get("dtype"), head.config)
        else:
            known = layers[0].input_shape if layers[0].input_shape is not None else shape
            taken = {k.name for k in layers}
            name = f"{layers[0].name}_input"
            while name in taken:
                name += "_1"
            if layers[0].model is not None and known is None:
                known = _first_shape(layers[0].model)
            head, rest = _input(name, known, dtype), layers
        ref = TensorRef(head.name, 0, 0)
        made = [head]
        for layer in rest:
            made.append(_called(layer, (Call((ref,)),)))
            ref = TensorRef(layer.name, 0, 0)
        return made, ref

    def input_dtype(self, first: Any) -> str:
        """The dtype of the input that Keras makes for a first layer."""
        config = first.get("config") if isinstance(first, Mapping) else None
        found = values.policy(config.get("input_dtype", config.get("dtype"))) if isinstance(config, Mapping) else None
        known = values.POLICIES.get(found, found) if found is not None else None
        return known if known in nodes.DTYPES and known is not None else "float32"

    def merged(self, name: str, items: list[Any], depth: int) -> Model:
        """Keras 1 and 2.0: a Sequential that starts with a Merge layer of branch models becomes one functional graph, flat as
        Keras writes its weights."""
        layers: list[Layer] = []
        inputs: list[TensorRef] = []
        tail = self.branch(items, layers, inputs, depth)
        return self.checked(name, layers, inputs, [tail], True, True)

    def branch(self, items: list[Any], layers: list[Layer], inputs: list[TensorRef], depth: int) -> TensorRef:
        if depth > MAX_DEPTH:
            raise LimitError(f"{self.source}: models are nested more than {MAX_DEPTH} levels deep")
        first: Any = items[0] if items else None
        held = _branches(first) if isinstance(first, Mapping) and first.get("class_name") == "Merge" else None
        if held is not None:
            ends = []
            for entry in held:
                class_name, config, _ = dialect.entry(entry, self.source)
                if class_name in SEQUENTIAL and isinstance(config.get("layers"), list):
                    ends.append(self.branch(config["layers"], layers, inputs, depth + 1))
                elif class_name in FUNCTIONAL:
                    inner = self.model(entry, depth + 1)
                    layers.extend(inner.layers)
                    inputs.extend(tensors(inner.inputs))
                    ends.extend(tensors(inner.outputs))
                else:
                    ends.append(self.branch([entry], layers, inputs, depth + 1))
            bare = {**dict(first), "config": {k: v for k, v in first["config"].items() if k != "layers"}}
            merge = _called(self.layer(bare, depth), (Call((list(ends),)),))
            layers.append(merge)
            ref, rest = TensorRef(merge.name, 0, 0), [self.layer(r, depth) for r in items[1:]]
            for layer in rest:
                layers.append(_called(layer, (Call((ref,)),)))
                ref = TensorRef(layer.name, 0, 0)
            return ref
        if not items:
            raise FormatError(f"{self.source}: a branch of a Merge layer has no layers; save the model again")
        made, ref = self.chain([self.layer(r, depth) for r in items], None, self.input_dtype(first))
        layers.extend(made)
        inputs.append(TensorRef(made[0].name, 0, 0))
        return ref

    # functional

    def functional(self, config: Mapping[str, Any], depth: int) -> Model:
        items = config["layers"]
        name = config.get("name")
        name = name if isinstance(name, str) else "model"
        entries = [r for r in items if isinstance(r, Mapping)]
        configs = [r["config"] for r in entries if isinstance(r.get("config"), dict)]
        known = {r["name"] for r in [*entries, *configs] if isinstance(r.get("name"), str)}
        layers = []
        modern = False
        for raw in items:
            layer = self.layer(raw, depth)
            given = raw.get("name")
            if isinstance(given, str) and given and given != layer.name:  # the entry's name is the one that calls refer to
                layer = layer.replace(name=given)
            inbound = raw.get("inbound_nodes")
            modern |= isinstance(inbound, list) and any(isinstance(n, Mapping) and "args" in n for n in inbound)
            class_name = str(raw.get("class_name"))
            found = nodes.calls(inbound, class_name, known, self.where(layer.name))
            layers.append(_called(layer, () if layer.class_name == "InputLayer" else found))
        inputs = _flat(self.tree(config["input_layers"], "input_layers"))
        if isinstance(inputs, dict):  # Keras takes and numbers them in the order of their names
            inputs = {k: inputs[k] for k in sorted(inputs)}
        outputs = _flat(self.tree(config["output_layers"], "output_layers"))
        if isinstance(outputs, dict) and depth:  # others count them in this order; callers get them as they were given
            outputs = {k: outputs[k] for k in sorted(outputs)}
        layers, inputs, outputs = renumber(layers, inputs, outputs, modern)
        if any(k.class_name in TENSORFLOW for k in layers):
            from npinfer.readers import tfops  # its tables take longer to make than most models to load

            layers = [tfops.modern(k) if k.class_name in TENSORFLOW else k for k in layers]
        return self.checked(name, layers, inputs, outputs, False, config.get("trainable", True) is not False)

    def tree(self, raw: Any, what: str) -> Any:
        """input_layers or output_layers: one [layer, node, tensor], or lists and dicts of them, as Keras returns tensors."""
        if nodes.is_leaf(raw) or (isinstance(raw, list) and len(raw) == 1 and isinstance(raw[0], str)):
            return TensorRef(raw[0], raw[1], raw[2]) if len(raw) > 1 else TensorRef(raw[0], 0, 0)
        if isinstance(raw, list):
            return [self.tree(r, what) for r in raw]
        if isinstance(raw, Mapping) and raw.get("class_name") == "__tuple__":
            return [self.tree(r, what) for r in raw.get("items") or ()]
        if isinstance(raw, Mapping):
            return {k: self.tree(r, what) for k, r in raw.items()}
        raise FormatError(f"{self.source}: {what} holds {raw!r:.60}; it must name a layer, a node and a tensor")

    def checked(self, name: str, layers: list[Layer], inputs: Any, outputs: Any, sequential: bool, trainable: bool) -> Model:
        """The model, where its references fit; FormatError otherwise."""
        byname: dict[str, Layer] = {}
        for k in layers:
            if k.name in byname:
                raise FormatError(f"{self.source}: two layers are called {k.name!r}; names must be unique within a model")
            byname[k.name] = k
        given = list(tensors(inputs))
        if not given:
            raise FormatError(f"{self.source}: model {name!r} has no inputs; needed is at least one InputLayer")
        if not holds(outputs, TensorRef):
            raise FormatError(f"{self.source}: model {name!r} has no outputs; needed is at least one layer in output_layers")
        if len(set(given)) != len(given):
            raise FormatError(f"{self.source}: model {name!r} names an input twice; save the model again")
        for r in given:
            if r.layer not in byname or byname[r.layer].class_name != "InputLayer":
                raise FormatError(f"{self.source}: input_layers names {r.layer!r}, which isn't an InputLayer of model {name!r}")
        for user, named in [("output_layers", tensors(outputs)), *((f"layer {k.name!r}", refs(k.calls)) for k in layers)]:
            for r in named:
                target = byname.get(r.layer)
                if target is None:
                    raise FormatError(
                        f"{self.source}: {user} refers to layer {r.layer!r}, which the config doesn't hold; "
                        "save the model again"
                    )
                count = 1 if target.class_name == "InputLayer" else len(target.calls)
                if not 0 <= r.node < count:
                    raise FormatError(
                        f"{self.source}: {user} refers to call {r.node} of layer {r.layer!r}; it has {count}, numbered from 0"
                    )
        return Model(name, tuple(layers), inputs, outputs, sequential, trainable)


def _flat(tree: Any) -> Any:
    """One level of lists: callers pass and get nested lists of tensors as one."""
    return list(tensors(tree)) if isinstance(tree, list) else tree


def _branches(entry: Mapping[str, Any]) -> list[Any] | None:
    config = entry.get("config")
    held = config.get("layers") if isinstance(config, Mapping) else None
    return held if isinstance(held, list) and held else None


def _called(k: Layer, calls: tuple[Call, ...]) -> Layer:
    """The layer with these calls; an InputLayer's config is brought to {"shape", "dtype"}."""
    if k.class_name == "InputLayer" and "shape" not in k.config:
        return _input(k.name, k.input_shape, k.config.get("dtype"), k.config)
    return k.replace(calls=calls)


def _input(name: str, shape: tuple[int | None, ...] | None, dtype: Any, config: Mapping[str, Any] | None = None) -> Layer:
    kept = {"shape": shape, "dtype": dtype or "float32"}
    batch = next((config[k] for k in ("batch_shape", "batch_input_shape") if config and isinstance(config.get(k), list)), None)
    if batch and isinstance(batch[0], int):
        kept["batch_size"] = batch[0]
    for key in ("sparse", "ragged"):
        if config and config.get(key):
            kept[key] = True
    return Layer("InputLayer", name, kept, input_shape=shape)


def _first_shape(made: Model) -> tuple[int | None, ...] | None:
    """The shape of a model's only input."""
    refs = list(tensors(made.inputs))
    return made.layer(refs[0].layer).config.get("shape") if len(refs) == 1 else None


def _shape_of(raw: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[int | None, ...] | None:
    """A Sequential's own note of its input: build_input_shape, build_config."""
    found = values.shape(config.get("build_input_shape"), batch=True)
    built = raw.get("build_config")
    if found is None and isinstance(built, Mapping):
        found = values.shape(built.get("input_shape"), batch=True)
    return found
