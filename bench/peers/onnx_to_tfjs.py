#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites a convolutional ONNX model as a list of TensorFlow.js calls, channels last, weights in its own layouts, activations
merged into convolutions as its converter does. What bench/pages/tfjs.js runs.

  onnx_to_tfjs.py MODEL.onnx OUT    writes OUT.json and OUT.bin
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper


class Converter:
    def __init__(self, graph):
        self.weights = {w.name: numpy_helper.to_array(w).astype(np.float32) for w in graph.initializer
                        if w.data_type == onnx.TensorProto.FLOAT}
        self.readers = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.graph, self.calls, self.blob, self.done = graph, [], bytearray(), set()

    def store(self, array):
        at = len(self.blob)
        self.blob += np.ascontiguousarray(array, np.float32).tobytes()
        return {"at": at, "shape": list(array.shape)}

    def activation(self, node):
        """The activation that alone reads the node's output, and the name of its result."""
        readers = self.readers.get(node.output[0], [])
        if len(readers) != 1:
            return None, node.output[0]
        after = readers[0]
        kind = "relu" if after.op_type == "Relu" else None
        if after.op_type == "Clip":
            low, high = (self.weights[name].item() for name in after.input[1:3])
            kind = "relu6" if (low, high) == (0, 6) else None
        if not kind:
            return None, node.output[0]
        self.done.add(after.output[0])
        return kind, after.output[0]

    def window(self, node, attrs):
        pads = attrs.get("pads", [0, 0, 0, 0])
        pad = [[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]]
        return {"strides": attrs.get("strides", [1, 1]), "pad": pad if any(pads) else "valid"}

    def conv(self, node, attrs):
        weight = self.weights[node.input[1]]  # [M, C/group, H, W]
        group = attrs.get("group", 1)
        depthwise = group > 1
        if depthwise and (weight.shape[1] != 1 or weight.shape[0] != group):
            raise SystemExit(f"{node.name}: grouped convolutions other than depthwise are not translated")
        filters = weight.transpose(2, 3, 0, 1) if depthwise else weight.transpose(2, 3, 1, 0)
        bias = self.weights[node.input[2]] if len(node.input) > 2 else np.zeros(weight.shape[0], np.float32)
        kind, output = self.activation(node)
        self.calls.append({"call": "depthwiseConv2d" if depthwise else "conv2d", "x": node.input[0], "y": output,
                           "filter": self.store(filters), "bias": self.store(bias), "activation": kind or "linear",
                           **self.window(node, attrs)})

    def gemm(self, node, attrs):
        weight = self.weights[node.input[1]]
        # Its fused product with a transposed operand and a bias is wrong, so the weight is stored as [K, N].
        self.calls.append({"call": "matMul", "x": node.input[0], "y": node.output[0],
                           "filter": self.store(weight.T if attrs.get("transB") else weight),
                           "bias": self.store(self.weights[node.input[2]])})

    def run(self):
        for node in self.graph.node:
            if node.output[0] in self.done:
                continue
            attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            op, x, y = node.op_type, node.input[0] if node.input else "", node.output[0]
            if op == "Conv":
                self.conv(node, attrs)
            elif op == "Gemm":
                self.gemm(node, attrs)
            elif op == "MaxPool":
                window = self.window(node, attrs)
                pads = attrs.get("pads", [0, 0, 0, 0])
                self.calls.append({"call": "maxPool", "x": x, "y": y, "size": attrs["kernel_shape"], "strides": window["strides"],
                                   "pad": pads[0], "rounding": "ceil" if attrs.get("ceil_mode") else "floor"})
            elif op in ("Relu", "GlobalAveragePool", "Flatten", "Reshape", "Dropout", "Softmax"):
                self.calls.append({"call": op, "x": x, "y": y})
            elif op == "Add":
                self.calls.append({"call": op, "x": x, "y": y, "b": node.input[1]})
            elif op == "Concat":
                self.calls.append({"call": op, "xs": list(node.input), "y": y})
            elif op != "Constant":
                raise SystemExit(f"{node.name}: {op} is not translated")
        return self


def main():
    model, out = onnx.load(sys.argv[1]), pathlib.Path(sys.argv[2])
    done = Converter(model.graph).run()
    out.with_suffix(".bin").write_bytes(done.blob)
    out.with_suffix(".json").write_text(json.dumps({"input": model.graph.input[0].name, "output": model.graph.output[0].name,
                                                    "calls": done.calls}))


if __name__ == "__main__":
    main()
