"""Numba makes the object file once a machine, llvmlite alone makes addresses of its bytes. Only compile_object imports Numba."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from npinfer.errors import EngineError, FormatError
from npinfer.executors.native.abi import Code
from npinfer.executors.native.objects import symbols

#: LLVM makes calls of these by itself, from plain loops and for big stack frames on Windows; it knows where they are
ALLOWED = frozenset({"memcpy", "memmove", "memset", "bzero", "__bzero", "__chkstk", "___chkstk_ms"})
EXPORTS = {"entry": 5, "run": 3, "vectorcall": 4}  # names and numbers of integer arguments


def cpu() -> tuple[str, str]:
    """Name and features of the CPU that is compiled for: this one, unless Numba's own variables say otherwise."""
    import llvmlite.binding as llvm

    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES", "" if name == "generic" else None)
    if features is None:
        try:
            features = llvm.get_host_cpu_features().flatten()
        except RuntimeError:  # LLVM can't tell on this system
            features = ""
    return name, features


def target_machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = cpu()
    triple = llvm.get_process_triple()
    static = triple.startswith(("x86_64", "i386", "i686", "amd64"))  # as Numba: 32-bit relocations can't be used elsewhere
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=name, features=features, opt=3, reloc="static" if static else "default", codemodel="jitdefault", jit=True
    )


def compile_object(functions: dict[str, Callable[..., int]] | None = None) -> bytes:
    """The object file that defines `npinfer_<name>` for each name of EXPORTS, and needs no symbol beyond ALLOWED.

    functions: Python functions of integers by these names, for Numba to compile; the engine's own if not given. Takes
    seconds. Raises EngineError.
    """
    try:
        import numba
    except Exception as e:  # also what an installed but incompatible one raises
        reason = f"Numba can't be imported ({e}); pip install numba"
        raise EngineError(f"the native engine has to be compiled once on this machine: {reason}") from None
    import llvmlite.binding as llvm

    if functions is None:
        from npinfer.executors.native import call

        functions = {"entry": call.c_entry, "run": call.c_run, "vectorcall": call.vectorcall}
    whole: Any = None
    exported = {}
    for name, function in functions.items():
        c = numba.cfunc(f"intp({', '.join(['intp'] * EXPORTS[name])})", error_model="numpy")(function)
        exported[c.native_name] = f"npinfer_{name}"
        module = llvm.parse_assembly(c.inspect_llvm())
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    # With all else private, LLVM sees that no call can fail, and what Numba wrote for errors (Python's symbols) disappears.
    for value in [*whole.functions, *whole.global_variables]:
        if value.name in exported:
            value.name, value.linkage = exported[value.name], "external"
        elif not value.is_declaration:
            value.linkage = "internal"
    machine = target_machine()
    _optimize(whole, machine)
    whole.verify()
    code: bytes = machine.emit_object(whole)
    defined, needed = symbols(code)
    unknown = needed - ALLOWED
    if unknown or not defined >= set(exported.values()):
        raise EngineError(f"the compiled engine needs symbols of others: {', '.join(sorted(unknown))}; please report this")
    return code


def _optimize(module: Any, machine: Any) -> None:
    import llvmlite.binding as llvm

    if hasattr(llvm, "create_pass_builder"):
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
        builder.getModulePassManager().run(module, builder)
    else:
        options = llvm.create_pass_manager_builder()
        options.opt_level, options.inlining_threshold = 3, 225
        passes = llvm.create_module_pass_manager()
        machine.add_analysis_passes(passes)
        options.populate(passes)
        passes.run(module)


def load_object(code: bytes) -> Code:
    """Addresses of the functions in an object file that compile_object made (its checksum was verified). Raises FormatError."""
    import llvmlite.binding as llvm

    defined, needed = symbols(code)
    names = [f"npinfer_{name}" for name in EXPORTS]
    if needed - ALLOWED or not defined >= set(names) or not all(llvm.address_of_symbol(n) for n in needed):
        raise FormatError("machine code: needs or lacks other symbols than it should")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    addresses = [engine.get_function_address(name) for name in names]
    engine.detach()  # from now on nothing frees it: objects may call into it until the very end of the process
    return Code(*addresses)
