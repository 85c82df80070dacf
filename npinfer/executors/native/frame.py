"""What every opcode's function starts from: operands of a row as addresses."""

from __future__ import annotations

from npinfer.executors.native.opcodes import SCRATCH
from npinfer.executors.native.vector import i64_at, jit


@jit
def operand(row, word, frame, m):
    """(address of the first sample, bytes to the next) of the operand at a word of the row, in a tile of m samples."""
    region = i64_at(row, word)
    offset = i64_at(row, word + 1)
    if region == SCRATCH:
        offset *= m
    return i64_at(frame, region) + offset, i64_at(row, word + 2)
