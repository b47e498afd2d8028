#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of the device, injected from the command line: each ends as one typed error that names the step, or on the CPU."""
import json
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SINTER = ROOT / "build/native/sinter"
MODEL = ROOT / "models/fashion/squeezenet1_1_fashion.onnx"


def run(*arguments):
    done = subprocess.run([SINTER, "run", MODEL, *arguments, "--json"], capture_output=True, text=True, timeout=300)
    return done.returncode, json.loads(done.stdout), done.stderr


class DeviceFaults(unittest.TestCase):
    def failed(self, fault, code, exit_code):
        status, document, stderr = run("--backend", "webgpu", "--inject-device", fault)
        self.assertEqual(status, exit_code, stderr)
        error = document["error"]
        self.assertEqual(error["code"], code)
        self.assertTrue(error["hint"])
        self.assertNotIn("echo_of", error)
        first = error["first_failure"]
        self.assertEqual((first["id"], first["code"], first["message"]), (1, code, error["message"]))
        return error, first, stderr

    def test_a_loss_at_any_step_names_it(self):
        for step in (0, 1, 7, 20):
            with self.subTest(step=step):
                error, first, stderr = self.failed(f"lost@{step}", "DeviceLost", 4)
                self.assertIn("injected at step", error["message"])
                self.assertIn(f"'{first['node']}'", error["message"])
                self.assertEqual(first["stage"], "run")
                self.assertTrue(first["kernel"])
                self.assertIn("fn main", first["wgsl"])
                self.assertIn("float32[", first["outputs"][0])
                self.assertTrue(first["events"])
                self.assertIn("  device call: queue.submit\n", stderr)
                self.assertIn("  last events:\n", stderr)

    def test_a_step_may_be_given_by_a_node_that_was_fused_into_it(self):
        _, first, _ = self.failed("lost@5", "DeviceLost", 4)
        fused = first["nodes"][-1]
        _, again, _ = self.failed(f"lost@{fused}", "DeviceLost", 4)
        self.assertEqual(again["node"], first["node"])

    def test_out_of_memory_names_the_step(self):
        error, first, _ = self.failed("oom@3", "OutOfMemory", 5)
        self.assertIn(f"'{first['node']}'", error["message"])

    def test_no_adapter_fails_where_webgpu_was_asked_for(self):
        _, first, _ = self.failed("no-adapter", "Gpu", 4)
        self.assertEqual(first["stage"], "open device")

    def test_no_adapter_falls_back_where_it_was_not(self):
        status, document, stderr = run("--inject-device", "no-adapter")
        self.assertEqual((status, document["backend"]), (0, "cpu"))
        self.assertIn("no adapter", stderr)

    def test_what_is_no_fault_or_no_step_is_refused(self):
        for fault in ("lost", "lost@", "gone@3", "oom"):
            with self.subTest(fault=fault):
                status, document, _ = run("--inject-device", fault)
                self.assertEqual((status, document["error"]["code"]), (3, "InvalidInput"))
                self.assertIn("lost@STEP", document["error"]["hint"])
        for fault in ("lost@9999", "oom@no such node"):
            with self.subTest(fault=fault):
                status, document, _ = run("--backend", "webgpu", "--inject-device", fault)
                self.assertEqual((status, document["error"]["code"]), (3, "InvalidInput"))
                self.assertIn(fault.split("@")[1], document["error"]["message"])

    def test_the_cpu_has_no_device_to_lose(self):
        status, document, text = run("--backend", "cpu", "--inject-device", "lost@3")
        self.assertEqual((status, document["backend"]), (0, "cpu"))
        self.assertIn("the injected fault is inert: lost@3 happens to a device", text)


if __name__ == "__main__":
    unittest.main()
