#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's own node tests (of the PyPI package onnx) with `sinter test`.

Chosen are the tests whose model uses only operators, in opsets, that `sinter ops` lists. Two files beside this one say what is known:
  exclusions.txt   tests that are not run, each with its reason
  webgpu_host.txt  tests that pass on webgpu with steps on the CPU, each with its reason; they do not count for webgpu
An entry that no longer holds is an error, as is a failure or a step on the CPU without an entry.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Operators that import replaces by another.
RENAMED = {"Scatter": "ScatterElements", "Upsample": "Resize"}
REASONS = ("string", "sequence", "optional", "float8", "4-bit", "training")


def read_entries(name):
    entries = {}
    for number, line in enumerate((HERE / name).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        test, _, reason = line.partition(" ")
        if not reason.strip() or test in entries:
            sys.exit(f"{name}:{number}: expected 'TEST REASON', each test once")
        entries[test] = reason.strip()
    return entries


def graph_operators(graph):
    for node in graph.node:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from graph_operators(inner)


def uses_only(model, supported):
    local = {(function.domain, function.name) for function in model.functions}
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)

    def takes(domain, name):
        row = supported.get(RENAMED.get(name, name)) if domain in ("", "ai.onnx") else None
        return row is not None and int(row["opsets"].partition("-")[0]) <= opset

    return all(operator in local or takes(*operator) for operator in graph_operators(model.graph))


def load_tests():
    import onnx
    import onnx.backend.test

    root = Path(onnx.backend.test.__file__).parent / "data" / "node"
    return {path.name: (path, onnx.load(path / "model.onnx", load_external_data=False)) for path in sorted(root.iterdir())}


def sinter(program, *arguments):
    done = subprocess.run([program, *arguments, "--json"], stdout=subprocess.PIPE, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{program} {arguments[0]}: exit {done.returncode}, and its answer is not JSON: {done.stdout[:500]}")


def check_entries(name, entries, tests):
    for test in entries:
        if test not in tests:
            yield f"{name}: there is no node test '{test}'"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default="build/native/sinter", help="the command line tool")
    parser.add_argument("--backend", required=True, choices=("reference", "cpu", "webgpu"))
    parser.add_argument("--verbose", action="store_true", help="also name the tests that are not run")
    parser.add_argument("filter", nargs="?", default="", help="run the tests whose name holds this text")
    options = parser.parse_args()
    if options.backend == "webgpu" and "SINTER_TEST_ADAPTER" not in os.environ:
        print("skipped: no adapter chosen; see ./dev env")
        return 77

    tests = load_tests()
    exclusions, on_host = read_entries("exclusions.txt"), read_entries("webgpu_host.txt")
    problems = [*check_entries("exclusions.txt", exclusions, tests), *check_entries("webgpu_host.txt", on_host, tests)]
    problems += [
        f"exclusions.txt: {test}: the reason must begin with one of: {', '.join(REASONS)}"
        for test, reason in exclusions.items()
        if not reason.startswith(REASONS)
    ]
    supported = sinter(options.sinter, "ops")
    chosen, others = [], []
    for name, (path, model) in tests.items():
        if options.filter in name and name not in exclusions:
            (chosen if uses_only(model, supported) else others).append(path)
    if not chosen:
        sys.exit(f"no node test of a supported operator matches '{options.filter}'")
    answer = sinter(options.sinter, "test", "--backend", options.backend, *map(str, chosen))
    if "error" in answer:
        sys.exit(f"sinter test: {answer['error']['message']}")
    passed, on_cpu = 0, 0
    for case in answer["cases"]:
        name = case["name"]
        hosted = options.backend == "webgpu" and bool(case["cpu_steps"])
        if case["status"] != "passed":
            problems.append(f"{name}: {case['reason']}")
        elif hosted and name not in on_host:
            reasons = "; ".join(sorted({step["reason"] for step in case["cpu_steps"]}))
            problems.append(f"ran on the CPU, with no entry in webgpu_host.txt: {name} {reasons}")
        elif options.backend == "webgpu" and not hosted and name in on_host:
            problems.append(f"{name}: ran on the device, its entry in webgpu_host.txt is out of date")
        else:
            passed += not hosted
            on_cpu += hosted
    if options.verbose:
        for path in others:
            print(f"not run: {path.name}")
    for problem in problems:
        print(f"FAILED {problem}")
    print(
        f"{options.backend}: {passed} node tests passed, {on_cpu} more with steps on the CPU, "
        f"{sum(options.filter in test for test in exclusions)} excluded, {len(others)} of operators that are not supported"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
