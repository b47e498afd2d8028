#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference of the public interface from its headers: declarations with their comments, without bodies and private
parts. api_reference.py OUT.md HEADER...
"""
import re
import sys
from pathlib import Path

DESCENDS = re.compile(r"\b(class|struct|enum|union|namespace|extern)\b")
LEFT_OUT = re.compile(r"^\s*(#\s*(include|pragma|ifndef|ifdef|if|endif|define|else)\b.*|using namespace .*|// SPDX.*)$")


def matching(text, at):
    """The index of the brace that closes the one at `at`; braces in comments and strings are none in these headers."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    raise ValueError("a brace is not closed")


def is_body(head):
    """Whether what begins with the brace after `head` is the body of a function."""
    code = re.sub(r"//.*", "", head).strip()
    template = re.sub(r"template\s*<[^{]*?>\s*(requires [^\n]*\n)?", "", code)
    return not DESCENDS.search(template.split("(")[0]) and not code.endswith(("=", ",", "(", "return"))


def declarations(text):
    """The text without bodies, private sections and namespaces called `internal`."""
    out, head, i = "", "", 0
    while i < len(text):
        if text.startswith("//", i):
            end = text.index("\n", i)
            head += text[i:end]
            i = end
            continue
        if text.startswith("/*", i):
            end = text.index("*/", i) + 2
            head += text[i:end]
            i = end
            continue
        char = text[i]
        if char == "{":
            end = matching(text, i)
            if re.search(r"namespace internal\s*$", head):
                head, i = "", end + 1
                continue
            if is_body(head):
                constructor = re.search(r"\)\s*(noexcept\s*)?:\s[^:]", head)
                if constructor:
                    head = head[:constructor.start() + 1]
                out += head.rstrip() + ";"
                head, i = "", end + 1
                continue
            if re.search(r"[=,(]\s*$", head) or not DESCENDS.search(re.sub(r"//.*", "", head)):
                head += text[i:end + 1]
                i = end + 1
                continue
            out += head + "{" + declarations(text[i + 1:end]) + "}"
            head, i = "", end + 1
            continue
        head += char
        if char == ";":
            out += head
            head = ""
        i += 1
    out += head
    return re.split(r"\n[ ]*(?:private|protected):", out)[0] + ("\n" if re.search(r"\n[ ]*(?:private|protected):", out) else "")


def reference(header):
    whole = re.sub(r"^\s*#define [^\n]*\\\n(?:[^\n]*\\\n)*[^\n]*\n", "", header.read_text(), flags=re.MULTILINE)
    is_c = whole.startswith("/*")
    if is_c:
        whole = re.sub(r'#ifdef __cplusplus\n(extern "C" \{|\})\n#endif\n', "", whole)
    text = "\n".join(line for line in whole.splitlines() if not LEFT_OUT.match(line)).lstrip() + "\n"
    if is_c:
        end = text.index("*/")
        words = [line.strip(" *") for line in text[2:end].splitlines()]
        words, rest = [line for line in words if not line.startswith("SPDX")], text[end + 2:]
    else:
        lines = text.splitlines()
        count = next(i for i, line in enumerate(lines) if not line.startswith("//"))
        words, rest = [line[2:].strip() for line in lines[:count]], "\n".join(lines[count:]) + "\n"
    kept = declarations(rest)
    kept = re.sub(r"[ ]*// namespace.*$|^namespace [\w:]+ \{$", "", kept, flags=re.MULTILINE)
    kept = re.sub(r"^\}\s*$", "", kept, flags=re.MULTILINE)
    kept = re.sub(r"^static_assert\([^;]*;$|^(class|struct) \w+;([ ]*//[^\n]*)?$|^ public:\n", "", kept, flags=re.MULTILINE)
    kept = re.sub(r"\n{3,}", "\n\n", re.sub(r"\n\n+\};", "\n};", kept)).strip()
    if not re.search(r"^[^/\s]", kept, re.MULTILINE):  # comments alone
        kept = ""
    intro = "\n".join(words).strip()
    return f"## {header.name}\n\n{intro}\n" + (f"\n```cpp\n{kept}\n```\n" if kept else "")


def main(out, *headers):
    parts = ["# The public interface", "Written from the headers at build time. The operators' functions have a page of their own: "
             "tensor_functions.md.\n"]
    parts += [reference(Path(header)) for header in headers]
    Path(out).write_text("\n".join(parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
