#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed beside other engines, measured in the same run. Prints a table and writes bench/results/NAME.json.

  bench.py cpu [MODEL...]      native CPU beside ONNX Runtime
  bench.py webgpu [MODEL...]   native WebGPU beside ONNX Runtime's WebGPU provider; --batch N; --ops: 48 models of one operator
  bench.py browser-webgpu [MODEL...]   Chromium, WebGPU, beside ONNX Runtime Web and TensorFlow.js
  bench.py wasm [MODEL...]     Chromium, WebAssembly on the CPU, beside the same
  bench.py tasks [MODEL...]    Chromium: the longest task of the page's main thread during load and runs; default: resnet50

MODEL is a name from models/generated or a path; default: mobilenetv2, squeezenet1_1, resnet50. The engines take turns,
--rounds times; a figure is the median of the rounds' medians, with the output read back in every run. A ratio is our time over
the other's: below 1 we are faster.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench/peers"
MODELS = ["mobilenetv2", "squeezenet1_1", "resnet50"]

ONNXRUNTIME = """
import json, statistics, sys, time
import numpy as np, onnxruntime
model, threads, batch, warmup, runs = sys.argv[1], *map(int, sys.argv[2:])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
start = time.perf_counter()
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
load = time.perf_counter() - start
rng = np.random.default_rng(1)
feeds = {i.name: rng.standard_normal([d if isinstance(d, int) else batch for d in i.shape]).astype(np.float32)
         for i in session.get_inputs()}
times = []
for _ in range(1 + warmup + runs):
    start = time.perf_counter()
    session.run(None, feeds)
    times.append((time.perf_counter() - start) * 1e3)
warm = sorted(times[1 + warmup:])
print(json.dumps({"load_ms": load * 1e3, "first_ms": times[0], "warm_ms": {"min": warm[0], "median": statistics.median(warm)}}))
"""


