# SPDX-License-Identifier: Apache-2.0
"""A small reader of WebAssembly modules: sections, imports, exports, memories, names, and every instruction of every body.

It knows the opcodes of the finished proposals that clang emits (MVP, sign extension, saturating conversions, bulk memory,
reference types, multi-value, tail calls, exceptions, SIMD, relaxed SIMD, threads) and fails on any other, so that nothing
can hide behind an instruction that it skipped.
"""
import dataclasses


class BadModule(Exception):
    pass


class Reader:
    def __init__(self, data, start=0, end=None):
        self.data, self.at, self.end = data, start, len(data) if end is None else end

    def byte(self):
        if self.at >= self.end:
            raise BadModule(f"module ends inside a value at byte {self.at}")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self):
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << shift
            shift += 7
            if part < 0x80:
                return value

    def skip_leb(self):
        while self.byte() >= 0x80:
            pass

    def take(self, count):
        if self.at + count > self.end:
            raise BadModule(f"module ends inside {count} bytes at byte {self.at}")
        self.at += count
        return self.data[self.at - count:self.at]

    def name(self):
        return self.take(self.unsigned()).decode()


@dataclasses.dataclass
class Memory:
    shared: bool
    minimum: int
    maximum: int | None


@dataclasses.dataclass
class Import:
    module: str
    name: str
    kind: str


@dataclasses.dataclass
class Instruction:
    function: int  # index in the function space, imports first
    opcode: tuple  # (code,) or (prefix, code)


@dataclasses.dataclass
class Module:
    imports: list = dataclasses.field(default_factory=list)
    exports: dict = dataclasses.field(default_factory=dict)  # name: (kind, index)
    memories: list = dataclasses.field(default_factory=list)
    names: dict = dataclasses.field(default_factory=dict)  # function index: name
    bodies: list = dataclasses.field(default_factory=list)  # (function index, Reader)
    section_bytes: dict = dataclasses.field(default_factory=dict)

    def imported_functions(self):
        return [entry for entry in self.imports if entry.kind == "func"]

    def function_name(self, index):
        return self.names.get(index, f"function {index}")

    def instructions(self):
        for function, body in self.bodies:
            yield from walk(function, Reader(body.data, body.at, body.end))


KINDS = ["func", "table", "memory", "global", "tag"]


def read_limits(reader):
    flags = reader.byte()
    return Memory(bool(flags & 2), reader.unsigned(), reader.unsigned() if flags & 1 else None)


def read_module(data):
    if data[:8] != b"\0asm\1\0\0\0":
        raise BadModule("no WebAssembly header")
    module, reader = Module(), Reader(data, 8)
    while reader.at < reader.end:
        kind = reader.byte()
        size = reader.unsigned()
        section = Reader(data, reader.at, reader.at + size)
        reader.take(size)
        if kind == 0:
            label = section.name()
            if label == "name":
                read_names(module, section)
        else:
            label = str(kind)
        module.section_bytes[label] = module.section_bytes.get(label, 0) + size
        if kind == 2:
            read_imports(module, section)
        elif kind == 5:
            module.memories += [read_limits(section) for _ in range(section.unsigned())]
        elif kind == 7:
            for _ in range(section.unsigned()):
                name = section.name()
                module.exports[name] = (KINDS[section.byte()], section.unsigned())
        elif kind == 10:
            first = len(module.imported_functions())
            for index in range(section.unsigned()):
                size = section.unsigned()
                module.bodies.append((first + index, Reader(data, section.at, section.at + size)))
                section.take(size)
    return module


def read_imports(module, section):
    for _ in range(section.unsigned()):
        entry = Import(section.name(), section.name(), KINDS[section.byte()])
        if entry.kind == "func":
            section.unsigned()
        elif entry.kind == "table":
            section.byte()
            read_limits(section)
        elif entry.kind == "memory":
            module.memories.append(read_limits(section))
        elif entry.kind == "global":
            section.take(2)
        else:
            section.byte()
            section.unsigned()
        module.imports.append(entry)


