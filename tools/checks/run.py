#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the checks, or those named on the command line, and says which failed."""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CHECKS = ["format", "text", "layers", "ops", "no_wait", "exceptions", "size", "memory", "typescript"]


def main():
    wanted = sys.argv[1:] or CHECKS
    unknown = [name for name in wanted if name not in CHECKS]
    if unknown:
        print(f"check: unknown check '{unknown[0]}'; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    failed = [name for name in wanted if subprocess.run([sys.executable, HERE / f"{name}.py"], check=False).returncode]
    print(f"{len(wanted) - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
