#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the engine for the web with a second toolchain that shares nothing with the first: Zig's, with its own clang, libc
and libc++ (PyPI package ziglang). Links the C++ interface's checks with it and runs them in Node.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build/second_toolchain"
PACKAGE = "ziglang==0.17.1"
# Entry points of the JavaScript package, and functions that replace the first toolchain's libc to make the download small.
LEFT_OUT = {"engine/api/entry_web.cc", "engine/api/diag_web.cc", "engine/base/math_web.cc", "engine/base/abort_web.cc"}
FLAGS = ["-target", "wasm32-wasi", "-std=c++23", "-fno-exceptions", "-fno-rtti", "-O1", "-msimd128", "-Wall", "-Wextra",
         "-Wno-missing-field-initializers", "-Werror", "-DSINTER_HAVE_WEBGPU=0", "-DSINTER_CASES=0",
         "-fno-sanitize=undefined"]
RUN = """
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';
const wasi = new WASI({ version: 'preview1', args: ['tensor_api', process.argv[2]] });
const module = await WebAssembly.compile(readFileSync(process.argv[1]));
const imports = wasi.getImportObject();
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  imports[from] ??= {};
  imports[from][name] ??= () => { throw new Error(`${from}.${name} was called`); };
}
process.exitCode = wasi.start(await WebAssembly.instantiate(module, imports));
"""


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          cwd=ROOT, env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(OUT / "cache"), "NODE_NO_WARNINGS": "1"})
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


class SecondToolchain(unittest.TestCase):
    def test_builds_and_runs(self):
        OUT.mkdir(parents=True, exist_ok=True)
        zig = OUT / "python/ziglang/zig"
        if not zig.exists():
            run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", OUT / "python", PACKAGE)
        version = re.search(r'VERSION (\d+\.\d+\.\d+)', (ROOT / "CMakeLists.txt").read_text()[:400].split("project", 1)[1]).group(1)
        flags = [*FLAGS, f'-DSINTER_VERSION="{version}"', f"-I{ROOT}"]
        highway = OUT / "highway"
        highway.mkdir(exist_ok=True)
        if not (highway / "hwy").exists():
            (highway / "hwy").symlink_to("/usr/include/hwy")

        sources = [path for path in sorted((ROOT / "engine").rglob("*.cc"))
                   if not re.search(r"_(test|fuzz|native)\.cc$", path.name) and str(path.relative_to(ROOT)) not in LEFT_OUT]
        self.assertGreater(len(sources), 100)

        def compile_one(source):
            target = OUT / (str(source.relative_to(ROOT)).replace("/", "_") + ".o")
            run(zig, "c++", *flags, "-isystem", highway, "-c", source, "-o", target)
            return target

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(compile_one, sources))
        main = OUT / "main.o"
        run(zig, "c++", *flags, f"-I{ROOT / 'build/native/include'}", "-c", ROOT / "tests/tensor_api/main.cc", "-o", main)
        module = OUT / "tensor_api.wasm"
        run(zig, "c++", "-target", "wasm32-wasi", main, *objects, "-o", module)
        for backend in ["reference", "cpu"]:
            text = run("node", "--input-type=module", "-e", RUN, "--", module, backend)
            self.assertRegex(text, r"^(\d+) of \1 checks good$")


if __name__ == "__main__":
    unittest.main()
