#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Native speed beside ONNX Runtime on the same machine, model by model. Prints a table and writes bench/results/native.json.

  bench.py [MODEL...]   names from models/generated or paths; default: mobilenetv2, squeezenet1_1, resnet50

Each engine runs in its own process, one after the other, with the same number of threads and inputs of the same shape;
times are medians of --runs with the output read back. The ratio is ONNX Runtime's time over ours: above 1 we are faster.
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parent.parent
SINTER = ROOT / "build/native/sinter"


def bench_onnxruntime(model, threads, runs, warmup):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    started = time.perf_counter()
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter()
    source = session.get_inputs()[0]
    x = np.random.default_rng(1).standard_normal([d if isinstance(d, int) else 1 for d in source.shape]).astype(np.float32)
    times = []
    for _ in range(warmup + runs):
        before = time.perf_counter()
        session.run(None, {source.name: x})
        times.append((time.perf_counter() - before) * 1e3)
    return {"load_ms": (loaded - started) * 1e3, "first_ms": times[0], "warm_ms": {"median": statistics.median(times[warmup:])}}


def bench_sinter(model, backend, threads, runs, warmup):
    command = [SINTER, "bench", model, "--backend", backend, "--threads", str(threads), "--runs", str(runs), "--warmup",
               str(warmup), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return {"error": done.stderr.strip() or f"exit {done.returncode}"}
    return {"error": document["error"]["message"]} if "error" in document else document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=["mobilenetv2", "squeezenet1_1", "resnet50"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    results, failed = [], False
    print(f"{'model':20} {'backend':8} {'first ms':>9} {'warm ms':>9} {'ONNX Runtime':>13} {'ratio':>6}")
    for name in arguments.models:
        model = pathlib.Path(name) if name.endswith(".onnx") else ROOT / f"models/generated/{name}.onnx"
        if not model.exists():
            parser.error(f"{model} does not exist")
        peer = bench_onnxruntime(model, arguments.threads, arguments.runs, arguments.warmup)
        for backend in ("cpu", "webgpu"):
            ours = bench_sinter(model, backend, arguments.threads, arguments.runs, arguments.warmup)
            results.append({"model": model.stem, "backend": backend, "threads": arguments.threads, "sinter": ours,
                            "onnxruntime_cpu": peer})
            if "error" in ours:
                failed = True
                print(f"{model.stem:20} {backend:8} {ours['error']}")
                continue
            warm, theirs = ours["warm_ms"]["median"], peer["warm_ms"]["median"]
            print(f"{model.stem:20} {backend:8} {ours['first_ms']:9.2f} {warm:9.2f} {theirs:13.2f} {theirs / warm:6.2f}")
    out = ROOT / "bench/results/native.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": platform.processor() or platform.machine(), "onnxruntime": onnxruntime.__version__,
                               "results": results}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
