"""Keras 3's stores (.keras, .weights.h5): groups named after classes with counters → weights by layer and variable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from npinfer.errors import FormatError
from npinfer.graph import Array
from npinfer.readers import assign, parts
from npinfer.readers.archive import Layer, Model, Path, Version
from npinfer.readers.assign import Weights
from npinfer.readers.parts import Part, Unit
from npinfer.readers.raw import RawFile, Stored

CONTAINERS = ("layers", "_layer_checkpoint_dependencies", "_functional/layers", "_self_tracked_trackables")
#: state that no inference needs
IDLE = ("seed_generator", "_random_generator", "optimizer", "metrics", "_metrics", "compile_metrics", "_compile_metrics")

#: classes that Keras exports, and writes into configs, under another name than the Python class that names their stores
PYTHON_NAMES = {"GroupQueryAttention": "GroupedQueryAttention"}


class Node:
    """One group of a store: its children, and the arrays of its vars by index."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.children: dict[str, Node] = {}
        self.vars: dict[str, Stored] = {}

    def at(self, path: str) -> Node | None:
        node: Node | None = self
        for step in path.split("/"):
            node = node.children.get(step) if node is not None else None
        return node

    def arrays(self) -> Iterator[tuple[str, Stored]]:
        """All arrays below, with their paths from here."""
        yield from self.vars.items()
        for name, child in self.children.items():
            for path, stored in child.arrays():
                yield f"{name}/{path}", stored


def tree(store: dict[str, Stored]) -> Node:
    root = Node("")
    for path, stored in store.items():
        steps = path.split("/")
        node = root
        for step in steps[:-2] if len(steps) > 1 and steps[-2] == "vars" else steps[:-1]:
            if step not in node.children:
                node.children[step] = Node(f"{node.path}/{step}" if node.path else step)
            node = node.children[step]
        node.vars[steps[-1]] = stored
    return root


def snake(class_name: str) -> str:
    """A class name as Keras names its store: MultiHeadAttention → multi_head_attention."""
    name = re.sub(r"\W+", "", class_name.rpartition(">")[2])
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def weights(raw: RawFile, model: Model, version: Version) -> Weights:
    """The weights of a store. Raises FormatError for missing and left-over groups, ShapeError and DtypeError as assign does."""
    return _Matching(raw, version).run(model)


def names(raw: RawFile, model: Model, version: Version) -> dict[str, tuple[str, str]]:
    """(layer path, variable) of each array of a store, by its path there, where the architecture tells; nothing is read. What
    all arrays of a layer have in common in front (an LSTM's "cell") is left out, as in old-layout files."""
    matching = _Matching(raw, version, peek=True)
    matching.match(model)
    if matching.contradicted:
        return {}
    places = {id(stored): path for path, stored in (raw.store or {}).items()}
    common: dict[Path, list[str]] = {}
    for part, _ in matching.found:
        steps = part.unit.prefix.split("/")[:-1]
        known = common.setdefault(part.unit.path, steps)
        while known != steps[: len(known)]:
            known.pop()
    made = {}
    for part, stored in matching.found:
        inside = part.unit.prefix.split("/")[len(common[part.unit.path]) : -1]
        made[places[id(stored)]] = ("/".join((*part.unit.path, *inside)), part.base)
    return made


