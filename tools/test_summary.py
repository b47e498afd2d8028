#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the closing lines of a test run from ctest's JUnit file: what was skipped and what failed, then the counts."""
import sys
import xml.etree.ElementTree as ElementTree


def sort_cases(root):
    """(passed, failed, skipped) names. A test whose program is missing has failed, though ctest calls it not run."""
    passed, failed, skipped = [], [], []
    for case in root.findall("testcase"):
        status, name = case.get("status"), case.get("name")
        reason = case.find("skipped")
        if status == "run":
            passed.append(name)
        elif status == "disabled" or (status == "notrun" and reason is not None and reason.get("message", "").startswith("SKIP_")):
            skipped.append(name)
        else:
            failed.append(name)
    return passed, failed, skipped


def main(path):
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        print(f"no test results: {error}", file=sys.stderr)
        print("0 passed, 1 failed")
        return 1
    passed, failed, skipped = sort_cases(root)
    if skipped:
        print(f"{len(skipped)} skipped: {', '.join(skipped)}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    print(f"{len(passed)} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
