#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes engine/codegen/signatures.inc: the newest form of every operator of ai.onnx, from the PyPI package `onnx`.

The C++ tensor API has a function for each operator of the engine's table; the names and types of its parameters are here.
All of ONNX is listed, so that a row added to the table needs nothing else to become reachable.
"""
import pathlib
import re

from onnx import defs

LETTERS = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "FLOATS": "F", "INTS": "I",
           "STRINGS": "S", "SPARSE_TENSOR": "p", "TYPE_PROTO": "y", "TENSORS": "T", "GRAPHS": "G"}
MARKS = {"Single": "", "Optional": "?", "Variadic": "*"}


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def values(parameters):
    return " ".join(snake(p.name) + MARKS[p.option.name] for p in parameters)


def main():
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Written by tools/gen_signatures.py. SIGNATURE(name, inputs, outputs, attributes) in the newest form of each operator:",
        "// '?' marks an optional value, '*' a variadic one; an attribute is its name, a colon and its type, as in",
        "// engine/onnx/schema.inc.",
    ]
    for schema in sorted((s for s in defs.get_all_schemas() if not s.domain), key=lambda s: s.name):
        attributes = " ".join(f"{a.name}:{LETTERS[a.type.name]}" for _, a in sorted(schema.attributes.items()))
        lines.append(f'SIGNATURE("{schema.name}", "{values(schema.inputs)}", "{values(schema.outputs)}", "{attributes}")')
    path = pathlib.Path(__file__).resolve().parent.parent / "engine/codegen/signatures.inc"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
