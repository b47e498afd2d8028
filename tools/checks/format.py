#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the layout of C and C++ sources against .clang-format; --fix rewrites them."""
import re
import subprocess
import sys

from common import ROOT, finish, tracked


def main():
    files = tracked("*.cc", "*.h", "*.c")
    if "--fix" in sys.argv[1:]:
        subprocess.run(["clang-format-19", "-i", *files], cwd=ROOT, check=True)
        return
    result = subprocess.run(["clang-format-19", "--dry-run", *files], cwd=ROOT, capture_output=True, text=True)
    lines = {}
    for path, line in re.findall(r"^(\S+?):(\d+):\d+: warning: code should be clang-formatted", result.stderr, re.MULTILINE):
        lines.setdefault(path, line)
    problems = [f"{path}:{line}: not in the project's style; run ./dev format" for path, line in lines.items()]
    if result.returncode and not problems:
        problems.append(result.stderr.strip())
    finish("format", problems, f"{len(files)} files")


if __name__ == "__main__":
    main()
