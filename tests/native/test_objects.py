"""Object files: the symbols they need are found out before they are kept."""

from __future__ import annotations

import os
from typing import Any

import pytest

from npinfer.errors import EngineError, FormatError
from npinfer.executors.native import build
from npinfer.executors.native.objects import symbols

TRIPLES = (
    "x86_64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "arm64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "aarch64-linux-gnu",
)
TEXT = """
declare i64 @a_function_with_a_long_name(i64)
declare i64 @short(i64)
define internal i64 @hidden(i64 %x) noinline { ret i64 %x }
define i64 @npinfer_entry(i64 %x) {
  %a = call i64 @a_function_with_a_long_name(i64 %x)
  %b = call i64 @short(i64 %a)
  %c = call i64 @hidden(i64 %b)
  ret i64 %c
}
"""


@pytest.mark.parametrize("triple", TRIPLES)
def test_symbols_of_object_files(triple: str) -> None:
    import llvmlite.binding as llvm

    for start in ("initialize_all_targets", "initialize_all_asmprinters"):
        getattr(llvm, start)()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        return  # this llvmlite makes code for its own machine only
    data = target.create_target_machine().emit_object(llvm.parse_assembly(f'target triple = "{triple}"\n{TEXT}'))
    defined, needed = symbols(data)
    assert needed == {"a_function_with_a_long_name", "short"}
    assert "npinfer_entry" in defined
    for n in range(0, len(data), 7):
        try:
            symbols(data[:n])
        except FormatError:
            continue


def test_no_object_file() -> None:
    for data in (b"", b"MZ", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\x64\x86", os.urandom(1000)):
        with pytest.raises(FormatError):
            symbols(data)


def test_code_that_needs_others_is_not_kept() -> None:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    from npinfer.executors.native.vector import jit

    @intrinsic
    def outside(context: Any, x: Any) -> Any:
        def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
            return b.call(ir.Function(b.module, ir.FunctionType(args[0].type, [args[0].type]), "getpid"), args)

        return types.intp(types.intp), codegen

    @jit
    def entry(ctx: Any, ins: Any, outs: Any, rows: Any, scratch: Any) -> Any:
        return outside(rows)

    with pytest.raises(EngineError, match="getpid"):
        build.compile_object(entry)