class _Matching:
    """peek: don't read the arrays of layers that nothing is known of."""

    def __init__(self, raw: RawFile, version: Version, peek: bool = False) -> None:
        self.raw, self.version, self.peek = raw, version, peek
        self.found: list[tuple[Part, Stored]] = []
        self.loose: Weights = {}
        self.used: set[str] = set()
        self.problems: list[str] = []
        self.homes: dict[tuple[str, str], Node] = {}
        self.homeless: list[tuple[Layer, Path]] = []
        self.contradicted = False

    def run(self, model: Model) -> Weights:
        store = self.raw.store or {}
        self.match(model)
        left = [p for p in store if p not in self.used and not set(p.split("/")) & set(IDLE)]
        if not self.found and self.problems and not self.loose and not left:
            if self.raw.config is None:
                raise FormatError(
                    f"{self.raw.source}: holds no weights at all; {self.problems[0]}; pass the file that has them"
                )
            raise FormatError(
                f"{self.raw.source}: holds an architecture but no weights; build the model in Keras, then save it again"
            )
        if left:
            self.problems.append(f"nothing in the architecture takes the array(s) {assign.some(left)}")
        if self.problems:
            raise FormatError(assign.report(self.raw.source, self.problems))
        return {**assign.realise(self.raw.source, self.found), **self.loose}

    def match(self, model: Model) -> None:
        self.model(model, tree(self.raw.store or {}), ())
        for layer, path in self.homeless:
            self.layer(layer, self.homes.get((layer.class_name, layer.name)), path, last=True)

    def model(self, model: Model, node: Node | None, path: Path) -> None:
        container = None
        for name in CONTAINERS:
            container = container or (node.at(name) if node is not None else None)
        layers = [k for k in model.layers if k.module != "ops"]
        named = self.names(container, layers, path)
        for layer in layers:
            group = named.get(layer.name)
            if layer.model is not None:
                self.model(layer.model, group, (*path, layer.name))
            else:
                self.layer(layer, group, (*path, layer.name))

    def names(self, container: Node | None, layers: Sequence[Layer], path: Path) -> dict[str, Node]:
        """Each layer's group. Keras counts per class over all layers; where that doesn't fit, the groups of a class go to its
        layers with weights in order (Keras 2.13 counts layers twice), or by the layers' own names."""
        children = container.children if container is not None else {}
        counters: dict[str, int] = {}
        exact: dict[str, str] = {}
        for layer in layers:
            name = stored_class(layer)
            n = counters.get(name, 0)
            counters[name] = n + 1
            exact[layer.name] = f"{name}_{n}" if n else name
        needing = [k for k in layers if _needs(k)]
        if all(exact[k.name] in children for k in needing):
            self.check_names(children, exact, needing, path)
            return {k: children[n] for k, n in exact.items() if n in children}
        full = {n: c for n, c in children.items() if any(True for _ in c.arrays())}
        if all(k.name in full for k in needing):
            return {k.name: full[k.name] for k in needing}
        found: dict[str, Node] = {}
        for name in dict.fromkeys(stored_class(k) for k in needing):
            mine = [k for k in needing if stored_class(k) == name]
            groups = sorted((n for n in full if re.fullmatch(rf"{re.escape(name)}(_\d+)?", n)), key=_number)
            if len(groups) == len(mine):
                found.update((k.name, full[n]) for k, n in zip(mine, groups))
            else:
                found.update((k.name, full[exact[k.name]]) for k in mine if exact[k.name] in full)
        return found

    def check_names(self, children: dict[str, Node], exact: dict[str, str], needing: Sequence[Layer], path: Path) -> None:
        """The groups' name attributes (Keras 3.6 and later) may be another model's, but not these layers' in another order."""
        noted = {k.name: self.noted(children[exact[k.name]].path) for k in needing}
        given = [n for n in noted.values() if n is not None]
        if len(given) == len(needing) and set(given) == set(noted) and any(k != n for k, n in noted.items()):
            odd = ", ".join(f"{n!r} in the place of {k!r}" for k, n in noted.items() if k != n)
            self.problems.append(f"{'/'.join(path) or 'the model'}: the store's layers are in another order: {odd[:200]}")
            self.contradicted = True

    def noted(self, path: str) -> str | None:
        return self.raw.store_names.get(f"{path}/vars", self.raw.store_names.get(path))

    def layer(self, layer: Layer, group: Node | None, path: Path, last: bool = False) -> None:
        """One layer's arrays. A layer that two models share is stored once, where Keras came by it first."""
        if group is None and not last and _needs(layer):
            self.homeless.append((layer, path))
            return
        if group is not None:
            self.homes.setdefault((layer.class_name, layer.name), group)
        if parts.unknown(layer):
            if group is not None and not self.peek:
                self.loose[path] = self.own(group)
            return
        for unit in parts.units(layer, path, self.version):
            self.unit(unit, group)
        for name, model in parts.models_in(layer):
            self.model(model, _inside(group, layer, name), (*path, *name.split("/")))

    def unit(self, unit: Unit, group: Node | None) -> None:
        ordered = [v for v in unit.variables if v.trainable] + [v for v in unit.variables if not v.trainable]
        node = _inside(group, unit.outer, unit.prefix.rstrip("/")) if unit.prefix else group
        have = sorted(node.vars, key=_number) if node is not None else []
        if unit.owner.class_name == "SpectralNormalization" and len(have) == len(ordered) + 1 and node is not None:
            self.used.add(f"{node.path}/vars/{have.pop(0)}")  # its layer's kernel, which it tracks as its own as well
        if len(have) < len(ordered):
            kept = [v for v in ordered if not v.optional]
            ordered = kept if len(kept) == len(have) else ordered
        if len(have) != len(ordered):
            needed = ", ".join(v.name for v in ordered)
            where = f"the group {node.path!r} has {len(have)}" if node is not None else "the file has no group for it"
            if not (not have and all(v.optional for v in ordered)):
                what = f"layer {unit.name!r} ({unit.owner.class_name}) needs {len(ordered)} arrays ({needed})"
                self.problems.append(f"{what}, {where}")
            return
        if node is None:
            return
        for v, key in zip(ordered, have):
            self.found.append((Part(unit, v.name, v.trainable, v.optional), node.vars[key]))
            self.used.add(f"{node.path}/vars/{key}")

    def own(self, group: Node) -> dict[str, Array]:
        made = {}
        for path, stored in group.arrays():
            made[path] = stored.read()
            head, _, last = path.rpartition("/")
            self.used.add("/".join(p for p in (group.path, head, "vars", last) if p))
        return made


