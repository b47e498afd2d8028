#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every form that an operator has had since opset 7, against ONNX Runtime: attributes that became inputs, defaults that
changed, semantics that changed. ONNX's own node tests come in the newest form only.

  opset_forms_test.py [NAME...]   the forms whose names contain one of the words; default: all
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
SINTER = ROOT / "build/native/sinter"
BACKENDS = ("reference", "cpu")
OLDEST, NEWEST = 7, 23  # NEWEST: what the pinned ONNX Runtime implements for all of these

X = np.random.default_rng(5).standard_normal((2, 3, 4, 5)).astype(np.float32)
IMAGE = np.random.default_rng(6).standard_normal((1, 3, 7, 7)).astype(np.float32)
PER_CHANNEL = [np.array([1.0, 2.0, 0.5], np.float32) for _ in range(4)]


def ints(*values):
    return np.array(values, np.int64)


class Form:
    """An operator with its inputs; constants are initialisers, the first `free` inputs are given at run time."""

    def __init__(self, op, opsets, inputs, attributes=None, outputs=1, free=1, name="", kinds=None):
        self.op, self.opsets, self.inputs, self.attributes = op, opsets, inputs, attributes or {}
        self.outputs, self.free = outputs, free
        self.name = f"{op} {name}".strip()
        self.kinds = kinds  # the outputs' types where they are not the input's

    def model(self, opset, symbolic):
        names = [f"i{k}" if array is not None else "" for k, array in enumerate(self.inputs)]
        results = [f"o{k}" for k in range(self.outputs)]
        node = helper.make_node(self.op, names, results, name="n", **self.attributes)
        given, constants = [], []
        for k, array in enumerate(self.inputs):
            if array is None:
                continue
            if k < self.free:
                shape = ["N", *array.shape[1:]] if symbolic and array.ndim else list(array.shape)
                given.append(helper.make_tensor_value_info(names[k], helper.np_dtype_to_tensor_dtype(array.dtype), shape))
            else:
                constants.append(numpy_helper.from_array(array, names[k]))
        kinds = self.kinds or [helper.np_dtype_to_tensor_dtype(self.inputs[0].dtype)] * self.outputs
        declared = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(results, kinds)]
        graph = helper.make_graph([node], "g", given, declared, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def forms():
    half = X.astype(np.float16)
    yield Form("Clip", range(7, 11), [X], {"min": -0.5, "max": 0.5}, name="by attribute")
    yield Form("Clip", range(7, 11), [X], {"max": 0.25}, name="upper bound only")
    yield Form("Clip", range(7, 11), [X], name="no bounds")
    yield Form("Clip", range(7, 11), [half], {"min": 0.0, "max": 0.5}, name="float16 by attribute")
    yield Form("Clip", range(11, NEWEST + 1), [X, np.float32(-0.5), np.float32(0.5)], name="by input")
    yield Form("Clip", range(11, NEWEST + 1), [X, None, np.float32(0.5)], name="absent lower bound")
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (0, 1, 2, 3):
            yield Form(op, (7, 10, 12, 13, NEWEST), [X], {"axis": axis}, name=f"axis {axis}")
        yield Form(op, (11, 12, 13), [X], {"axis": -2}, name="axis -2")
        yield Form(op, (7, 12, 13), [X], name="default axis")
        yield Form(op, (7, 12), [X[:, :, :1, :1].copy()], name="nothing after the axis")
    for op in ("Squeeze", "Unsqueeze"):
        x = X[:, :1, :, :1].copy() if op == "Squeeze" else X[0]
        yield Form(op, range(7, 13), [x], {"axes": [1, 3]}, name="axes by attribute")
        yield Form(op, range(13, NEWEST + 1), [x, ints(1, 3)], name="axes by input")
    yield Form("Squeeze", (7, 11, 13), [X[:, :1, :, :1].copy()], name="all")
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp",
               "ReduceSumSquare"):
        moved = 13 if op == "ReduceSum" else 18
        yield Form(op, (7, 11, moved - 1), [X], {"axes": [1, 2], "keepdims": 0}, name="axes by attribute")
        yield Form(op, (7, moved - 1, moved), [X], {"keepdims": 1}, name="all")
        yield Form(op, (moved, NEWEST), [X, ints(1, -1)], {"keepdims": 1}, name="axes by input")
    yield Form("Slice", (7, 9), [X], {"starts": [0, 1], "ends": [1, -1], "axes": [1, 3]}, name="by attribute")
    yield Form("Slice", (7, 9), [X], {"starts": [1, 0], "ends": [2, 2]}, name="by attribute, default axes")
    yield Form("Slice", (10, 11, 13), [X, ints(3, 0), ints(-5, 100), ints(2, 0), ints(-2, 1)], name="by input")
    for opset in (7, 10):
        yield Form("Pad", [opset], [X], {"pads": [0, 1, 2, 0, 0, 1, 0, 3], "value": 1.5}, name="by attribute")
        yield Form("Pad", [opset], [X], {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "mode": "reflect"}, name="reflect by attribute")
    yield Form("Pad", (11, 13, 18, NEWEST), [X, ints(0, 1, 2, 0, 0, 1, 0, 3), np.float32(1.5)], name="by input")
    yield Form("Split", (7, 11), [X], {"axis": 3, "split": [2, 3]}, outputs=2, name="sizes by attribute")
    yield Form("Split", (7, 11, 13), [X], {"axis": 1}, outputs=3, name="equal parts")
    yield Form("Split", (13, 18), [X, ints(2, 3)], {"axis": 3}, outputs=2, name="sizes by input")
    yield Form("Split", (18, NEWEST), [X], {"axis": 3, "num_outputs": 2}, outputs=2, name="by number")
    yield Form("Dropout", (7, 10), [X], {"ratio": 0.3}, name="ratio by attribute")
    yield Form("Dropout", (12, 13, NEWEST), [X, np.float32(0.3)], name="ratio by input")
    yield Form("BatchNormalization", (7, 8), [IMAGE, *PER_CHANNEL], {"spatial": 1, "epsilon": 1e-3}, name="spatial")
    yield Form("BatchNormalization", (7, 9, 14, 15), [IMAGE, *PER_CHANNEL], name="default")
    yield Form("Cast", (7, 9, 13, 19), [X], {"to": onnx.TensorProto.INT32}, kinds=[onnx.TensorProto.INT32])
    yield Form("TopK", (7, 9), [X], {"k": 2, "axis": 3}, outputs=2, name="k by attribute",
               kinds=[onnx.TensorProto.FLOAT, onnx.TensorProto.INT64])
    yield Form("Upsample", (7, 8), [X], {"scales": [1.0, 1.0, 2.0, 3.0]}, name="scales by attribute")
    yield Form("Upsample", (9,), [X, np.array([1, 1, 2, 3], np.float32)], name="scales by input")
    yield Form("Upsample", (9,), [X, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, name="linear")
    for scales in ([1, 1, 2, 2], [1, 1, 0.5, 0.6]):
        yield Form("Resize", (10,), [X, np.array(scales, np.float32)], name=f"nearest {scales}")
        yield Form("Resize", (10,), [X, np.array(scales, np.float32)], {"mode": "linear"}, name=f"linear {scales}")
    yield Form("AveragePool", (7, 10, 11, 19, 22), [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]})
    yield Form("AveragePool", (10, 11, 19), [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, name="ceil")
    yield Form("MaxPool", (7, 8, 10, 11, 12, 22), [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"})
    yield Form("MaxPool", (10, 12), [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, name="ceil")
    yield Form("Flatten", (7, 9, 11, 13), [X], {"axis": 2})
    yield Form("Gemm", (7, 9, 11, 13), [X[0, 0], X[0, 1], X[0, 2, :, :4].copy()], {"transB": 1, "alpha": 0.5, "beta": 2.0}, free=2)
    yield Form("Gather", (7, 11, 13), [X, ints(2, 0)], {"axis": 1})
    yield Form("Reshape", (7, 13, 14, 19), [X, ints(0, -1, 5)])
    yield Form("Concat", (7, 11, 13), [X, X * 2], {"axis": 1}, free=2)
    yield Form("Transpose", (7, 13, 21), [X], {"perm": [0, 2, 3, 1]})
    yield Form("PRelu", (7, 9, 16), [X, np.float32([0.1]).reshape(1, 1, 1)])


def supported():
    done = subprocess.run([SINTER, "ops", "--json"], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout)) | {"Upsample"} if "Resize" in done.stdout else set(json.loads(done.stdout))


def differences(form, opset, backend, folder):
    """What is wrong, or an empty string."""
    path, symbolic = folder / "model.onnx", backend == "cpu" and form.free == 1
    model = form.model(opset, symbolic)
    onnx.save(model, path)
    feeds = {value.name: form.inputs[int(value.name[1:])] for value in model.graph.input}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    command = [SINTER, "run", path, "--backend", backend, "--output", folder]
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
        command += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        return done.stderr.strip()
    for k, want in enumerate(expected):
        got = np.load(folder / f"o{k}.npy")
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"output {k}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        tolerance = 2e-3 if got.dtype == np.float16 else 1e-5
        if not np.allclose(got, want, rtol=tolerance, atol=tolerance):
            return f"output {k} differs by up to {np.abs(got.astype(np.float64) - want).max()}"
    return ""


def main():
    words = sys.argv[1:]
    known = supported()
    failed = ran = 0
    for form in forms():
        if (words and not any(word in form.name for word in words)) or form.op not in known:
            continue
        for opset in form.opsets:
            for backend in BACKENDS:
                with tempfile.TemporaryDirectory() as folder:
                    problem = differences(form, opset, backend, pathlib.Path(folder))
                ran += 1
                if problem:
                    failed += 1
                    print(f"FAILED {form.name}, opset {opset}, {backend}: {problem}")
    print(f"{ran - failed} passed, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
