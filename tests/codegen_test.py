#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates C++ from models and from ONNX's node tests, compiles it without a warning by clang and GCC, runs it, and compares
with what the engine gives for the ONNX file on the same backend: every bit must be equal.

A sample of the node tests with every operator in it; --all takes all of them.
"""
import os
import re
import shutil
import sys
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/node_tests"), str(ROOT / "tests/codegen")]
import run as node_tests  # noqa: E402
from programs import LIBRARIES, SINTER, Program, backends, flags_for, fresh, run, write_tensors  # noqa: E402

OUT = ROOT / "build/codegen"
ALL = "--all" in sys.argv
STRIDE = 12  # one node test in so many, beside the first of each operator


def random_inputs(path):
    random = np.random.default_rng(7)
    graph = onnx.load(path, load_external_data=False).graph
    given = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in given:
            continue
        kind = value.type.tensor_type
        shape = [dim.dim_value or 1 for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        yield (random.standard_normal(shape) * 3).astype(dtype)


def chosen_node_tests():
    tests = node_tests.load_tests()
    excluded = node_tests.read_entries("exclusions.txt")
    supported = node_tests.sinter(SINTER, "ops")
    seen, chosen = set(), []
    usable = [(name, path, model) for name, (path, model) in tests.items()
              if name not in excluded and node_tests.uses_only(model, supported)]
    for index, (name, path, model) in enumerate(usable):
        operators = {node.op_type for node in model.graph.node}
        shaped_at_run_time = name.startswith(("test_reshape_", "test_expand_", "test_slice"))
        if ALL or index % STRIDE == 0 or not operators <= seen or shaped_at_run_time:
            chosen.append((name, path))
            seen |= operators
    return chosen


class Codegen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        fresh(OUT)

    def test_node_tests(self):
        program = Program(OUT, "nodes")
        for name, path in chosen_node_tests():
            code, answer = program.generate(path / "model.onnx", name)
            self.assertEqual(code, 0, f"{name}: {answer}")
            given = []
            for i in range(len(answer["inputs"])):
                tensor = onnx.TensorProto()
                tensor.ParseFromString((path / f"test_data_set_0/input_{i}.pb").read_bytes())
                given.append(numpy_helper.to_array(tensor))
            program.add(name, path / "model.onnx", answer, [given])
        self.assertGreaterEqual(program.count, 150)
        program.check(self, ["clang++-19", *(["g++-12"] if ALL else [])], backends())

    def test_models(self):
        program = Program(OUT, "models")
        models = sorted((ROOT / "models/fashion").glob("*.onnx")) + sorted((ROOT / "models/generated").glob("*.onnx"))
        shared = Path(os.environ.get("SINTER_SHARED", ROOT.parent / "shared")) / "models/onnx"
        models += sorted(shared.glob("*.onnx"))
        for model in models:
            name = "model_" + "".join(c if c.isalnum() else "_" for c in model.stem).lower().strip("_")
            while "__" in name:
                name = name.replace("__", "_")
            code, answer = program.generate(model, name)
            if code == 3 and answer["error"]["code"] == "Unsupported":
                loads = run(SINTER, "inspect", model, "--backend", "cpu", "--json", check=False)
                self.assertIn('"supported": false', loads.stdout, f"{model.name} runs, but is not compiled: {answer}")
                self.assertFalse((OUT / f"{name}.hpp").exists())
                continue
            self.assertEqual(code, 0, f"{model.name}: {answer}")
            program.add(name, model, answer, [list(random_inputs(model))])
        self.assertGreaterEqual(program.count, 2)
        program.check(self, ["g++-12", "clang++-19"], backends() if ALL else ["cpu", *backends()[2:]])


    def test_names_that_the_code_itself_uses(self):
        node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        names = ["/model/Model/Relu", "/model/Weights/Relu", "/model/sinter/Relu", "/std/x/Relu", "/Network/Relu", "/Expression/express/Relu",
                 "/kLock/Relu", "/class/int/Relu", "/a b/\u00fc/Relu", "/Inputs/Outputs/Relu", "/embedded/kBytes/Relu", "/1/2/Relu",
                 "/Tensor/Relu", "/model/Model/Relu_1", "/forward/Relu", "/names/\n/Relu", "/lock/??/\\/Relu", "/HostTensor/Engine/Relu"]
        nodes, weights, last = [], [], "input"
        for i, name in enumerate(names):
            last_here = "weights" if name is names[-1] else f"{name}_output"
            weights.append(numpy_helper.from_array(np.full(9, i - 3, np.float32), f"w.{i}/{name}"))
            nodes += [node("Add", [last, weights[-1].name], [f"{name}_sum"], name=f"{name}_add"),
                      node("Relu", [f"{name}_sum"], [last_here], name=name)]
            last = last_here
        graph = onnx.helper.make_graph(nodes, "names", [info("input", 1, ["int", 9])], [info("weights", 1, ["int", 9])], weights)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, OUT / "names.onnx")
        program = Program(OUT, "hostile")
        code, answer = program.generate(OUT / "names.onnx", "names")
        self.assertEqual(code, 0, answer)
        program.add("names", OUT / "names.onnx", answer, [[np.random.default_rng(3).standard_normal((n, 9)).astype(np.float32)] for n in (1, 4)])
        program.check(self, ["g++-12", "clang++-19"], ["cpu"])


KEPT = ROOT / "tests/codegen/kept"
GUIDE = (ROOT / "docs/compile.md").read_text()
MAIN = """#include <cstdio>
#include "driver.h"
#include "small.hpp"
static sinter::Task<sinter::HostTensor> answer(sinter::Engine engine, driver::Tensors inputs) {
  auto model = co_await small::Model::create(engine);
  if (!model) co_return std::unexpected(model.error());
  small::Model::Inputs in;
  in.x = inputs.at(0);
  auto out = co_await model->forward(std::move(in));
  if (!out) co_return std::unexpected(out.error());
  co_return out->y;
}
int main(int, char** argv) {
  const auto engine = driver::make_engine("cpu");
  const auto y = engine.wait(answer(engine, driver::read_inputs(argv[1])));
  if (!y) std::printf("%s\\n", sinter::to_string(y.error()).c_str());
  if (!y) return 1;
  for (const float value : y->data<float>()) std::printf("%.9g ", static_cast<double>(value));
  return 0;
}
"""


class Lock(unittest.TestCase):
    """Code, weights and library that do not belong together."""

    def setUp(self):
        self.folder = ROOT / "build/codegen_lock" / self.id().rsplit(".", 1)[1]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def build(self, code, *flags):
        (self.folder / "main.cc").write_text(MAIN)
        write_tensors(self.folder / "in", [np.load(KEPT / "small.input.npy")])
        return run("clang++-19", *flags, *flags_for(code), self.folder / "main.cc", code / "small.cpp", "-o", self.folder / "main",
                   *LIBRARIES, check=False)

    def copy(self):
        return Path(shutil.copytree(KEPT / "0.1.0", self.folder / "code"))

    def answer(self):
        return run(self.folder / "main", self.folder / "in", check=False)

    def test_code_of_earlier_versions_still_works(self):
        versions = sorted(path for path in KEPT.iterdir() if path.is_dir())
        self.assertTrue(versions)
        for version in versions:
            with self.subTest(version=version.name):
                built = self.build(version)
                self.assertEqual(built.returncode, 0, built.stdout)
                numbers = np.array([float(word) for word in self.answer().stdout.split()])
                np.testing.assert_allclose(numbers, np.load(KEPT / "small.output.npy").ravel(), rtol=1e-4, atol=1e-5)

    def test_another_operator_does_not_compile(self):
        code = self.copy()
        text = (code / "small.hpp").read_text()
        at = text.index('operator_hash("Conv") == 0x') + len('operator_hash("Conv") == 0x')
        (code / "small.hpp").write_text(text[:at] + "0123456789abcdef" + text[at + 16:])
        built = self.build(code)
        self.assertNotEqual(built.returncode, 0)
        message = "the operator Conv is not the one that small was generated for: run `sinter compile small.onnx -o DIR` again"
        self.assertIn(message, built.stdout)
        self.assertIn(f"error: static assertion failed: {message}", GUIDE)

    def test_another_version_does_not_compile(self):
        code = self.copy()
        text = (code / "small.hpp").read_text()
        (code / "small.hpp").write_text(text.replace('"0.1.0", 1,', '"0.0.9", 1,'))
        built = self.build(code)
        self.assertNotEqual(built.returncode, 0)
        self.assertIn("which this version does not list as compatible", built.stdout)

    def other_headers(self, header, old, new):
        """The include flag of headers that differ from the library's."""
        include = Path(shutil.copytree(ROOT / "build/native/include", self.folder / "include"))
        text = (include / header).read_text()
        self.assertIn(old, text)
        (include / header).write_text(text.replace(old, new))
        return f"-I{include}"

    def test_headers_of_another_version(self):
        flag = self.other_headers("sinter/lock.hpp", 'kVersion = "0.1.0"', 'kVersion = "0.1.1"')
        built = self.build(self.copy(), flag)
        self.assertEqual(built.returncode, 0, built.stdout)
        answer = self.answer()
        self.assertEqual(answer.returncode, 1)
        self.assertIn("error[Unsupported]: this program was compiled with the headers of sinter 0.1.1 (format 1) and runs with the "
                      "library 0.1.0 (format 1)", answer.stdout)

    def test_headers_that_lay_types_out_in_another_way(self):
        loads = """#include <cstdio>
#include <sinter/sinter.hpp>
int main(int, char** argv) {
  const sinter::Engine engine({.backend = sinter::Backend::cpu});
  const auto session = engine.wait(engine.load(argv[1]));
  const auto doubled = (sinter::Tensor(engine, {1}, {1.0f}) * 2).to_data();
  std::printf("%s\\n%s\\n", session ? "" : sinter::to_string(session.error()).c_str(),
              doubled ? "" : sinter::to_string(doubled.error()).c_str());
}
"""
        refusal = "error[Unsupported]: this program lays out the types of sinter 0.1.0 in another way than the library"
        flag = self.other_headers("sinter/engine.hpp", "bool low_power = false;", "bool low_power = false; double later = 0;")
        (self.folder / "loads.cc").write_text(loads)
        for compiler in ["clang++-19", "g++-12"]:
            for flags, count in [([flag], 2), ([], 0)]:
                run(compiler, *flags, *flags_for(self.folder), self.folder / "loads.cc", "-o", self.folder / "loads", *LIBRARIES)
                answer = run(self.folder / "loads", KEPT / "small.onnx", check=False)
                self.assertEqual(answer.stdout.count(refusal), count, answer.stdout)
        shutil.rmtree(self.folder / "include")
        flag = self.other_headers("sinter/tensor.hpp", "Dims shape = Dims::any();", "Dims shape = Dims::any(); int later = 0;")
        self.assertEqual(self.build(self.copy(), flag).returncode, 0)
        self.assertIn(refusal, self.answer().stdout)

    def test_headers_of_other_operators(self):
        row = re.search(r'\{"Abs", 0x\w+\}', (ROOT / "build/native/include/sinter/operators.hpp").read_text())[0]
        flag = self.other_headers("sinter/operators.hpp", row, '{"Abs", 0x0123456789abcdef}')
        built = self.build(self.copy(), flag)
        self.assertEqual(built.returncode, 0, built.stdout)
        self.assertIn("error[Unsupported]: this program was compiled with headers of sinter 0.1.0 whose operators are not those of "
                      "the library", self.answer().stdout)

    def test_weights_of_another_model(self):
        code = self.copy()
        self.assertEqual(self.build(code).returncode, 0)
        run(SINTER, "compile", ROOT / "models/fashion/squeezenet1_1_fashion.onnx", "-o", self.folder / "other", "--name", "other")
        shutil.copy(self.folder / "other/other.weights", code / "small.weights")
        answer = self.answer()
        self.assertEqual(answer.returncode, 1)
        self.assertIn("the weights belong to a model of other operators", answer.stdout)
        self.assertIn(re.sub("[0-9a-f]{16}", "HASH", answer.stdout.strip()), re.sub("[0-9a-f]{16}", "HASH", GUIDE))

    def test_changed_and_truncated_weights(self):
        code = self.copy()
        self.assertEqual(self.build(code).returncode, 0)
        good = (code / "small.weights").read_bytes()
        for bad, message in [(good[:-1] + bytes([good[-1] ^ 1]), "are not those that were written"),
                             (good[:100], "damaged"), (good[:-8], "does not fit the file"),
                             ((KEPT / "small.onnx").read_bytes(), "needs the .weights file that was generated with it")]:
            (code / "small.weights").write_bytes(bad)
            answer = self.answer()
            self.assertEqual(answer.returncode, 1)
            self.assertIn(message, answer.stdout)
        (code / "small.weights").unlink()
        self.assertIn("error[Io]", self.answer().stdout)

    def test_refused_models_leave_no_file(self):
        node = onnx.helper.make_node
        graph = onnx.helper.make_graph(
            [node("NoSuchThing", ["x"], ["a"], name="first"), node("Relu", ["a"], ["b"]), node("Loopy", ["b"], ["y"], name="second")],
            "refused", [onnx.helper.make_tensor_value_info("x", 1, [1])], [onnx.helper.make_tensor_value_info("y", 1, [1])])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, self.folder / "refused.onnx")
        done = run(SINTER, "compile", self.folder / "refused.onnx", "-o", self.folder / "out", "--json", check=False)
        self.assertEqual(done.returncode, 3)
        for name in ["first", "second"]:
            self.assertIn(f"'{name}'", done.stdout)
        self.assertFalse((self.folder / "out").exists())


    def test_what_planning_refuses_is_listed_too(self):
        node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [node("NonZero", ["x"], ["a"], name="where_x"), node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["b"], name="where_r")],
            "refused", [info("x", 1, [3, 128, 128])], [info("a", 7, [3, None]), info("b", 7, [3, None])])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, self.folder / "refused.onnx")
        done = run(SINTER, "compile", self.folder / "refused.onnx", "-o", self.folder / "out", "--json", check=False)
        self.assertEqual(done.returncode, 3, done.stdout)
        for name in ["where_x", "where_r"]:
            self.assertIn(f"'{name}'", done.stdout)
        self.assertFalse((self.folder / "out").exists())

    def test_a_failed_write_leaves_no_file(self):
        out = self.folder / "out"
        (out / "small.weights").mkdir(parents=True)  # the third file cannot be put there
        done = run(SINTER, "compile", KEPT / "small.onnx", "-o", out, "--json", check=False)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("small.weights", done.stdout)
        self.assertEqual([path.name for path in out.iterdir()], ["small.weights"])


class Operators(unittest.TestCase):
    def test_every_operator_has_a_function(self):
        header = (ROOT / "build/native/include/sinter/ops.hpp").read_text()
        missing = [name for name in node_tests.sinter(SINTER, "ops") if f'apply("{name}"' not in header]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    if ALL:
        sys.argv.remove("--all")
    unittest.main()