def read_names(module, section):
    while section.at < section.end:
        kind, size = section.byte(), section.unsigned()
        part = Reader(section.data, section.at, section.at + size)
        section.take(size)
        if kind == 1:
            for _ in range(part.unsigned()):
                index = part.unsigned()
                module.names[index] = part.name()


# What follows an opcode: b block type, i one LEB number, m memory argument, l lane byte, k 16 bytes, 4/8 raw bytes,
# t br_table, s typed select, c catch list. Opcodes that are absent here are unknown.
PLAIN = {0x00: "", 0x01: "", 0x02: "b", 0x03: "b", 0x04: "b", 0x05: "", 0x06: "b", 0x07: "i", 0x08: "i", 0x09: "i", 0x0A: "",
         0x0B: "", 0x0C: "i", 0x0D: "i", 0x0E: "t", 0x0F: "", 0x10: "i", 0x11: "ii", 0x12: "i", 0x13: "ii", 0x18: "i", 0x19: "",
         0x1A: "", 0x1B: "", 0x1C: "s", 0x1F: "bc", 0x20: "i", 0x21: "i", 0x22: "i", 0x23: "i", 0x24: "i", 0x25: "i", 0x26: "i",
         0x3F: "i", 0x40: "i", 0x41: "i", 0x42: "i", 0x43: "4", 0x44: "8", 0xD0: "i", 0xD1: "", 0xD2: "i"}
PLAIN |= {code: "m" for code in range(0x28, 0x3F)} | {code: "" for code in range(0x45, 0xC5)}
BULK = {code: "" for code in range(8)} | {8: "ii", 9: "i", 10: "ii", 11: "i", 12: "ii", 13: "i", 14: "ii", 15: "i", 16: "i", 17: "i"}
SIMD = {code: "" for code in range(0x100)} | {code: "m" for code in (*range(12), 0x5C, 0x5D)}
SIMD |= {12: "k", 13: "k"} | {code: "l" for code in range(0x15, 0x23)} | {code: "ml" for code in range(0x54, 0x5C)}
SIMD |= {code: "" for code in range(0x100, 0x114)}
ATOMIC = {0x00: "m", 0x01: "m", 0x02: "m", 0x03: "l"} | {code: "m" for code in range(0x10, 0x4F)}
PREFIXED = {0xFC: BULK, 0xFD: SIMD, 0xFE: ATOMIC}


def skip_memory_argument(reader):
    if reader.unsigned() & 0x40:  # multi-memory: an index follows
        reader.unsigned()
    reader.unsigned()


def skip_operands(reader, operands):
    for operand in operands:
        if operand in "bi":
            reader.skip_leb()
        elif operand == "m":
            skip_memory_argument(reader)
        elif operand == "l":
            reader.byte()
        elif operand in "48":
            reader.take(int(operand))
        elif operand == "k":
            reader.take(16)
        elif operand == "t":
            for _ in range(reader.unsigned() + 1):
                reader.unsigned()
        elif operand == "s":
            reader.take(reader.unsigned())
        elif operand == "c":
            for _ in range(reader.unsigned()):
                if reader.byte() < 2:
                    reader.unsigned()
                reader.unsigned()


def walk(function, reader):
    for _ in range(reader.unsigned()):  # locals: count, type
        reader.unsigned()
        reader.byte()
    while reader.at < reader.end:
        start = reader.at
        code = reader.byte()
        if code in PREFIXED:
            opcode = (code, reader.unsigned())
            operands = PREFIXED[code].get(opcode[1])
        else:
            opcode = (code,)
            operands = PLAIN.get(code)
        if operands is None:
            shown = " ".join(f"0x{part:02x}" for part in opcode)
            raise BadModule(f"unknown instruction {shown} in function {function} at byte {start}")
        skip_operands(reader, operands)
        yield Instruction(function, opcode)
