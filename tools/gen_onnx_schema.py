#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes engine/onnx/schema.inc: the operators of ai.onnx with their attributes, from the PyPI package `onnx`.

The import needs it to tell an attribute of the wrong type or name, and an operator that ONNX has from one it has not,
for all operators and not only for those that the engine has a row for.
"""
import pathlib

from onnx import defs

LETTERS = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "FLOATS": "F", "INTS": "I",
           "STRINGS": "S", "SPARSE_TENSOR": "p", "TYPE_PROTO": "y"}


def main():
    first, attributes = {}, {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain:
            continue
        name = schema.name
        first[name] = min(first.get(name, 999), schema.since_version)
        kinds = attributes.setdefault(name, {})
        for attribute in schema.attributes.values():
            kinds.setdefault(attribute.name, set()).add(LETTERS[attribute.type.name])
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Written by tools/gen_onnx_schema.py. ONNX_OP(name, first opset, attributes): each attribute is its name, a colon and",
        "// its type over all opsets: f i s t g (float, int, string, tensor, graph), capitals for lists, p sparse, y type.",
        f"#define ONNX_NEWEST_OPSET {defs.onnx_opset_version()}",
    ]
    for name in sorted(first):
        text = " ".join(f"{key}:{''.join(sorted(kinds))}" for key, kinds in sorted(attributes[name].items()))
        lines.append(f'ONNX_OP("{name}", {first[name]}, "{text}")')
    path = pathlib.Path(__file__).resolve().parent.parent / "engine/onnx/schema.inc"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
