#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves from the module itself that the web build cannot block: no instruction, import, memory or function that waits.

  no_wait.py [MODULE.wasm]...   default: what the web build made, as shipped and with names

A module passes if it
- imports no function that could wait: only those in HOST_MODULES, and of the WASI interface only the ones in WASI_ALLOWED;
- contains no atomic wait instruction (every instruction is read; an unknown one is an error);
- has no shared memory (without one a wait would trap anyway, with one a lock could spin);
- holds no function of a mutex, a condition variable, a semaphore, a sleep or a thread join (by name; needs a module with names).
"""
import pathlib
import re
import sys

from common import ROOT, finish, need
from wasm import BadModule, read_module

HOST_MODULES = {"sinter", "sinter_gpu", "sinter_math"}
# Reached from libc's abort and diagnostics only; the host answers each at once. poll_oneoff, sched_yield, sock_* and the
# thread calls are the ones that would wait.
WASI_ALLOWED = {"fd_close", "fd_seek", "fd_write", "fd_fdstat_get", "proc_exit", "environ_get", "environ_sizes_get", "random_get",
                "clock_time_get"}
WAITS = {(0xFE, 0x01): "memory.atomic.wait32", (0xFE, 0x02): "memory.atomic.wait64"}
# Whole identifiers, so that a coroutine's await_ready or a string's join_names are no finding.
BLOCKING = re.compile(
    r"(?:timed_?|cond_?|clock_?)?wait(?:_for|_until|_all|_any)?|(?:u|nano|clock_nano)?sleep(?:_for|_until)?|(?:try_)?lock|join"
    r"|futex\w*|poll(?:_oneoff)?|p?select|epoll_\w+|sched_yield|thread_\w+"
    r"|(?:pthread|thrd|cnd|mtx|sem)_\w+|\w*(?:mutex|condition_variable|condvar|semaphore)\w*", re.IGNORECASE)
# Names that sound like waiting and are not.
HARMLESS = re.compile(
    r"std::__2::__shared_weak_count::lock\("  # weak_ptr to shared_ptr
    r"|(?:sinter::Task<.*> )?sinter::wait_for<"  # makes a Task of a Completion
    r"|sinter::gpu::FaultyDevice::poll\("  # asks, and on the web nobody calls it
    r"|sinter::Expr::select\("  # the ternary operator of fused expressions
    r"|std::__2::_IfImpl<[^(]*>::_Select<")  # a type that the library picks, in the signature of a template


def identifiers(name):
    """The words of a demangled function name, without its parameters."""
    return re.findall(r"\w+", name.split("(")[0])


def blocks(name):
    return not HARMLESS.match(name) and any(BLOCKING.fullmatch(word.strip("_")) for word in identifiers(name))


def findings(path):
    try:
        module = read_module(path.read_bytes())
        count = 0
        waiting = {}
        for instruction in module.instructions():
            count += 1
            if instruction.opcode in WAITS:
                waiting.setdefault(instruction.function, WAITS[instruction.opcode])
    except BadModule as error:
        return [str(error)], 0
    problems = [f"{module.function_name(function)} contains {opcode}" for function, opcode in waiting.items()]
    for entry in module.imports:
        if entry.kind == "memory":
            problems.append(f"imports its memory ({entry.module}.{entry.name}); it must own it")
        elif entry.module == "wasi_snapshot_preview1" and entry.name in WASI_ALLOWED:
            continue
        elif entry.module not in HOST_MODULES:
            problems.append(f"imports {entry.module}.{entry.name}, which is not on the list of calls that return at once")
        elif any(blocks(word) for word in (entry.name, *entry.name.split("_"))):
            problems.append(f"imports {entry.module}.{entry.name}, whose name says that it waits")
    if any(memory.shared for memory in module.memories):
        problems.append("has a shared memory")
    problems += [f"contains the function {name}" for _, name in sorted(module.names.items()) if blocks(name)]
    return problems, count


def main():
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
    if not paths:
        modules = ("sinter", "sinter-relaxed", "sinter-diag")
        paths = [need(f"build/web/{name}{suffix}", "run ./dev build web") for suffix in (".wasm", ".names.wasm") for name in modules]
        for path in paths[len(modules):]:
            if not read_module(path.read_bytes()).names:
                finish("no_wait", [f"{path.relative_to(ROOT)} holds no function names"], "")
    problems, total = [], 0
    for path in paths:
        found, count = findings(path)
        problems += [f"{path.name}: {problem}" for problem in found]
        total += count
    finish("no_wait", problems, f"{len(paths)} modules, {total:,} instructions read")


if __name__ == "__main__":
    main()
