#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare and bisect on whole models: faults at sampled nodes are attributed to exactly those nodes, and what bisect writes is a
test that ONNX Runtime loads, that the bad way fails and the good way passes."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import sweep  # noqa: E402

SINTER = ROOT / "build/native/sinter"
MOBILENET = ROOT / "models/fashion/mobilenetv2_fashion.onnx"
SQUEEZENET = ROOT / "models/fashion/squeezenet1_1_fashion.onnx"
MODELS = [MOBILENET, SQUEEZENET]


def nodes_of(model):
    """Names of the nodes that compute something, in the file's order."""
    graph = onnx.load(model, load_external_data=False).graph
    return [node.name or node.output[0] for node in graph.node if node.op_type not in ("Constant", "Dropout")]


def sinter(*arguments, env=None):
    done = subprocess.run([SINTER, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=300, env=env)
    return done.returncode, json.loads(done.stdout)


def sample(model, count):
    return random.Random(5).sample(nodes_of(model), count)


def check_with_onnxruntime(test, folder):
    """ONNX Runtime loads the case and computes its outputs."""
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])

    def read(kind, index):
        return numpy_helper.to_array(onnx.load_tensor(folder / f"test_data_set_0/{kind}_{index}.pb"))

    feed = {value.name: read("input", i) for i, value in enumerate(session.get_inputs())}
    outputs = session.run(None, feed)
    test.assertGreater(len(outputs), 0)
    for i, output in enumerate(outputs):
        np.testing.assert_allclose(output, read("output", i), rtol=1e-3, atol=1e-4)


class Attribution(unittest.TestCase):
    def test_sampled_nodes_of_three_networks(self):
        for backend in ("cpu", "webgpu"):
            for model in sweep.MODELS:
                with self.subTest(model=model, backend=backend):
                    rows, code = sweep.attribution_of(model, backend, sample=10)
                    self.assertEqual([row for row in rows if not row["attributed"]], [])
                    self.assertEqual(code, 0)
                    self.assertEqual({kind: counts["nodes"] for kind, counts in sweep.summary(rows).items()},
                                     {"wrong": 10, "nan": 10, "error": 10})

    def test_compare_names_the_node_across_backends(self):
        for model in MODELS:
            for node in sample(model, 2):
                with self.subTest(model=model.name, node=node):
                    code, result = sinter("compare", model, "--a", "backend=cpu", "--b", "backend=webgpu",
                                          "--inject", f"{node}=wrong")
                    self.assertEqual((code, result["first"]["node"]), (1, node))

    def test_the_error_names_the_node(self):
        for model in MODELS:
            for backend in ("cpu", "webgpu", "reference"):
                node = sample(model, 3)[-1]
                with self.subTest(model=model.name, backend=backend, node=node):
                    code, result = sinter("run", model, "--backend", backend, "--inject", f"{node}=error")
                    self.assertEqual(code, 4)
                    self.assertIn(f"'{node}'", result["error"]["message"])
                    self.check_record(result["error"]["first_failure"], model, node)

    def check_record(self, record, model, node):
        """It tells of the model's own node, or of the step that the node became a part of."""
        operators = {n.name or n.output[0]: n.op_type for n in onnx.load(model).graph.node}
        self.assertEqual(record["node"], node)
        self.assertIn(node, record["nodes"])
        self.assertIn(record["op"], {operators[name] for name in record["nodes"]})
        self.assertTrue(record["inputs"] and record["outputs"] and record["kernel"], record)
        self.assertEqual(record["stage"], "run")

    def test_a_hang_is_a_timeout_that_names_the_node(self):
        model = sweep.model_for("squeezenet1_1")  # small, so that nothing else takes as long as the limit
        node = sample(model, 1)[0]
        for backend in ("cpu", "webgpu"):
            code, result = sinter("run", model, "--backend", backend, "--inject", f"{node}=hang", "--timeout", 5000)
            self.assertEqual((code, result["error"]["code"]), (4, "Timeout"))
            self.assertIn(node, result["error"]["message"])
            self.check_record(result["error"]["first_failure"], model, node)


