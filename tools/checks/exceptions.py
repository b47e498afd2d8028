#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the engine is linked without exceptions and run-time type information: no symbol of the unwinder or of
throwing and catching in the native library, none in the web module, and no such instruction there."""
import re
import subprocess

from common import finish, need
from wasm import read_module

SYMBOL = re.compile(r"_Unwind_\w+|__cxa_(?:throw|rethrow|allocate_exception|begin_catch|end_catch|get_exception_ptr|bad_cast)"
                    r"|__gxx_(?:personality|wasm_personality)_\w+|__dynamic_cast")
OPCODES = {(0x06,): "try", (0x07,): "catch", (0x08,): "throw", (0x09,): "rethrow", (0x0A,): "throw_ref", (0x1F,): "try_table"}


def native_findings(library):
    listing = subprocess.run(["llvm-nm-19", "--just-symbol-name", "--print-file-name", library], capture_output=True, check=True,
                             text=True).stdout
    found = set()
    for line in listing.splitlines():
        place, _, symbol = line.rpartition(" ")
        if SYMBOL.fullmatch(symbol) or symbol.startswith("_ZTI"):
            found.add(f"{place.removeprefix(str(library) + ':').rstrip(':')} refers to {symbol}")
    return sorted(found)


def web_findings(path):
    module = read_module(path.read_bytes())
    names = [entry.name for entry in module.imports] + list(module.names.values())
    problems = [f"{path.name} holds {name}" for name in names if SYMBOL.fullmatch(name.split("(")[0])]
    for instruction in module.instructions():
        if instruction.opcode in OPCODES:
            problems.append(f"{path.name}: {module.function_name(instruction.function)} contains {OPCODES[instruction.opcode]}")
    return problems


def main():
    library = need("build/native/libsinter.a", "run ./dev build native")
    modules = [need(f"build/web/{name}.names.wasm", "run ./dev build web") for name in ("sinter", "sinter-diag")]
    found = [problem for module in modules for problem in web_findings(module)]
    finish("exceptions", native_findings(library) + found, "native library and web modules")


if __name__ == "__main__":
    main()
