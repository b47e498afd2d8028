#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes published network structures with seeded random weights as ONNX files, for tests and benchmarks.

  single_gemm         one Gemm: A[1,4], B[3,4] with transB=1, C[3]
  mobilenetv2_bn      MobileNetV2 1.0 with BatchNormalization
  mobilenetv2         the same network, each BatchNormalization folded into its Conv
  squeezenet1_0       SqueezeNet 1.0
  squeezenet1_1       SqueezeNet 1.1
  resnet50_bn         ResNet-50 (stride in the 3x3 convolution) with BatchNormalization
  resnet50            the same network, folded

Beside NAME.onnx lie NAME.input.npy, a seeded input, and NAME.output.npy, what ONNX Runtime computes from it.
A tensor's values depend on its name, its shape and SEED only, so the files can be made again bit for bit.
"""
import argparse
import pathlib
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SEED = 20240
EPSILON = 1e-5
SIZE = 224  # of images; --size changes it
WIDTH = 64  # channels of ResNet-50's first stage; --width changes it, and MobileNetV2's in proportion
CLASSES = 1000
OPSET = 13


def seeded(name):
    return np.random.RandomState((SEED + zlib.crc32(name.encode())) % 2**32)


class Network:
    """A graph under construction; `shapes` holds each value's [C,H,W] or [C] without the batch dimension."""

    def __init__(self, fold):
        self.fold = fold
        self.nodes = []
        self.initializers = {}
        self.shapes = {"input": (3, SIZE, SIZE)}

    def parameter(self, name, array):
        self.initializers[name] = np.ascontiguousarray(array, dtype=np.float32)
        return name

    def add(self, op, inputs, shape, **attributes):
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{name}_node", **attributes))
        self.shapes[name] = shape
        return name

    def conv(self, x, name, channels, kernel, stride=1, pad=0, groups=1, gain=2.0, gamma=1.0, norm=True):
        """A convolution, with a BatchNormalization after it (or folded into it) if `norm`, else with a bias."""
        channels_in, height, width = self.shapes[x]
        fan_in = channels_in // groups * kernel * kernel
        weight = seeded(name + ".weight").standard_normal((channels, channels_in // groups, kernel, kernel))
        weight *= np.sqrt(gain / fan_in)
        shape = (channels, (height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1)
        bias = None
        if norm:
            random = seeded(name + ".bn")
            scale = random.uniform(0.8, 1.2, channels) * gamma
            shift = random.standard_normal(channels) * 0.1
            mean = random.standard_normal(channels) * 0.1
            variance = random.uniform(0.7, 1.3, channels)
            if self.fold:
                factor = scale / np.sqrt(variance + EPSILON)
                weight *= factor[:, None, None, None]
                bias = shift - mean * factor
        else:
            bias = seeded(name + ".bias").standard_normal(channels) * 0.05

        inputs = [x, self.parameter(name + ".weight", weight)]
        if bias is not None:
            inputs.append(self.parameter(name + ".bias", bias))
        y = self.add("Conv", inputs, shape, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                     dilations=[1, 1], group=groups)
        if norm and not self.fold:
            statistics = {"weight": scale, "bias": shift, "mean": mean, "var": variance}
            y = self.add("BatchNormalization",
                         [y] + [self.parameter(f"{name}.bn.{part}", value) for part, value in statistics.items()],
                         shape, epsilon=EPSILON)
        return y

    def relu(self, x):
        return self.add("Relu", [x], self.shapes[x])

    def relu6(self, x):
        bounds = [self.parameter("clip_min", np.array(0.0)), self.parameter("clip_max", np.array(6.0))]
        return self.add("Clip", [x] + bounds, self.shapes[x])

    def max_pool(self, x, kernel, stride, pad=0, ceil=False):
        channels, *sides = self.shapes[x]
        spans = [side + 2 * pad - kernel + (stride - 1 if ceil else 0) for side in sides]
        return self.add("MaxPool", [x], (channels, *(span // stride + 1 for span in spans)), kernel_shape=[kernel] * 2,
                        strides=[stride] * 2, pads=[pad] * 4, ceil_mode=int(ceil))

    def pooled_features(self, x):
        pooled = self.add("GlobalAveragePool", [x], (self.shapes[x][0], 1, 1))
        return self.add("Flatten", [pooled], (self.shapes[x][0],), axis=1)

    def gemm(self, x, name, features):
        features_in = self.shapes[x][0]
        weight = seeded(name + ".weight").standard_normal((features, features_in)) / np.sqrt(features_in)
        bias = seeded(name + ".bias").standard_normal(features) * 0.05
        inputs = [x, self.parameter(name + ".weight", weight), self.parameter(name + ".bias", bias)]
        return self.add("Gemm", inputs, (features,), alpha=1.0, beta=1.0, transA=0, transB=1)

    def model(self, name, input_shape, output_shape):
        self.nodes[-1].output[0] = "output"
        graph = helper.make_graph(
            self.nodes, name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, input_shape)],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, output_shape)],
            [numpy_helper.from_array(array, key) for key, array in self.initializers.items()])
        model = helper.make_model(graph, producer_name="sinter make_models.py", ir_version=7,
                                  opset_imports=[helper.make_opsetid("", OPSET)])
        onnx.checker.check_model(model, full_check=True)
        return model


def mobilenetv2(net):
    first = WIDTH // 2
    x = net.relu6(net.conv("input", "features.0", first, 3, stride=2, pad=1))
    block, channels_in = 1, first
    # expansion, channels, repeats, first stride
    for expansion, channels, repeats, first_stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                                       (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        channels = channels * WIDTH // 64
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            name, skip, hidden = f"features.{block}", x, channels_in * expansion
            if expansion != 1:
                x = net.relu6(net.conv(x, name + ".expand", hidden, 1))
            x = net.relu6(net.conv(x, name + ".depthwise", hidden, 3, stride=stride, pad=1, groups=hidden))
            x = net.conv(x, name + ".project", channels, 1, gain=1.0, gamma=0.7)
            if stride == 1 and channels_in == channels:
                x = net.add("Add", [skip, x], net.shapes[x])
            channels_in = channels
            block += 1
    x = net.relu6(net.conv(x, f"features.{block}", 20 * WIDTH, 1))
    net.gemm(net.pooled_features(x), "classifier.1", CLASSES)


def squeezenet(net, first, pool_after):
    def conv(x, name, channels, kernel, **options):
        return net.relu(net.conv(x, name, channels, kernel, norm=False, **options))

    channels, kernel = first
    x = net.max_pool(conv("input", "features.0", channels, kernel, stride=2), 3, 2, ceil=True)
    for number, width in enumerate([16, 16, 32, 32, 48, 48, 64, 64], start=2):
        name, half = f"fire{number}", width * 4
        squeezed = conv(x, name + ".squeeze", width, 1)
        parts = [conv(squeezed, name + ".expand1x1", half, 1), conv(squeezed, name + ".expand3x3", half, 3, pad=1)]
        x = net.add("Concat", parts, (2 * half, *net.shapes[parts[0]][1:]), axis=1)
        if number in pool_after:
            x = net.max_pool(x, 3, 2, ceil=True)
    net.pooled_features(conv(x, "classifier.1", CLASSES, 1))


def resnet50(net):
    x = net.max_pool(net.relu(net.conv("input", "conv1", WIDTH, 7, stride=2, pad=3)), 3, 2, pad=1)
    for layer, (factor, blocks) in enumerate([(1, 3), (2, 4), (4, 6), (8, 3)], start=1):
        planes = factor * WIDTH
        for block in range(blocks):
            name, stride = f"layer{layer}.{block}", 2 if block == 0 and layer > 1 else 1
            y = net.relu(net.conv(x, name + ".conv1", planes, 1))
            y = net.relu(net.conv(y, name + ".conv2", planes, 3, stride=stride, pad=1))
            y = net.conv(y, name + ".conv3", planes * 4, 1, gamma=0.4)
            if block == 0:
                x = net.conv(x, name + ".downsample", planes * 4, 1, stride=stride, gamma=0.9)
            x = net.relu(net.add("Add", [y, x], net.shapes[x]))
    net.gemm(net.pooled_features(x), "fc", CLASSES)


def single_gemm():
    net = Network(fold=True)
    net.shapes["input"] = (4,)
    net.gemm("input", "gemm", 3)
    return net.model("single_gemm", [1, 4], [1, 3])


def image_classifier(name, build, fold):
    net = Network(fold)
    build(net)
    return net.model(name, ["N", 3, SIZE, SIZE], ["N", CLASSES])


MODELS = {
    "single_gemm": lambda name: single_gemm(),
    "mobilenetv2_bn": lambda name: image_classifier(name, mobilenetv2, fold=False),
    "mobilenetv2": lambda name: image_classifier(name, mobilenetv2, fold=True),
    "squeezenet1_0": lambda name: image_classifier(name, lambda net: squeezenet(net, (96, 7), {4, 8}), fold=True),
    "squeezenet1_1": lambda name: image_classifier(name, lambda net: squeezenet(net, (64, 3), {3, 5}), fold=True),
    "resnet50_bn": lambda name: image_classifier(name, resnet50, fold=False),
    "resnet50": lambda name: image_classifier(name, resnet50, fold=True),
}


def write(name, folder):
    data = MODELS[name](name).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    shape = [dim if isinstance(dim, int) else 1 for dim in session.get_inputs()[0].shape]
    x = seeded(name + ".input").standard_normal(shape).astype(np.float32)
    (y,) = session.run(None, {"input": x})
    np.save(folder / f"{name}.input.npy", x)
    np.save(folder / f"{name}.output.npy", y)
    # The model comes last: where it exists, its companions do.
    (folder / f"{name}.onnx").write_bytes(data)
    print(f"{name:16} {len(data):>11,} bytes, output {y.min():.3f} .. {y.max():.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR")
    parser.add_argument("--size", type=int, default=SIZE, help="height and width of the images (default %(default)s)")
    parser.add_argument("--width", type=int, default=WIDTH,
                        help="channels of ResNet-50's first stage, MobileNetV2's in proportion (default %(default)s)")
    arguments = parser.parse_args()
    globals().update(SIZE=arguments.size, WIDTH=arguments.width)
    unknown = set(arguments.names) - MODELS.keys()
    if unknown:
        parser.error(f"unknown model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or MODELS:
        write(name, arguments.out)


if __name__ == "__main__":
    main()
