#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a page holds at most while it loads MobileNetV2 on WebGPU (WASM memory and the host's ArrayBuffers, the model's bytes
included), against 2.2 times the model file. Runs that one browser test and prints its figures."""
import os
import re
import subprocess

from common import ROOT, finish

TEST = "loading MobileNetV2 holds at most 2.2 times its file"


def main():
    command = ["node", "--test", "--test-reporter=spec", f"--test-name-pattern={TEST}", "tests/browser/engine.test.mjs"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    figures = re.search(r"memory: (\d+) wasm, (\d+) host, peak (\d+), ([\d.]+) x the file", done.stdout)
    problems = []
    if done.returncode or not figures:
        problems.append(f"the test '{TEST}' did not pass; is ./dev build all done?")
        problems += [line.strip() for line in done.stdout.splitlines() if "Error" in line][:3]
    wasm, host, peak, ratio = figures.groups() if figures else (0, 0, 0, 0)
    finish("memory", problems, f"{int(wasm):,} bytes of WASM memory and {int(host):,} of the host, at most {int(peak):,} at once: "
                               f"{ratio} times the model, 2.20 allowed")


if __name__ == "__main__":
    main()
