#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every golden case through the CLI on reference, CPU and WebGPU, with fusion on and off."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/golden"))
import cases  # noqa: E402

SINTER = ROOT / "build/native/sinter"
# The reference backend runs the model as it is written: fusion does not apply to it.
CONFIGURATIONS = [("reference", "on"), ("cpu", "on"), ("cpu", "off"), ("webgpu", "on"), ("webgpu", "off")]


def run(case, backend, fusion):
    with tempfile.TemporaryDirectory() as folder:
        command = [SINTER, "run", case["model"], "--input", f"{case['input']['name']}={case['input']['file']}",
                   "--backend", backend, "--fusion", fusion, "--output", folder, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode:
            return f"exit {done.returncode}: {done.stdout} {done.stderr}"
        report = json.loads(done.stdout)
        if report["backend"] != backend:
            return f"ran on {report['backend']}"
        if report["cpu_steps"]:
            return f"steps on the CPU: {report['cpu_steps']}"
        files = list(pathlib.Path(folder).glob("*.npy"))
        if len(files) != 1:
            return f"wrote {[file.name for file in files]}"
        return cases.disagreement(np.load(files[0]), np.load(case["output"]["file"]))


def main():
    # ctest has collected the cases already, for several tests at once.
    manifest = cases.OUT / "manifest.json"
    found = json.loads(manifest.read_text()) if manifest.exists() else cases.collect()[0]
    complete = cases.shared() is not None
    failed = 0
    for case in found:
        for backend, fusion in CONFIGURATIONS:
            problem = run(case, backend, fusion)
            failed += bool(problem)
            print(f"{'FAIL' if problem else 'ok  '} {case['name']} {backend} fusion {fusion} {problem}", flush=True)
    total = len(found) * len(CONFIGURATIONS)
    skipped = 0 if complete else 1
    print(f"{total - failed} passed, {failed} failed, {skipped} skipped" +
          ("" if complete else " (no ../shared: the trained ImageNet models)"))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
