#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates C++ from models and from ONNX's node tests, compiles it without a warning by clang and GCC, runs it, and compares
with what the engine gives for the ONNX file on the same backend: every bit must be equal.

A sample of the node tests with every operator in it; --all takes all of them.
"""
import concurrent.futures
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/node_tests"))
import run as node_tests  # noqa: E402

SINTER = ROOT / "build/native/sinter"
OUT = ROOT / "build/codegen"
ALL = "--all" in sys.argv
STRIDE = 12  # one node test in so many, beside the first of each operator
PER_FILE = 25
FLAGS = ["-std=c++23", "-O0", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'build/native/include'}", f"-I{OUT}",
         f"-I{ROOT / 'tests/codegen'}", f'-DSINTER_MODEL_FOLDER="{OUT}"']


def run(*command, check=True):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-3000:]}")
    return done


def compile_model(model, name, *options):
    done = subprocess.run([SINTER, "compile", model, "-o", OUT, "--name", name, "--json", *options], stdout=subprocess.PIPE, text=True)
    return done.returncode, json.loads(done.stdout)


def write_inputs(path, arrays):
    with open(path, "wb") as file:
        for array in arrays:
            dtype = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            file.write(struct.pack(f"<II{array.ndim}q", dtype, array.ndim, *array.shape))
            file.write(np.ascontiguousarray(array).tobytes())


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


def case_text(name, model, answer):
    """The C++ of one case: the generated model with its inputs and outputs as lists."""
    sets = "".join(f"  in.{field['field']} = std::move(inputs[{i}]);\n" for i, field in enumerate(answer["inputs"]))
    gets = "".join(f"  list.push_back(out->{field['field']});\n" for field in answer["outputs"])
    function = (f"static sinter::Task<driver::Tensors> run_{name}(sinter::Engine engine, driver::Tensors inputs) {{\n"
                f"  auto model = co_await {name}::Model::create(engine);\n"
                f"  if (!model) co_return std::unexpected(model.error());\n  {name}::Model::Inputs in;\n{sets}"
                f"  (void)inputs;\n  auto out = co_await model->forward(std::move(in));\n"
                f"  if (!out) co_return std::unexpected(out.error());\n  driver::Tensors list;\n{gets}  co_return list;\n}}\n")
    row = f'    {{"{name}", "{model}", "{OUT / (name + ".in")}", run_{name}}},\n'
    return function, row


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


class Program:
    """One program of many generated models."""

    def __init__(self, name):
        self.name, self.parts, self.count = name, [[]], 0

    def add(self, case, model, answer, source):
        if len(self.parts[-1]) == PER_FILE:
            self.parts.append([])
        self.parts[-1].append((case, model, answer, source))
        self.count += 1

    def write(self):
        lists, sources = "", []
        for index, part in enumerate(self.parts):
            text, rows = '#include "driver.h"\n', ""
            for case, model, answer, source in part:
                function, row = case_text(case, model, answer)
                text += f'#include "{source}"\n{function}'
                rows += row
            array = f"{self.name}_{index}"
            text += (f"extern const std::vector<driver::Case> {array};\n"
                     f"const std::vector<driver::Case> {array} = {{\n{rows}}};\n")
            lists += f"extern const std::vector<driver::Case> {array};\n"
            sources.append(OUT / f"{array}.cc")
            sources[-1].write_text(text)
        loops = "".join(
            f"  for (const auto& one : {self.name}_{i}) {{\n    const auto problem = driver::check(engine, one);\n"
            f'    if (!problem.empty()) std::printf("FAILED %s: %s\\n", one.name, problem.c_str());\n    failed += !problem.empty();\n'
            f"    ++count;\n  }}\n" for i in range(len(self.parts)))
        main = OUT / f"{self.name}_main.cc"
        main.write_text(f'#include "driver.h"\n{lists}int main(int, char** argv) {{\n'
                        f"  const auto engine = driver::make_engine(argv[1]);\n  int failed = 0, count = 0;\n{loops}"
                        f'  std::printf("%d of %d equal\\n", count - failed, count);\n  return failed != 0;\n}}\n')
        return [*sources, main]

    def build(self, compiler, sources):
        objects = [source.with_suffix(f".{compiler}.o") for source in sources]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda pair: run(compiler, *FLAGS, "-c", pair[0], "-o", pair[1]), zip(sources, objects)))
        program = OUT / f"{self.name}-{compiler}"
        run(compiler, *objects, "-o", program, ROOT / "build/native/libsinter.a", "-lhwy", "-pthread", "-ldl")
        return program


def backends():
    return ["reference", "cpu"] + (["webgpu"] if "SINTER_TEST_ADAPTER" in os.environ else [])


class Codegen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)

    def check(self, program, compilers, names):
        sources = program.write()
        for compiler in compilers:
            executable = program.build(compiler, sources)
            for backend in names:
                with self.subTest(compiler=compiler, backend=backend):
                    done = run(executable, backend, check=False)
                    self.assertEqual(done.returncode, 0, done.stdout[-4000:])
                    self.assertIn(f"{program.count} of {program.count} equal", done.stdout)
                    print(f"{program.name}: {compiler}, {backend}: {done.stdout.strip()}", flush=True)

    def test_node_tests(self):
        program = Program("nodes")
        for name, path in chosen_node_tests():
            code, answer = compile_model(path / "model.onnx", name)
            self.assertEqual(code, 0, f"{name}: {answer}")
            given = []
            for i in range(len(answer["inputs"])):
                tensor = onnx.TensorProto()
                tensor.ParseFromString((path / f"test_data_set_0/input_{i}.pb").read_bytes())
                given.append(numpy_helper.to_array(tensor))
            write_inputs(OUT / f"{name}.in", given)
            program.add(name, path / "model.onnx", answer, f"{name}.cpp")
        self.assertGreaterEqual(program.count, 150)
        self.check(program, ["clang++-19"], backends())

    def test_models(self):
        program = Program("models")
        models = sorted((ROOT / "models/fashion").glob("*.onnx")) + sorted((ROOT / "models/generated").glob("*.onnx"))
        shared = Path(os.environ.get("SINTER_SHARED", ROOT.parent / "shared")) / "models/onnx"
        models += sorted(shared.glob("*.onnx"))
        for model in models:
            name = "model_" + "".join(c if c.isalnum() else "_" for c in model.stem).lower().strip("_")
            while "__" in name:
                name = name.replace("__", "_")
            code, answer = compile_model(model, name)
            if code == 3 and answer["error"]["code"] == "Unsupported":
                loads = run(SINTER, "inspect", model, "--backend", "cpu", "--json", check=False)
                self.assertIn('"supported": false', loads.stdout, f"{model.name} runs, but is not compiled: {answer}")
                self.assertFalse((OUT / f"{name}.hpp").exists())
                continue
            self.assertEqual(code, 0, f"{model.name}: {answer}")
            write_inputs(OUT / f"{name}.in", random_inputs(model))
            program.add(name, model, answer, f"{name}.cpp")
        self.assertGreaterEqual(program.count, 2)
        self.check(program, ["g++-12", "clang++-19"], backends() if ALL else ["cpu", *backends()[2:]])


KEPT = ROOT / "tests/codegen/kept"
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

    def build(self, code):
        (self.folder / "main.cc").write_text(MAIN)
        write_inputs(self.folder / "in", [np.load(KEPT / "small.input.npy")])
        flags = [flag for flag in FLAGS if "SINTER_MODEL_FOLDER" not in flag]
        return run("clang++-19", *flags, f"-I{code}", f'-DSINTER_MODEL_FOLDER="{code}"', self.folder / "main.cc", code / "small.cpp",
                   "-o", self.folder / "main", ROOT / "build/native/libsinter.a", "-lhwy", "-pthread", "-ldl", check=False)

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
        self.assertIn("the operator Conv is not the one that small was generated for: run `sinter compile small.onnx", built.stdout)

    def test_another_version_does_not_compile(self):
        code = self.copy()
        text = (code / "small.hpp").read_text()
        (code / "small.hpp").write_text(text.replace('"0.1.0", 1,', '"0.0.9", 1,'))
        built = self.build(code)
        self.assertNotEqual(built.returncode, 0)
        self.assertIn("which this version does not list as compatible", built.stdout)

    def test_weights_of_another_model(self):
        code = self.copy()
        self.assertEqual(self.build(code).returncode, 0)
        run(SINTER, "compile", ROOT / "models/fashion/squeezenet1_1_fashion.onnx", "-o", self.folder / "other", "--name", "other")
        shutil.copy(self.folder / "other/other.weights", code / "small.weights")
        answer = self.answer()
        self.assertEqual(answer.returncode, 1)
        self.assertIn("the weights belong to a model of other operators", answer.stdout)
        self.assertIn("sinter compile MODEL.onnx -o DIR", answer.stdout)

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


class Operators(unittest.TestCase):
    def test_every_operator_has_a_function(self):
        header = (ROOT / "build/native/include/sinter/ops.hpp").read_text()
        missing = [name for name in node_tests.sinter(SINTER, "ops") if f'apply("{name}"' not in header]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    if ALL:
        sys.argv.remove("--all")
    unittest.main()
