# SPDX-License-Identifier: Apache-2.0
"""Generates C++ from models and builds programs that run it beside the ONNX files (driver.h)."""
import concurrent.futures
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parent.parent.parent
SINTER = ROOT / "build/native/sinter"
LIBRARIES = [ROOT / "build/native/libsinter.a", "-lhwy", "-pthread", "-ldl"]
PER_FILE = 25


def run(*command, check=True):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-3000:]}")
    return done


def flags_for(folder):
    return ["-std=c++23", "-O0", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'build/native/include'}", f"-I{folder}",
            f"-I{ROOT / 'tests/codegen'}", f'-DSINTER_MODEL_FOLDER="{folder}"']


def backends():
    return ["reference", "cpu"] + (["webgpu"] if "SINTER_TEST_ADAPTER" in os.environ else [])


def write_tensors(path, arrays):
    with open(path, "wb") as file:
        for array in arrays:
            dtype = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            file.write(struct.pack(f"<II{array.ndim}q", dtype, array.ndim, *array.shape))
            file.write(np.ascontiguousarray(array).tobytes())


def read_tensors(path):
    data, at, arrays = path.read_bytes(), 0, []
    while at < len(data):
        kind, rank = struct.unpack_from("<II", data, at)
        shape = struct.unpack_from(f"<{rank}q", data, at + 8)
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        at += 8 + 8 * rank
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    return arrays


class Program:
    """One program of many generated models. Each runs once per round of inputs, in one Model."""

    def __init__(self, folder, name):
        self.folder, self.name, self.parts, self.count = folder, name, [[]], 0

    def generate(self, model, name, *options):
        done = subprocess.run([SINTER, "compile", model, "-o", self.folder, "--name", name, "--json", *options],
                              stdout=subprocess.PIPE, text=True)
        return done.returncode, json.loads(done.stdout)

    def add(self, name, model, answer, rounds):
        write_tensors(self.folder / f"{name}.in", [array for given in rounds for array in given])
        if len(self.parts[-1]) == PER_FILE:
            self.parts.append([])
        self.parts[-1].append((name, model, answer, len(rounds)))
        self.count += 1

    def case_text(self, name, model, answer, rounds):
        """The C++ of one case: the generated model with its inputs and outputs as lists."""
        sets = "".join(f"    in.{field['field']} = std::move(inputs[{i}]);\n" for i, field in enumerate(answer["inputs"]))
        gets = "".join(f"    list.push_back(out->{field['field']});\n" for field in answer["outputs"])
        function = (f"static sinter::Task<driver::Tensors> run_{name}(sinter::Engine engine, std::vector<driver::Tensors> rounds) {{\n"
                    f"  auto model = co_await {name}::Model::create(engine);\n"
                    f"  if (!model) co_return std::unexpected(model.error());\n  driver::Tensors list;\n"
                    f"  for (driver::Tensors& inputs : rounds) {{\n    (void)inputs;\n    {name}::Model::Inputs in;\n{sets}"
                    f"    auto out = co_await model->forward(std::move(in));\n"
                    f"    if (!out) co_return std::unexpected(out.error());\n{gets}  }}\n  co_return list;\n}}\n")
        row = f'    {{"{name}", "{model}", "{self.folder / (name + ".in")}", {rounds}, run_{name}}},\n'
        return function, row

    def write(self):
        lists, sources = "", []
        for index, part in enumerate(self.parts):
            text, rows = '#include "driver.h"\n', ""
            for name, model, answer, rounds in part:
                function, row = self.case_text(name, model, answer, rounds)
                text += f'#include "{name}.cpp"\n{function}'
                rows += row
            array = f"{self.name}_{index}"
            text += (f"extern const std::vector<driver::Case> {array};\n"
                     f"const std::vector<driver::Case> {array} = {{\n{rows}}};\n")
            lists += f"extern const std::vector<driver::Case> {array};\n"
            sources.append(self.folder / f"{array}.cc")
            sources[-1].write_text(text)
        loops = "".join(
            f"  for (const auto& one : {self.name}_{i}) {{\n    const auto problem = driver::check(engine, one, argv[2]);\n"
            f'    if (!problem.empty()) std::printf("FAILED %s: %s\\n", one.name, problem.c_str());\n    failed += !problem.empty();\n'
            f"    ++count;\n  }}\n" for i in range(len(self.parts)))
        main = self.folder / f"{self.name}_main.cc"
        main.write_text(f'#include "driver.h"\n{lists}int main(int, char** argv) {{\n'
                        f"  const auto engine = driver::make_engine(argv[1]);\n  int failed = 0, count = 0;\n{loops}"
                        f'  std::printf("%d of %d equal\\n", count - failed, count);\n  return failed != 0;\n}}\n')
        return [*sources, main]

    def build(self, compiler, sources):
        objects = [source.with_suffix(f".{compiler}.o") for source in sources]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda pair: run(compiler, *flags_for(self.folder), "-c", pair[0], "-o", pair[1]), zip(sources, objects)))
        program = self.folder / f"{self.name}-{compiler}"
        run(compiler, *objects, "-o", program, *LIBRARIES)
        return program

    def check(self, test, compilers, names):
        """Builds and runs it. Outputs lie in NAME.in.BACKEND.out afterwards."""
        sources = self.write()
        for compiler in compilers:
            executable = self.build(compiler, sources)
            for backend in names:
                with test.subTest(compiler=compiler, backend=backend):
                    done = run(executable, backend, f".{backend}.out", check=False)
                    test.assertEqual(done.returncode, 0, done.stdout[-4000:])
                    test.assertIn(f"{self.count} of {self.count} equal", done.stdout)
                    print(f"{self.name}: {compiler}, {backend}: {done.stdout.strip()}", flush=True)

    def outputs(self, name, backend):
        return read_tensors(self.folder / f"{name}.in.{backend}.out")


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
