"""Steps through one operation after another, and counts the crate's files on the way.

`walk.py PROGRAM OPERATION...` runs gdb with this file as its script, and then reads the line tables.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile
import time

# The operations begin in a state that has been reached by then.
WARM = 40
# More instructions than any operation takes.
MOST = 400_000
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE)) + "/src/"


def step(program):
    """In gdb: writes the address of each instruction, from `walk_begin` to `walk_end`."""
    operation, begin, out = (os.environ["WALK_" + name] for name in ("OPERATION", "BEGIN", "OUT"))
    for command in ("set language c", "set pagination off", "handle SIGURG nostop noprint pass"):
        gdb.execute(command)
    breakpoint = gdb.Breakpoint(begin)
    # Of preemptions, there are few.
    breakpoint.ignore_count = 1 if operation == "preempt" else WARM
    gdb.execute(f"run {operation} {4 * WARM + 100}", to_string=True)
    breakpoint.delete()
    gdb.execute("set scheduler-locking on")
    number = lambda expression: int(gdb.parse_and_eval(f"(unsigned long){expression}"))
    parts = gdb.execute("info proc mappings", to_string=True).splitlines()
    base = min(int(part.split()[0], 16) for part in parts if part.strip().endswith(program))
    clock = [[int(end, 16) for end in part.split()[:2]] for part in parts if "[vdso]" in part]
    end, steps = number("&walk_end"), []
    while len(steps) < MOST and (pc := number("$pc")) != end:
        steps.append(pc - base)
        if any(first <= pc < last for first, last in clock):
            # A step takes longer than the kernel's clock data hold, so the code would read them forever.
            seconds, rest = divmod(time.clock_gettime_ns(time.CLOCK_MONOTONIC), 10**9)
            into = ("*(long*)$rsi", "*(long*)($rsi+8)", "$rax", "$rip", "$rsp")
            for place, value in zip(into, (seconds, rest, 0, "*(unsigned long*)$rsp", "$rsp+8")):
                gdb.execute(f"set var {place}={value}")
        else:
            gdb.execute("stepi", to_string=True)
    with open(out, "w") as file:
        file.writelines(f"{pc:x}\n" for pc in steps)
    gdb.execute("kill")


def frames(program, steps):
    """Returns, for each address, what is inlined there: functions and lines, innermost first."""
    known = sorted({pc for pc in steps if 0 <= pc < 1 << 28})
    command = ["addr2line", "-afiC", "-e", program]
    lines = iter(subprocess.run(command, input="\n".join(f"{pc:x}" for pc in known), capture_output=True,
                                text=True, check=True).stdout.splitlines())
    found, at = {}, None
    for line in lines:
        if re.fullmatch("0x[0-9a-f]+", line):
            at = found.setdefault(int(line, 16), [])
        else:
            at.append((re.sub("<.*?>", "", line).split("::")[-1], next(lines)))
    return found


def show(program, operation):
    begin = "walk_begin"
    if operation == "preempt":
        names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        begin = re.search(r"\S*7preempt9on_signal\S*", names)[0]
    with tempfile.TemporaryDirectory() as folder:
        out = folder + "/steps"
        environment = dict(os.environ, WALK_OPERATION=operation, WALK_BEGIN=begin, WALK_OUT=out)
        command = ["gdb", "-nx", "-batch", "-x", os.path.abspath(__file__), program]
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        if not os.path.exists(out):
            sys.exit(run.stdout + run.stderr)
        steps = [int(pc, 16) for pc in open(out)]
    at = frames(program, steps)
    # For each file: by line table, innermost, at all; and its functions.
    counts = collections.defaultdict(lambda: [0, 0, 0])
    functions = collections.defaultdict(collections.Counter)
    for pc in steps:
        is_inner = True
        for depth, (function, line) in enumerate(at.get(pc, ())):
            if HERE in line:
                break
            # Without a line (`:?`), the file is that of the instruction before, in the program's order.
            if not line.startswith(ROOT) or line.endswith(":?"):
                continue
            file = line[len(ROOT):].split(":")[0]
            counts[file][0] += depth == 0
            counts[file][1] += is_inner
            counts[file][2] += 1
            functions[file][function] += is_inner
            is_inner = False
    all_files, own, table = (sum(count[kind] > 0 for count in counts.values()) for kind in (2, 1, 0))
    crates = sum(count[1] for count in counts.values())
    print(f"{operation}: {all_files} files, {own} with instructions, {table} by line table; {crates} of "
          f"{len(steps)} instructions")
    for file, count in counts.items():
        most = " ".join(f"{name}({times})" for name, times in functions[file].most_common(8))
        print(f"{count[1]:6} {file:36} {most}")


try:
    import gdb
except ImportError:
    for operation in sys.argv[2:]:
        show(sys.argv[1], operation)
else:
    step(gdb.current_progspace().filename)