class Small(unittest.TestCase):
    """On a model of a few nodes: what reaches no output, and what cannot be compared."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "model.onnx"
        nodes = [helper.make_node("Constant", [], ["two"], name="constant", value=numpy_helper.from_array(np.float32([2]))),
                 helper.make_node("Mul", ["x", "two"], ["m"], name="scale"),
                 helper.make_node("Abs", ["m"], ["a"], name="size"),
                 helper.make_node("Neg", ["m"], ["unused"], name="idle"),
                 helper.make_node("Sign", ["a"], ["y"], name="sign")]
        of = [helper.make_tensor_value_info(name, 1, ["N", 4]) for name in ("x", "y")]
        graph = helper.make_graph(nodes, "g", of[:1], of[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.model)

    def both(self, *more):
        ways = [("compare", "--a", "--b"), ("bisect", "--good", "--bad")]
        return [sinter(verb, self.model, a, "backend=reference", b, "backend=cpu", *more) for verb, a, b in ways]

    def test_a_difference_that_no_output_shows_is_found_by_both(self):
        # 'wrong' makes a size larger, which does not change its sign.
        (code, compared), (bisect_code, bisected) = self.both("--inject", "size=wrong", "--dim", "N=3")
        self.assertEqual((code, compared["equal"], compared["first"]["node"]), (1, False, "size"))
        self.assertEqual((bisect_code, bisected["kind"], bisected["node"]), (1, "node", "size"))
        self.assertEqual((bisected["judged_by"], bisected["first"]["node"]), ("nodes", "size"))
        self.assertNotIn("inert", bisected)
        self.assertLessEqual(bisected["runs"], 2 * np.log2(4) + 4)

    def test_inert_faults_are_said_to_be_inert(self):
        for node, why in [("constant", "is a constant"), ("two", "is a constant"), ("idle", "no output of the model depends on")]:
            with self.subTest(node=node):
                code, result = sinter("run", self.model, "--backend", "cpu", "--inject", f"{node}=wrong")
                self.assertEqual(code, 0)
                self.assertIn(why, result["inert"])
        for code, result in self.both("--inject", "constant=wrong"):
            self.assertEqual(code, 0)
            self.assertIn("is a constant", result["inert"])
        self.assertIsNone(sinter("run", self.model, "--backend", "cpu", "--inject", "scale=wrong")[1]["inert"])

    def test_what_makes_equal_mean_less_is_told(self):
        np.save(self.folder / "nan.npy", np.float32([[1, np.nan, 2, np.inf]]))
        for code, result in self.both("--input", f"x={self.folder / 'nan.npy'}"):
            self.assertEqual(code, 0)
            self.assertIn("2 of 4 elements of input 'x' are NaN or infinite", result["warnings"][0])
        for code, result in self.both("--dim", "N=0"):
            self.assertEqual(code, 0)
            self.assertIn("input 'x' has no elements", result["warnings"][0])

    def test_nan_is_told_from_a_number(self):
        (_, compared), _ = self.both("--inject", "size=nan")
        self.assertEqual((compared["first"]["b"], compared["first"]["b_text"]), (None, "nan"))
        self.assertAlmostEqual(float(compared["first"]["a_text"]), compared["first"]["a"], places=5)
        self.assertIsNone(next(row["cosine"] for row in compared["nodes"] if row["node"] == "size"))

    def test_names_with_bars_stay_in_their_cell(self):
        model = onnx.load(self.model)
        model.graph.node[2].name = "a|b"
        onnx.save(model, self.model)
        repro = self.folder / "repro"
        code, result = sinter("bisect", self.model, "--good", "backend=reference", "--bad", "backend=cpu", "--inject", "a|b=nan", "--repro", repro)
        self.assertEqual((code, result["node"]), (1, "a|b"))
        rows = [line for line in (repro / "report.md").read_text().splitlines() if line.startswith("| `a")]
        self.assertEqual([len(re.findall(r"(?<!\\)\|", row)) for row in rows], [6])

    def test_a_repro_needs_a_name(self):
        done = subprocess.run([SINTER, "bisect", self.model, "--good", "backend=reference", "--bad", "backend=cpu", "--repro", ""],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("name a folder", done.stderr)


class Compare(unittest.TestCase):
    def test_equal_ways_are_equal(self):
        for a, b in [("backend=reference", "backend=cpu"), ("backend=cpu,fusion=off", "backend=webgpu"),
                     ("backend=cpu,threads=1", "backend=cpu,threads=2,off=to_channels_last+fuse_epilogue")]:
            code, result = sinter("compare", SQUEEZENET, "--a", a, "--b", b)
            self.assertEqual((code, result["equal"], result["first"]), (0, True, None))
            self.assertGreater(len(result["nodes"]), 60)

    def test_half_precision(self):
        for backend in ("cpu", "webgpu"):
            code, result = sinter("compare", SQUEEZENET, "--a", "backend=cpu", "--b", f"backend={backend},dtype=f16",
                                  "--rtol", 0.05, "--atol", 0.05)
            with self.subTest(backend=backend):
                self.assertNotIn("error", result)
                largest = max(row["max_abs"] for row in result["nodes"])
                # It is half precision, and no worse than that.
                self.assertGreater(largest, 1e-3)
                self.assertGreater(min(row["cosine"] for row in result["nodes"]), 0.999)
                self.assertEqual(len(result["nodes"]), len(nodes_of(SQUEEZENET)))

    def test_half_precision_where_the_device_has_none(self):
        driver = "/usr/lib/chromium/vk_swiftshader_icd.json"
        if not pathlib.Path(driver).exists():
            self.skipTest("SwiftShader is not installed")
        env = {key: value for key, value in os.environ.items() if not key.startswith("VK_")}
        code, result = sinter("compare", SQUEEZENET, "--a", "backend=cpu", "--b", "backend=webgpu,dtype=f16",
                              env=env | {"VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver})
        self.assertEqual((code, result["error"]["code"]), (3, "Unsupported"))
        self.assertIn("shader-f16", result["error"]["message"])
        self.assertIn("backend=cpu", result["error"]["hint"])

    def test_the_plot_marks_the_first_difference(self):
        node = sample(MOBILENET, 1)[0]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "errors.svg")
            code, result = sinter("compare", MOBILENET, "--a", "backend=cpu", "--b", "backend=cpu", "--inject",
                                  f"{node}=wrong", "--svg", path)
            self.assertEqual(code, 1)
            root = xml.etree.ElementTree.parse(path).getroot()
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        marked = [text for text in texts if text.startswith("▶")]
        self.assertEqual(len(marked), 1)
        self.assertIn(node[-20:], marked[0])
        circles = list(root.iter("{http://www.w3.org/2000/svg}circle"))
        self.assertEqual(len(circles), 2 * len(result["nodes"]))

    def test_bad_specs_are_refused(self):
        for spec in ("dtype=f8", "threads=none", "fusion=maybe", "backend", "colour=red"):
            code, result = sinter("compare", SQUEEZENET, "--a", "backend=cpu", "--b", spec)
            self.assertEqual((code, result["error"]["code"]), (3, "InvalidInput"), spec)

    def test_an_interrupt_ends_it(self):
        command = [SINTER, "compare", SQUEEZENET, "--a", "backend=cpu", "--b", "backend=cpu", "--timeout", "60000", "--inject",
                   f"{nodes_of(SQUEEZENET)[5]}=hang"]
        with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            time.sleep(2)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("Cancelled", errors)

    def test_device_faults_are_refused(self):
        code, result = sinter("compare", SQUEEZENET, "--a", "backend=cpu", "--b", "backend=webgpu", "--inject-device", "lost@0")
        self.assertEqual((code, result["error"]["code"]), (3, "InvalidInput"))


class Bisect(unittest.TestCase):
    def bisect(self, model, kind, node, folder, backend="cpu"):
        start = time.monotonic()
        code, result = sinter("bisect", model, "--good", "backend=cpu", "--bad", f"backend={backend}", "--inject",
                              f"{node}={kind}", "--repro", folder, "--timeout", 120000)
        self.assertEqual(code, 1, result)
        self.assertEqual((result["kind"], result["node"], result["nodes"]), ("node", node, [node]))
        self.assertEqual(result["repro"], str(folder))
        self.assertLessEqual(result["runs"], 2 * np.log2(len(nodes_of(model))) + 4)
        return time.monotonic() - start

    def check_repro(self, folder, kind, node, backend="cpu"):
        check_with_onnxruntime(self, folder)
        self.assertLess((folder / "model.onnx").stat().st_size, 20_000)
        code, result = sinter("test", folder, "--backend", backend, "--inject", f"{node}={kind}")
        self.assertEqual((code, result["failed"]), (1, 1))
        code, result = sinter("test", folder, "--backend", "cpu")
        self.assertEqual((code, result["passed"]), (0, 1))
        report = json.loads((folder / "report.json").read_text())
        self.assertEqual((report["kind"], report["node"], report["inject"]), ("node", node, f"{node}={kind}"))
        self.assertEqual([row["node"] for row in report["repro"]], [node])
        if kind == "error":
            self.assertIn("an error was injected here", report["failure"])
        else:
            self.assertGreater(report["differing"], 0)
        if backend == "webgpu":
            self.assertTrue(all("@compute" in kernel["wgsl"] for kernel in report["kernels"]))
        text = (folder / "report.md").read_text()
        for needed in (node, "## Configuration", "backend=cpu", "sinter test", "sinter bisect"):
            self.assertIn(needed, text)

    def test_the_repro_fails_the_bad_way_and_passes_the_good_way(self):
        with tempfile.TemporaryDirectory() as base:
            for model in MODELS:
                for kind, node in zip(("wrong", "nan", "error"), sample(model, 3)):
                    with self.subTest(model=model.name, kind=kind, node=node):
                        folder = pathlib.Path(base, model.stem, kind)
                        self.assertLess(self.bisect(model, kind, node, folder), 30)
                        self.check_repro(folder, kind, node)

    def test_a_repro_on_webgpu_shows_the_shader(self):
        node = next(name for name in nodes_of(MOBILENET) if name.endswith("conv.1/conv.1.0/Conv"))
        with tempfile.TemporaryDirectory() as base:
            self.bisect(MOBILENET, "wrong", node, pathlib.Path(base), "webgpu")
            self.check_repro(pathlib.Path(base), "wrong", node, "webgpu")
            self.assertIn("@compute", pathlib.Path(base, "report.md").read_text())

    def test_a_second_repro_replaces_the_first_but_no_other_folder(self):
        first, second = sample(SQUEEZENET, 2)
        with tempfile.TemporaryDirectory() as base:
            for node in (first, second):
                self.bisect(SQUEEZENET, "nan", node, pathlib.Path(base))
            self.check_repro(pathlib.Path(base), "nan", second)
        with tempfile.TemporaryDirectory() as base:
            pathlib.Path(base, "mine.txt").write_text("x")
            code, result = sinter("bisect", SQUEEZENET, "--good", "backend=cpu", "--bad", "backend=cpu", "--inject",
                                  f"{first}=nan", "--repro", base)
            self.assertEqual((code, result["error"]["code"]), (3, "Io"))

    def test_nodes_without_names_and_values_of_all_kinds(self):
        """Constants in nodes, initialisers computed from initialisers, several outputs, integers, an old IR version."""
        helper, numpy = onnx.helper, onnx.numpy_helper
        random_ = np.random.RandomState(3)
        weight = numpy.from_array(random_.standard_normal((8, 1, 3, 3)).astype(np.float32), "weight")
        scale = numpy.from_array(random_.standard_normal((1, 8, 1, 1)).astype(np.float32), "scale")
        nodes = [
            helper.make_node("Conv", ["x", "weight"], ["conv"], group=8, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Mul", ["scale", "scale"], ["square"]),
            helper.make_node("Add", ["conv", "square"], ["sum"]),
            helper.make_node("Split", ["sum"], ["left", "right"], axis=1),
            helper.make_node("Constant", [], ["shape"], value=numpy.from_array(np.array([0, -1], np.int64))),
            helper.make_node("Reshape", ["right", "shape"], ["flat"]),
            helper.make_node("ArgMax", ["flat"], ["best"], axis=1, keepdims=1),
            helper.make_node("Cast", ["best"], ["number"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", ["left", "number_"], ["y"]),
        ]
        nodes.insert(8, helper.make_node("Reshape", ["number", "one"], ["number_"]))
        one = numpy.from_array(np.array([1, 1, 1, 1], np.int64), "one")
        values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
                  for name, shape in [("x", [1, 8, 9, 7]), ("weight", [8, 1, 3, 3]), ("scale", [1, 8, 1, 1]), ("y", None)]]
        values.insert(3, helper.make_tensor_value_info("one", onnx.TensorProto.INT64, [4]))
        graph = helper.make_graph(nodes, "g", values[:4], values[4:], [weight, scale, one])
        model = helper.make_model(graph, ir_version=3, opset_imports=[helper.make_opsetid("", 11)])
        with tempfile.TemporaryDirectory() as base:
            path = pathlib.Path(base, "model.onnx")
            path.write_bytes(model.SerializeToString())
            # x + max(1, |x|) leaves the place of the maximum where it was: the fault does not reach the output.
            code, result = sinter("bisect", path, "--good", "backend=cpu", "--bad", "backend=cpu", "--inject", "flat=wrong")
            self.assertEqual((code, result["node"], result["judged_by"]), (1, "flat", "nodes"))
            code, result = sinter("compare", path, "--a", "backend=cpu", "--b", "backend=cpu", "--inject", "flat=wrong")
            self.assertEqual((code, result["first"]["node"]), (1, "flat"))
            for node in ("conv", "sum", "left", "best", "number", "number_", "y"):
                with self.subTest(node=node):
                    folder = pathlib.Path(base, node)
                    code, result = sinter("bisect", path, "--good", "backend=cpu", "--bad", "backend=cpu", "--inject",
                                          f"{node}=wrong", "--repro", folder)
                    self.assertEqual((code, result["node"]), (1, node))
                    check_with_onnxruntime(self, folder)
                    code, _ = sinter("test", folder, "--backend", "cpu", "--inject", f"{node}=wrong")
                    self.assertEqual(code, 1)
                    code, _ = sinter("test", folder, "--backend", "cpu")
                    self.assertEqual(code, 0)

    def test_agreement_is_none(self):
        code, result = sinter("bisect", SQUEEZENET, "--good", "backend=reference", "--bad", "backend=cpu")
        self.assertEqual((code, result["kind"], result["repro"]), (0, "none", None))

    def test_a_finding_stays_where_no_repro_can_be_made(self):
        # A difference of the last bits, which a model of one node need not show.
        with tempfile.TemporaryDirectory() as folder:
            code, result = sinter("bisect", SQUEEZENET, "--good", "backend=reference", "--bad", "backend=cpu", "--rtol", 1e-7,
                                  "--atol", 1e-8, "--repro", folder)
        self.assertEqual((code, result["kind"]), (1, "node"))
        self.assertEqual(result["repro"] is None, "no_repro" in result)

    def test_a_folder_of_others_is_refused_before_the_search(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "mine.txt").write_text("kept")
            code, result = sinter("bisect", "models/no_such.onnx", "--good", "backend=cpu", "--bad", "backend=reference", "--repro",
                                  folder)
            self.assertEqual((code, result["error"]["code"]), (3, "Io"))
            self.assertIn("holds other files", result["error"]["message"])

    def test_repros_of_broken_kernels_and_passes(self):
        with tempfile.TemporaryDirectory() as base:
            subprocess.run([ROOT / "build/native/tests/test_broken", "--gtest_brief=1"], check=True, capture_output=True,
                           env=os.environ | {"SINTER_REPRO_DIR": base}, timeout=300)
            cases = sorted(pathlib.Path(base).iterdir())
            self.assertGreaterEqual(len(cases), 4)
            for case in cases:
                with self.subTest(case=case.name):
                    check_with_onnxruntime(self, case)
            # Nothing is broken in the command line tool.
            code, result = sinter("test", base, "--backend", "cpu")
            self.assertEqual((code, result["passed"]), (0, len(cases)))


if __name__ == "__main__":
    unittest.main()
