"""Model: a loaded network. Ties an Archive (what the file says) to executors (what runs it)."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer import inputs as arrange
from npinfer.errors import ArgumentError, CheckError, EngineError, ShapeError, UnsupportedError, shown
from npinfer.executors import Executor, make_executor
from npinfer.executors.memory import room_for
from npinfer.executors.signature import fix
from npinfer.executors.steps import zero_states
from npinfer.graph import Array, Graph, Spec
from npinfer.options import Options, Rebind, is_count, is_number, layer_names
from npinfer.passes import optimise

if TYPE_CHECKING:
    from os import PathLike

    from npinfer.microbatch import MicroBatch
    from npinfer.readers.archive import Archive
    from npinfer.readers.lower import Lowered
    from npinfer.summary import Layers


class Model:
    """A network, ready to run. Make one with `npinfer.load` or `npinfer.from_keras`.

    Calls, `predict` and bound callables may run from many threads at once, except bound callables with `reuse_output` or with
    a state, which belong to one thread each, and models with stateful layers, whose calls wait for one another.
    """

    def __init__(self, archive: Archive, options: Options | None = None, root: Model | None = None) -> None:
        self._archive, self._options = archive, options or Options()
        self._root = root
        self._children: weakref.WeakSet[Model] = weakref.WeakSet()
        self._bound: dict[Any, tuple[Executor, Callable[[Graph], Graph]]] = {}
        self._lock: threading.RLock = threading.RLock() if root is None else root._lock  # weights are exchanged in all at once
        self._states: list[Array] | None = None
        lowered = self._lower(archive)
        self._structure_in, self._structure_out = lowered.inputs, lowered.outputs
        self._graph = lowered.graph
        self._executor = make_executor(self._options.engine, self._optimised(self._graph), self._options.threads)

    def _lower(self, archive: Archive) -> Lowered:
        from npinfer.readers.lower import lower

        o = self._options
        return lower(archive, o.dtype, o.functions, o.outputs)

    def _optimised(self, graph: Graph) -> Graph:
        return optimise(graph) if self._options.optimize else graph

    # description

    @property
    def inputs(self) -> tuple[Spec, ...]:
        """Spec(shape, dtype, name) of each input; shapes are per sample, None where a size is open."""
        return self._graph.inputs[: len(self._graph.inputs) - len(self._graph.states)]

    @property
    def outputs(self) -> tuple[Spec, ...]:
        """Spec(shape, dtype, name) of each output, in the order of the flattened result."""
        return tuple(self._graph.specs[v] for v in self._graph.outputs)

    @property
    def layers(self) -> Layers:
        """The network's ops in execution order, as the file gives them; print it, or index it."""
        from npinfer.summary import layer_list

        return layer_list(self._graph)

    @property
    def engine(self) -> str:
        """The name of the engine that runs this model: "native", "numpy" or "reference"."""
        return self._executor.name

    def summary(self) -> str:
        """A table of inputs, layers, shapes, parameters and engines, with notes on what isn't exact or isn't compiled."""
        from npinfer.summary import summary

        return summary(self)

    def __repr__(self) -> str:
        ins = ", ".join(map(str, self.inputs))
        outs = ", ".join(map(str, self.outputs))
        return f"<npinfer.Model {self._archive.model.name!r}: {ins} -> {outs}; engine {self.engine}>"

    def _repr_html_(self) -> str:
        from npinfer.summary import html

        return html(self)

    # running

    def __call__(self, x: Any) -> Any:
        """Run a batch (n, …) or one sample without the batch axis; a list, tuple or dict for several inputs.

        Returns new arrays: one, a tuple for several outputs, a dict where Keras returns a dict. Other dtypes are cast to the
        input's, as Keras does. Raises ShapeError or DtypeError naming the input.
        """
        values = arrange.flatten(x, self.inputs, self._structure_in)
        arrays, single = arrange.batch(values, self.inputs)
        results = self._run(arrays)
        if single:
            results = [y[0] for y in results]
        return arrange.restore(results, self._structure_out)

    def _run(self, arrays: list[Array]) -> list[Array]:
        if not self._graph.states:
            return list(self._executor.run(arrays))
        rows = len(arrays[0])
        with self._lock:
            if self._states is None:
                self._states = zero_states(self._graph, rows)
            if len(self._states[0]) != rows:
                raise ShapeError(
                    f"this model keeps the state of {len(self._states[0])} samples from the last call, got {rows}; "
                    "call model.reset_states() before changing the batch size"
                )
            results = self._executor.run([*arrays, *self._states])
            count = len(self._graph.outputs)
            self._states = list(results[count:])
        return list(results[:count])

    def reset_states(self) -> None:
        """Set the states of stateful recurrent layers back to zero."""
        with self._lock:
            self._states = None

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto") -> Any:
        """As Keras's predict: all of x in batches, the outputs joined.

        x: what a call takes; also arrays larger than memory (numpy.memmap, h5py or zarr datasets: anything with `shape` and
        slicing), an iterator of batches, or a path (.npy, .npz, .csv, .parquet, a folder of .npy). verbose: "auto" shows a
        progress bar on a terminal for long work, 0 never, 1 always. `npinfer.predict_file` writes the results to a file.
        """
        from npinfer.predict import predict

        return predict(self, x, batch_size, verbose)

    def microbatch(
        self, max_size: int = 10, max_delay_us: float = 200, max_queue: int = 1024, exact: bool = True
    ) -> MicroBatch:
        """Let many threads or coroutines submit one sample each, which run together; each gets what model(x) gives it.

        See npinfer.microbatch.MicroBatch: mb(x), mb.submit(x), await mb.acall(x), mb.close().
        """
        from npinfer.microbatch import MicroBatch

        return MicroBatch(self, max_size, max_delay_us, max_queue, exact)

    def bind(self, *, batch: int | None = None, shape: Any = None, reuse_output: bool = False, stream: bool = False) -> Any:
        """A callable for one sample: step(x) → new array, step(x, out) fills out without allocating.

        batch: a fixed number of samples instead of one (arrays get a batch axis). shape: the sizes of an input with unknown
        ones, per sample (a tuple; for several inputs a dict by name or a list). reuse_output: step(x) fills and returns the
        same array each time. stream: one time step a call, the state is kept: step.state, step.reset(), step.fork().
        Raises ShapeError where sizes stay unknown, UnsupportedError where a stream would have to see the future.
        """
        shapes = arrange.bind_shapes(self.inputs, shape)
        options = {"batch": batch, "shape": shape, "reuse_output": reuse_output, "stream": stream}
        if batch is not None:
            if not is_count(batch):
                raise ShapeError(f"bind(batch={shown(batch)}): needs a whole number of at least 1")
            batch = options["batch"] = int(batch)
        with self._lock:
            executor = self._executor if shapes is None and not stream else self._derived(shapes, stream)
            with room_for(executor.graph, batch or 1, f"bind(batch={shown(batch)})"):
                return executor.bind(batch, reuse_output, Rebind(self, "bind", options))

    def _derived(self, shapes: tuple[tuple[int, ...], ...] | None, stream: bool) -> Executor:
        """An executor for this network with fixed sizes, or for one time step of it; kept, so that it sees weight swaps."""
        key = shapes, stream
        with self._lock:
            if key not in self._bound:

                def derive(graph: Graph) -> Graph:
                    if shapes is not None:
                        specs = fix(graph.inputs[: len(shapes)], shapes) + graph.inputs[len(shapes) :]
                        graph = Graph(specs, graph.nodes, graph.outputs, graph.labels, graph.states)
                    if stream:
                        from npinfer.streams import step_graph

                        graph = step_graph(graph)
                    return self._optimised(graph)

                made = make_executor(self._options.engine, derive(self._graph), self._options.threads)
                self._bound[key] = made, derive
            return self._bound[key][0]

    @property
    def jit(self) -> Any:
        """The network for use inside numba.njit code, as an argument or captured: jit(x) or jit(x, out), positional.

        What a stateful layer carries from call to call is given and returned there, so that any thread may call it:
        jit(x, *states) → (*outputs, *next states), or jit(x, *states, *outs, *next_states); begin with zeros.
        Raises EngineError where the native engine isn't installed or doesn't cover every op, naming those.
        """
        return self._jit("jit", stream=False)

    @property
    def jit_step(self) -> Any:
        """One time step, as of bind(stream=True), for numba.njit code, with its states as in `jit`."""
        return self._jit("jit_step", stream=True)

    def _jit(self, name: str, stream: bool) -> Any:
        from npinfer.executors import native

        with self._lock:
            executor = self._derived(None, True) if stream else self._executor
            reason = native.refusal(executor.graph)
            if reason is not None:
                raise EngineError(f"model.{name}: {reason}")
            if not isinstance(executor, native.NativeExecutor):
                raise EngineError(f"model.{name}: loaded with engine={self.engine!r}; load the model with engine='native'")
            return executor.jit(Rebind(self, name))

    # weights

    def get_weights(self) -> list[Array]:
        """All weights, in the order of model.get_weights() in the file's Keras; copies."""
        from npinfer.readers.order import weights_to_list

        return [np.array(a) for a in weights_to_list((self._root or self)._archive)]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replace all weights, given as get_weights returns them. Every bound callable sees the new ones at its next call, none
        ever sees half of them. Raises ShapeError naming the weight that doesn't fit; then nothing changes."""
        from npinfer.readers.order import weights_from_list

        root = self._root or self
        if not isinstance(weights, Iterable):
            raise ShapeError(f"set_weights({shown(weights)}): needs a list of arrays, as get_weights() returns it")
        root._replace(weights_from_list(root._archive, list(weights)))

    def load_weights(self, path: str | PathLike[str]) -> None:
        """As set_weights, from a file: weights-only or full, matched by topology as Keras does."""
        from npinfer.readers import read_weights_into

        root = self._root or self
        root._replace(read_weights_into(root._archive, path))

    def _replace(self, archive: Archive) -> None:
        """Swap to an archive of the same topology: in all executors or, where something fails, in none."""
        with self._lock:
            ready = [(m, *m._prepare(archive)) for m in (self, *self._children)]
            for model, graph, commits in ready:  # nothing here can fail
                model._archive, model._graph = archive, graph
                for commit in commits:
                    commit()

    def _prepare(self, archive: Archive) -> tuple[Graph, list[Callable[[], None]]]:
        graph = self._lower(archive).graph
        commits = [self._executor.prepare(self._optimised(graph))]
        commits += [executor.prepare(derive(graph)) for executor, derive in self._bound.values()]
        return graph, commits

    def submodel(self, outputs: Sequence[str] | str) -> Model:
        """A model that returns inner layers' results (by layer name, "outer/inner" in nested models); one run for all of them.

        It shares this model's weights and sees their swaps. Raises UnsupportedError listing the names that exist.
        """
        names = layer_names(outputs, "submodel: outputs")
        if not names:
            raise UnsupportedError("submodel([]): needs the name of at least one layer; model.layers lists them")
        root = self._root or self
        with root._lock:
            child = Model(root._archive, self._options.replace(outputs=names), root)
            root._children.add(child)
        return child

    # files and checks

    def save(self, path: str | PathLike[str], check: bool = False) -> None:
        """Write npinfer's own format (.npz; loads without h5py). check: store random inputs with this model's outputs, which
        every later load runs again and verifies."""
        from npinfer.npz import save

        pairs = None
        if check:
            from npinfer.checking import random_inputs

            x = random_inputs(self._graph, 4, self.inputs)
            pairs = (x, self._plain(x))
        o = self._options
        meta = {"dtype": o.dtype, "outputs": None if o.outputs is None else list(o.outputs)}
        save(path, self._archive, meta, pairs)

    def _plain(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for a batch from zero states, whatever this model's states are."""
        states = zero_states(self._graph, len(arrays[0]))
        return list(self._executor.run([*arrays, *states])[: len(self._graph.outputs)])

    def check(self, x: Any, y: Any, rtol: float = 1e-5) -> float:
        """Compare this model's outputs for x with the expected y; returns the largest error relative to an output's scale.

        Raises CheckError naming the output where it exceeds rtol, or where NaN or infinity stand elsewhere.
        """
        from npinfer.checking import compare

        if not is_number(rtol) or not rtol >= 0:
            raise ArgumentError(f"check(rtol={shown(rtol)}): needs a number of at least 0, such as 1e-5")
        arrays, _ = arrange.batch(arrange.flatten(x, self.inputs, self._structure_in), self.inputs)
        return compare(self.outputs, self._plain(arrays), y, rtol)

    def verify(self, arrays: Sequence[Array], expected: Sequence[Array]) -> None:
        """Run the check pairs that a file carries. Raises CheckError where this machine gives other numbers, ShapeError or
        DtypeError for pairs of another model."""
        from npinfer.checking import compare

        if len(arrays) != len(self.inputs):
            raise CheckError(f"the file's check pairs hold {len(arrays)} inputs, the model {len(self.inputs)}; save it again")
        batch, _ = arrange.batch(arrays, self.inputs)
        compare(self.outputs, self._plain(batch), list(expected), 1e-5)

    def __getstate__(self) -> dict[str, Any]:
        return {"archive": (self._root or self)._archive, "options": self._options, "states": self._states}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Model.__init__(self, state["archive"], state["options"])
        self._states = state["states"]