def stored_class(layer: Layer) -> str:
    if layer.model is not None:
        return "sequential" if layer.config.get("sequential") else "functional"
    name = str(layer.config.get("keras_class") or layer.class_name)
    return snake(PYTHON_NAMES.get(name, name))


def _needs(layer: Layer) -> bool:
    if layer.model is not None:
        return any(_needs(k) for k in layer.model.layers)
    if any(True for _, m in parts.models_in(layer) for k in m.layers if _needs(k)):
        return True
    from npinfer.ops import registry

    return any(not v.optional for v in registry.variables_of(layer)) and not parts.unknown(layer)


def _number(name: str) -> tuple[int, str]:
    found = re.search(r"(?:^|_)(\d+)$", name)
    return (int(found.group(1)) if found else 0, name)


def _inside(group: Node | None, outer: Layer, prefix: str) -> Node | None:
    """The group of something that a layer holds: attributes are named as in Python, perhaps with a leading underscore; the
    items of a list after their classes, counted."""
    node, owner = group, outer
    steps = prefix.split("/")
    place = 0
    while place < len(steps) and node is not None:
        step = steps[place]
        node = node.children.get(step) or node.children.get(f"_{step}")
        inner: Any = owner.config.get(step)
        if isinstance(inner, (list, tuple)) and place + 1 < len(steps) and steps[place + 1].isdigit() and node is not None:
            index = int(steps[place + 1])
            names: dict[str, int] = {}
            name = ""
            for item in inner[: index + 1]:
                base = stored_class(item) if isinstance(item, Layer) else "item"
                name = f"{base}_{names[base]}" if base in names else base
                names[base] = names.get(base, 0) + 1
            node = node.children.get(name)
            owner = inner[index] if index < len(inner) and isinstance(inner[index], Layer) else owner
            place += 1
        elif isinstance(inner, Layer):
            owner = inner
        elif step in ("forward_layer", "backward_layer") and isinstance(owner.config.get("layer"), Layer):
            owner = owner.config["layer"]
        place += 1
    return node
