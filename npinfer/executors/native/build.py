"""Numba and LLVM make the object file once a machine. link.py makes an image of it, which needs neither afterwards; where that
can't be, llvmlite alone loads the object file. Only `compile_object` imports Numba."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


def target_machine(for_image: bool = False) -> Any:
    """LLVM's code generator; for images (link.py) all code must be within 2 GB and refer to its parts by distance."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = cpu()
    triple = llvm.get_process_triple()
    static = triple.startswith(("x86_64", "i386", "i686", "amd64"))  # as Numba: 32-bit relocations can't be used elsewhere
    options: dict[str, Any] = {"reloc": "static" if static else "default", "codemodel": "jitdefault", "jit": True}
    if for_image:
        options = {"reloc": "pic", "codemodel": "small"}
    return llvm.Target.from_triple(triple).create_target_machine(cpu=name, features=features, opt=3, **options)


def depends() -> tuple[str, ...]:
    """What object files depend on beside the sources. Raises ImportError where there is no llvmlite."""
    import llvmlite
    import llvmlite.binding as llvm

    return llvmlite.__version__, llvm.get_process_triple(), *cpu()


def compile_object(entry: Any = None, for_image: bool = False) -> bytes:
    """The object file that defines `npinfer_<name>` for each name of EXPORTS, and needs no symbol beyond ALLOWED.

    entry: a jitted function in place of the engine's own. for_image: see target_machine. Takes many seconds. Raises
    EngineError.
    """
    try:
        import numba

        reason = "unset NUMBA_DISABLE_JIT" if numba.config.DISABLE_JIT else None
    except Exception as e:  # also what an installed but incompatible one raises
        reason = f"Numba can't be imported ({e}); pip install numba"
    if reason:
        raise EngineError(f"the native engine has to be compiled once on this machine: {reason}")
    import llvmlite.binding as llvm

    from npinfer.executors.native import call

    if entry is None:
        from npinfer.executors.native.entry import entry
    whole = llvm.parse_assembly(c_functions({"entry": entry}).get_llvm_str())
    whole.link_in(llvm.parse_assembly(c_functions({"run": call.run, "vectorcall": call.vectorcall}).get_llvm_str()))
    names = {f"npinfer_{name}" for name in EXPORTS}
    for value in [*whole.functions, *whole.global_variables]:
        if not value.is_declaration and value.name not in names:
            value.linkage = "internal"
    machine = target_machine(for_image)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(whole, builder)
    whole.verify()
    code: bytes = machine.emit_object(whole)
    defined, needed = symbols(code)
    if needed - ALLOWED or not defined >= names:
        unknown = ", ".join(sorted(needed - ALLOWED))
        raise EngineError(f"the compiled engine needs symbols of others: {unknown}; please report this")
    return code


def c_functions(functions: dict[str, Any]) -> Any:
    """Numba's library with C functions `npinfer_<name>` of as many integers as EXPORTS says, around jitted ones.

    Numba's own `cfunc` would refer to Python's symbols to report exceptions. There are none here: these functions are compiled
    with error_model="numpy", raise nothing and touch no object.
    """
    from llvmlite import ir
    from numba import types
    from numba.core.compiler_lock import global_compiler_lock

    word = ir.IntType(64)
    with global_compiler_lock, _front_end_only():
        library: Any = None
        for name, jitted in functions.items():
            parameters = (types.intp,) * EXPORTS[name]
            jitted.compile(parameters)
            compiled = jitted.overloads[parameters]
            if library is None:
                library = compiled.library.codegen.create_library("npinfer")
                module = library.create_ir_module("npinfer")
            kind = ir.FunctionType(word, [word] * len(parameters))
            symbol = f"npinfer_{name}"
            function = module.globals.get(symbol) or ir.Function(module, kind, symbol)
            builder = ir.IRBuilder(function.append_basic_block())
            context = compiled.target_context
            inner = context.declare_function(module, compiled.fndesc)
            _, result = context.call_conv.call_function(builder, inner, types.intp, parameters, function.args)
            builder.ret(result)
            library.add_linking_library(compiled.library)
        library.add_ir_module(module)
        library.finalize()
        return library


@contextmanager
def _front_end_only() -> Iterator[None]:
    """Numba without its second half: no optimisation and no machine code of single functions, which it would make again for
    each caller; the whole is optimised and translated once, at the end: a third of the time. Only under the compiler lock,
    so that nobody else's code is compiled meanwhile. The single functions can't be called from Python afterwards: that raises
    MemoryError (they have no other callers than each other).
    """
    import ctypes

    from numba import _dynfunc
    from numba.core import config
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
    from numba.core.cpu import CPUContext

    refuse = ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value

    def executable(self: Any, library: Any, fndesc: Any, env: Any) -> Any:
        return _dynfunc.make_function(fndesc.lookup_module(), fndesc.qualname.split(".")[-1], "", refuse, env, (library,))

    replaced: list[tuple[Any, str, Any]] = [
        (config, "OPT", type(config.OPT)(0)),
        (JITCPUCodegen, "_add_module", lambda self, module: None),  # or the next function compiled by anyone translates it
        (JITCodeLibrary, "_finalize_specific", lambda self: None),
        (CPUContext, "get_executable", executable),
    ]
    if not all(hasattr(owner, name) for owner, name, _ in replaced):  # another Numba inside: slower, but as right
        replaced = []
    before = [getattr(owner, name) for owner, name, _ in replaced]
    try:
        for owner, name, value in replaced:
            setattr(owner, name, value)
        yield
    finally:
        for (owner, name, _), value in zip(replaced, before):
            setattr(owner, name, value)


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
