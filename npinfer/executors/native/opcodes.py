"""The compiled engine's instruction set: opcodes, the words of a table row, activation kinds. No Numba is needed to import
this.

A program is a table of rows, each ROW int64 words. An operand is three words: a region, an offset in bytes, and the bytes from
one sample to the next. Regions: SCRATCH (the offset is that of one row; a tile of m rows has its buffers at m times the
offset), ARENA (the packed weights), then one a graph input, then one a graph output.
"""

from __future__ import annotations

from typing import Final

ROW: Final = 48
SCRATCH: Final = 0
ARENA: Final = 1
FIRST_INPUT: Final = 2

# words of a row
OPCODE: Final = 0
ACTIVATION: Final = 1  # its number in KINDS; 0: none
PARAMETERS: Final = 2  # two words: up to four float32
WEIGHTS: Final = 4  # offset in the arena, bytes
OUT: Final = 5  # operands: region, offset, stride
A: Final = 8
B: Final = 11
SIZES: Final = 14  # what the opcode says
MORE: Final = 24  # up to eight further operands

# opcodes. "inner" counts the vectors of a sample that one row of weights is applied to (1 unless the sample has leading axes)
#: sizes: n_in, n_out, inner, exact (1: nothing beyond n_out may be written; B is then working space, a group of panels wide and
#: some rows long)
DENSE: Final = 0
#: sizes: n_in, n_out, inner, exact, bytes from a sample's start to its first output here. Few outputs: one dot product each
DOTS: Final = 1
MAP: Final = 2  # sizes: n. out = activation(a), n floats a sample
COPY: Final = 3  # out = a in another arrangement: a walk (below) is in the arena at WEIGHTS
BINARY: Final = 4  # sizes: place in BINARIES. out = a ∘ b with broadcasting: a walk in the arena
SOFTMAX: Final = 5  # sizes: outer, n, form (below); along the last axis
NORM: Final = (
    6  # sizes: outer, n, center (0: root mean square alone); parameters: epsilon. (a - mean) / sqrt(variance + epsilon)
)
REDUCE: Final = 7  # sizes: outer, n, place in REDUCTIONS; along the last axis
GATHER: Final = 8  # sizes: indices a sample, bytes of an entry, entries, dtype (place in INDEX_DTYPES), number for errors
CONV: Final = 9  # sizes: where in the arena its description is (pack_images.py). a: the image, b: room for a padded one
WINDOW: Final = 10  # sizes: the same. Depthwise convolution and pooling: each channel by itself
CELL: Final = 11  # a recurrent layer (cells.py). a: the sequence, b: working space, more operands: h, c, previous output, mask,
# next h, next c. sizes: place in CELLS, steps, n_in, units, steps projected at once, flags, the gates' activation, offsets
# behind WEIGHTS of the kernel, of the recurrent kernel, of what else the cell has. At WEIGHTS: both activations' parameters

#: Products of two values. a: the left one, b: the right one's panels without gaps between matrices, one operand more: working
#: space as for DENSE. sizes: n_in, n_out, rows, matrices of a, bytes from row to row and from matrix to matrix of a, the same
#: of out, bytes of a matrix of b, how many of a take the same one of b
MATMUL: Final = 12

#: A walk: how an op goes through its arrays. WALK int64 words: 4 lengths, then for out, a and b 4 strides and a start, in bytes
WALK: Final = 4 + 3 * 5

ARITHMETIC: Final = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
COMPARISONS: Final = ("less", "less_equal", "equal", "not_equal")  # results: all 32 bits or none
#: bit by bit (and_not: b where a's aren't set) · differs: whether any bit does
BINARIES: Final = (*ARITHMETIC, *COMPARISONS, "and", "and_not", "or", "xor", "differs")
#: what argmax and argmin give is an int32
REDUCTIONS: Final = ("sum", "mean", "max", "min", "prod", "any", "argmax", "argmin")
INDEX_DTYPES: Final = ("float32", "int32", "int64")
PLAIN, LOG, ATTENTION = range(3)  # forms of SOFTMAX
WEIGHTED, MAXIMUM, MEAN = range(3)  # kinds of WINDOW
CELLS: Final = ("simple", "lstm", "gru", "gru_after")
#: flags of CELL: y of all steps · from the last step · some steps don't count, and give the state, or zeros (else y as before)
#: · which operands there are
SEQUENCE, BACKWARDS, MASKED, MASKED_STATE, MASKED_ZERO, STATES, PREVIOUS, Y, NEXT_H, NEXT_C = (1 << k for k in range(10))
BYTES: Final = 1 << 10  # the mask is one of bytes, else of 32 bits each

#: elementwise kinds of npinfer.ops.activations, then of npinfer.ops.arithmetic's Unary, that have a compiled form; the number
#: in a table row is the place here
KINDS: Final = (
    "linear", "relu", "tanh", "sigmoid", "relu_max", "leaky_relu", "relu_general", "thresholded_relu", "elu", "selu", "celu",
    "gelu", "gelu_tanh", "hard_sigmoid", "hard_sigmoid_k2", "silu", "hard_silu", "softplus", "softsign", "exponential", "mish",
    "log_sigmoid", "hard_shrink", "soft_shrink", "tanh_shrink", "squareplus", "hard_tanh", "sparse_plus", "sparse_sigmoid",
    "threshold", "erf",
    "sin", "cos", "log", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round", "sign",
)  # fmt: skip

RELU: Final = KINDS.index("relu")
SIN: Final = KINDS.index("sin")
COS: Final = KINDS.index("cos")
GROUP: Final = 4  # panels of 16 outputs that go together at most
PRECISE: Final = 2  # outputs up to which products are summed in float64
FLOAT: Final = 4  # bytes
LINE: Final = 64  # bytes of a vector
