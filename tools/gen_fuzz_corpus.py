#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/corpus/onnx_fuzz: small models that the fuzzer of the ONNX reader starts from.

One ONNX node test per operator (the package `onnx`, Apache-2.0), and a few files for parts of the format that those lack.
"""
import pathlib

import onnx
from onnx import TensorProto, helper
from onnx.backend.test.case.node import collect_testcases

OPERATORS = """Add AveragePool BatchNormalization Cast Clip Concat Constant ConstantOfShape Conv Div Dropout Equal Expand Flatten Gather
Gemm GlobalAveragePool Identity If LogSoftmax MatMul MaxPool Mul Pad ReduceMean ReduceSum Relu Reshape Resize Shape Sigmoid Slice
Softmax Split Squeeze Sub Tile Transpose Unsqueeze Where""".split()


def node_tests():
    wanted = set(OPERATORS)
    for case in sorted(collect_testcases(None), key=lambda case: case.name):
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        operator = case.model.graph.node[0].op_type
        if operator in wanted and len(case.model.SerializeToString()) < 2000:
            wanted.discard(operator)
            yield case.name.removeprefix("test_"), case.model


def model(nodes, opset, initializers=(), inputs=None, **kwargs):
    inputs = inputs or [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7, **kwargs)


def own():
    yield "clip6", model([helper.make_node("Clip", ["x"], ["y"], min=0.0, max=6.0)], 7)
    yield "softmax12", model([helper.make_node("Softmax", ["x"], ["y"], axis=1)], 12)
    yield "slice9", model([helper.make_node("Slice", ["x"], ["y"], axes=[1], starts=[0], ends=[2])], 9)
    yield "upsample9", model([helper.make_node("Upsample", ["x", "s"], ["y"])], 9,
                             [helper.make_tensor("s", TensorProto.FLOAT, [3], [1.0, 2.0, 2.0])])
    typed = [helper.make_tensor(f"t{kind}", kind, [2], [0, 1]) for kind in (1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 16)]
    yield "typed_data", model([helper.make_node("Relu", ["x"], ["y"])], 13, typed)
    outside = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", "8"), ("length", "16")):
        outside.external_data.add(key=key, value=value)
    yield "external", model([helper.make_node("Add", ["x", "w"], ["y"])], 13, [outside])
    constants = [helper.make_node("Constant", [], [f"c{i}"], **{key: value}) for i, (key, value) in enumerate(
        [("value_int", 1), ("value_ints", [1, 2]), ("value_float", 0.5), ("value_floats", [1.0]), ("value_string", "s")])]
    yield "constants", model([*constants, helper.make_node("Relu", ["x"], ["y"])], 13)
    function = helper.make_function("local", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
                                    [helper.make_opsetid("", 13)])
    yield "function", model([helper.make_node("F", ["x"], ["y"], domain="local")], 13, functions=[function])


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests/corpus/onnx_fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    for name, proto in [*node_tests(), *own()]:
        onnx.save(proto, folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
