"""The int64 records that Python fills and compiled code reads. Word numbers, nothing else: no Numba is needed to import this.

**The compiled engine has one C function** (entry.py compiles it, the object cache stores it, no symbol in it is undefined):

    intp entry(intp ctx, intp ins, intp outs, intp rows, intp scratch)

ctx      address of a context record (words below), owned by Python, at one address for the executor's whole life
ins      address of an array of data pointers, one for each graph input (states last): C-contiguous (rows, *shape), the spec's
         dtype, aligned to its item size
outs     the same for the graph's outputs, then the states' successors. No output may overlap an input or another output: a run
         may be repeated (below), so state goes from one buffer to another and the caller exchanges them after status 0
rows     number of samples, ≥ 1 scratch  address, 64-byte aligned, of memory of one's own (a stack or a thread's). Its first
int64 holds its size in bytes, set by
         the caller and left alone; `scratch_bytes(ctx, rows)` says how much is needed now
returns  0: done · 1 + k: an embedding index in graph input k is out of range · NO_SCRATCH: scratch is too small for the
weights'
         present program (they were swapped for ones that pack differently): read the need again and call again ·
         1 + number of inputs: an index that isn't a graph input is out of range

It allocates nothing, holds no lock, touches no Python object, may run without the GIL and from any number of threads.

**Weight swap.** The context has two slots for program records and a generation, which grows by one when a writer begins to fill
the idle slot and by one when that slot becomes the current one. A run reads the generation before and after; if the slot it
used may have been written meanwhile (the second swap after its start has begun), it runs again.
"""

from __future__ import annotations

from typing import Final

# the context record
GENERATION: Final = 0
SLOTS: Final = 1  # two words: addresses of the program records of even and odd generations (generation >> 1 & 1)
SCRATCH_FIXED: Final = 3  # scratch bytes needed: SCRATCH_FIXED + SCRATCH_ROW * min(rows, TILE)
SCRATCH_ROW: Final = 4
TILE: Final = 5  # samples that go through all layers together
INPUTS: Final = 6  # number of input pointers, of output pointers
OUTPUTS: Final = 7
WORK: Final = 8  # about how many multiply-adds a sample costs: releasing the GIL pays from some 10,000 up
CONTEXT_WORDS: Final = 16

NO_SCRATCH: Final = -1

# a program record: fixed words, then the bytes a sample takes in each input and output, then the rows
P_ROWS: Final = 0  # number of rows
P_TABLE: Final = 1  # address of the first row
P_ARENA: Final = 2  # address of the packed weights, 64-byte aligned
P_TILE: Final = 3
P_SCRATCH: Final = 4  # bytes of scratch needed: fixed part, bytes a row
P_SCRATCH_ROW: Final = 5
P_INPUTS: Final = 6
P_OUTPUTS: Final = 7
P_STRIDES: Final = 8
