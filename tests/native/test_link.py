"""Images: code that runs without a loader computes the same, and whatever the linker doesn't know is refused."""

from __future__ import annotations

import ctypes
import io
import struct
from pathlib import Path
from typing import Any

import pytest
import standin

from npinfer.errors import FormatError
from npinfer.executors.native import build, link

pytestmark = pytest.mark.skipif(link.cpu() is None, reason="images are for Linux on 64-bit x86")

#: a table of constants, a call between functions, memcpy, memmove and memset by name, a jump table
TEXT = """
@table = internal constant [4 x i64] [i64 7, i64 11, i64 13, i64 17]
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memmove(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
define internal i64 @pick(i64 %k) noinline {
  %p = getelementptr [4 x i64], ptr @table, i64 0, i64 %k
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @npinfer_entry(i64 %k) {
  %v = call i64 @pick(i64 %k)
  ret i64 %v
}
define i64 @npinfer_run(ptr %to, ptr %from, i64 %n) {
  %a = call ptr @memcpy(ptr %to, ptr %from, i64 %n)
  %after = getelementptr i8, ptr %to, i64 1
  %b = call ptr @memmove(ptr %after, ptr %to, i64 %n)
  %c = call ptr @memset(ptr %to, i32 42, i64 2)
  ret i64 %n
}
define i64 @npinfer_vectorcall(i64 %k) {
  switch i64 %k, label %other [ i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e ]
a:
  ret i64 5
b:
  %x = call i64 @pick(i64 3)
  ret i64 %x
c:
  ret i64 -1
d:
  %y = call i64 @pick(i64 0)
  ret i64 %y
e:
  ret i64 99
other:
  ret i64 0
}
"""


def compiled(text: str = TEXT, triple: str | None = None) -> bytes:
    import llvmlite.binding as llvm

    if triple is None:
        machine = build.target_machine(for_image=True)
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        machine = llvm.Target.from_triple(triple).create_target_machine(reloc="pic", codemodel="small")
    context = opaque_pointers()
    code: bytes = machine.emit_object(llvm.parse_assembly(text, context))
    return code


def opaque_pointers() -> Any:
    """A context for text with pointers of no type; None where all are so. llvmlite before 0.45 has to be told."""
    import llvmlite
    from llvmlite.binding import context, ffi

    if not hasattr(llvmlite, "opaque_pointers_enabled"):
        return None
    return context.ContextRef(ffi.lib.LLVMPY_ContextCreate(True))


def c_function(address: int, count: int) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64,) * count)(address)


def relocations(data: bytes) -> list[int]:
    """Where the relocations of sections that are loaded stand in an object file."""
    sections = link._sections(data)
    tables = [
        s for s in sections if s.kind == link.RELA and sections[s.info].name != ".eh_frame" and sections[s.info].flags & 2
    ]
    return [at for s in tables for at in range(s.offset, s.offset + s.size, 24)]


def test_an_image_computes() -> None:
    code = link.load(link.link(compiled()))
    assert [c_function(code.entry, 1)(k) for k in range(4)] == [7, 11, 13, 17]
    assert [c_function(code.vectorcall, 1)(k) for k in range(7)] == [5, 17, -1, 7, 99, 0, 0]
    source, target = ctypes.create_string_buffer(b"abcdefgh"), ctypes.create_string_buffer(16)
    assert c_function(code.run, 3)(ctypes.addressof(target), ctypes.addressof(source), 8) == 8
    assert target.raw[:10] == b"**bcdefgh\0"


def test_the_memory_is_executable_and_not_writable() -> None:
    code = link.load(link.link(compiled()))
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        bounds, rights = line.split()[:2]
        start, end = (int(n, 16) for n in bounds.split("-"))
        if start <= code.entry < end:
            assert rights == "r-xp"
            break
    else:
        pytest.fail("not mapped")


def test_every_other_relocation_is_refused() -> None:
    for data in (compiled(), standin.object_file(for_image=True)):
        places = relocations(data)
        assert places
        kinds = {struct.unpack_from("<I", data, at + 8)[0] for at in places}
        assert kinds <= set(link.DISTANCES)
        for kind in {*range(50), 2**31} - set(link.DISTANCES):
            changed = bytearray(data)
            struct.pack_into("<I", changed, places[-1] + 8, kind)
            with pytest.raises(FormatError, match=f"relocation of kind {kind} "):
                link.link(bytes(changed))


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [(0, "<Q", 2**40), (12, "<I", 2**30), (16, "<q", 2**40), (16, "<q", -(2**40))],
    ids=["place", "symbol", "far", "before"],
)
def test_relocations_that_lead_elsewhere_are_refused(offset: int, layout: str, value: int) -> None:
    data = compiled()
    for at in relocations(data):
        changed = bytearray(data)
        struct.pack_into(layout, changed, at + offset, value)
        with pytest.raises(FormatError):
            link.link(bytes(changed))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("@memset", "@getpid", "symbol 'getpid'"),
        ("internal constant", "internal global", "section .data"),
        (
            "internal constant [4 x i64] [i64 7",
            "internal constant [4 x i64] [i64 ptrtoint (ptr @npinfer_run to i64)",
            "data.rel.ro",
        ),
        ("internal constant", "internal thread_local global", "section .tdata"),
        ("@npinfer_run", "@npinfer_ran", "npinfer_run"),
        ("internal constant [4 x i64] [i64 7, i64 11, i64 13, i64 17]", "external constant [4 x i64]", "relocation of kind"),
    ],
    ids=["function", "data", "address", "thread", "missing", "outside"],
)
def test_code_that_is_more_than_an_image_is_refused(old: str, new: str, match: str) -> None:
    with pytest.raises(FormatError, match=match):
        link.link(compiled(TEXT.replace(old, new)))


@pytest.mark.parametrize("triple", ["arm64-apple-darwin", "x86_64-apple-darwin", "x86_64-pc-windows-msvc", "aarch64-linux-gnu"])
def test_other_systems_files_are_refused(triple: str) -> None:
    try:
        data = compiled(TEXT, triple)
    except RuntimeError:
        return  # this llvmlite makes code for its own machine only
    with pytest.raises(FormatError, match="not of 64-bit x86"):
        link.link(data)


def test_damaged_object_files_are_refused() -> None:
    data = compiled()
    for n in range(0, len(data), 5):
        with pytest.raises(FormatError):
            link.link(data[:n])


def test_what_is_no_image_is_not_loaded() -> None:
    image = link.link(compiled())
    start = link.START
    for bad in (
        b"",
        image[:start],
        struct.pack("<3Q", 0, start, start) + image[24:],
        struct.pack("<Q", len(image)) + image[8:],
    ):
        with pytest.raises(FormatError):
            link.load(bad)


def test_the_cpu_is_what_linux_says(monkeypatch: pytest.MonkeyPatch) -> None:
    known = link.cpu()
    assert known is not None
    assert "sse2" in known[1]
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+sse2")
    other = link.cpu()
    assert other is not None
    assert other[1] != known[1]
    monkeypatch.setattr("sys.platform", "freebsd")
    assert link.cpu() is None


@pytest.mark.parametrize("text", ["", "flags\t: fpu sse2", "flags\t: fpu sse2\n", "flags\t: fpu sse2\n\nflags\t: none\n\n"])
def test_what_linux_says_may_end_anywhere(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes show less of /proc than Linux does."""
    monkeypatch.setattr(link, "open", lambda *_, **__: io.StringIO(text), raising=False)
    found = link.cpu()
    assert (found is None) == (text == "")
    assert found is None or "fpu sse2" in found[1]
