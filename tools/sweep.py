#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Long measurements whose results are committed.

  attribution   every kind of fault at every node of MobileNetV2, SqueezeNet and ResNet-50, on the CPU and on WebGPU: do compare,
                bisect and the error itself name exactly that node? Writes tests/attribution.md and tests/attribution.json.

The graphs are the full ones, node by node. To make the thousands of runs feasible the images are 32x32, and MobileNetV2 and
ResNet-50 have a quarter of their channels.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOL = ROOT / "build/native/tests/sweep_attribution"
MODELS = ["mobilenetv2_bn", "squeezenet1_1", "resnet50"]
SHAPE = {"size": 32, "width": 16}


def model_for(name):
    """The model's path; made where it is not there."""
    folder = ROOT / "build/sweep"
    path = folder / f"{name}.onnx"
    if not path.exists():
        subprocess.run([sys.executable, ROOT / "tools/make_models.py", "--out", folder, "--size", str(SHAPE["size"]),
                        "--width", str(SHAPE["width"]), name], check=True, stdout=sys.stderr)
    return path


def attribution_of(name, backend, sample=0, seed=1):
    """The rows of one model on one backend, and the tool's exit code."""
    command = [TOOL, model_for(name), "--backend", backend, "--sample", str(sample), "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=None if not sample else subprocess.PIPE, text=True)
    if done.returncode > 1:
        raise RuntimeError(f"{name} on {backend}: {done.stderr or 'no good side'}")
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def summary(rows):
    """Counts per kind of fault."""
    table = {}
    for row in rows:
        counts = table.setdefault(row["kind"], {"nodes": 0, "attributed": 0, "inert": 0, "max_runs": 0})
        counts["nodes"] += 1
        counts["attributed"] += row["attributed"]
        counts["inert"] += row["inert"]
        counts["max_runs"] = max(counts["max_runs"], row.get("runs", 0))
    return table


def adapter():
    """What WebGPU runs on here."""
    done = subprocess.run([ROOT / "build/native/sinter", "doctor", "--json"], capture_output=True, text=True)
    try:
        found = json.loads(done.stdout).get("adapter") or {}
    except json.JSONDecodeError:
        return "unknown"
    return found.get("driver") or found.get("name") or "unknown"


def write(results, adapter_name, skipped):
    lines = ["# Attribution of injected faults", "",
             "Each fault at each node in turn, one at a time: `wrong` and `nan` must be named by `compare` and by `bisect`, `error` by",
             "the error itself, as exactly the node that was given. A fault is inert where no output of the model changes beyond the",
             "tolerance: there `bisect` finds nothing to search for, and `compare` must still name the node.", "",
             "Made by `./dev sweep attribution`; WebGPU on " + adapter_name + ". "
             "The graphs are the full ones, with images of 32x32;",
             "MobileNetV2 and ResNet-50 have a quarter of their channels.", "",
             "| model | backend | fault | nodes | attributed | of them inert | most runs of bisect |", "|---|---|---|---|---|---|---|"]
    missed = []
    for (name, backend), rows in results.items():
        for kind, counts in summary(rows).items():
            lines.append(f"| {name} | {backend} | {kind} | {counts['nodes']} | {counts['attributed']} | {counts['inert']} | "
                         f"{counts['max_runs'] or ''} |")
        missed += [(name, backend, row) for row in rows if not row["attributed"]]
    inert = [(name, backend, row) for (name, backend), rows in results.items() for row in rows if row["inert"]]
    if skipped:
        lines += ["", f"Not run: {', '.join(skipped)}."]
    for title, found in [("Not attributed", missed), ("Inert", inert)]:
        lines += ["", f"## {title}", ""]
        lines += [f"* {name} on {backend}: {row['kind']} at `{row['node']}` ({row['op']})" for name, backend, row in found]
        if not found:
            lines.append("None.")
    (ROOT / "tests/attribution.md").write_text("\n".join(lines) + "\n")
    # One fault a line.
    parts = []
    for (name, backend), rows in results.items():
        faults = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        parts.append(f'{{"model":"{name}","backend":"{backend}","faults":[\n{faults}]}}')
    head = json.dumps({"adapter": adapter_name, "shape": SHAPE})[:-1]
    (ROOT / "tests/attribution.json").write_text(f'{head}, "results": [\n' + ",\n".join(parts) + "]}\n")
    return len(missed)


def attribution(arguments):
    results, skipped = {}, []
    for backend in arguments.backends.split(","):
        for name in arguments.models.split(","):
            known = pathlib.Path(arguments.rows, f"{name}_{backend}.jsonl") if arguments.rows else None
            if known and known.exists():
                results[name, backend] = [json.loads(line) for line in known.read_text().splitlines()]
                continue
            if arguments.only_rows:
                skipped.append(f"{name} on {backend}")
                continue
            results[name, backend], _ = attribution_of(name, backend)
    missed = write(results, adapter(), skipped)
    print(f"{sum(map(len, results.values()))} faults, {missed} not attributed: tests/attribution.md")
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["attribution"])
    parser.add_argument("--models", default=",".join(MODELS), help="default: %(default)s")
    parser.add_argument("--backends", default="cpu,webgpu", help="default: %(default)s")
    parser.add_argument("--rows", help="a folder of MODEL_BACKEND.jsonl that the tool wrote before: those are not run again")
    parser.add_argument("--only-rows", action="store_true", help="run nothing: what has no rows is listed as not run")
    arguments = parser.parse_args()
    sys.exit(attribution(arguments))


if __name__ == "__main__":
    main()
