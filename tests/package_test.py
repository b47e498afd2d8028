#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the package and uses it from outside the tree: find_package and pkg-config, clang and GCC.

By default what build/native holds is installed. With --all also what takes a build of its own: a shared library and
libraries without WebGPU (in build/package-*), and the .deb.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/fashion/mobilenetv2_fashion.onnx"
FIXTURE = ROOT / "tests/package"
COMPILERS = ["clang++-19", "g++-12"]
ALL = "--all" in sys.argv
EXPECTED = re.compile(r"backend cpu\ntop 3\.9390\d+\n0 2 7 14 \nerror\[\w+\]: MatMul: inner dimensions differ")
# Headers of the libraries that the engine is built with.
FOREIGN = re.compile(r'#\s*include\s*[<"](hwy/|webgpu|nlohmann|CLI|stb|gtest|gmock)')


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def install(build, folder):
    """Installs into one folder and moves it: nothing in the package may depend on where it was put."""
    run("cmake", "--install", build, "--prefix", folder / "before")
    return (folder / "before").rename(folder / "after")


def build_variant(name, *options):
    build = ROOT / f"build/package-{name}"
    run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_COMPILER=clang++-19",
        "-DSINTER_TESTS=OFF", "-DSINTER_CLI=OFF", *options)
    run("cmake", "--build", build)
    return build


class Package(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="sinter-package-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def build_fixture(self, prefix, compiler):
        out = self.folder / f"fixture-{compiler}"
        cc = compiler.replace("clang++", "clang").replace("g++", "gcc")
        kept = self.folder / "kept"
        if (prefix / "bin/sinter").exists():
            run(prefix / "bin/sinter", "compile", MODEL, "-o", kept, "--name", "clothes_kept")
        run("cmake", "-S", FIXTURE, "-B", out, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER={compiler}",
            f"-DCMAKE_C_COMPILER={cc}", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DMODEL={MODEL}",
            *([f"-DKEPT_CODE={kept}"] if kept.exists() else []))
        run("cmake", "--build", out)
        return out

    def use(self, prefix, compilers=COMPILERS):
        for compiler in compilers:
            with self.subTest(compiler=compiler):
                out = self.build_fixture(prefix, compiler)
                text = run(out / "app", MODEL, "cpu")
                self.assertRegex(text, EXPECTED)
                for guide in ["tensor.md", "cpp.md"]:  # they show this error
                    self.assertIn(text[text.index("error["):].strip(), (ROOT / "docs" / guide).read_text())
                text = run(out / "capi", MODEL)
                self.assertRegex(text, r"outputs 1, output, top 3\.9390\d+\nthe model has no input named 'image'")
                self.assertRegex(text, r"missing file: [49], version 0\.1\.0")
                if (out / "generated").exists():
                    answer = re.match(r"^beside (-?\d+\.\d+) inside \1$", run(out / "generated"))
                    self.assertEqual(run(out / "fragment"), f"kept {answer[1]}\n")

    def test_find_package_and_pkg_config(self):
        prefix = install(ROOT / "build/native", self.folder)
        self.use(prefix)
        environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "sinter", env=environment).split()
        run("g++-12", "-std=c++23", FIXTURE / "app.cc", "-o", self.folder / "app", *flags)
        self.assertRegex(run(self.folder / "app", MODEL, "cpu"), EXPECTED)

    def test_every_header_compiles_alone_and_brings_no_foreign_one(self):
        prefix = install(ROOT / "build/native", self.folder)
        headers = sorted((prefix / "include").rglob("*.h*"))
        self.assertGreater(len(headers), 15)
        for header in headers:
            self.assertNotRegex(header.read_text(), FOREIGN)
            if header.parent.name == "sinter":
                run("g++-12", "-std=c++23", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c++",
                    "-include", header, "/dev/null", f"-I{prefix / 'include'}")

    @unittest.skipUnless(ALL, "takes a build of its own")
    def test_shared_library(self):
        build = build_variant("shared", "-DBUILD_SHARED_LIBS=ON")
        prefix = install(build, self.folder)
        self.use(prefix)
        names = run("nm", "-DC", "--defined-only", prefix / "lib/libsinter.so")
        declared = re.findall(r"^[\w* ]+?\b(sinter_\w+)\(", (prefix / "include/sinter/sinter.h").read_text(), re.MULTILINE)
        self.assertGreaterEqual(len(declared), 20)
        self.assertEqual([name for name in declared if f" T {name}\n" not in names], [])
        self.assertIn("sinter::api::Engine::load", names)
        self.assertNotIn("sinter::plan::", names)
        self.assertNotIn("sinter::onnx::parse", names)

    @unittest.skipUnless(ALL, "takes a build of its own")
    def test_without_webgpu(self):
        for name, shared in [("static-plain", "OFF"), ("shared-plain", "ON")]:
            with self.subTest(name=name):
                build = build_variant(name, f"-DBUILD_SHARED_LIBS={shared}", "-DSINTER_WEBGPU=OFF")
                folder = self.folder / name
                folder.mkdir()
                prefix = install(build, folder)
                self.assertFalse((prefix / "lib/sinter").exists())
                self.use(prefix, COMPILERS[:1])
                shutil.rmtree(self.folder / f"fixture-{COMPILERS[0]}")

    @unittest.skipUnless(ALL, "packs the library")
    def test_deb(self):
        run("cpack", "-G", "DEB", "-B", self.folder / "deb", cwd=ROOT / "build/native")
        packages = list((self.folder / "deb").glob("sinter_*.deb"))
        self.assertEqual(len(packages), 1)
        run("dpkg-deb", "-x", packages[0], self.folder / "root")
        self.assertIn("Depends:", run("dpkg-deb", "-I", packages[0]))
        self.use(self.folder / "root/usr", COMPILERS[:1])

    @unittest.skipUnless("SINTER_TEST_ADAPTER" in os.environ, "no adapter chosen; see ./dev env")
    def test_installed_webgpu(self):
        prefix = install(ROOT / "build/native", self.folder)
        out = self.build_fixture(prefix, COMPILERS[0])
        shutil.copy(next((prefix / "lib/sinter").iterdir()), out)
        self.assertIn("backend webgpu", run(out / "app", MODEL, "webgpu"))


if __name__ == "__main__":
    if ALL:
        sys.argv.remove("--all")
    unittest.main()
