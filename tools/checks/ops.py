#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks engine/ops/ops.inc, the list of operators: sorted, no doubles, every row defined once in engine/ops/*.cc, and
every operator defined there listed."""
import collections
import re

from common import ROOT, finish, without_comments

ROW = re.compile(r'^\s*OP\(\s*"([^"]*)"\s*,\s*"?(\w+)"?\s*,\s*(\w+)\s*\)\s*$')
DEFINITION = re.compile(r"^\s*(?:extern\s+)?(?:const\s+OpDef|constexpr\s+OpDef|OpDef\s+const)\s+(\w+)\s*(?:=|\{|\()", re.MULTILINE)


def main():
    problems, rows = [], []
    for number, line in enumerate(without_comments((ROOT / "engine/ops/ops.inc").read_text()).splitlines(), start=1):
        if not line.strip():
            continue
        match = ROW.match(line)
        if match:
            rows.append(match.groups())
        else:
            problems.append(f'ops.inc:{number}: not of the form OP("domain", "Name", symbol): {line.strip()}')

    for before, after in zip(rows, rows[1:]):
        if before[:2] == after[:2]:
            problems.append(f"ops.inc: {after[1]} is listed twice")
        elif before[:2] > after[:2]:
            problems.append(f"ops.inc: {after[1]} comes after {before[1]}; the list is sorted by domain and name")

    defined = collections.defaultdict(list)
    for path in sorted((ROOT / "engine/ops").glob("*.cc")):
        if not path.name.endswith("_test.cc"):
            for symbol in DEFINITION.findall(without_comments(path.read_text())):
                defined[symbol].append(path.name)
    listed = {symbol for _, _, symbol in rows}
    for _, name, symbol in rows:
        if len(defined[symbol]) != 1:
            places = ", ".join(defined[symbol]) or "no file"
            problems.append(f"ops.inc: {name}'s {symbol} is defined in {places} of engine/ops, must be exactly one")
    for symbol, places in sorted(defined.items()):
        if places and symbol not in listed:
            problems.append(f"{places[0]}: {symbol} is not listed in ops.inc")
    if not rows:
        problems.append("ops.inc lists no operator")
    finish("ops", problems, f"{len(rows)} operators")


if __name__ == "__main__":
    main()
