#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C++ that the guides show: it compiles without a warning by clang and GCC, and prints what is shown under it.

A block with `int main` is a program, one that begins with #include a file, one with "..." an excerpt of generated code, and any
other the inside of a function that has an engine, some tensors and a model's weights.
"""
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/codegen"))
from programs import LIBRARIES, SINTER, flags_for, run  # noqa: E402

MODELS = ROOT / "models/fashion"
GUIDES = ["compile.md", "tensor.md", "cpp.md"]
BLOCK = re.compile(r"^```cpp\n(.*?)^```$(?:\s+```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
COMPILERS = ["clang++-19", "g++-12"]
AROUND = """#include <cstdio>
#include <sinter/sinter.hpp>
const sinter::Engine engine({.backend = sinter::Backend::cpu});
[[maybe_unused]] sinter::HostTensor ones(const sinter::Shape& shape) {
  return *sinter::HostTensor::of<float>(shape, std::vector<float>(static_cast<size_t>(shape.numel()), 1.0f));
}
"""
TENSORS = """  [[maybe_unused]] const sinter::Tensor x(engine, ones({1, 3, 8, 8}));
  [[maybe_unused]] const auto weight = sinter::Tensor::constant(ones({6, 3, 3, 3}));
  [[maybe_unused]] const auto bias = sinter::Tensor::constant(ones({6}));
  [[maybe_unused]] std::vector<sinter::HostTensor> arrays = {ones({1, 2})};
"""


def function(block):
    """A whole program around statements."""
    unused = "".join(f"  (void){name};\n" for name in dict.fromkeys(re.findall(r"\bauto (\w+) =", block)))
    given = "" if re.search(r"\bTensor x\b|\bauto x\b", block) else TENSORS
    if "arrays" in block:
        given = "  " + TENSORS.splitlines()[-1] + "\n"
    block = re.sub(r"^const sinter::Engine engine;\n", "", block, flags=re.MULTILINE)
    text = AROUND
    if "co_await" in re.sub("//.*", "", block):
        return text + (f"sinter::Task<int> body() {{\n{given}{block}{unused}  co_return 0;\n}}\n"
                       "int main() { return engine.wait(body()).value_or(1); }\n")
    return text + f"int main() {{\n{given}{block}{unused}  return 0;\n}}\n"


class Guides(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory(prefix="sinter-docs-")
        cls.addClassCleanup(held.cleanup)
        cls.folder = Path(held.name)
        (cls.folder / "model.onnx").symlink_to(MODELS / "mobilenetv2_fashion.onnx")
        run(SINTER, "compile", MODELS / "mobilenetv2_fashion.onnx", "-o", cls.folder, "--name", "mobilenet")
        run(SINTER, "compile", MODELS / "squeezenet1_1_fashion.onnx", "-o", cls.folder, "--name", "squeezenet")

    def excerpt(self, block):
        generated = iter((self.folder / "squeezenet.hpp").read_text().splitlines())
        for line in block.splitlines():
            self.assertTrue(line.strip() == "..." or line in generated, f"generated code has no such line next: {line}")

    def check(self, block, shown, compiler):
        flags = [flag for flag in flags_for(self.folder) if "tests/codegen" not in flag]
        is_file = block.startswith("#include") and "int main(" not in block
        source, program = self.folder / "shown.cc", self.folder / "shown"
        source.write_text(block if block.startswith("#include") else function(block))
        if is_file:
            run(compiler, *flags, "-c", source, "-o", self.folder / "shown.o")
            return
        run(compiler, *flags, source, "-o", program, *LIBRARIES)
        done = run("timeout", "60", "sh", "-c", f"cd {self.folder} && ./shown")
        self.assertEqual(done.stdout.split(), shown.split())

    def test_what_is_shown_compiles_and_runs(self):
        for guide in GUIDES:
            blocks = BLOCK.findall((ROOT / "docs" / guide).read_text())
            self.assertTrue(blocks, guide)
            for block, shown in blocks:
                with self.subTest(guide=guide, block=block.splitlines()[0]):
                    if "\n  ...\n" in block:
                        self.excerpt(block)
                        continue
                    for compiler in COMPILERS:
                        self.check(block, shown, compiler)

    def test_links_lead_somewhere(self):
        for guide in GUIDES:
            text = (ROOT / "docs" / guide).read_text()
            paths = [path for path in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in path]
            paths += [f"../{path}" for path in re.findall(r"`((?:tests|include|docs|cmake|cli|engine)/[^`*]+)`", text)]
            for path in paths:
                self.assertTrue((ROOT / "docs" / path).exists(), f"{guide}: {path}")

    def test_every_guide_is_in_the_package(self):
        package = (ROOT / "cmake/SinterPackage.cmake").read_text()
        for guide in [*[f"docs/{name}" for name in GUIDES], "tensor_functions.md", "api_reference.md"]:
            self.assertIn(guide, package)

    def test_the_reference_has_every_class_and_function(self):
        reference = (ROOT / "build/native/generated_headers/api_reference.md").read_text()
        headers = ROOT / "include/sinter"
        names = re.findall(r"^[\w* ]+?\b(sinter_\w+)\(", (headers / "sinter.h").read_text(), re.MULTILINE)
        names += ["Error", "Code", "Shape", "CancelToken", "DType"]
        for header in ["engine", "tensor", "host_tensor", "weights", "nn", "lock"]:
            text = re.sub(r"namespace internal \{.*?\n\}", "", (headers / f"{header}.hpp").read_text(), flags=re.DOTALL)
            names += re.findall(r"^(?:class|struct) (\w+) \{", text, re.MULTILINE)
        self.assertGreater(len(names), 40)
        self.assertEqual([name for name in names if not re.search(rf"^(?!/).*\b{name}( \{{|\(| : )", reference, re.MULTILINE)], [])
        self.assertNotIn("private:", reference)
        self.assertNotIn("state_", reference)
        for header, code in re.findall(r"^## (\S+)\n.*?```cpp\n(.*?)```", reference, re.MULTILINE | re.DOTALL):
            code = re.sub(r"//.*|/\*.*?\*/", "", code)  # bodies that were taken for declarations show here
            self.assertEqual((code.count("{"), code.count("(")), (code.count("}"), code.count(")")), header)


if __name__ == "__main__":
    unittest.main()
