#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the closing lines of a test run from ctest's JUnit file: the names of what failed, then the counts."""
import sys
import xml.etree.ElementTree as ElementTree


def main(path):
    try:
        cases = ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print(f"no test results: {error}", file=sys.stderr)
        print("0 passed, 1 failed")
        return 1
    by_status = {"run": [], "notrun": [], "disabled": [], "fail": []}
    for case in cases:
        by_status.setdefault(case.get("status"), []).append(case.get("name"))
    skipped = by_status["notrun"] + by_status["disabled"]
    failed = by_status["fail"]
    if skipped:
        print(f"skipped: {', '.join(skipped)}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    print(f"{len(by_status['run'])} passed, {len(failed)} failed")
    return 1 if failed or not by_status["run"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
