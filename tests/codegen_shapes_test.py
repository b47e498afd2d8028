#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shapes that are known only when a model runs: computed from the shapes of inputs, given as inputs, or computed from what
inputs hold. Each model is generated as C++ once, and one Model runs with several sizes. Its outputs must be those of the ONNX
file's session bit for bit, and those of ONNX Runtime.
"""
import sys
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/codegen"))
from programs import Program, backends, fresh  # noqa: E402

OUT = ROOT / "build/codegen_shapes"
F, I = TensorProto.FLOAT, TensorProto.INT64
random = np.random.default_rng(11)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, dtype=np.int64)


def number(value):
    return np.array(value, dtype=np.int64)


class Model:
    """Nodes as "output output = Op(input, input)" with attributes, and what their constants hold."""

    def __init__(self, inputs, outputs, nodes, constants=None, rounds=()):
        self.inputs, self.rounds = inputs, rounds
        made = []
        for line, *attributes in nodes:
            left, right = line.split(" = ")
            op, operands = right.rstrip(")").split("(")
            made.append(helper.make_node(op, operands.split(", "), left.split(", "), name=f"{op}_{len(made)}",
                                         **(attributes[0] if attributes else {})))
        values = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
        results = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()]
        kept = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
        self.proto = helper.make_model(helper.make_graph(made, "shapes", values, results, kept),
                                       opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


IMAGE = {"x": (F, ["n", "c", "h", "w"])}
MATRIX = {"x": (F, ["n", "m"])}
SEQUENCE = {"x": (F, ["batch", "time", 12])}


def of_image(*shapes):
    return [[floats(*shape)] for shape in shapes]


MODELS = {
    # Computed from the shapes of inputs.
    "gather_concat_reshape": Model(
        IMAGE, {"y": (F, ["n", None])},
        [("s = Shape(x)",), ("n = Gather(s, zero)", {"axis": 0}), ("t = Concat(n, rest)", {"axis": 0}), ("r = Relu(x)",),
         ("y = Reshape(r, t)",)],
        {"zero": ints(0), "rest": ints(-1)}, of_image((1, 3, 4, 5), (4, 3, 2, 2), (2, 8, 1, 7))),
    "scalar_gather_unsqueeze": Model(
        IMAGE, {"y": (F, [None, None, None])},
        [("s = Shape(x)",), ("n = Gather(s, zero)",), ("c = Gather(s, one)",), ("h = Gather(s, two)",), ("w = Gather(s, three)",),
         ("hw = Mul(h, w)",), ("n1 = Unsqueeze(n, axis)",), ("c1 = Unsqueeze(c, axis)",), ("hw1 = Unsqueeze(hw, axis)",),
         ("t = Concat(n1, hw1, c1)", {"axis": 0}), ("p = Transpose(x)", {"perm": [0, 2, 3, 1]}), ("y = Reshape(p, t)",)],
        {"zero": number(0), "one": number(1), "two": number(2), "three": number(3), "axis": ints(0)},
        of_image((1, 3, 4, 5), (2, 2, 3, 3))),
    "heads": Model(
        SEQUENCE, {"y": (F, ["batch", "time", None])},
        [("b = Shape(x)", {"start": 0, "end": 2}), ("t = Concat(b, split)", {"axis": 0}), ("r = Reshape(x, t)",),
         ("q = Transpose(r)", {"perm": [0, 2, 1, 3]}), ("k = Transpose(r)", {"perm": [0, 2, 3, 1]}), ("a = MatMul(q, k)",),
         ("p = Softmax(a)", {"axis": -1}), ("v = MatMul(p, q)",), ("o = Transpose(v)", {"perm": [0, 2, 1, 3]}),
         ("u = Concat(b, joined)", {"axis": 0}), ("y = Reshape(o, u)",)],
        {"split": ints(3, 4), "joined": ints(12)}, [[floats(1, 5, 12)], [floats(3, 2, 12)], [floats(2, 9, 12)]]),
    "expand_to_another": Model(
        {"x": (F, ["n", 1]), "z": (F, ["n", "m"])}, {"y": (F, ["n", "m"])},
        [("s = Shape(z)",), ("e = Expand(x, s)",), ("y = Add(e, z)",)], {},
        [[floats(2, 1), floats(2, 3)], [floats(5, 1), floats(5, 7)]]),
    "slice_half": Model(
        MATRIX, {"y": (F, ["n", None])},
        [("s = Shape(x)", {"start": 1}), ("h = Div(s, two)",), ("a = Slice(x, zero, h, one)",), ("b = Slice(x, h, s, one)",),
         ("y = Concat(b, a)", {"axis": 1})],
        {"zero": ints(0), "one": ints(1), "two": ints(2)}, [[floats(2, 6)], [floats(3, 7)]]),
    "tile_by_shape": Model(
        {"x": (F, [1, "m"]), "z": (F, ["n", "k"])}, {"y": (F, [None, None])},
        [("s = Shape(z)", {"end": 1}), ("t = Concat(s, one)", {"axis": 0}), ("y = Tile(x, t)",)], {"one": ints(2)},
        [[floats(1, 3), floats(4, 2)], [floats(1, 5), floats(2, 9)]]),
    "zeros_like": Model(
        MATRIX, {"y": (F, ["n", "m"])},
        [("s = Shape(x)",), ("c = ConstantOfShape(s)", {"value": numpy_helper.from_array(np.float32([0.5]))}), ("y = Mul(x, c)",)],
        {}, [[floats(2, 3)], [floats(4, 1)]]),
    "positions": Model(
        SEQUENCE, {"y": (F, ["batch", "time", 12])},
        [("s = Shape(x)",), ("n = Gather(s, one)",), ("i = Range(zero, n, one)",), ("e = Gather(table, i)",), ("y = Add(x, e)",)],
        {"zero": number(0), "one": number(1), "table": floats(16, 12)}, [[floats(1, 5, 12)], [floats(2, 16, 12)]]),
    "resize_to_sizes": Model(
        IMAGE, {"y": (F, ["n", "c", None, None])},
        [("s = Shape(x)",), ("a = Slice(s, zero, two)",), ("b = Slice(s, two, four)",), ("d = Mul(b, two)",),
         ("t = Concat(a, d)", {"axis": 0}), ("y = Resize(x, , , t)", {"mode": "linear", "coordinate_transformation_mode": "half_pixel"})],
        {"zero": ints(0), "two": ints(2), "four": ints(4)}, of_image((1, 2, 3, 4), (2, 1, 5, 2))),
    "resize_to_another": Model(
        {"x": (F, [1, 2, "h", "w"]), "z": (F, [1, 3, "H", "W"])}, {"y": (F, [1, 5, "H", "W"])},
        [("a = Shape(x)", {"end": 2}), ("b = Shape(z)", {"start": 2}), ("t = Concat(a, b)", {"axis": 0}),
         ("u = Resize(x, , , t)", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
         ("y = Concat(u, z)", {"axis": 1})], {},
        [[floats(1, 2, 3, 4), floats(1, 3, 6, 8)], [floats(1, 2, 2, 2), floats(1, 3, 5, 3)]]),
    "pad_to_multiple": Model(
        IMAGE, {"y": (F, ["n", "c", None, None])},
        [("s = Shape(x)", {"start": 2}), ("r = Mod(s, four)",), ("d = Sub(four, r)",), ("e = Mod(d, four)",),
         ("p = Concat(zeros, e)", {"axis": 0}), ("y = Pad(x, p)",)],
        {"four": ints(4), "zeros": ints(0, 0, 0, 0, 0, 0)}, of_image((1, 1, 5, 8), (2, 2, 3, 6))),
    "causal_mask": Model(
        SEQUENCE, {"y": (F, ["batch", "time", "time"])},
        [("s = Shape(x)", {"start": 1, "end": 2}), ("t = Concat(s, s)", {"axis": 0}),
         ("m = ConstantOfShape(t)", {"value": numpy_helper.from_array(np.float32([1]))}), ("l = Trilu(m)", {"upper": 0}),
         ("c = Cast(l)", {"to": TensorProto.BOOL}), ("k = Transpose(x)", {"perm": [0, 2, 1]}), ("a = MatMul(x, k)",),
         ("w = Where(c, a, low)",), ("y = Softmax(w)", {"axis": -1})],
        {"low": np.float32(-1e9)}, [[floats(1, 4, 12)], [floats(2, 7, 12)]]),
    # Given as inputs.
    "reshape_given": Model({**MATRIX, "t": (I, ["k"])}, {"y": (F, None)}, [("r = Relu(x)",), ("y = Reshape(r, t)",)], {},
                           [[floats(2, 6), ints(3, 4)], [floats(3, 4), ints(2, 3, 2)], [floats(3, 4), ints(-1)]]),
    "expand_given": Model({"x": (F, ["n", 1]), "t": (I, [3])}, {"y": (F, [None, None, None])},
                          [("e = Expand(x, t)",), ("y = Neg(e)",)], {}, [[floats(2, 1), ints(4, 2, 3)], [floats(3, 1), ints(1, 1, 5)]]),
    "slice_given": Model({**MATRIX, "a": (I, [2]), "b": (I, [2])}, {"y": (F, [None, None])}, [("y = Slice(x, a, b)",)], {},
                         [[floats(4, 6), ints(1, 2), ints(3, 5)], [floats(4, 6), ints(0, -2), ints(4, 100)]]),
    "tile_given": Model({**MATRIX, "t": (I, [2])}, {"y": (F, [None, None])}, [("y = Tile(x, t)",)], {},
                        [[floats(2, 3), ints(2, 1)], [floats(2, 3), ints(1, 4)]]),
    "constant_of_shape_given": Model({"t": (I, ["k"])}, {"y": (F, None)}, [("c = ConstantOfShape(t)",), ("y = Cos(c)",)], {},
                                     [[ints(2, 3)], [ints(4)], [ints(0, 2)]]),
    "range_given": Model({"a": (I, []), "b": (I, []), "c": (I, [])}, {"y": (F, [None])},
                         [("r = Range(a, b, c)",), ("y = Cast(r)", {"to": F})], {},
                         [[number(0), number(7), number(2)], [number(5), number(-4), number(-3)]]),
    "resize_given": Model({**IMAGE, "t": (I, [4])}, {"y": (F, [None] * 4)},
                          [("y = Resize(x, , , t)", {"mode": "linear", "coordinate_transformation_mode": "align_corners"})], {},
                          [[floats(1, 2, 3, 4), ints(1, 2, 5, 7)], [floats(1, 1, 4, 4), ints(1, 1, 2, 3)]]),
    "resize_scales_given": Model({**IMAGE, "t": (F, [4])}, {"y": (F, [None] * 4)}, [("y = Resize(x, , t)", {"mode": "nearest"})], {},
                                 [[floats(1, 2, 3, 4), np.float32([1, 1, 2, 3])], [floats(1, 1, 4, 4), np.float32([1, 1, 0.5, 1.5])]]),
    "pad_given": Model({**MATRIX, "t": (I, [4])}, {"y": (F, [None, None])}, [("y = Pad(x, t)", {"mode": "reflect"})], {},
                       [[floats(3, 4), ints(1, 2, 0, 1)], [floats(4, 3), ints(0, 0, 2, 2)]]),
    "axes_given": Model({**IMAGE, "a": (I, [2])}, {"y": (F, None)}, [("r = ReduceSum(x, a)", {"keepdims": 0}), ("y = Unsqueeze(r, a)",)],
                        {}, [[floats(2, 3, 4, 5), ints(1, 3)], [floats(2, 3, 4, 5), ints(0, -1)]]),
    "top_k_given": Model({**MATRIX, "k": (I, [1])}, {"y": (F, [None, None]), "i": (I, [None, None])}, [("y, i = TopK(x, k)",)], {},
                         [[floats(2, 6), ints(3)], [floats(3, 4), ints(1)]]),
    "split_given": Model({**MATRIX, "k": (I, [2])}, {"a": (F, [None, None]), "b": (F, [None, None])},
                         [("a, b = Split(x, k)", {"axis": 1})], {}, [[floats(2, 6), ints(1, 5)], [floats(3, 4), ints(2, 2)]]),
    # Computed from what inputs hold.
    "reshape_by_product": Model({**MATRIX, "k": (I, [1])}, {"y": (F, [None, None])},
                                [("d = Mul(k, two)",), ("t = Concat(d, rest)", {"axis": 0}), ("y = Reshape(x, t)",)],
                                {"two": ints(2), "rest": ints(-1)}, [[floats(4, 6), ints(3)], [floats(2, 8), ints(1)]]),
    "largest_index": Model({"i": (I, ["n"])}, {"y": (F, [None, "n"])},
                           [("m = ReduceMax(i)", {"keepdims": 1}), ("d = Add(m, one)",), ("s = Shape(i)",),
                            ("t = Concat(d, s)", {"axis": 0}), ("c = ConstantOfShape(t)",), ("y = Cos(c)",)],
                           {"one": ints(1)}, [[ints(2, 0, 1)], [ints(4, 1, 3, 5, 0)]]),
    "range_of_length": Model({"x": (F, ["n", "m"]), "k": (F, [])}, {"y": (F, ["n", None])},
                             [("c = Ceil(k)",), ("l = Cast(c)", {"to": I}), ("i = Range(zero, l, one)",), ("y = Gather(x, i)", {"axis": 1})],
                             {"zero": number(0), "one": number(1)},
                             [[floats(2, 6), np.array(2.5, np.float32)], [floats(3, 5), np.array(4.1, np.float32)]]),
    "non_zero": Model(MATRIX, {"y": (F, [None]), "i": (I, [2, None])},
                      [("p = Greater(x, zero)",), ("i = NonZero(p)",), ("t = Transpose(i)",), ("y = GatherND(x, t)",)],
                      {"zero": np.float32(0)}, [[floats(3, 4)], [floats(5, 2)]]),
    "compress": Model({**MATRIX, "k": (TensorProto.BOOL, ["n"])}, {"y": (F, [None, "m"])},
                      [("c = Compress(x, k)", {"axis": 0}), ("y = Relu(c)",)], {},
                      [[floats(3, 4), np.array([True, False, True])], [floats(5, 2), np.array([False] * 4 + [True])]]),
    "best_rows": Model(MATRIX, {"y": (F, [None, None])},
                       [("a = ArgMax(x)", {"axis": 1, "keepdims": 0}), ("m = ReduceMax(a)", {"keepdims": 1}), ("k = Add(m, one)",),
                        ("y = Slice(x, zero, k, one)",)],
                       {"zero": ints(0), "one": ints(1)}, [[floats(3, 5)], [floats(2, 9)]]),
}


class Shapes(unittest.TestCase):
    def test_one_model_many_sizes(self):
        program = Program(fresh(OUT), "shapes")
        for name, model in MODELS.items():
            onnx.save(model.proto, OUT / f"{name}.onnx")
            code, answer = program.generate(OUT / f"{name}.onnx", name)
            self.assertEqual(code, 0, f"{name}: {answer}")
            self.assertGreaterEqual(len(model.rounds), 2)
            program.add(name, OUT / f"{name}.onnx", answer, model.rounds)
        names = backends()
        program.check(self, ["g++-12", "clang++-19"], names)
        for name, model in MODELS.items():
            session = onnxruntime.InferenceSession(model.proto.SerializeToString(), providers=["CPUExecutionProvider"])
            expected = [array for given in model.rounds for array in session.run(None, dict(zip(model.inputs, given)))]
            for backend in names:
                with self.subTest(model=name, backend=backend):
                    actual = program.outputs(name, backend)
                    self.assertEqual([array.shape for array in actual], [array.shape for array in expected])
                    for one, other in zip(actual, expected):
                        self.assertEqual(one.dtype, other.dtype)
                        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
