# SPDX-License-Identifier: Apache-2.0
"""What the checks share. Each check is a script that prints one line with a verdict and, if it failed, one line a finding."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def tracked(*patterns):
    """Files of the repository that git knows or would add, as paths relative to its root."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns],
                            cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return sorted(name for name in set(listed.split("\0")) if name and (ROOT / name).is_file())


def without_comments(source):
    """C++ source with comments blanked out; line numbers stay."""
    def blank(match):
        text = match.group()
        return text if text[0] in "\"'" else re.sub(r"[^\n]", " ", text)
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, source, flags=re.DOTALL)


def finish(name, problems, summary):
    """Prints the verdict and ends the script."""
    for problem in problems:
        print(f"  {problem}")
    if problems:
        print(f"{name}: FAILED, {len(problems)} finding{'s' if len(problems) > 1 else ''}")
    else:
        print(f"{name}: ok ({summary})")
    sys.exit(1 if problems else 0)


def need(path, how):
    """The path of a built file, or the end of the check with what to do."""
    full = ROOT / path
    if not full.exists():
        print(f"{pathlib.Path(sys.argv[0]).stem}: FAILED, {path} is missing: {how}")
        sys.exit(1)
    return full
