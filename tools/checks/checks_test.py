#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the checks themselves: each must fail on what it exists to find."""
import pathlib
import re
import subprocess
import tempfile
import unittest

import layers
import no_wait
import ops
import text
import wasm

CLANG = ["clang++-19", "--target=wasm32-wasi", "-std=c++23", "-fno-exceptions", "-fno-rtti", "-nostdlib"]


def module(*sections):
    return b"\0asm\1\0\0\0" + b"".join(bytes([kind, len(body)]) + body for kind, body in sections)


def one_function(code, *extra):
    """A module with one function () -> () whose body is `code`."""
    body = b"\0" + code + b"\x0b"
    return module((1, b"\1\x60\0\0"), (3, b"\1\0"), (5, b"\1\0\1"), (10, b"\1" + bytes([len(body)]) + body), *extra)


class NoWait(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "module.wasm"

    def findings(self, data):
        self.path.write_bytes(data)
        return no_wait.findings(self.path)[0]

    def compile(self, source, *flags, link=()):
        text = pathlib.Path(self.folder.name) / "source.cc"
        text.write_text(source)
        # Two steps: with -O at link time clang runs wasm-opt, which drops the names.
        subprocess.run([*CLANG, *flags, "-O1", "-c", text, "-o", text.with_suffix(".o")], check=True)
        subprocess.run([*CLANG, "-Wl,--no-entry", *link, text.with_suffix(".o"), "-o", self.path], check=True)
        return self.path.read_bytes()

    def test_accepts_a_module_that_computes(self):
        data = self.compile('extern "C" __attribute__((export_name("twice"))) int twice(int x) { return 2 * x; }')
        self.assertEqual(self.findings(data), [])

    def test_finds_a_wait_instruction_made_by_the_compiler(self):
        source = """extern "C" __attribute__((export_name("stop"))) int stop(int* word) {
                      return __builtin_wasm_memory_atomic_wait32(word, 0, -1); }"""
        found = self.findings(self.compile(source, "-matomics", "-mbulk-memory"))
        self.assertEqual(found, ["stop contains memory.atomic.wait32"])

    def test_finds_the_64_bit_wait_behind_other_instructions(self):
        # i32.const 0, br_table, v128.const, then the wait: each operand form before it must be skipped exactly.
        code = (b"\x02\x40\x41\0\x0e\1\0\0\x0b" + b"\xfd\x0c" + b"\xfe\x02" * 8 + b"\x1a" + b"\x43\xfe\x02\0\0\x1a" +
                b"\x41\0\x42\0\x42\0\xfe\x02\3\0\x1a")
        self.assertEqual(self.findings(one_function(code)), ["function 0 contains memory.atomic.wait64"])

    def test_does_not_take_a_constant_for_a_wait(self):
        self.assertEqual(self.findings(one_function(b"\xfd\x0c" + b"\xfe\x01" * 8 + b"\x1a\x44" + b"\xfe\1" * 4 + b"\x1a")), [])

    def test_refuses_an_instruction_that_it_does_not_know(self):
        self.assertIn("unknown instruction 0xfb in function 0", self.findings(one_function(b"\xfb\0"))[0])

    def test_finds_a_waiting_import(self):
        for place, name in [("wasi_snapshot_preview1", "poll_oneoff"), ("env", "anything"), ("sinter", "device_wait")]:
            source = f"""__attribute__((import_module("{place}"), import_name("{name}"))) void call();
                         extern "C" __attribute__((export_name("go"))) void go() {{ call(); }}"""
            self.assertRegex("\n".join(self.findings(self.compile(source))), f"imports {place}.{name}")

    def test_finds_shared_and_imported_memory(self):
        memory = self.compile('extern "C" __attribute__((export_name("f"))) void f() {}', "-matomics", "-mbulk-memory",
                              link=["-Wl,--shared-memory", "-Wl,--max-memory=1048576", "-Wl,--import-memory"])
        found = "\n".join(self.findings(memory))
        self.assertIn("has a shared memory", found)
        self.assertIn("imports its memory", found)

    def test_finds_a_lock_by_name(self):
        source = """namespace std { struct mutex { __attribute__((noinline)) void lock() { held = 1; } volatile int held; }; }
                    std::mutex guard;
                    extern "C" __attribute__((export_name("go"))) void go() { guard.lock(); }"""
        self.assertEqual(self.findings(self.compile(source)), ["contains the function std::mutex::lock()"])

    def test_tells_waiting_from_awaiting(self):
        for name in ["pthread_cond_wait", "std::condition_variable::wait(std::unique_lock<std::mutex>&)", "usleep", "sem_post",
                     "std::__2::thread::join()", "__pthread_mutex_lock", "__timedwait"]:
            self.assertTrue(no_wait.blocks(name), name)
        for name in ["sinter::Task<int>::Awaiter::await_suspend(std::coroutine_handle<void>)", "sinter::JoinNames(mutex&)",
                     "sinter::gpu::select_kernel()", "block", "dlmalloc"]:
            self.assertFalse(no_wait.blocks(name), name)

    def test_counts_every_instruction(self):
        data = self.compile('extern "C" __attribute__((export_name("f"))) float f(float x) { return x * x + 1; }', "-msimd128")
        listing = subprocess.run(["llvm-objdump-19", "-d", "--no-show-raw-insn", "--no-leading-addr", self.path],
                                 capture_output=True, check=True, text=True).stdout
        expected = len(re.findall(r"^\s+[a-z]", listing, re.MULTILINE))
        self.assertEqual(len(list(wasm.read_module(data).instructions())), expected)


class Layers(unittest.TestCase):
    def findings(self, path, source):
        return list(layers.check_file(path, layers.without_comments(source)))

    def test_allows_what_stands_below(self):
        self.assertEqual(self.findings("engine/plan/plan.cc", '#include "engine/ir/graph.h"\n#include <vector>\n'), [])

    def test_finds_an_include_from_above(self):
        self.assertIn("plan stands above ops", self.findings("engine/ops/a.cc", '\n#include "engine/plan/plan.h"')[0])
        self.assertTrue(self.findings("engine/gpu/a.cc", '#include "engine/cpu/exec.h"'))
        self.assertTrue(self.findings("engine/cpu/a.cc", '#include "engine/gpu/device.h"'))
        self.assertTrue(self.findings("engine/runtime/a.cc", '#include "engine/diag/compare.h"'))
        self.assertTrue(self.findings("engine/api/a.cc", '#include "cli/verbs.h"'))

    def test_keeps_the_device_header_in_the_native_device(self):
        self.assertEqual(self.findings("engine/gpu/device_native.cc", "#include <webgpu/webgpu.h>"), [])
        self.assertTrue(self.findings("engine/gpu/prepare.cc", "#include <webgpu/webgpu.h>"))
        self.assertTrue(self.findings("cli/main.cc", '#include "webgpu.h"'))

    def test_keeps_waits_out_of_shared_code(self):
        self.assertTrue(self.findings("engine/cpu/pool.cc", "#include <mutex>"))
        self.assertEqual(self.findings("engine/cpu/pool_native.cc", "#include <mutex>"), [])

    def test_ignores_comments(self):
        self.assertEqual(self.findings("engine/base/a.h", '// #include <mutex>\n/*\n#include "engine/api/api.h"\n*/\n'), [])


class Ops(unittest.TestCase):
    LIST = 'OP("", Add, op_add)\nOP("", Conv, op_conv)\n'
    SOURCES = {"add.cc": 'SINTER_BINARY(op_add, "Add", 7)\n', "conv.cc": 'extern const OpDef op_conv;\nconst OpDef op_conv = {\n  .name = "Conv",'}

    def findings(self, listing, sources):
        rows, problems = ops.listed_rows(listing)
        return problems + list(ops.compare(rows, ops.definitions(sources)))

    def test_accepts_a_list_that_matches(self):
        self.assertEqual(self.findings(self.LIST, self.SOURCES), [])

    def test_finds_what_does_not_match(self):
        reversed_list = "\n".join(reversed(self.LIST.splitlines()))
        self.assertIn("sorted", self.findings(reversed_list, self.SOURCES)[0])
        self.assertIn("twice", self.findings(self.LIST + 'OP("", Conv, op_conv)\n', self.SOURCES)[0])
        self.assertIn("no file", self.findings(self.LIST, {"add.cc": self.SOURCES["add.cc"]})[0])
        self.assertIn("not listed", self.findings(self.LIST.splitlines()[0], self.SOURCES)[0])
        self.assertIn("names it Sub", self.findings(self.LIST, self.SOURCES | {"add.cc": 'SINTER_BINARY(op_add, "Sub", 7)'})[0])
        self.assertIn("not of the form", self.findings("OP(Add)\n", {})[0])


class Text(unittest.TestCase):
    def findings(self, line):
        return [why for pattern, why in text.RULES if pattern.search(line)]

    def test_finds_what_must_not_be_committed(self):
        for line in ["// TO" + "DO: later", "see /" + "home/me/file", '"resolved": "https://registry.' + 'example.org/a.tgz"', "x = 1; ",
                     "<<<<<<< HEAD"]:
            self.assertTrue(self.findings(line), line)

    def test_leaves_the_rest_alone(self):
        for line in ["#!/usr/bin/env bash", "https://example.org/home/page", "$root/work/x", "a registry package", "x = 1;"]:
            self.assertEqual(self.findings(line), [], line)


if __name__ == "__main__":
    unittest.main()
