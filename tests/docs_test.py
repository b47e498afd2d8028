#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands shown in docs/*.md do what is shown there.

A block marked `console` holds commands ("$ sinter ...") with their output. Each runs; its output must be the one shown,
numbers and spacing apart, and it must end well unless "$ echo $?" follows and shows another status. The commands of one
document share a folder, which has the repository's models in it.

  docs_test.py            checks
  docs_test.py --update   writes the real output into the documents
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = [path for path in sorted((ROOT / "docs").glob("*.md")) if BLOCK.search(path.read_text())]
LAVAPIPE = os.environ.get("SINTER_TEST_ADAPTER") == "lavapipe"


def commands_of(block):
    """[(command, shown output)]; a command that ends in a backslash goes on in the next line."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1][0] += "\n" + line
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(output)) for command, output in found]


def run(command, folder, status):
    """Output and exit status (that of a command cut short by `head` is 0); `echo $?` tells the status of the command before."""
    if command == "echo $?":
        return str(status), 0
    environment = {**os.environ, "PATH": f"{ROOT / 'build/native'}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = done.stdout.replace(f"{ROOT}/build/native/../../", "")
    return "\n".join(line.rstrip() for line in output.rstrip().splitlines()), 0 if done.returncode == 141 else done.returncode


def plain(text):
    """Without what differs from run to run and from one processor to the next."""
    text = re.sub(r"^instructions .*$", "instructions", text, flags=re.MULTILINE)
    text = re.sub(r"[A-Z]\w+ '[^']+'$", "CASE", text, flags=re.MULTILINE)  # of operators: the one with the largest error
    text = re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "N", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def shared_folder():
    folder = tempfile.TemporaryDirectory()
    (pathlib.Path(folder.name) / "models").symlink_to(ROOT / "models")
    return folder


class Documents(unittest.TestCase):
    maxDiff = None

    def test_there_are_documents(self):
        self.assertIn("diagnose.md", [path.name for path in DOCUMENTS])

    def test_commands_do_what_is_shown(self):
        for path in DOCUMENTS:
            with shared_folder() as folder:
                steps = [step for block in BLOCK.findall(path.read_text()) for step in commands_of(block)]
                status = 0
                for i, (command, shown) in enumerate(steps):
                    with self.subTest(document=path.name, command=command):
                        output, code = run(command, folder, status)
                        status = code
                        told = i + 1 < len(steps) and steps[i + 1][0] == "echo $?"
                        if not told:
                            self.assertEqual(code, 0, output)
                        if command == "echo $?":
                            self.assertEqual(output, shown)
                        if LAVAPIPE:  # the documents show that adapter
                            self.assertEqual(plain(output), plain(shown), output)


def update():
    for path in DOCUMENTS:
        with shared_folder() as folder:
            status = 0

            def rewrite(match):
                nonlocal status
                lines = []
                for command, _ in commands_of(match[1]):
                    output, status = run(command, folder, status)
                    lines += [f"$ {command}", *([output] if output else [])]
                return "```console\n" + "\n".join(lines) + "\n```"

            path.write_text(BLOCK.sub(rewrite, path.read_text()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
