#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line tool as its users meet it: exit codes, messages, JSON documents, pictures, files.

  cli_test.py [NAME...]   the tests whose names contain one of the words; default: all
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
SINTER = ROOT / "build/native/sinter"
FASHION = ROOT / "models/fashion"
MODEL = FASHION / "squeezenet1_1_fashion.onnx"
PICTURE = FASHION / "images/fashion_9.png"


def sinter(*arguments, **options):
    return subprocess.run([SINTER, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, **options)


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path, nodes, inputs, outputs, opset=17, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return path


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def relu_model(self, name="relu.onnx", shape=("N", 3), dtype=TensorProto.FLOAT, x="x"):
        return save(self.folder / name, [helper.make_node("Relu", [x], ["y"], name="relu")], [value(x, dtype, shape)],
                    [value("y", dtype, shape)])

    def document(self, *arguments, code=0):
        """The one JSON document of a command."""
        done = sinter(*arguments, "--json")
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def refused(self, *arguments, error, says, hint=None, code=3):
        """The command fails with this code, as text and as JSON."""
        done = sinter(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertTrue(done.stderr.startswith(f"error[{error}]: "), done.stderr)
        self.assertIn(says, done.stderr)
        document = self.document(*arguments, code=code)
        self.assertEqual(list(document), ["error"])
        self.assertEqual(document["error"]["code"], error)
        self.assertIsInstance(document["error"]["chain"], list)
        if hint:
            self.assertIn(hint, document["error"]["hint"])
            self.assertIn("hint: ", done.stderr)
        return document["error"]


class Usage(CliTest):
    def test_version_is_one_line(self):
        done = sinter("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\Asinter \d+\.\d+\.\d+\n\Z")

    def test_every_verb_has_help(self):
        for verb in ([], ["classify"], ["run"], ["inspect"], ["test"], ["bench"], ["ops"], ["passes"], ["compare"],
                     ["bisect"], ["doctor"]):
            done = sinter(*verb, "--help")
            self.assertEqual(done.returncode, 0, verb)
            self.assertIn("--help", done.stdout)

    def test_usage_errors(self):
        cases = [[], ["frobnicate"], ["run"], ["run", MODEL, "--frobnicate"], ["run", MODEL, "--backend", "tpu"],
                 ["run", MODEL, "--fusion", "maybe"], ["run", MODEL, "--off", "no_such_pass"], ["run", MODEL, "--input", "x"],
                 ["classify", PICTURE], ["classify", PICTURE, "--model", MODEL, "--preprocess", "magic"], ["test"],
                 ["bench", MODEL, "--runs", "0"], ["run", MODEL, "--timeout", "-1"], ["run", MODEL, "--timeout", "abc"], ["run", MODEL, "--seed", "-1"], ["run", MODEL, "--inject", "x"]]
        for arguments in cases:
            done = sinter(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertTrue(done.stderr.startswith("usage error: "), done.stderr)
            self.assertEqual(done.stdout, "")
            document = json.loads(sinter(*arguments, "--json").stdout)
            self.assertIn("error", document)

    def test_wrong_verb_names_the_nearest(self):
        self.assertIn("did you mean classify?", sinter("clasify").stderr)

    def test_wrong_pass_lists_the_passes(self):
        self.assertIn("fuse_epilogue", sinter("run", MODEL, "--off", "no_such_pass").stderr)

    def test_passes_can_be_switched_off(self):
        names = [row["name"] for row in self.document("passes")]
        self.assertIn("fuse_epilogue", names)
        self.document("run", MODEL, "--backend", "cpu", "--off", ",".join(names))

    def test_faults(self):
        model = self.relu_model()
        for kind, nans in (("nan", True), ("wrong", False)):
            for backend in ("reference", "cpu"):
                rows = [self.document("run", model, "--backend", backend, "--dim", "N=9", *flags)["outputs"][0]
                        for flags in ([], ["--inject", f"relu={kind}"])]
                self.assertEqual(rows[1]["nan"] > 0, nans, (kind, backend))
                self.assertNotEqual(rows[0], rows[1], (kind, backend))
        self.refused("run", model, "--backend", "cpu", "--inject", "nowhere=nan", error="InvalidInput", says="no node named 'nowhere'")
        self.refused("run", model, "--backend", "cpu", "--inject", "relu=odd", error="InvalidInput", says="'relu=odd' is not a fault")
        self.refused("run", model, "--backend", "cpu", "--inject", "relu=hang", "--timeout", "300", error="Timeout", says="relu", code=4)
        done = sinter("run", model, "--backend", "cpu", "--inject", "relu=error")
        self.assertIn("relu", done.stderr)
        self.assertIn(done.returncode, (3, 4))


class BadModels(CliTest):
    def test_files_that_are_no_models(self):
        cases = {
            "pointer.onnx": ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n", "Git LFS pointer", "git lfs pull"),
            "page.onnx": ("<!DOCTYPE html><html></html>", "a web page", "raw file"),
            "empty.onnx": ("", "is empty (0 bytes)", "run it again"),
            "words.onnx": ("hello there\n", "this is text", "binary"),
            "archive.onnx": (b"\x1f\x8b\x08\0\0", "gzip", "unpack"),
            "picture.onnx": (PICTURE.read_bytes(), "a PNG picture", "arguments"),
            "noise.onnx": (b"\x08\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "damaged at byte", "fetch it again"),
            "short.onnx": (MODEL.read_bytes()[:100_000], "truncated at byte 100000 of", "compare its size"),
        }
        for name, (content, says, hint) in cases.items():
            path = self.write(name, content)
            for verb in (["run", path], ["inspect", path], ["bench", path], ["classify", PICTURE, "--model", path]):
                error = self.refused(*verb, "--backend", "cpu", error="InvalidModel", says=says, hint=hint)
                self.assertTrue(any(name in line for line in error["chain"]), error)

    def test_missing_model(self):
        for verb in ("run", "inspect", "bench"):
            self.refused(verb, self.folder / "nowhere.onnx", error="Io", says="nowhere.onnx': No such file", hint="path")
        self.refused("run", self.folder, error="Io", says="is a folder")

    def test_unknown_operators_are_all_named(self):
        nodes = [helper.make_node("Relux", ["x"], ["a"], name="one"), helper.make_node("Frobnicate", ["a"], ["y"], name="two")]
        path = save(self.folder / "m.onnx", nodes, [value("x", 1, [1])], [value("y", 1, [1])])
        error = self.refused("run", path, "--backend", "cpu", error="Unsupported", says="'one' (Relux)", hint="did you mean Relu?")
        self.assertIn("'two' (Frobnicate)", error["message"])
        document = self.document("inspect", path)
        for backend in ("reference", "cpu", "webgpu"):
            self.assertFalse(document["backends"][backend]["supported"])
            self.assertEqual([row["node"] for row in document["backends"][backend]["unsupported"]], ["one", "two"])

    def test_unsupported_opset(self):
        path = save(self.folder / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", 1, [1])], [value("y", 1, [1])], opset=5)
        self.refused("run", path, "--backend", "cpu", error="Unsupported", says="opset 5 of ai.onnx; opsets 7 to", hint="convert")

    def test_external_data_outside_the_folder(self):
        weight = TensorProto(name="w", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value="../secret")
        path = save(self.folder / "m.onnx", [helper.make_node("Relu", ["w"], ["y"])], [value("x", 1, [1])], [value("y", 1, [1])],
                    initializers=[weight])
        self.refused("run", path, "--backend", "cpu", error="InvalidModel", says="leaves the model's folder")


class Run(CliTest):
    def test_files_in_and_out(self):
        x = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
        np.save(self.folder / "x.npy", x)
        for backend in ("reference", "cpu"):
            document = self.document("run", self.relu_model(), "--input", f"x={self.folder / 'x.npy'}", "--output",
                                     self.folder / "out", "--backend", backend)
            np.testing.assert_array_equal(np.load(self.folder / "out/y.npy"), np.maximum(x, 0))
            self.assertEqual(document["backend"], backend)
            self.assertEqual(document["outputs"], [{"name": "y", "dtype": "float32", "shape": [2, 3], "min": 0, "max": 6,
                                                    "mean": 2.5, "nan": 0}])
            self.assertEqual(document["cpu_steps"], [])
            self.assertEqual(document["warnings"], [])

    def test_names_with_special_characters(self):
        np.save(self.folder / "in.npy", np.ones((1, 3), np.float32))
        path = save(self.folder / "m.onnx", [helper.make_node("Relu", ["a=b:0"], ["y/z:0"])], [value("a=b:0", 1, [1, 3])],
                    [value("y/z:0", 1, [1, 3])])
        self.document("run", path, "--input", f"a=b:0={self.folder / 'in.npy'}", "--output", self.folder / "out", "--backend", "cpu")
        self.assertTrue((self.folder / "out/y_z_0.npy").exists())

    def test_random_inputs_follow_seed_and_dims(self):
        model = self.relu_model()
        def mean(*flags):
            return self.document("run", model, "--backend", "cpu", *flags)["outputs"][0]
        self.assertEqual(mean("--dim", "N=100"), mean("--dim", "N=100"))
        self.assertNotEqual(mean("--dim", "N=100"), mean("--dim", "N=100", "--seed", "1"))
        self.assertEqual(mean("--dim", "N=100")["shape"], [100, 3])
        self.assertEqual(mean()["shape"], [1, 3])
        self.refused("run", model, "--dim", "M=1", "--backend", "cpu", error="InvalidInput", says="no dimension named 'M'", hint="N")
        self.refused("run", model, "--dim", "N=many", "--backend", "cpu", error="InvalidInput", says="'N' cannot be 'many'")

    def test_nan_and_infinity_propagate_with_a_warning(self):
        np.save(self.folder / "x.npy", np.array([[np.nan, np.inf, -np.inf]], np.float32))
        done = sinter("run", self.relu_model(), "--input", f"x={self.folder / 'x.npy'}", "--backend", "cpu", "--json")
        self.assertEqual(done.returncode, 0)
        document = json.loads(done.stdout)
        self.assertIn("'x' holds 1 NaN and 2 infinite values", document["warnings"][0])
        self.assertIn("warning: input 'x'", done.stderr)
        self.assertEqual(document["outputs"][0]["nan"], 1)
        self.assertIsNone(document["outputs"][0]["max"])  # infinity has no JSON number

    def test_wrong_inputs(self):
        model = self.relu_model()
        def run(array, name="x", **expected):
            np.save(self.folder / "in.npy", array)
            self.refused("run", model, "--input", f"{name}={self.folder / 'in.npy'}", "--backend", "cpu", error="InvalidInput", **expected)
        run(np.zeros((1, 3), np.float32), name="z", says="no input named 'z'", hint="'x'")
        run(np.zeros((1, 4), np.float32), says="[1,4]")
        run(np.zeros(3, np.float32), says="[3]")
        run(np.zeros((1, 3), np.int64), says="int64", hint="float32")
        run(np.asfortranarray(np.zeros((2, 3), np.float32)), says="Fortran order", hint="ascontiguousarray")
        run(np.zeros((1, 3), np.complex64), says="'<c8'")
        self.refused("run", model, "--input", f"x={self.folder / 'no.npy'}", "--backend", "cpu", error="Io", says="no.npy")
        broken = self.write("broken.npy", b"\x93NUMPY\1\0v\0{'descr': '<f4'")
        self.refused("run", model, "--input", f"x={broken}", "--backend", "cpu", error="InvalidInput", says="ends inside its header")

    def test_tensors_that_no_memory_holds(self):
        # 2^64 bytes and 2^62 elements: sizes that overflow where they are counted or added up.
        for dims in ([1 << 31, 1 << 31], [1 << 33, 1 << 29], [1 << 30, 1 << 31], [1 << 50]):
            shape = numpy_helper.from_array(np.array(dims, np.int64), "shape")
            nodes = [helper.make_node("Expand", ["x", "shape"], ["e"], name="expand"), helper.make_node("Relu", ["e"], ["r"], name="relu"),
                     helper.make_node("ReduceMean", ["r"], ["y"], name="mean", keepdims=0)]
            model = save(self.folder / "huge.onnx", nodes, [value("x", 1, [1])], [value("y", 1, [])], initializers=[shape])
            for backend in ("cpu", "reference", "webgpu"):
                error = self.refused("run", model, "--backend", backend, error="OutOfMemory", says=" elements are more than any memory holds", code=5)
                self.assertIn("expand", " ".join(error["chain"]))
        self.refused("run", self.relu_model(), "--backend", "cpu", "--dim", "N=9000000000000000", error="OutOfMemory",
                     says="input 'x': [9000000000000000,3] elements are more than any memory holds", code=5)

    def test_output_folder_that_cannot_be_made(self):
        blocker = self.write("file", "")
        self.refused("run", self.relu_model(), "--output", blocker / "out", "--backend", "cpu", error="Io", says="cannot make the folder")

    def test_trace_is_chrome_json(self):
        trace = self.folder / "trace.json"
        self.document("run", self.relu_model(), "--backend", "cpu", "--trace", trace)
        events = json.loads(trace.read_text())
        self.assertTrue({"parse", "import", "plan", "run"} <= {event["name"] for event in events})
        self.refused("run", self.relu_model(), "--trace", self.folder / "no/trace.json", error="Io", says="cannot write the trace")

    def test_backends_are_named_and_never_fall_back_silently(self):
        environment = {**os.environ, "VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}
        environment.pop("VK_INSTANCE_LAYERS", None)
        done = sinter("run", self.relu_model(), "--backend", "webgpu", "--json", env=environment)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "Gpu")
        done = sinter("run", self.relu_model(), "--backend", "auto", "--json", env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["backend"], "cpu")
        self.assertIn("warning: running on cpu instead of webgpu", done.stderr)

    def test_interrupt_cancels(self):
        process = subprocess.Popen([SINTER, "bench", MODEL, "--backend", "cpu", "--runs", "1000000", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(json.loads(out)["error"]["code"], "Cancelled")


class Classify(CliTest):
    def test_document(self):
        document = self.document("classify", PICTURE, FASHION / "images/fashion_1.png", "--model", MODEL, "--labels",
                                 FASHION / "labels.txt", "--top", "3", "--backend", "cpu")
        self.assertEqual([entry["image"] for entry in document], [str(PICTURE), str(FASHION / "images/fashion_1.png")])
        first = document[0]
        self.assertEqual(first["backend"], "cpu")
        self.assertEqual([len(entry["results"]) for entry in document], [3, 3])
        self.assertEqual(first["results"][0]["label"], "Ankle boot")
        self.assertEqual(set(first["results"][0]), {"index", "label", "probability", "logit"})
        self.assertTrue({"load", "prepare", "first"} <= set(first["ms"]))
        self.assertEqual(first["cpu_steps"], [])

    def test_probabilities_and_logits_are_those_of_the_reference(self):
        reference = np.load(FASHION / "squeezenet1_1_fashion.output.npy")[9]
        results = self.document("classify", PICTURE, "--model", MODEL, "--top", "10", "--backend", "cpu")[0]["results"]
        logits = np.array([r["logit"] for r in sorted(results, key=lambda r: r["index"])])
        np.testing.assert_allclose(logits, reference, atol=1e-4 * max(1, np.abs(reference).max()))
        self.assertAlmostEqual(sum(r["probability"] for r in results), 1, places=6)

    def test_model_with_softmax_gets_no_second_one(self):
        nodes = [helper.make_node("GlobalAveragePool", ["x"], ["p"]), helper.make_node("Softmax", ["p"], ["s"], axis=1),
                 helper.make_node("Flatten", ["s"], ["y"])]
        path = save(self.folder / "m.onnx", nodes, [value("x", 1, ["N", 3, 8, 8])], [value("y", 1, ["N", 3])])
        results = self.document("classify", PICTURE, "--model", path, "--backend", "cpu")[0]["results"]
        self.assertTrue(all(r["logit"] is None for r in results))
        self.assertAlmostEqual(sum(r["probability"] for r in results), 1, places=5)

    def test_pictures_that_cannot_be_used(self):
        def refuse(path, **expected):
            self.refused("classify", path, "--model", MODEL, "--backend", "cpu", **expected)
        refuse(self.folder / "none.png", error="Io", says="none.png")
        refuse(self.write("empty.png", ""), error="InvalidInput", says="is empty (0 bytes)")
        refuse(self.write("words.jpg", "no picture"), error="InvalidInput", says="words.jpg' is not a picture")
        refuse(self.write("cut.png", PICTURE.read_bytes()[:200]), error="InvalidInput", says="cut.png")
        refuse(FASHION / "labels.txt", error="InvalidInput", says="is not a picture")
        Image.new("RGB", (32, 32), "red").save(self.folder / "cut.jpg")
        whole = (self.folder / "cut.jpg").read_bytes()
        refuse(self.write("header.jpg", whole[:100]), error="InvalidInput", says="header.jpg")
        bomb = bytearray(PICTURE.read_bytes())
        bomb[16:24] = (60000).to_bytes(4, "big") * 2
        refuse(self.write("bomb.png", bytes(bomb)), error="InvalidInput", says="bomb.png")

    def test_models_that_take_no_picture(self):
        self.refused("classify", PICTURE, "--model", self.relu_model(), "--backend", "cpu", error="InvalidInput",
                     says="does not take a picture", hint="[N,3,H,W]")
        self.refused("classify", PICTURE, "--model", MODEL, "--preprocess", "uint8_nhwc", "--backend", "cpu", error="InvalidInput",
                     says="does not take a picture", hint="uint8_nhwc")
        self.refused("classify", PICTURE, "--model", MODEL, "--labels", self.folder / "none.txt", error="Io", says="none.txt")


class Pictures(CliTest):
    """The numbers that reach a model, read back through models whose outputs are their inputs."""

    def pixels(self, path, height, width, *flags):
        model = save(self.folder / "bytes.onnx", [helper.make_node("Flatten", ["x"], ["y"])],
                     [value("x", TensorProto.UINT8, [1, height, width, 3])], [value("y", TensorProto.UINT8, [1, height * width * 3])])
        results = self.document("classify", path, "--model", model, "--preprocess", "uint8_nhwc", "--top", height * width * 3,
                                "--backend", "reference", *flags)[0]["results"]
        out = np.zeros(height * width * 3)
        out[[r["index"] for r in results]] = [r["logit"] for r in results]
        return out.reshape(height, width, 3)

    @staticmethod
    def pillow(image, height, width, shorter=None):
        if image.size == (width, height):
            return np.asarray(image, np.float64)
        shorter = max(height, width, shorter or round(min(height, width) * 256 / 224))
        factor = shorter / min(image.size)
        sides = [int(side * factor + 0.5) for side in image.size]  # halves go up, as in the browser
        image = image.resize(sides, Image.Resampling.BILINEAR)
        left, top = (image.width - width) // 2, (image.height - height) // 2
        return np.asarray(image.crop((left, top, left + width, top + height)), np.float64)

    def test_resize_is_pillows(self):
        random = np.random.default_rng(7)
        for height, width in [(300, 451), (451, 300), (57, 57), (20, 90), (31, 32), (1, 1), (500, 3)]:
            image = Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
            path = self.folder / f"{width}x{height}.png"
            image.save(path)
            for size in [(32, 32), (28, 40)]:
                np.testing.assert_array_equal(self.pixels(path, *size), self.pillow(image, *size), str((path, size)))
            np.testing.assert_array_equal(self.pixels(path, 32, 32, "--resize", "48"), self.pillow(image, 32, 32, 48))

    def test_colour_types_become_rgb(self):
        random = np.random.default_rng(3)
        for mode, shape in [("L", (32, 32)), ("RGBA", (32, 32, 4)), ("LA", (32, 32, 2))]:
            image = Image.fromarray(random.integers(0, 256, shape, dtype=np.uint8), mode)
            image.save(self.folder / "colour.png")
            np.testing.assert_array_equal(self.pixels(self.folder / "colour.png", 32, 32), np.asarray(image.convert("RGB"), np.float64), mode)

    def test_jpeg_is_decoded_closely(self):
        y, x = np.mgrid[0:64, 0:64]
        image = Image.fromarray(np.stack([x * 4, y * 4, 255 - x * 2 - y * 2], axis=-1).astype(np.uint8))
        image.save(self.folder / "smooth.jpg", quality=95)
        decoded = np.asarray(Image.open(self.folder / "smooth.jpg").convert("RGB"), np.float64)
        self.assertLessEqual(np.abs(self.pixels(self.folder / "smooth.jpg", 64, 64) - decoded).max(), 4)

    def test_preprocessing_formulas(self):
        image = Image.open(PICTURE).convert("RGB").resize((32, 32))
        image.save(self.folder / "p.png")
        v = np.asarray(image, np.float64).transpose(2, 0, 1)
        wanted = {
            "torch": (v / 255 - np.array([0.485, 0.456, 0.406])[:, None, None]) / np.array([0.229, 0.224, 0.225])[:, None, None],
            "unit": v / 255,
            "caffe_bgr": v[::-1] - np.array([104, 117, 123])[:, None, None],
        }
        for dtype, tolerance in [(TensorProto.FLOAT, 1e-6), (TensorProto.FLOAT16, 1e-2)]:
            model = save(self.folder / "m.onnx", [helper.make_node("Flatten", ["x"], ["y"])], [value("x", dtype, ["N", 3, 32, 32])],
                         [value("y", dtype, ["N", 3072])])
            for name, expected in wanted.items():
                results = self.document("classify", self.folder / "p.png", "--model", model, "--preprocess", name, "--top", "3072",
                                        "--backend", "reference")[0]["results"]
                out = np.zeros(3072)
                out[[r["index"] for r in results]] = [r["logit"] for r in results]
                np.testing.assert_allclose(out.reshape(3, 32, 32), expected, rtol=tolerance, atol=tolerance * 10, err_msg=name)


class Inspect(CliTest):
    def test_document(self):
        document = self.document("inspect", MODEL)
        self.assertEqual(document["opsets"], {"ai.onnx": 13})
        self.assertEqual(document["inputs"], [{"name": "input", "dtype": "float32", "shape": ["batch", 3, 224, 224]}])
        proto = onnx.load(MODEL)
        self.assertEqual(document["ir"], proto.ir_version)
        self.assertEqual(document["nodes"], len(proto.graph.node))
        self.assertEqual(document["ops"]["Conv"], sum(node.op_type == "Conv" for node in proto.graph.node))
        self.assertEqual(document["parameters"], sum(numpy_helper.to_array(t).size for t in proto.graph.initializer))
        self.assertEqual(document["bytes"], MODEL.stat().st_size)
        for name in ("reference", "cpu", "webgpu"):
            backend = document["backends"][name]
            self.assertTrue(backend["supported"], name)
            self.assertEqual(backend["unsupported"], [])
            self.assertGreater(backend["peak_bytes"], 0)
        webgpu = document["backends"]["webgpu"]
        self.assertGreater(webgpu["dispatches_unfused"], webgpu["dispatches"])
        self.assertEqual(webgpu["crossings"], 0)
        self.assertGreater(webgpu["pipelines"], 0)

    def test_one_backend(self):
        self.assertEqual(list(self.document("inspect", MODEL, "--backend", "cpu")["backends"]), ["cpu"])

    def test_text(self):
        done = sinter("inspect", MODEL)
        self.assertEqual(done.returncode, 0)
        self.assertIn('input input float32["batch",3,224,224]', done.stdout)


class Test(CliTest):
    def case(self, name, scale=1.0, op="Relu", dtype=np.float32):
        folder = self.folder / name
        (folder / "test_data_set_0").mkdir(parents=True)
        x = np.array([[-1, 2, 3]], dtype)
        save(folder / "model.onnx", [helper.make_node(op, ["x"], ["y"], name="n")], [value("x", 1, [1, 3])], [value("y", 1, [1, 3])])
        for file, array in [("input_0.pb", x), ("output_0.pb", np.maximum(x, 0) * np.array(scale, dtype))]:
            (folder / "test_data_set_0" / file).write_bytes(numpy_helper.from_array(array).SerializeToString())
        return folder

    def test_passes_fails_and_skips(self):
        self.case("a_good")
        self.case("b_wrong", scale=1.5)
        self.case("c_unknown", op="Frobnicate")
        done = sinter("test", self.folder, "--backend", "cpu")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines()[-1], "1 passed, 2 failed, 0 skipped")
        self.assertIn("FAILED b_wrong: test_data_set_0: output 'y': 2 of 3 elements differ, first at [0,1]: 2, expected 3", done.stdout)
        document = self.document("test", self.folder, "--backend", "cpu", "--skip-unsupported", code=1)
        self.assertEqual([document[key] for key in ("passed", "failed", "skipped")], [1, 1, 1])
        self.assertEqual([case["status"] for case in document["cases"]], ["passed", "failed", "skipped"])
        self.assertEqual(set(document["cases"][0]), {"name", "status", "reason", "backend", "cpu_steps"})
        self.assertEqual(document["cases"][0]["backend"], "cpu")

    def test_a_hanging_case_fails_and_the_next_one_runs(self):
        self.case("a_good")
        self.case("b_good")
        done = sinter("test", self.folder, "--backend", "cpu", "--inject", "n=hang", "--timeout", "200")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line.split(": no progress")[0] for line in done.stdout.splitlines()],
                         ["FAILED a_good: Timeout", "FAILED b_good: Timeout", "0 passed, 2 failed, 0 skipped"])

    def test_one_directory_and_tolerances(self):
        folder = self.case("close", scale=1.01)
        self.assertEqual(sinter("test", folder, "--backend", "cpu").returncode, 1)
        done = sinter("test", folder, "--backend", "cpu", "--rtol", "0.02")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "1 passed, 0 failed, 0 skipped\n")

    def test_no_case_is_an_error(self):
        self.refused("test", self.folder, error="InvalidInput", says="no test case in", hint="model.onnx")
        self.refused("test", self.folder / "nowhere", error="Io", says="nowhere")

    def test_broken_data_is_a_failed_case(self):
        folder = self.case("broken")
        (folder / "test_data_set_0/output_0.pb").write_bytes(b"\x0a\xff")
        done = sinter("test", folder, "--backend", "cpu")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED broken: InvalidModel: ", done.stdout)


class Bench(CliTest):
    def test_document(self):
        document = self.document("bench", MODEL, "--backend", "cpu", "--runs", "3", "--warmup", "1", "--profile")
        self.assertEqual(document["backend"], "cpu")
        self.assertLessEqual(document["warm_ms"]["min"], document["warm_ms"]["median"])
        self.assertLessEqual(document["warm_ms"]["median"], document["warm_ms"]["p95"])
        self.assertGreater(document["peak_bytes"], MODEL.stat().st_size / 2)
        self.assertTrue(any(row["op"] == "Conv" for row in document["nodes"]))
        for key in ("model", "load_ms", "prepare_ms", "first_ms", "dispatches", "pipelines"):
            self.assertIn(key, document)
        self.assertGreater(document["ceilings"]["gflop_per_s"], 0)
        conv = next(row for row in document["nodes"] if row["op"] == "Conv")
        self.assertAlmostEqual(conv["gflop_per_s"], conv["flops"] / conv["ms"] * 1e-6, delta=1e-3 * conv["gflop_per_s"])

    def test_roofline(self):
        plot = self.folder / "roofline.svg"
        self.document("bench", MODEL, "--backend", "cpu", "--runs", "2", "--warmup", "0", "--profile", "--svg", plot)
        nodes = {dot.text for dot in xml.etree.ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}title")}
        self.assertTrue(any("(Conv, " in text and text.endswith("% of the ceiling") for text in nodes), nodes)

    def test_batch(self):
        self.document("bench", MODEL, "--backend", "cpu", "--runs", "1", "--warmup", "0", "--batch", "2")
        self.refused("bench", self.relu_model(shape=(1, 3)), "--batch", "2", "--backend", "cpu", error="InvalidInput", says="fixed to 1")


class Ops(CliTest):
    def test_document(self):
        document = self.document("ops")
        self.assertEqual(set(document["Conv"]), {"opsets", "dtypes", "cpu", "webgpu", "notes"})
        self.assertIn("float32", document["Conv"]["dtypes"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[f for word in sys.argv[1:] for f in ("-k", word)]])
