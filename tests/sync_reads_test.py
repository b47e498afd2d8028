#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Synchronous calls exist natively and are absent from the types that the web sees: using one does not compile."""
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SYNCHRONOUS = {
    "SYNC_RUN": "no member named 'run' in 'sinter::client::Session'",
    "SYNC_OPEN": "no member named 'open' in 'sinter::client::Engine'",
    "SYNC_C": "unknown type name 'sinter_outputs'",
    "SYNC_WAIT": "no member named 'wait' in 'sinter::api::Engine'",
    "SYNC_DATA": "no member named 'to_data' in 'sinter::api::Tensor'",
    "SYNC_BLOCK_ON": "for the web nothing may wait",
}


def compile_use(use, *flags):
    command = ["clang++-19", "-std=c++23", "-fno-exceptions", "-fno-rtti", "-fsyntax-only", f"-I{ROOT}", f"-D{use}", *flags,
               ROOT / "tests/sync_reads/uses.cc"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


class SyncReads(unittest.TestCase):
    def test_native_code_may_wait(self):
        for use in ("ASYNC", *SYNCHRONOUS):
            with self.subTest(use=use):
                done = compile_use(use)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_asynchronous_calls_compile_for_the_web(self):
        done = compile_use("ASYNC", "--target=wasm32-wasi")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_synchronous_calls_do_not(self):
        for use, error in SYNCHRONOUS.items():
            with self.subTest(use=use):
                done = compile_use(use, "--target=wasm32-wasi")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(error, done.stderr)


if __name__ == "__main__":
    unittest.main()
