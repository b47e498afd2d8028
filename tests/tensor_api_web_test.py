#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of the tensor API (tests/tensor_api) compiled for the web and run in Node: hand-made values, mistakes, shapes known
only at run time, and MobileNetV2 written by hand against its ONNX file.
"""
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "build/web/tests/tensor_api.wasm"
MODEL = "models/fashion/mobilenetv2_fashion.onnx"
RUN = """
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';
const [path, ...args] = process.argv.slice(1);
const wasi = new WASI({ version: 'preview1', args: ['tensor_api', ...args], preopens: { '.': process.cwd() } });
const module = await WebAssembly.compile(readFileSync(path));
const imports = { ...wasi.getImportObject(), sinter_math: Math };
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  imports[from] ??= {};
  if (from !== 'sinter_math') imports[from][name] ??= () => { throw new Error(`${from}.${name} was called`); };
}
process.exitCode = wasi.start(await WebAssembly.instantiate(module, imports));
"""


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


class TensorApi(unittest.TestCase):
    def test_runs_in_node(self):
        run("cmake", "--build", "build/web", "--target", "tensor_api")
        for backend in ["reference", "cpu"]:
            with self.subTest(backend=backend):
                text = run("node", "--no-warnings", "--input-type=module", "-e", RUN, "--", MODULE, backend, MODEL)
                self.assertRegex(text, r"^(\d+) of \1 checks good$")
                self.assertGreater(int(text.split()[0]), 150)
                print(f"{backend}: {text.strip()}", flush=True)

    def test_mobilenetv2_by_hand_takes_less_than_80_lines(self):
        lines = (ROOT / "tests/tensor_api/mobilenetv2.hpp").read_text().splitlines()
        self.assertLess(len(lines), 80)
        self.assertLessEqual(max(map(len, lines)), 130)


if __name__ == "__main__":
    unittest.main()
