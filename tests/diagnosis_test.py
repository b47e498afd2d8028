#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults injected at sampled nodes are attributed to exactly those nodes, by compare, by bisect and by the error itself."""
import json
import pathlib
import random
import subprocess
import unittest

import onnx

ROOT = pathlib.Path(__file__).resolve().parents[1]
SINTER = ROOT / "build/native/sinter"
MODELS = [ROOT / "models/fashion/mobilenetv2_fashion.onnx", ROOT / "models/fashion/squeezenet1_1_fashion.onnx"]


def nodes_of(model):
    """Names of the nodes that compute something, in the file's order."""
    graph = onnx.load(model, load_external_data=False).graph
    return [node.name or node.output[0] for node in graph.node if node.op_type not in ("Constant", "Dropout")]


def sinter(*arguments):
    done = subprocess.run([SINTER, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=300)
    return done.returncode, json.loads(done.stdout)


class Attribution(unittest.TestCase):
    def sample(self, model, count):
        return random.Random(5).sample(nodes_of(model), count)

    def test_compare_names_the_node(self):
        for model in MODELS:
            for kind in ("wrong", "nan"):
                for node in self.sample(model, 10):
                    with self.subTest(model=model.name, kind=kind, node=node):
                        code, result = sinter("compare", model, "--a", "backend=cpu", "--b", "backend=cpu",
                                              "--inject", f"{node}={kind}")
                        self.assertEqual(code, 1)
                        self.assertFalse(result["equal"])
                        self.assertEqual(result["first"]["node"], node)

    def test_compare_names_the_node_across_backends(self):
        for model in MODELS:
            for node in self.sample(model, 2):
                with self.subTest(model=model.name, node=node):
                    code, result = sinter("compare", model, "--a", "backend=cpu", "--b", "backend=webgpu",
                                          "--inject", f"{node}=wrong")
                    self.assertEqual((code, result["first"]["node"]), (1, node))

    def test_bisect_names_the_node(self):
        for model in MODELS:
            for kind in ("wrong", "nan", "error"):
                node = self.sample(model, 4)[-1]
                with self.subTest(model=model.name, kind=kind, node=node):
                    code, result = sinter("bisect", model, "--good", "backend=cpu", "--bad", "backend=cpu",
                                          "--inject", f"{node}={kind}")
                    self.assertEqual(code, 1)
                    self.assertEqual((result["kind"], result["node"]), ("node", node))
                    self.assertLessEqual(result["runs"], 2 * len(nodes_of(model)).bit_length() + 4)

    def test_the_error_names_the_node(self):
        for model in MODELS:
            for backend in ("cpu", "webgpu", "reference"):
                node = self.sample(model, 3)[-1]
                with self.subTest(model=model.name, backend=backend, node=node):
                    code, result = sinter("run", model, "--backend", backend, "--inject", f"{node}=error")
                    self.assertEqual(code, 4)
                    self.assertIn(f"'{node}'", result["error"]["message"])

    def test_a_hang_is_a_timeout_that_names_the_node(self):
        node = self.sample(MODELS[0], 1)[0]
        for backend in ("cpu", "webgpu"):
            code, result = sinter("run", MODELS[0], "--backend", backend, "--inject", f"{node}=hang", "--timeout", 500)
            self.assertEqual((code, result["error"]["code"]), (4, "Timeout"))
            self.assertIn(node, result["error"]["message"])

    def test_equal_ways_are_equal(self):
        for a, b in [("backend=reference", "backend=cpu"), ("backend=cpu,fusion=off", "backend=webgpu"),
                     ("backend=cpu", "backend=cpu,off=to_channels_last")]:
            code, result = sinter("compare", MODELS[1], "--a", a, "--b", b)
            self.assertEqual((code, result["equal"], result["first"]), (0, True, None))
            self.assertGreater(len(result["nodes"]), 60)
        code, result = sinter("bisect", MODELS[1], "--good", "backend=reference", "--bad", "backend=cpu")
        self.assertEqual((code, result["kind"]), (0, "none"))


if __name__ == "__main__":
    unittest.main()
