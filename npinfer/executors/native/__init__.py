"""The compiled engine. Importing this folder imports neither Numba nor llvmlite.

How it is fast
==============

For readers who know NumPy. One Dense layer on one sample, `np.maximum(x @ W + b, 0)`, is three NumPy calls of about a
microsecond each; the arithmetic of a small network takes less than one of them. So the whole network is one call of machine
code.

**Lanes.** A CPU core multiplies and adds 8 or 16 float32 numbers in one instruction. `vector.py` gives Numba a type for 16
floats; `load(address)` reads them, `fma(a, b, c)` is a·b + c for each. `splat_at(address)` puts one float in all 16 lanes.

**Panels** (`panels.py`). For y = b + x @ W, take 64 outputs at once: four vectors of sums, which begin as the bias. For each
input i, put x[i] in all lanes and add x[i] · W[i, 0:64] to the sums. W is stored in the order in which this reads it, in panels
of 16 columns: bias, row 0, row 1, … of the first 16, then of the next 16; four panels are read side by side. The sums never
leave the registers, nothing is added across lanes, and each number of W is read once, which is what a single sample costs at
least. Where the outputs are few (a network's last layer), it is the other way round: a dot product for each output.

**Many samples** would read W from memory again and again. So six rows of x share each vector of W while it is in a register, a
panel serves all rows while it is in the nearest cache, and a tile of 24 rows or more goes through *all* layers before the next
tile, so that values between layers stay in the cache. Each output adds its products in the same order as for one sample:
results don't depend on the batch, to the last bit.

**A table, not a compiler.** Compiling takes seconds, so it happens once a machine, not once a model. The machine code
interprets a table (`opcodes.py`): each row says what to do (Dense, copy, softmax …), with which sizes, on which memory.
`program.py` writes the table and packs all weights into one piece of memory, the arena; `pack.py` has a rule for each kind of
op. Interpreting a row costs some nanoseconds. Exchanging weights is writing a second arena and switching to it (`record.py`).

**Activations** (`activations.py`) are polynomials over 16 lanes, right to the last bit or the one before; a call of the C
library's tanh takes longer than sixteen of these.

**Recurrent layers** (`cells.py`) are one row for a whole sequence: what the input adds is a product for many steps at once,
then each step lets those sums go on with the state's part. One step of a stream is the same row with one step in it.

**The call itself.** `step(x)` would spend most of its time in Python. `step_type.py` makes a Python type whose call goes
straight to the machine code, which reads the array's address and shape from the array object and checks them (`call.py`).

Where things are
================

lanes, vector, activations, operations, maps, blocks, panels, loops, groups, images, cells, frame, entry: compiled code, in the
order in which they build on each other · opcodes, record, places, rules, program, pack and pack_…, stretches, context: from a
graph to the table, and running it · executor, threads: the engine · abi, call, step, step_type, jit: callables · build,
objects, link, cache, store: machine code, made once and kept on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npinfer.graph import Graph

if TYPE_CHECKING:
    from npinfer.executors.native.executor import NativeExecutor as NativeExecutor


def refusal(graph: Graph) -> str | None:
    """Why the native engine can't run this graph here, as half a sentence; None if it can."""
    import numpy as np

    from npinfer.ops.cast import Cast

    doubles = any(s.dtype == np.float64 for s in graph.specs)
    made = {graph.specs[v].dtype for k, n in enumerate(graph.nodes) if not isinstance(n.op, Cast) for v in graph.results(k)}
    if doubles and np.dtype(np.float32) not in made:
        return "it computes in float32, and this model holds float64; the numpy engine runs it"
    return unavailable()


def unavailable() -> str | None:
    """Why the native engine can't run anything here (Numba isn't installed, say); None if it can."""
    from npinfer.executors.native import cache

    return cache.available()[1]


def __getattr__(name: str) -> Any:
    if name == "NativeExecutor":
        from npinfer.executors.native.executor import NativeExecutor

        return NativeExecutor
    raise AttributeError(name)
