#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The counts that close a test run must not hide a test that failed in an unusual way. ctest itself makes the input."""
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import test_summary

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(sample NONE)
enable_testing()
add_test(NAME right COMMAND true)
add_test(NAME wrong COMMAND false)
add_test(NAME missing COMMAND /nowhere/program)
add_test(NAME skipped COMMAND echo skip-me)
set_tests_properties(skipped PROPERTIES SKIP_REGULAR_EXPRESSION skip-me)
add_test(NAME disabled COMMAND true)
set_tests_properties(disabled PROPERTIES DISABLED ON)
add_test(NAME late COMMAND sleep 9)
set_tests_properties(late PROPERTIES TIMEOUT 1)
add_test(NAME crash COMMAND sh -c "kill -SEGV $$")
"""


class Summary(unittest.TestCase):
    def test_every_kind_of_result(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "CMakeLists.txt").write_text(PROJECT)
            subprocess.run(["cmake", "-S", folder, "-B", folder / "b"], check=True, capture_output=True)
            subprocess.run(["ctest", "--test-dir", folder / "b", "--output-junit", "junit.xml"], check=False, capture_output=True)
            passed, failed, skipped = test_summary.sort_cases(ElementTree.parse(folder / "b/junit.xml").getroot())
        self.assertEqual(passed, ["right"])
        self.assertEqual(failed, ["wrong", "missing", "late", "crash"])
        self.assertEqual(skipped, ["skipped", "disabled"])

    def test_no_results_are_a_failure(self):
        self.assertEqual(test_summary.main("/nowhere/junit.xml"), 1)


if __name__ == "__main__":
    unittest.main()
