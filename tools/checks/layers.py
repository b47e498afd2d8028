#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the direction of every include in engine/: a folder includes only itself and folders before it in LAYERS.

Further rules: `ops` does not know backends or plans; `cpu` and `gpu` do not know each other; `codegen` and `diag` are
leaves that only `api` may use; webgpu.h belongs to the native device; headers that hide a wait, a lock, an exception or a
large dependency stay out of code that the web build shares. Tests may include anything of the engine.
"""
import re

from common import ROOT, finish, tracked, without_comments

LAYERS = ["base", "async", "tensor", "ir", "wgsl", "ops", "onnx", "passes", "plan", "cpu", "gpu", "runtime", "codegen", "diag",
          "api"]
FORBIDDEN = {("ops", "onnx"), ("ops", "plan"), ("gpu", "cpu"), ("passes", "onnx"), ("diag", "codegen")}
LEAVES = {"codegen", "diag"}
NATIVE_ONLY = {"thread", "mutex", "condition_variable", "shared_mutex", "future", "semaphore", "barrier", "latch", "stop_token",
               "filesystem", "fstream", "dlfcn.h", "pthread.h", "unistd.h"}
NEVER = {"iostream", "ostream", "istream", "sstream", "iomanip", "format", "print", "regex", "locale", "exception", "stdexcept",
         "typeinfo", "csetjmp", "setjmp.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "engine" and len(parts) > 2 else None


def check_file(path, text):
    layer = layer_of(path)
    is_test = re.search(r"(_test|_fuzz)\.(cc|h)$", path) is not None
    is_native = re.search(r"_native\.(cc|h)$", path) is not None
    for match in INCLUDE.finditer(text):
        included = match.group(1) or match.group(2)
        where = f"{path}:{text.count(chr(10), 0, match.start(2 if match.group(2) else 1)) + 1}"
        if included.startswith("webgpu/") or included == "webgpu.h":
            if not (is_native and layer == "gpu"):
                yield f"{where}: {included} belongs in engine/gpu/*_native.* only"
            continue
        if is_test or layer is None:
            continue
        if included in NEVER:
            yield f"{where}: <{included}> is too heavy for the web build, or brings exceptions"
        if included in NATIVE_ONLY and not is_native:
            yield f"{where}: <{included}> belongs in a file named *_native"
        if included.startswith("hwy/") and layer != "cpu":
            yield f"{where}: Highway belongs in engine/cpu"
        target = layer_of(included)
        if included.startswith(("cli/", "web/", "tests/", "bench/", "tools/")):
            yield f"{where}: the engine includes {included}, which stands above it"
        if target is None or target == layer:
            continue
        if target not in LAYERS:
            yield f"{where}: {included} is in no known layer"
        elif LAYERS.index(target) > LAYERS.index(layer):
            yield f"{where}: {layer} includes {included}, but {target} stands above {layer}"
        elif (layer, target) in FORBIDDEN:
            yield f"{where}: {layer} must not know {target} ({included})"
        elif target in LEAVES and layer != "api":
            yield f"{where}: {layer} includes {included}, but {target} is a leaf"


def main():
    files = tracked("engine/*.h", "engine/*.cc", "engine/*.inc", "cli/*.h", "cli/*.cc")
    problems = [f"{path}: engine/{layer_of(path)} is no known layer" for path in files
                if path.startswith("engine/") and layer_of(path) not in LAYERS]
    for path in files:
        problems += check_file(path, without_comments((ROOT / path).read_text()))
    if not files:
        problems.append("engine/ has no sources")
    finish("layers", problems, f"{len(files)} files in {len(LAYERS)} layers")


if __name__ == "__main__":
    main()
