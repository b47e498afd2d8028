#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the TypeScript compiler over web/ and site/ (their npm script `check`)."""
import json
import subprocess

from common import ROOT, finish


def main():
    problems, checked = [], []
    for folder in ("web", "site"):
        package = ROOT / folder / "package.json"
        if not package.exists() or "check" not in json.loads(package.read_text()).get("scripts", {}):
            continue
        checked.append(folder)
        done = subprocess.run(["npm", "--prefix", folder, "run", "--silent", "check"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            problems += [f"{folder}: {line}" for line in (done.stdout + done.stderr).strip().splitlines()]
    if not checked:
        problems.append("neither web/ nor site/ has a package.json with a script named check")
    finish("typescript", problems, " and ".join(checked))


if __name__ == "__main__":
    main()
