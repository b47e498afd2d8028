#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes 48 models of one operator each, for the comparison of kernels with other engines.

  single_ops.py OUT    writes OUT/NAME.onnx; weights are seeded, inputs are left to who runs them
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(name, op, inputs, weights=(), shapes=None, **attrs):
    """One node; `inputs` are shapes of activations, `weights` of constants (or arrays)."""
    rng = np.random.default_rng(len(name))
    names = [f"x{i}" for i in range(len(inputs))] + [f"w{i}" for i in range(len(weights))]
    constants = []
    for i, weight in enumerate(weights):
        array = weight if isinstance(weight, np.ndarray) else (rng.standard_normal(weight) / np.sqrt(weight[-1])).astype(np.float32)
        constants.append(numpy_helper.from_array(array, f"w{i}"))
    node = helper.make_node(op, names, ["y"], name=op.lower(), **attrs)
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(inputs)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes)], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return name, onnx.shape_inference.infer_shapes(made)


def conv(name, x, m, k, stride=1, group=1, dilation=1, pad=None):
    pad = dilation * (k // 2) if pad is None else pad
    return model(f"conv_{name}", "Conv", [x], [[m, x[1] // group, k, k], [m]], kernel_shape=[k, k], strides=[stride] * 2,
                 pads=[pad] * 4, group=group, dilations=[dilation] * 2)


def models():
    yield conv("1x1_64_256_56", [1, 64, 56, 56], 256, 1)
    yield conv("1x1_256_64_56", [1, 256, 56, 56], 64, 1)
    yield conv("1x1_512_128_28", [1, 512, 28, 28], 128, 1)
    yield conv("1x1_2048_512_7", [1, 2048, 7, 7], 512, 1)
    yield conv("1x1_odd_67_131_29", [1, 67, 29, 31], 131, 1)
    yield conv("1x1_stride2_256_512_56", [1, 256, 56, 56], 512, 1, stride=2)
    yield conv("1x1_batch8_96_96_28", [8, 96, 28, 28], 96, 1)
    yield conv("3x3_64_64_56", [1, 64, 56, 56], 64, 3)
    yield conv("3x3_128_128_28", [1, 128, 28, 28], 128, 3)
    yield conv("3x3_512_512_7", [1, 512, 7, 7], 512, 3)
    yield conv("3x3_stride2_128_256_56", [1, 128, 56, 56], 256, 3, stride=2)
    yield conv("3x3_dilated_64_64_56", [1, 64, 56, 56], 64, 3, dilation=2)
    yield conv("3x3_odd_35_53_27", [1, 35, 27, 25], 53, 3)
    yield conv("3x3_first_3_32_224", [1, 3, 224, 224], 32, 3, stride=2)
    yield conv("7x7_first_3_64_224", [1, 3, 224, 224], 64, 7, stride=2)
    yield conv("5x5_32_64_28", [1, 32, 28, 28], 64, 5)
    yield conv("grouped4_128_128_28", [1, 128, 28, 28], 128, 3, group=4)
    yield conv("depthwise3_96_112", [1, 96, 112, 112], 96, 3, group=96)
    yield conv("depthwise3_stride2_144_56", [1, 144, 56, 56], 144, 3, stride=2, group=144)
    yield conv("depthwise5_240_28", [1, 240, 28, 28], 240, 5, group=240)
    yield conv("depthwise3_odd_37_31", [1, 37, 31, 29], 37, 3, group=37)
    yield model("gemm_1x1280x1000", "Gemm", [[1, 1280]], [[1000, 1280], [1000]], transB=1)
    yield model("gemm_1x4096x4096", "Gemm", [[1, 4096]], [[4096, 4096], [4096]], transB=1)
    yield model("gemm_32x2048x1000", "Gemm", [[32, 2048]], [[1000, 2048], [1000]], transB=1)
    yield model("matmul_256x256x256", "MatMul", [[256, 256]], [[256, 256]])
    yield model("matmul_1024", "MatMul", [[1024, 1024]], [[1024, 1024]])
    yield model("matmul_4096", "MatMul", [[4096, 4096]], [[4096, 4096]])
    yield model("matmul_odd_333x517x259", "MatMul", [[333, 517]], [[517, 259]])
    yield model("matmul_batch12_128x64x128", "MatMul", [[12, 128, 64], [12, 64, 128]])
    yield model("matmul_shared_8x197x768x768", "MatMul", [[8, 197, 768]], [[768, 768]])
    yield model("maxpool3_64_112", "MaxPool", [[1, 64, 112, 112]], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield model("averagepool2_128_56", "AveragePool", [[1, 128, 56, 56]], kernel_shape=[2, 2], strides=[2, 2])
    yield model("globalaverage_1280_7", "GlobalAveragePool", [[1, 1280, 7, 7]])
    yield model("globalaverage_64_112", "GlobalAveragePool", [[1, 64, 112, 112]])
    yield model("relu_64_112", "Relu", [[1, 64, 112, 112]])
    yield model("add_64_112", "Add", [[1, 64, 112, 112], [1, 64, 112, 112]])
    yield model("mul_broadcast_channel", "Mul", [[1, 64, 112, 112], [1, 64, 1, 1]])
    yield model("add_broadcast_row", "Add", [[197, 768], [768]])
    yield model("sigmoid_1x1000000", "Sigmoid", [[1, 1000000]])
    yield model("softmax_1x1000", "Softmax", [[1, 1000]], axis=1)
    yield model("softmax_12x197x197", "Softmax", [[12, 197, 197]], axis=2)
    yield model("softmax_axis1_1x84x8400", "Softmax", [[1, 84, 8400]], axis=1)
    yield model("reducemean_last_197x768", "ReduceMean", [[197, 768]], axes=[1], keepdims=1)
    yield model("reducesum_all_1000000", "ReduceSum", [[1000, 1000]], [np.array([0, 1], np.int64)])
    yield model("reducemax_first_1000x1000", "ReduceMax", [[1000, 1000]], axes=[0], keepdims=0)
    yield model("transpose_2d_1024", "Transpose", [[1024, 1024]], perm=[1, 0])
    yield model("transpose_nchw_nhwc", "Transpose", [[1, 64, 112, 112]], perm=[0, 2, 3, 1])
    yield model("transpose_heads_197x12x64", "Transpose", [[1, 197, 12, 64]], perm=[0, 2, 1, 3])


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, made in models():
        onnx.checker.check_model(made)
        onnx.save(made, out / f"{name}.onnx")


if __name__ == "__main__":
    main()
