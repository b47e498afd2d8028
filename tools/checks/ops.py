#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks engine/ops/ops.inc, the list of operators: sorted, no doubles, every row defined once in engine/ops/*.cc under the
same name, and every operator defined there listed."""
import collections
import re

from common import ROOT, finish, without_comments

ROW = re.compile(r'^\s*OP\(\s*"([^"]*)"\s*,\s*"?(\w+)"?\s*,\s*(\w+)\s*\)\s*$')
# A definition in full, or a row of a family written with one of its macros.
DEFINITION = re.compile(r'^(?:extern )?const OpDef (\w+)\s*(?:= *)?\{\s*\.name = "(\w+)"|^SINTER_\w+\(\s*(op_\w+)\s*,\s*"(\w+)"',
                        re.MULTILINE)


def listed_rows(text):
    """(rows, problems) of ops.inc."""
    rows, problems = [], []
    for number, line in enumerate(without_comments(text).splitlines(), start=1):
        match = ROW.match(line)
        if match:
            rows.append(match.groups())
        elif line.strip():
            problems.append(f'ops.inc:{number}: not of the form OP("domain", Name, symbol): {line.strip()}')
    for before, after in zip(rows, rows[1:]):
        if before[:2] == after[:2]:
            problems.append(f"ops.inc: {after[1]} is listed twice")
        elif before[:2] > after[:2]:
            problems.append(f"ops.inc: {after[1]} comes after {before[1]}; the list is sorted by domain and name")
    return rows, problems


def definitions(sources):
    """symbol: [(file, name)] from {file: text}."""
    found = collections.defaultdict(list)
    for file, text in sources.items():
        for match in DEFINITION.finditer(without_comments(text)):
            found[match.group(1) or match.group(3)].append((file, match.group(2) or match.group(4)))
    return found


def compare(rows, defined):
    for _, name, symbol in rows:
        places = defined.get(symbol, [])
        if len(places) != 1:
            where = ", ".join(file for file, _ in places) or "no file"
            yield f"ops.inc: {name}'s {symbol} is defined in {where} of engine/ops, must be exactly one"
        elif places[0][1] != name:
            yield f"ops.inc: {symbol} is listed as {name}, but {places[0][0]} names it {places[0][1]}"
    listed = {symbol for _, _, symbol in rows}
    for symbol, places in sorted(defined.items()):
        if symbol not in listed:
            yield f"{places[0][0]}: {symbol} is not listed in ops.inc"


def main():
    folder = ROOT / "engine/ops"
    rows, problems = listed_rows((folder / "ops.inc").read_text())
    sources = {path.name: path.read_text() for path in sorted(folder.glob("*.cc")) if not path.name.endswith("_test.cc")}
    problems += compare(rows, definitions(sources))
    if not rows:
        problems.append("ops.inc lists no operator")
    finish("ops", problems, f"{len(rows)} operators")


if __name__ == "__main__":
    main()
