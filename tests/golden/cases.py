#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the golden cases: a model, an input and what an independent runtime computed from it.

Writes build/golden/*.npy and build/golden/manifest.json, a list of {"name", "model", "input": {"name", "file"},
"output": {"name", "file"}}, all paths absolute. Native, Node and browser tests read the same manifest. The project's own
models are always there; trained ImageNet models and their golden outputs come from ../shared (or $SINTER_SHARED) where it
exists, ResNet-50 and the single Gemm from models/generated.
"""
import json
import os
import pathlib

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build/golden"
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
TOLERANCE = 1e-4


def shared():
    folder = pathlib.Path(os.environ.get("SINTER_SHARED", ROOT.parent / "shared")) / "models"
    return folder if folder.is_dir() else None


def torch_input(path):
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(np.float32) / 255
    return ((pixels - MEAN) / STD).transpose(2, 0, 1)


class Collector:
    def __init__(self):
        OUT.mkdir(parents=True, exist_ok=True)
        self.cases = []

    def add(self, name, model, input_name, x, output_name, y):
        files = {}
        for key, array in [("input", x), ("output", y)]:
            files[key] = OUT / f"{name}.{key}.npy"
            np.save(files[key], np.ascontiguousarray(array, dtype=np.float32))
        self.cases.append({
            "name": name, "model": str(model),
            "input": {"name": input_name, "file": str(files["input"])},
            "output": {"name": output_name, "file": str(files["output"])},
        })


def own(collector):
    folder = ROOT / "models/fashion"
    x = np.stack([torch_input(folder / f"images/fashion_{k}.png") for k in range(10)])
    for name in ["mobilenetv2_fashion", "squeezenet1_1_fashion"]:
        y = np.load(folder / f"{name}.output.npy")
        model = folder / f"{name}.onnx"
        collector.add(f"{name}.batch10", model, "input", x, "output", y)
        collector.add(f"{name}.batch1", model, "input", x[9:], "output", y[9:])


def generated(collector):
    folder = ROOT / "models/generated"
    for name, inputs in [("single_gemm", "A"), ("resnet50", "input"), ("resnet50_bn", "input"), ("squeezenet1_0", "input"),
                         ("mobilenetv2_bn", "input")]:
        import onnx
        model = onnx.load(folder / f"{name}.onnx", load_external_data=False)
        initialisers = {tensor.name for tensor in model.graph.initializer}
        input_name = next(v.name for v in model.graph.input if v.name not in initialisers)
        collector.add(name, folder / f"{name}.onnx", input_name, np.load(folder / f"{name}.input.npy"),
                      model.graph.output[0].name, np.load(folder / f"{name}.output.npy"))


def golden(collector, folder):
    cases = json.loads((folder / "golden/golden.json").read_text())["cases"]
    for prefix in ["mobilenetv2_fp32__", "squeezenet1.1_fp32__"]:
        group = [case for case in cases if case["case"].startswith(prefix)]
        x = np.stack([torch_input(folder / case["inputs"][0]["image"]) for case in group])
        y = np.concatenate([np.load(folder / case["outputs"][0]["file"]) for case in group])
        collector.add(prefix.rstrip("_"), folder / group[0]["model"], group[0]["inputs"][0]["name"], x,
                      group[0]["outputs"][0]["name"], y)


def webnn(collector, folder):
    # The reference inputs are 0..255 noise: outputs reach hundreds, which the relative tolerance covers.
    x = np.load(folder / "golden/webnn_reference/input_0.npy")
    for name, model, input_name, output in [
            ("webnn_mobilenetv2", "mobilenetv2_1.0_224_fp32", "input", "mobilenetv2_output_0"),
            ("webnn_squeezenet1.1", "squeezenet1.1_fp32", "data", "squeezenet1.1_output_0")]:
        y = np.load(folder / f"golden/webnn_reference/{output}.npy")
        collector.add(name, folder / f"onnx/{model}.onnx", input_name, x, "output", y)


def mnist(collector, folder):
    from onnx import TensorProto, numpy_helper

    def load(path):
        tensor = TensorProto()
        tensor.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(tensor)

    for index in range(3):
        data = folder / f"golden/mnist_8/test_data_set_{index}"
        collector.add(f"mnist_8.{index}", folder / "onnx/mnist_8.onnx", "Input3", load(data / "input_0.pb"),
                      "Plus214_Output_0", load(data / "output_0.pb"))


def collect():
    collector = Collector()
    own(collector)
    generated(collector)
    folder = shared()
    if folder:
        golden(collector, folder)
        webnn(collector, folder)
        mnist(collector, folder)
    (OUT / "manifest.json").write_text(json.dumps(collector.cases, indent=1))
    return collector.cases, folder is not None


def disagreement(got, want):
    """What is wrong with an output, or an empty string: values within 1e-4 of the largest, and the same five best per row
    except between values closer than twice that."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    bound = TOLERANCE * max(1.0, float(np.abs(want).max()))
    worst = float(np.abs(got - want).max())
    if not worst <= bound:
        return f"largest difference {worst:.3g}, allowed {bound:.3g}"
    for row, expected in zip(got.reshape(got.shape[0], -1), want.reshape(want.shape[0], -1)):
        top = np.argsort(-expected, kind="stable")[:5]
        for rank, index in enumerate(np.argsort(-row, kind="stable")[:5]):
            if index != top[rank] and abs(expected[index] - expected[top[rank]]) > 2 * bound:
                return f"rank {rank} is {index}, expected {top[rank]}"
    return ""


if __name__ == "__main__":
    found, complete = collect()
    print(f"{len(found)} cases" + ("" if complete else " (no ../shared: the trained ImageNet models are left out)"))
