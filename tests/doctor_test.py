#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sinter doctor, the trace file and the profile: what they say must be true, of machines that are well and of broken ones.

  doctor_test.py [NAME...]   the tests whose names contain one of the words; default: all
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import onnx
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
SINTER = ROOT / "build/native/sinter"
MODEL = ROOT / "models/fashion/squeezenet1_1_fashion.onnx"
NODES = [node.name or node.output[0] for node in onnx.load(MODEL).graph.node]
CLIPPED = NODES[len(NODES) // 2]
NO_DRIVER = {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}


def sinter(*arguments, environment=None):
    return subprocess.run([SINTER, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, **(environment or {})})


def doctor(*arguments, environment=None):
    done = sinter("doctor", *arguments, "--json", environment=environment)
    return done.returncode, json.loads(done.stdout)


def stages_of(report, backend):
    return [row["stage"] for row in report["stages"] if row["backend"] == backend]


def model_of(nodes, path, initializers=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [1, 4])], [value("y", TensorProto.FLOAT, [1, 4])],
                              initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="by hand",
                                producer_version="7.5"), path)
    return path


class Machine(unittest.TestCase):
    def test_an_operator_that_does_not_exist_is_a_usage_error(self):
        self.assertEqual(doctor("--operators", "Nope")[0], 2)

    def test_every_operator_case_runs_on_every_backend(self):
        code, report = doctor()
        self.assertEqual(code, 0, report["verdict"])
        operators = json.loads(sinter("ops", "--json").stdout)
        for backend in ("reference", "cpu", "webgpu"):
            numbers = report["self_test"][backend]
            with self.subTest(backend=backend):
                self.assertEqual((numbers["failed"], numbers["failures"], numbers["stopped"]), (0, [], ""))
                self.assertEqual(numbers["passed"] + numbers["skipped"], numbers["cases"])
                self.assertGreater(numbers["passed"], 1000)
                self.assertGreater(numbers["ms"], 0)
                self.assertLessEqual(numbers["worst_of_tolerance"], 1)
                for name, row in numbers["operators"].items():
                    self.assertGreater(row["cases"], 0, name)
        self.assertGreaterEqual(set(report["self_test"]["cpu"]["operators"]), set(operators))
        # A backend that agrees to the last bit everywhere was not run.
        self.assertGreater(report["self_test"]["cpu"]["worst_of_tolerance"], 0)
        self.assertGreater(report["self_test"]["webgpu"]["worst_of_tolerance"], 0)
        self.assertGreater(report["self_test"]["cpu"]["own_kernels"], 100)

    def test_versions_features_and_adapter(self):
        code, report = doctor("--operators", "Gemm")
        self.assertEqual(code, 0)
        versions = report["versions"]
        self.assertEqual(f"sinter {versions['sinter']}\n", sinter("--version").stdout)
        self.assertRegex(versions["compiler"], r"^clang \d+\.\d+\.\d+$")
        self.assertRegex(versions["cxx_library"], r"^libstdc\+\+ \d+$")
        self.assertRegex(versions["highway"], r"^\d+\.\d+\.\d+$")
        self.assertTrue(pathlib.Path(versions["webgpu_library"]).exists())
        self.assertTrue(report["features"]["webgpu"])
        self.assertIn(report["features"]["instruction_set"], report["features"]["instruction_sets"])
        adapter = report["adapter"]
        self.assertTrue(adapter["available"] and adapter["name"] and adapter["backend"] and adapter["driver"])
        self.assertGreaterEqual(adapter["limits"]["maxStorageBuffersPerShaderStage"], 8)
        self.assertEqual(list(report["self_test"]["cpu"]["operators"]), ["Gemm"])
        self.assertTrue(report["adapter"]["self_test"]["right"])

    def test_without_a_driver_the_cpu_answers_and_the_verdict_says_why(self):
        code, report = doctor("--operators", "Relu", environment=NO_DRIVER)
        self.assertEqual(code, 0)
        self.assertFalse(report["adapter"]["available"])
        self.assertIn("models run on the CPU; WebGPU does not work here: no WebGPU adapter", report["verdict"])
        self.assertIn("Vulkan driver", report["hint"])
        self.assertNotIn("webgpu", report["self_test"])
        code, report = doctor("--backend", "webgpu", "--operators", "none", environment=NO_DRIVER)
        self.assertEqual(code, 1)
        self.assertIn("WebGPU does not work here", report["verdict"])

    def test_a_library_that_is_not_there(self):
        code, report = doctor("--operators", "none", environment={"SINTER_WEBGPU_LIB": "/nonexistent/libwebgpu.so"})
        self.assertEqual(code, 0)
        self.assertIn("/nonexistent/libwebgpu.so", report["versions"]["webgpu_library"])
        self.assertIn("/nonexistent/libwebgpu.so", report["verdict"])

    def test_text_says_what_the_document_says(self):
        done = sinter("doctor", "--operators", "Softmax,Conv")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "")
        self.assertIn("self-test        the device computes right values", done.stdout)
        self.assertRegex(done.stdout, r"\nwebgpu +\d+ +\d+ +0 +\d+")
        self.assertIn("\nverdict: models run on the CPU", done.stdout)

    def test_drivers_make_no_noise(self):
        environment = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
        done = subprocess.run([SINTER, "doctor", "--operators", "none"], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(done.stderr, "")


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_every_stage_of_a_good_model(self):
        code, report = doctor(MODEL, "--operators", "none")
        self.assertEqual(code, 0, report["verdict"])
        self.assertIn("fetch", stages_of(report, ""))
        self.assertTrue({"open adapter", "open device", "self-test"} <= set(stages_of(report, "")))
        passes = {f"pass {row['name']}" for row in json.loads(sinter("passes", "--json").stdout)}
        everywhere = {"load", "parse", "import", "plan", "warm-up", "run"}
        self.assertTrue(everywhere <= set(stages_of(report, "reference")))
        self.assertTrue((everywhere | {"prepare"}) <= set(stages_of(report, "cpu")))
        self.assertTrue((everywhere | {"upload", "compile", "submit", "read"}) <= set(stages_of(report, "webgpu")))
        for backend in ("cpu", "webgpu"):
            self.assertGreaterEqual(len(passes & set(stages_of(report, backend))), 5)
        for row in report["stages"]:
            self.assertTrue(row["ended"] and row["error"] == "" and row["ms"] >= 0, row)
        model = report["model"]
        proto = onnx.load(MODEL)
        self.assertEqual((model["producer"], model["producer_version"], model["ir"], model["nodes"]),
                         (proto.producer_name, proto.producer_version, proto.ir_version, len(proto.graph.node)))
        self.assertEqual(model["opsets"], {"ai.onnx": proto.opset_import[0].version})
        self.assertEqual(model["bytes"], MODEL.stat().st_size)
        self.assertEqual([(run["backend"], run["ran"], run["agrees"]) for run in report["runs"]],
                         [(backend, True, True) for backend in ("reference", "cpu", "webgpu")])
        self.assertIn("agrees with the reference", report["verdict"])

    def test_a_wrong_answer_is_found_and_the_hint_names_the_next_command(self):
        code, report = doctor(MODEL, "--operators", "none", "--backend", "webgpu", "--inject", f"{CLIPPED}=wrong")
        self.assertEqual(code, 1)
        self.assertIn("runs on webgpu but its answer is wrong: output ", report["verdict"])
        self.assertIn("bisect", report["hint"])
        self.assertEqual([run["agrees"] for run in report["runs"]], [True, False])
        self.assertGreater(report["runs"][1]["max_abs"], 0)

    def test_a_failing_node_is_named_with_its_stage(self):
        code, report = doctor(MODEL, "--operators", "none", "--inject", f"{CLIPPED}=error")
        self.assertEqual(code, 1)
        self.assertIn("fails on cpu in stage 'run'", report["verdict"])
        self.assertIn(f"'{CLIPPED}'", report["verdict"])
        for run in report["runs"][1:]:
            self.assertIn(CLIPPED, run["error"]["message"])
        failed = [row for row in report["stages"] if row["error"]]
        self.assertEqual([row["backend"] for row in failed], ["cpu", "webgpu"])

    def test_a_hang_ends_as_a_verdict(self):
        code, report = doctor(MODEL, "--operators", "none", "--inject", f"{CLIPPED}=hang", "--timeout", 800)
        self.assertEqual(code, 1)
        self.assertIn("Timeout, no progress for", report["verdict"])
        self.assertIn(CLIPPED, report["verdict"])

    def test_a_fault_of_the_device_is_in_the_stage_that_failed(self):
        for fault, stage, code_name in [("no-adapter", "open device", "Gpu"), ("lost@5", "run", "DeviceLost"), ("oom@3", "run", "OutOfMemory")]:
            code, report = doctor(MODEL, "--operators", "none", "--backend", "webgpu", "--inject-device", fault)
            self.assertEqual(code, 1)
            self.assertIn(f"fails on webgpu in stage '{stage}': {code_name}", report["verdict"])
            failed = [row["stage"] for row in report["stages"] if row["error"]]
            self.assertEqual(failed, [stage])

    def test_what_does_not_fit_the_model_is_no_verdict(self):
        for flags, says in [(["--inject", "nowhere=wrong"], "no node named 'nowhere'"), (["--dim", "nothing=3"], "no dimension named 'nothing'")]:
            code, report = doctor(MODEL, "--operators", "none", *flags)
            self.assertEqual((code, report["error"]["code"]), (3, "InvalidInput"))
            self.assertIn(says, report["error"]["message"])

    def test_a_model_that_no_backend_takes(self):
        path = model_of([helper.make_node("Frobnicate", ["x"], ["y"], name="odd")], self.folder / "odd.onnx")
        code, report = doctor(path, "--operators", "none")
        self.assertEqual(code, 1)
        self.assertIn("fails on every backend, in stage 'import'", report["verdict"])
        self.assertIn("Frobnicate", report["verdict"])
        self.assertEqual((report["model"]["producer"], report["model"]["producer_version"]), ("by hand", "7.5"))

    def test_a_file_that_is_no_model(self):
        path = self.folder / "page.onnx"
        path.write_text("<!DOCTYPE html><html></html>")
        code, report = doctor(path, "--operators", "none")
        self.assertEqual(code, 1)
        self.assertIn("in stage 'parse': InvalidModel", report["verdict"])
        code, report = doctor(self.folder / "missing.onnx", "--operators", "none")
        self.assertEqual((code, report["error"]["code"]), (3, "Io"))


class Traces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "trace.json"

    def check(self, *arguments, code=0):
        """Runs a verb with a trace, checks the rows and returns the stages with the node of each."""
        done = sinter(*arguments, "--trace", self.path)
        self.assertEqual(done.returncode, code, done.stderr)
        rows = json.loads(self.path.read_text())
        open_stages, last, begun = [], -1, []
        for row in rows:
            self.assertEqual((row["pid"], row["tid"]), (1, 1))
            if row["ph"] == "M":
                continue
            self.assertIn(row["ph"], ("B", "E", "i"))
            self.assertGreaterEqual(row["ts"], last)
            last = row["ts"]
            if row["ph"] == "B":
                self.assertEqual(set(row["args"]), {"node", "detail"})
                open_stages.append(row["name"])
                begun.append(row["name"])
            elif row["ph"] == "E":
                self.assertEqual(open_stages.pop(), row["name"])
        self.assertEqual(open_stages, [])
        return begun

    def test_rows_are_balanced_and_in_order(self):
        stages = self.check("bench", MODEL, "--backend", "webgpu", "--runs", 2, "--warmup", 1)
        for stage in ("fetch", "load", "parse", "import", "pass fuse_epilogue", "open adapter", "open device", "plan", "upload",
                      "compile", "warm-up", "run", "submit", "read"):
            self.assertIn(stage, stages)
        self.assertEqual((stages.count("run"), stages.count("warm-up")), (4, 2))
        stages = self.check("bench", MODEL, "--backend", "cpu", "--runs", 1, "--warmup", 0)
        for stage in ("fetch", "parse", "import", "pass to_channels_last", "plan", "warm-up", "run"):
            self.assertIn(stage, stages)

    def test_a_failure_leaves_a_whole_file(self):
        stages = self.check("run", MODEL, "--backend", "webgpu", "--inject", f"{CLIPPED}=error", code=4)
        self.assertIn("run", stages)
        stages = self.check("run", MODEL, "--backend", "cpu", "--inject", f"{CLIPPED}=hang", "--timeout", 300, code=4)
        self.assertEqual(stages[-1], "run")
        hung = [row for row in json.loads(self.path.read_text()) if row["ph"] == "i" and row["name"] == "step" and row["args"]["node"] == CLIPPED]
        self.assertEqual(len(hung), 1)

    def test_a_process_that_dies_has_named_its_last_stage(self):
        running = subprocess.Popen([SINTER, "run", MODEL, "--backend", "cpu", "--inject", f"{CLIPPED}=hang", "--trace", self.path],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            running.wait(3)
            self.fail("a run that hangs ended")
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        rows = json.loads(self.path.read_text() + "]")
        begun = [row["name"] for row in rows if row["ph"] == "B"]
        self.assertEqual(begun[-1], "run")


class Profiles(unittest.TestCase):
    def test_steps_have_times_that_add_up(self):
        for backend in ("cpu", "webgpu"):
            done = sinter("bench", MODEL, "--backend", backend, "--runs", 5, "--profile", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            with self.subTest(backend=backend):
                times = [row["ms"] for row in report["nodes"]]
                self.assertGreater(len(times), 20)
                self.assertGreater(sum(time > 0 for time in times), 0.7 * len(times))
                # Loose on purpose: these are other runs than the timed ones, on a machine that does other things.
                self.assertLess(sum(times), 4 * report["warm_ms"]["p95"])
                self.assertGreater(sum(times), report["warm_ms"]["min"] / 8)
                covered = {name for row in report["nodes"] for name in row["nodes"]}
                self.assertTrue(covered <= set(NODES))
                self.assertGreater(len(covered), len(NODES) * 0.8)
                if backend == "webgpu":
                    self.assertRegex(report["profiled_by"], "timestamp queries|each step in a submit of its own")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[f for word in sys.argv[1:] for f in ("-k", word)]])
