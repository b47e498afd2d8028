#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what a user of the web package downloads: one .wasm plus the JavaScript that it takes to run, each file
compressed with brotli -q 11, against BUDGET. Prints a table with a line per variant of the module.

The JavaScript is what the package's main entry reaches through relative imports and worker URLs, the modules are those that
it names; other entries of the package (sinter/diag) are loaded on demand and do not count.
"""
import json
import re
import subprocess

from common import ROOT, finish, need

BUDGET = 250_000
MODULE = re.compile(r"""["'](?:\.\.?/)?([\w.-]+\.wasm)["']""")
REFERENCE = re.compile(r"""(?:\bfrom|\bimport|\bimport\s*\(|new\s+URL\s*\()\s*["'](\.{1,2}/[^"']+\.m?js)["']""")


def compressed(path):
    return len(subprocess.run(["brotli", "-q", "11", "-c", path], capture_output=True, check=True).stdout)


def entry_file(entry):
    """The file an `exports` entry of package.json leads to."""
    while isinstance(entry, dict):
        entry = entry.get("import") or entry.get("default") or next(iter(entry.values()))
    return (ROOT / "web" / entry).resolve()


def reachable(start, stop):
    """Files that `start` refers to, itself included; other entries of the package are not followed."""
    found, waiting = [], [start]
    while waiting:
        path = waiting.pop()
        if path in found or path in stop:
            continue
        found.append(path)
        waiting += [(path.parent / reference).resolve() for reference in REFERENCE.findall(path.read_text())]
    return sorted(found)


def main():
    need("web/dist", "run ./dev build web")
    exports = json.loads((ROOT / "web/package.json").read_text())["exports"]
    main_entry = entry_file(exports["."])
    others = {entry_file(entry) for name, entry in exports.items()
              if name != "." and str(entry_file(entry)).endswith("js")} - {main_entry}
    scripts = {path: compressed(path) for path in reachable(main_entry, others)}
    javascript = sum(scripts.values())
    named = {name for path in scripts for name in MODULE.findall(path.read_text())}
    modules = {path: compressed(path) for path in sorted((ROOT / "web/dist").rglob("*.wasm")) if path.name in named}
    problems = [] if modules else ["web/dist holds no .wasm"]

    print(f"  {'download':32} {'bytes':>9} {'brotli':>9}")
    for path, size in (scripts | modules).items():
        print(f"  {str(path.relative_to(ROOT / 'web/dist')):32} {path.stat().st_size:>9,} {size:>9,}")
    for path, size in modules.items():
        total = size + javascript
        print(f"  {path.stem + ' in all':32} {'':>9} {total:>9,}  {total / BUDGET:.0%} of {BUDGET:,}")
        if total > BUDGET:
            problems.append(f"{path.name} with its JavaScript is {total:,} bytes, {total - BUDGET:,} over the budget")
    largest = max(modules.values(), default=0) + javascript
    finish("size", problems, f"{largest:,} of {BUDGET:,} bytes")


if __name__ == "__main__":
    main()
