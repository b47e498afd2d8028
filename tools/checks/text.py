#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the text of every file: a licence line in sources, nothing unfinished, no trailing space, and no name of a
machine, a folder or a package server that only its author has."""
import re

from common import ROOT, finish, tracked

SOURCES = re.compile(r"\.(cc|h|c|inc|cmake|py|sh|ts|mts|js|mjs|wgsl)$|^dev$|^\.ci/run$|CMakeLists\.txt$")
BINARY = re.compile(r"\.(onnx|npy|png|jpg|wasm|pb|bin|ico|weights)$")
EXEMPT = {"LICENSE"}
RULES = [
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b"), "unfinished"),
    (re.compile(r"(?<![\w.:/$}~-])/(?:home|root|work|Users|mnt)/\w"), "names a folder of its author's machine"),
    (re.compile(r"(?:registry|mirror|proxy)\.[\w.-]+\.\w+|\b(?:pypi|pythonhosted|npmjs|deb\.debian)\.(?:org|com)|\b(?:10|192\.168|172\.16)"
                r"(?:\.\d+){2,3}:\d+", re.IGNORECASE), "names a package server"),
    (re.compile(r"[ \t]+$"), "trailing space"),
    (re.compile(r"^(?:<<<<<<<|>>>>>>>) "), "a merge was left unfinished"),
]


def main():
    problems = []
    files = [path for path in tracked() if not BINARY.search(path) and path not in EXEMPT]
    for path in files:
        try:
            lines = (ROOT / path).read_text().splitlines()
        except UnicodeDecodeError:
            problems.append(f"{path}: not text, and its suffix is none of a known binary format")
            continue
        if SOURCES.search(path) and "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:3]):
            problems.append(f"{path}: the licence line is missing (SPDX-License-Identifier: Apache-2.0)")
        for number, line in enumerate(lines, start=1):
            problems += [f"{path}:{number}: {why}: {line.strip()[:100]}" for pattern, why in RULES if pattern.search(line)]
    finish("text", problems, f"{len(files)} files")


if __name__ == "__main__":
    main()