def run_json(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return {"error": (done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1]}
    return {"error": document["error"]["message"]} if "error" in document else document


class Native:
    """Our command-line program and one peer, each run in a process of its own."""

    def __init__(self, arguments, backend):
        self.arguments, self.backend = arguments, backend
        self.peer_name = "onnxruntime" if backend == "cpu" else "onnxruntime-node webgpu"

    def ours(self, model, batch):
        a = self.arguments
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.json"
            command = [a.sinter, "bench", model, "--backend", self.backend, "--threads", a.threads, "--runs", a.runs,
                       "--warmup", a.warmup, "--json", "--trace", trace]
            result = run_json(command + (["--batch", batch] if batch > 1 else []))
            if "error" not in result:
                result["open_ms"] = open_ms(trace)
        return result

    def peer(self, model, batch):
        a = self.arguments
        if self.backend == "cpu":
            return run_json([sys.executable, "-c", ONNXRUNTIME, model, a.threads, batch, a.warmup, a.runs])
        return run_json([a.node, a.peers / "ort_node.mjs", model, "webgpu", batch, a.warmup, a.runs, a.threads])

    def measure(self, model, batch):
        ours, peer = [], []
        for _ in range(self.arguments.rounds):
            ours.append(self.ours(model, batch))
            peer.append(self.peer(model, batch))
        return merge(ours), merge(peer)


def open_ms(trace):
    """How long adapter and device took to open."""
    events = json.loads(trace.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    opening = [event["ts"] for event in events if event.get("name") == "open device"]
    return (max(opening) - min(opening)) / 1e3 if opening else 0


def merge(rounds):
    failed = [r for r in rounds if "error" in r]
    if failed:
        return failed[0]
    merged = dict(rounds[-1])
    merged["warm_ms"] = {key: statistics.median(r["warm_ms"][key] for r in rounds) for key in rounds[0]["warm_ms"]}
    # Load, preparation and the first run.
    merged["answer_ms"] = statistics.median(r["load_ms"] + r.get("prepare_ms", 0) + r["first_ms"] for r in rounds)
    if "open_ms" in merged:
        merged["open_ms"] = statistics.median(r["open_ms"] for r in rounds)
    return merged


def path_of(name):
    return pathlib.Path(name) if name.endswith(".onnx") else ROOT / f"models/generated/{name}.onnx"


def native(arguments, backend):
    batch = arguments.batch
    models = [path_of(name) for name in arguments.models or MODELS]
    if arguments.ops:
        folder = ROOT / "build/bench/ops"
        subprocess.run([sys.executable, ROOT / "bench/single_ops.py", folder], check=True)
        models = sorted(folder.glob("*.onnx"))
    for model in models:
        if not model.exists():
            sys.exit(f"bench.py: {model} does not exist")
    bench = Native(arguments, backend)
    results, ratios = [], []
    print(f"peer: {bench.peer_name}; answer: load, prepare and first run" + (", and without opening the device" if backend == "webgpu" else ""))
    print(f"{'':30} {'warm ms':>9} {'peer':>9} {'ratio':>6}   {'answer ms':>9} {'peer':>8} {'ratio':>6}")
    for model in models:
        ours, peer = bench.measure(model, batch)
        results.append({"model": model.stem, "batch": batch, "sinter": ours, bench.peer_name: peer})
        problem = [f"{who}: {r['error']}" for who, r in [("sinter", ours), (bench.peer_name, peer)] if "error" in r]
        if problem:
            print(f"{model.stem:30} {'; '.join(problem)}", flush=True)
            continue
        ratios.append(ours["warm_ms"]["median"] / peer["warm_ms"]["median"])
        # The peer opens the same device in the same time, inside its own first answer.
        bare = ours["open_ms"]
        bare_text = f"   {(ours['answer_ms'] - bare) / (peer['answer_ms'] - bare):6.2f} (device {bare:.1f} ms)" if bare else ""
        print(f"{model.stem:30} {ours['warm_ms']['median']:9.3f} {peer['warm_ms']['median']:9.3f} {ratios[-1]:6.2f}   "
              f"{ours['answer_ms']:9.1f} {peer['answer_ms']:8.1f} {ours['answer_ms'] / peer['answer_ms']:6.2f}{bare_text}", flush=True)
    if len(ratios) > 1:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
        print(f"geometric mean of the ratios {mean:.2f}, worst {max(ratios):.2f}")
    return results, any("error" in r["sinter"] for r in results)


def browser(arguments, backend):
    command = [arguments.node, ROOT / "bench/browser.mjs", backend, "--rounds", arguments.rounds, "--runs", arguments.runs,
               "--threads", arguments.threads, *(["--hardware"] if arguments.hardware else []), *(arguments.models or MODELS)]
    results, failed = [], False
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            result = json.loads(line)
            results.append(result)
            print(result["model"])
            ours = result["engines"][0]
            for engine in result["engines"]:
                if "error" in engine:
                    failed |= engine is ours
                    print(f"  {engine['title']:26} {engine['error']}")
                    continue
                ratio = f"{ours['warm_ms']['median'] / engine['warm_ms']['median']:6.2f}" if "warm_ms" in ours else ""
                print(f"  {engine['title']:26} warm {engine['warm_ms']['median']:9.2f} ms {ratio}   page open to first answer "
                      f"{engine['first_ms']:8.0f} ms {ours['first_ms'] / engine['first_ms'] if 'first_ms' in ours else 0:6.2f}"
                      f"   {engine.get('wrong', '')}", flush=True)
                failed |= engine is ours and "wrong" in engine
    return results, failed or process.returncode != 0


def tasks(arguments):
    """What one task of a page may take: 50 ms of its thread's own time."""
    command = [arguments.node, ROOT / "bench/tasks.mjs", "--rounds", arguments.rounds, "--runs", 5, *(arguments.models or ["resnet50"])]
    results = []
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            row = json.loads(line)
            results.append(row)
            print(f"{row['model']:16} {row['backend']:7} from {row['from']:8} longest task {row['longest_cpu_ms']:5.1f} ms of its thread, "
                  f"{row['longest_ms']:6.1f} ms by the clock, {len(row['longtasks'])} above 50 in {row['rounds']} rounds; "
                  f"load {row['load_ms']:6.0f} ms, run {row['run_ms']:6.0f} ms", flush=True)
    return results, process.returncode != 0 or any(not row["longest_cpu_ms"] <= 50 for row in results)


def install_peers():
    if not (PEERS / "node_modules").exists():
        print("installing the engines to compare with ...", file=sys.stderr)
        subprocess.run(["npm", "install", "--prefix", PEERS, "--ignore-scripts", "--no-audit", "--no-fund"], check=True,
                       stdout=sys.stderr)


BENCHES = {"cpu": lambda a: native(a, "cpu"), "webgpu": lambda a: native(a, "webgpu"),
           "browser-webgpu": lambda a: browser(a, "webgpu"), "wasm": lambda a: browser(a, "cpu"), "tasks": tasks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=BENCHES)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--runs", type=int, default=20, help="timed runs per round")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--ops", action="store_true", help="webgpu, cpu: 48 models of one operator each")
    parser.add_argument("--hardware", action="store_true", help="browser-webgpu: the adapter is a GPU in disguise")
    parser.add_argument("--sinter", type=pathlib.Path, default=ROOT / "build/native/sinter")
    parser.add_argument("--node", default=shutil.which("node") or "node")
    parser.add_argument("--peers", type=pathlib.Path, default=PEERS, help="folder with ort_node.mjs and node_modules")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results")
    arguments = parser.parse_intermixed_args()
    if arguments.name not in ("cpu", "tasks") and arguments.peers == PEERS:
        install_peers()
    results, failed = BENCHES[arguments.name](arguments)
    suffix = ("-ops" if arguments.ops else "") + (f"-batch{arguments.batch}" if arguments.batch > 1 else "")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{arguments.name}{suffix}.json").write_text(json.dumps(
        {"machine": platform.machine(), "cores": os.cpu_count(), "threads": arguments.threads, "results": results}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
