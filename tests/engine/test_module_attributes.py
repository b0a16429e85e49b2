"""The built module asks the loader for the protection that Linux offers."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import pytest
from vecall import _core

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_STRTAB, DT_STRSZ, DT_TEXTREL, DT_BIND_NOW, DT_FLAGS = 5, 10, 22, 24, 30
DT_FLAGS_1 = 0x6FFFFFFB
FLAG_TEXTREL, FLAG_BIND_NOW, FLAG_1_NOW = 4, 8, 1
WRITABLE, EXECUTABLE = 2, 1


class Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    size: int
    memory: int
    align: int


class Elf:
    """What a loader reads of a 64-bit little-endian ELF file."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            pytest.skip("the module is no 64-bit little-endian ELF file")
        (start,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        self.segments = [
            Segment(*struct.unpack_from("<IIQQQQQQ", data, start + i * size))
            for i in range(count)
        ]
        (dynamic,) = self.of(PT_DYNAMIC)
        section = data[dynamic.offset :][: dynamic.size]
        self.entries = dict(struct.iter_unpack("<QQ", section))
        names = self.entries[DT_STRTAB]
        holder = next(s for s in self.of(PT_LOAD) if 0 <= names - s.address < s.size)
        begin = holder.offset + names - holder.address
        strings = data[begin : begin + self.entries[DT_STRSZ]]
        self.names = set(strings.split(b"\0"))

    def of(self, kind: int) -> list[Segment]:
        return [one for one in self.segments if one.kind == kind]


@pytest.fixture(scope="module")
def module() -> Elf:
    return Elf(Path(_core.__file__).read_bytes())


def test_tables_of_addresses_are_read_only_once_the_module_is_loaded(module):
    flags, flags_1 = (module.entries.get(tag, 0) for tag in (DT_FLAGS, DT_FLAGS_1))
    at_once = DT_BIND_NOW in module.entries or flags & FLAG_BIND_NOW
    assert at_once or flags_1 & FLAG_1_NOW, "symbols are bound one by one"
    (relro,) = module.of(PT_GNU_RELRO)
    assert relro.memory > 0


def test_no_memory_of_the_module_is_both_written_and_executed(module):
    (stack,) = module.of(PT_GNU_STACK)
    for segment in (stack, *module.of(PT_LOAD)):
        assert not (segment.flags & WRITABLE and segment.flags & EXECUTABLE)
    assert DT_TEXTREL not in module.entries
    assert not module.entries.get(DT_FLAGS, 0) & FLAG_TEXTREL


def test_functions_look_for_an_overflow_of_their_stack(module):
    assert b"__stack_chk_fail" in module.names
