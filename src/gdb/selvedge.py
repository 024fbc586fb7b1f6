# Shows green threads in gdb: `info selvedge`, and `help selvedge`.
#
# The problem. gdb knows kernel threads. A green thread that does not run at the moment is a stack in memory,
# with its registers in its last frame, and gdb does not show it.
#
# Rejected. Types from debug information, which is often without them: offsets come from the program itself
# (`park/debugger.rs`). Calls of functions of the program: a core file has no process to run them. Registers
# that are written and put back: a core file has none to write, and an error in between would leave the
# process with the wrong ones.
#
# The way. An unwinder tells gdb what "the caller" of a kernel thread's innermost frame is: the frame in which
# the green thread stopped. From there on, gdb unwinds as ever. A frame filter hides the kernel thread's own
# frame. Nothing is written to the process.
#
# The frames of a green thread that does not run are those that `arch/x86_64.rs`,
# `arch/aarch64.rs` and `arch/riscv64.rs` draw.
# This script has been run on x86-64 only. It needs gdb 10 or later, with Python 3.
#
# gdb runs it among its own and the user's names, so each name here begins with Selvedge.

import itertools
import re
import struct

import gdb
import gdb.unwinder

SELVEDGE_MAGIC = b"selvedg1"

# `park/reason.rs`.
SELVEDGE_REASONS = {
    1: "its permit (park)",
    2: "the end of its sleep",
    3: "the end of a thread (join)",
    4: "a mutex",
    5: "a condition variable",
    6: "a barrier",
    7: "the end of other threads (scope)",
    8: "a read-write lock",
    9: "a semaphore",
    10: "an initialization (once)",
    11: "room in a channel (send)",
    12: "a message (receive)",
    13: "the first of several events (select)",
    14: "a wait group",
    15: "a descriptor to be readable",
    16: "a descriptor to be writable",
    17: "a future (block_on)",
    18: "a futex",
}
SELVEDGE_PARK, SELVEDGE_SLEEP, SELVEDGE_JOIN, SELVEDGE_MUTEX, SELVEDGE_CONDVAR = 1, 2, 3, 4, 5
# Waits without a place in the table of wait queues, and without the permit.
SELVEDGE_ELSEWHERE = (SELVEDGE_SLEEP, SELVEDGE_JOIN, 11, 12, 13, 17)
# `park/wait_state/word.rs`: the wait has a deadline.
SELVEDGE_TIMED = 0x80
# `park/exit/word.rs`, `park/permit/word.rs`, `fiber/on_cpu.rs`.
SELVEDGE_DONE, SELVEDGE_PARKED = 1, 1
SELVEDGE_SET, SELVEDGE_PREEMPTED, SELVEDGE_NEW = 1, 2, 3


def selvedge_read(at, size):
    return bytes(gdb.selected_inferior().read_memory(at, size))


def selvedge_word(at):
    return struct.unpack("<Q", selvedge_read(at, 8))[0]


class SelvedgeFacts:
    """What the program says of its structures."""

    # The table of green threads names all others. In a program without green threads, that of kernel threads
    # is there.
    ROOTS = ("mxn::green::FACTS", "park::core_pool::FACTS")
    # The addresses of such tables, by program. Two versions of the crate in a program have one each.
    known = {}

    def __init__(self, root):
        self.values, todo = {}, [root]
        while todo:
            table = todo.pop()
            magic, count = struct.unpack("<8sQ", selvedge_read(table, 16))
            if magic != SELVEDGE_MAGIC:
                raise gdb.GdbError("selvedge: the program's tables are not those that this script reads")
            for name, value in struct.iter_unpack("<24sQ", selvedge_read(table + 16, 32 * count)):
                name = name.rstrip(b"\0").decode()
                if name == "more":
                    todo.append(value)
                else:
                    self.values[name] = value

    def __getitem__(self, name):
        if name not in self.values:
            raise gdb.GdbError(f"selvedge: the program does not say {name!r}; this script fits another one")
        return self.values[name]

    def __contains__(self, name):
        return name in self.values

    @classmethod
    def all(cls):
        if not gdb.selected_inferior().threads():
            raise gdb.GdbError("selvedge: there is no process, and no core file")
        program = gdb.current_progspace().filename
        roots = cls.known.get(program, [])
        if not roots or not all(map(cls.is_table, roots)):
            # A program that has been started since is at other addresses.
            roots = cls.known[program] = cls.find()
        return [cls(root) for root in roots]

    @staticmethod
    def is_table(at):
        try:
            return selvedge_read(at, 8) == SELVEDGE_MAGIC
        except gdb.MemoryError:
            return False

    @classmethod
    def find(cls):
        for root in cls.ROOTS:
            # Symbols first: variables of optimized programs have no debug information.
            listed = gdb.execute(f"info variables {root}", to_string=True)
            symbols = re.findall(rf"^(0x[0-9a-f]+) +.*{root}", listed, re.M)
            roots = sorted({int(at, 16) for at in symbols}) or cls.evaluate(f"&'selvedge::{root}'")
            if roots:
                return roots
        raise gdb.GdbError(
            "selvedge: this program has no tables for gdb. It uses no threads of selvedge, or it was\n"
            "stripped of its symbols."
        )

    @staticmethod
    def evaluate(expression):
        language = gdb.parameter("language")
        try:
            gdb.execute("set language c", to_string=True)
            return [int(gdb.parse_and_eval(f"(unsigned long){expression}"))]
        except gdb.error:
            return []
        finally:
            gdb.execute(f"set language {language}", to_string=True)


class SelvedgeMachine:
    """How an architecture keeps the registers of a thread that does not run."""

    def __init__(self, sp, pc, saved):
        self.sp, self.pc, self.saved = sp, pc, saved

    @staticmethod
    def of(architecture):
        for name, machine in SELVEDGE_MACHINES.items():
            if architecture.name().startswith(name):
                return machine
        raise gdb.GdbError(f"selvedge: no green threads are known on {architecture.name()}")


def selvedge_x86_64(sp):
    _floats, resume, rbx, rbp = struct.unpack("<4Q", selvedge_read(sp - 32, 32))
    return {"rip": resume, "rsp": sp, "rbp": rbp, "rbx": rbx}


def selvedge_aarch64(sp):
    x29, x19, resume, _fpcr = struct.unpack("<4Q", selvedge_read(sp, 32))
    return {"pc": resume, "sp": sp + 32, "x29": x29, "x19": x19}


def selvedge_riscv64(sp):
    s0, s1, resume, _fcsr = struct.unpack("<4Q", selvedge_read(sp, 32))
    return {"pc": resume, "sp": sp + 32, "fp": s0, "s1": s1}


SELVEDGE_MACHINES = {
    "i386:x86-64": SelvedgeMachine("rsp", "rip", selvedge_x86_64),
    "aarch64": SelvedgeMachine("sp", "pc", selvedge_aarch64),
    "riscv:rv64": SelvedgeMachine("sp", "pc", selvedge_riscv64),
}


def selvedge_thread_number(thread):
    """Returns the kernel's number of a thread of gdb's."""
    pid, lwp, _ = thread.ptid
    return lwp or pid


class SelvedgeSelection:
    """Puts back the selected thread and frame in the end."""

    def __enter__(self):
        self.thread, self.frame = gdb.selected_thread(), None
        try:
            self.frame = gdb.selected_frame()
        except gdb.error:
            pass
        return self

    def __exit__(self, *_):
        if self.thread is not None and self.thread.is_valid():
            if gdb.selected_thread() is None or gdb.selected_thread().ptid != self.thread.ptid:
                self.thread.switch()
            if self.frame is not None and self.frame.is_valid():
                self.frame.select()


class SelvedgeThread:
    """A living thread, as it was found."""

    def __init__(self, facts, core, is_green, at):
        """`at` has the memory from `core` on."""
        word = lambda offset: struct.unpack_from("<Q", at, offset)[0]
        self.core, self.is_green, self.kernel_thread, self.tid, self.has_begun = core, is_green, None, 0, True
        self.id = word(facts["core.id"])
        text, length = word(facts["core.name"]), word(facts["core.name"] + 8)
        self.name = None
        if text:
            try:
                name = selvedge_read(text, length).decode(errors="replace")
                # A name must not control the terminal.
                self.name = "".join(it if it.isprintable() else "?" for it in name)
            except gdb.MemoryError:
                self.name = "?"
        wait = facts["core.wait"]
        reason = at[wait + facts["wait.reason"]]
        self.reason, self.is_timed = reason & ~SELVEDGE_TIMED, reason & SELVEDGE_TIMED != 0
        self.wait_at = word(wait + facts["wait.at"])
        self.is_parked = struct.unpack_from("<I", at, facts["core.permit"])[0] == SELVEDGE_PARKED
        if is_green:
            fiber = facts["green.fiber"]
            self.mounted = at[fiber + facts["fiber.mounted"]]
            self.has_begun = self.mounted != SELVEDGE_NEW
            self.sp = word(fiber + facts["fiber.sp"])
            header = word(fiber + facts["fiber.stack"])
            self.stack = range(0)
            if header:
                self.stack = range(
                    selvedge_word(header + facts["stack.limit"]), selvedge_word(header + facts["stack.top"])
                )
            lwp = word(facts["green.lwp"])
            if self.mounted == SELVEDGE_SET and lwp:
                self.tid = struct.unpack("<I", selvedge_read(lwp + facts["lwp.tid"], 4))[0]
        else:
            self.tid = struct.unpack_from("<I", at, facts["kernel.tid"])[0]

    def label(self):
        parts = ["green thread" if self.is_green else "kernel thread"]
        parts += [str(self.id)] if self.id else []
        parts += [f'"{self.name}"'] if self.name is not None else []
        return " ".join(parts) + f" ({self.core:#x})"

    def wait(self, queued):
        """Returns what it waits for in words, or None."""
        if self.reason == 0:
            return None
        reason, at = self.reason, self.wait_at
        if self.core in queued:
            key = queued[self.core]
            if key != at and reason == SELVEDGE_CONDVAR:
                # It was notified, and moved to the mutex that it is to have.
                reason = SELVEDGE_MUTEX
            at = key
        elif not self.is_parked and reason not in SELVEDGE_ELSEWHERE and queued.is_known:
            # It was granted what it waited for, and has not run since.
            return None
        text = "waits for " + SELVEDGE_REASONS.get(reason, f"reason {reason}")
        if at and reason not in (SELVEDGE_PARK, SELVEDGE_SLEEP):
            text += f" at {at:#x}"
        return text + (", with a time limit" if self.is_timed else "")

    def state(self, queued):
        wait = self.wait(queued)
        if self.kernel_thread is not None and self.is_green:
            return f"on LWP {self.tid}"
        if not self.is_green:
            lwp = f"LWP {self.tid}" if self.tid else "LWP unknown"
            return f"{lwp}, {wait or 'runs, or is in the kernel'}"
        if not self.has_begun:
            return "runnable, has not run yet"
        if self.mounted == SELVEDGE_PREEMPTED:
            return "runnable, preempted"
        return wait or "runnable"


class SelvedgeQueues(dict):
    """From a thread in a wait queue to the key of that queue."""

    def __init__(self, facts):
        super().__init__()
        self.is_known = "table" in facts
        if not self.is_known:
            return
        links, thread, key = facts["waiter.links"], facts["waiter.thread"], facts["waiter.key"]
        try:
            for first in self.chains(facts):
                while first:
                    waiter = first
                    while selvedge_word(waiter + thread) not in self:
                        self[selvedge_word(waiter + thread)] = selvedge_word(waiter + key)
                        waiter = selvedge_word(waiter + links + facts["links.next"])
                    first = selvedge_word(first + links + facts["links.chain"])
        except gdb.MemoryError:
            self.is_known = False
        # Waiters lie on stacks, and a core file may be without these.
        self.is_known = self.is_known and 0 not in self

    @staticmethod
    def chains(facts):
        """Returns the first waiter of each chain; 0: there is none."""
        size, count = facts["bucket.size"], facts["table.buckets"]
        table = selvedge_read(facts["table"], size * count)
        for bucket in range(0, size * count, size):
            yield struct.unpack_from("<Q", table, bucket + facts["bucket.only"])[0]
            row = struct.unpack_from("<Q", table, bucket + facts["bucket.row"])[0]
            if row:
                chains = struct.unpack_from("<I", table, bucket + facts["bucket.chains"])[0]
                yield from struct.unpack(f"<{chains}Q", selvedge_read(row, 8 * chains))


class SelvedgeProcess:
    """All threads, as they are while the process stands."""

    def __init__(self):
        self.threads, self.queued = [], SelvedgeQueues({})
        self.kernel_threads = {selvedge_thread_number(it): it for it in gdb.selected_inferior().threads()}
        for facts in SelvedgeFacts.all():
            queues = SelvedgeQueues(facts)
            self.queued.is_known |= queues.is_known
            self.queued.update(queues)
            if "chunks" in facts:
                self.add_green(facts)
            self.add_kernel(facts)
        self.mark_those_on_lwps()
        self.mark_new_ones()

    def add_green(self, facts):
        chunk, size = selvedge_word(facts["chunks"]), facts["green.size"]
        while chunk:
            first, count = struct.unpack("<2Q", selvedge_read(chunk + facts["chunk.greens"], 16))
            greens = selvedge_read(first, size * count)
            for offset in range(0, size * count, size):
                self.add(facts, first + offset, True, greens[offset : offset + size])
            chunk = selvedge_word(chunk + facts["chunk.older"])

    def add_kernel(self, facts):
        core = selvedge_word(facts["kernel.all"])
        while core:
            at = selvedge_read(core, facts["kernel.size"])
            self.add(facts, core, False, at)
            core = struct.unpack_from("<Q", at, facts["kernel.older"])[0]

    def add(self, facts, core, is_green, at):
        if struct.unpack_from("<Q", at, facts["core.exit"])[0] != SELVEDGE_DONE:
            thread = SelvedgeThread(facts, core, is_green, at)
            if not is_green:
                thread.kernel_thread = self.kernel_threads.get(thread.tid)
            self.threads.append(thread)

    def mark_those_on_lwps(self):
        mounted = [it for it in self.threads if it.is_green and it.tid in self.kernel_threads]
        if not mounted:
            return
        with SelvedgeSelection():
            for thread in mounted:
                on = self.kernel_threads[thread.tid]
                on.switch()
                if self.stands_on(thread.stack):
                    thread.kernel_thread = on

    @staticmethod
    def stands_on(stack):
        """Returns True if the selected kernel thread uses the stack, be it below a signal handler."""
        try:
            frame = gdb.newest_frame()
            machine = SelvedgeMachine.of(frame.architecture())
            for _ in range(64):
                if int(frame.read_register(machine.sp)) in stack:
                    return True
                frame = frame.older()
                if frame is None:
                    return False
        except gdb.error:
            pass
        return False

    def mark_new_ones(self):
        starts = {}
        for thread in self.threads:
            if thread.is_green and thread.kernel_thread is None and thread.sp and thread.has_begun:
                try:
                    pc = selvedge_registers(thread)[1]
                except gdb.error:
                    continue
                if pc not in starts:
                    starts[pc] = selvedge_is_start(pc)
                thread.has_begun = not starts[pc]

    def find(self, which):
        """Returns the threads that a word of a command means."""
        if which == "all":
            return self.threads
        number = int(which, 0) if re.fullmatch(r"0x[0-9a-fA-F]+|\d+", which) else None
        # The id 0 is none: nothing has asked for one yet.
        found = [it for it in self.threads if number and number in (it.core, it.id)]
        found = found or [it for it in self.threads if it.name == which]
        if not found:
            raise gdb.GdbError(f"selvedge: no thread has the id, address or name {which} (`info selvedge`)")
        return found

    def find_one(self, which):
        found = self.find(which)
        if len(found) > 1:
            addresses = " ".join(f"{it.core:#x}" for it in found)
            raise gdb.GdbError(f"selvedge: several threads have that name. By address: {addresses}")
        return found[0]


def selvedge_registers(thread):
    """Returns the registers that a green thread has saved, and its program counter."""
    machine = SelvedgeMachine.of(gdb.selected_inferior().architecture())
    registers = machine.saved(thread.sp)
    return registers, registers[machine.pc]


def selvedge_is_start(pc):
    """Returns True for the code to which a new thread's context points."""
    return re.match(r"selvedge.*::arch::.*::start(::h[0-9a-f]+)? in section", selvedge_symbol(pc)) is not None


def selvedge_symbol(pc):
    return gdb.execute(f"info symbol {pc:#x}", to_string=True)


class SelvedgeUnwinder(gdb.unwinder.Unwinder):
    """While a green thread is shown: its frames are those behind a kernel thread's innermost frame."""

    class Id:
        def __init__(self, sp, pc):
            self.sp, self.pc = sp, pc

    def __init__(self):
        super().__init__("selvedge")
        self.shown = None

    def show(self, thread):
        self.hide()
        on = gdb.selected_thread()
        if on is None or not on.is_stopped():
            raise gdb.GdbError("selvedge: select a kernel thread that is stopped")
        if thread.sp == 0 or thread.sp not in thread.stack:
            raise gdb.GdbError(f"selvedge: the {thread.label()} has no frames yet")
        frame = gdb.newest_frame()
        self.machine = SelvedgeMachine.of(frame.architecture())
        self.registers = self.machine.saved(thread.sp)
        if self.registers[self.machine.pc] == 0:
            raise gdb.GdbError(
                f"selvedge: the core file is without the stack of the {thread.label()}.\n"
                "gdb's `gcore` leaves stacks out where the kernel marks their ends (Linux 6.13). Core files\n"
                "that the kernel writes have them."
            )
        self.at = (int(frame.read_register(self.machine.sp)), frame.pc())
        self.on, self.past_main = on.ptid, gdb.parameter("backtrace past-main")
        self.shown = thread
        # If the kernel thread stands in `main`, unwinding is to go on.
        gdb.execute("set backtrace past-main on", to_string=True)
        gdb.frame_filters["selvedge"] = SELVEDGE_FILTER
        gdb.invalidate_cached_frames()
        first = self.first_frame()
        if first is None:
            self.hide()
            raise gdb.GdbError(f"selvedge: gdb cannot unwind the {thread.label()}")
        first.select()

    def hide(self):
        if self.shown is None:
            return
        self.shown = None
        gdb.frame_filters.pop("selvedge", None)
        gdb.execute(f"set backtrace past-main {'on' if self.past_main else 'off'}", to_string=True)
        gdb.invalidate_cached_frames()

    def is_first(self, frame):
        machine = self.machine
        return frame.pc() == self.registers[machine.pc] and (
            int(frame.read_register(machine.sp)) == self.registers[machine.sp]
        )

    def first_frame(self):
        frame = gdb.newest_frame()
        while frame is not None and not self.is_first(frame):
            frame = frame.older()
        return frame

    def __call__(self, pending):
        if self.shown is None or gdb.selected_thread() is None or gdb.selected_thread().ptid != self.on:
            return None
        sp, pc = (pending.read_register(name) for name in (self.machine.sp, self.machine.pc))
        if (int(sp), int(pc)) != self.at:
            return None
        # Frames further out must be further up.
        info = pending.create_unwind_info(self.Id(gdb.Value(self.shown.sp - 256), pc))
        for name, value in self.registers.items():
            info.add_saved_register(name, gdb.Value(value))
        return info


class SelvedgeFilter:
    """Hides the kernel thread's own frames while a green thread is shown."""

    name, enabled, priority = "selvedge", True, 1000

    def filter(self, frames):
        unwinder = SELVEDGE_UNWINDER
        if unwinder.shown is None or gdb.selected_thread().ptid != unwinder.on:
            return frames
        return itertools.dropwhile(lambda it: not unwinder.is_first(it.inferior_frame()), frames)


class SelvedgeShown:
    """Shows a thread's frames for the commands in between."""

    def __init__(self, thread):
        self.thread, self.selection = thread, SelvedgeSelection()

    def __enter__(self):
        self.before = SELVEDGE_UNWINDER.shown
        self.selection.__enter__()
        try:
            selvedge_select(self.thread)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        SELVEDGE_UNWINDER.hide()
        self.selection.__exit__()
        if self.before is not None:
            SELVEDGE_UNWINDER.show(self.before)


def selvedge_select(thread):
    """Makes the frames of a thread those that gdb's commands are about."""
    if thread.kernel_thread is not None:
        SELVEDGE_UNWINDER.hide()
        thread.kernel_thread.switch()
        gdb.newest_frame().select()
    elif not thread.is_green:
        raise gdb.GdbError(f"selvedge: the LWP of the {thread.label()} is unknown; see `info threads`")
    elif not thread.has_begun:
        raise gdb.GdbError(f"selvedge: the {thread.label()} has not run yet")
    else:
        SELVEDGE_UNWINDER.show(thread)


class SelvedgeInfo(gdb.Command):
    """Lists the threads of selvedge: `info selvedge [TEXT]`.

For each: its id (`-` if nothing has asked for it yet), its address, its name, and what it does.
With TEXT, only lines that contain it. Then the LWPs, as far as the system says which they are."""

    def __init__(self):
        super().__init__("info selvedge", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        process = SelvedgeProcess()
        for is_green, title in ((True, "Green threads"), (False, "Kernel threads")):
            threads = [it for it in process.threads if it.is_green == is_green]
            threads.sort(key=lambda it: (it.id == 0, it.id, it.core))
            print(f"{title}: {len(threads)}")
            row = lambda it: (str(it.id or "-"), f"{it.core:#x}", it.name or "-", it.state(process.queued))
            rows = [row(it) for it in threads]
            selvedge_print(("Id", "Address", "Name", "State"), rows, argument)
        self.print_lwps(process, argument)

    @staticmethod
    def print_lwps(process, argument):
        on = {it.tid: it.label() for it in process.threads if it.is_green and it.kernel_thread is not None}
        rows = []
        for tid, thread in sorted(process.kernel_threads.items()):
            name = thread.name or ""
            if tid in on or re.fullmatch(r"selvedge-\d+", name):
                rows.append((str(tid), name or "-", str(thread.num), on.get(tid, "no green thread")))
        print(f"LWPs: {len(rows)}")
        selvedge_print(("LWP", "Name", "gdb", "Runs"), rows, argument)


def selvedge_print(titles, rows, argument):
    rows = [row for row in rows if argument in "  ".join(row)]
    if rows:
        rows.insert(0, titles)
        widths = [max(map(len, column)) for column in list(zip(*rows))[:-1]]
        for row in rows:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[-1])


class SelvedgePrefix(gdb.Command):
    """Shows green threads: their backtraces, frames and variables.

A THREAD is an id, an address or a name from `info selvedge`. Put a name with blanks in quotes.
A frame has the number that the backtrace prints."""

    def __init__(self):
        super().__init__("selvedge", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class SelvedgeApply(gdb.Command):
    """Runs a command of gdb for a thread, or for all: `selvedge apply THREAD|all COMMAND`."""

    def __init__(self):
        super().__init__("selvedge apply", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which, command = selvedge_arguments(argument)
        if not command:
            raise gdb.GdbError(f"usage: {self.__doc__}")
        selvedge_apply(which, [command])


def selvedge_arguments(argument):
    """Returns the first word of the arguments, without quotes, and the rest as it is."""
    words = gdb.string_to_argv(argument)
    if not words:
        raise gdb.GdbError("selvedge: which thread? See `help selvedge`")
    quoted = re.match(r"\s*(\"[^\"]*\"|'[^']*'|\S+)\s*(.*)", argument, re.S)
    return words[0], quoted.group(2)


def selvedge_apply(which, commands):
    process = SelvedgeProcess()
    threads = process.find(which)
    for thread in threads:
        print(f"{thread.label()}: {thread.state(process.queued)}")
        try:
            with SelvedgeShown(thread):
                for command in commands:
                    gdb.execute(command)
        except (gdb.error, gdb.GdbError) as error:
            if len(threads) == 1:
                raise
            print(error)
        print()


class SelvedgeBacktrace(gdb.Command):
    """Prints the backtrace of a thread, or of all: `selvedge bt THREAD|all [ARGUMENTS OF bt]`."""

    def __init__(self):
        super().__init__("selvedge bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which, rest = selvedge_arguments(argument)
        selvedge_apply(which, [f"backtrace {rest}"])


class SelvedgeFrame(gdb.Command):
    """Prints a frame of a thread with its arguments and variables: `selvedge frame THREAD NUMBER`."""

    def __init__(self):
        super().__init__("selvedge frame", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which, number = selvedge_arguments(argument)
        selvedge_apply(which, [f"frame {number}", "info args", "info locals"])


class SelvedgeSelect(gdb.Command):
    """Selects a thread: `selvedge thread THREAD`.

`bt`, `up`, `frame`, `info locals` and others are then about it, until the process goes on, another kernel
thread is selected, or `selvedge back`. Registers are right only where its frames have saved them."""

    def __init__(self):
        super().__init__("selvedge thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which, _ = selvedge_arguments(argument)
        process = SelvedgeProcess()
        thread = process.find_one(which)
        selvedge_select(thread)
        print(f"{thread.label()}: {thread.state(process.queued)}")
        gdb.execute("frame")


class SelvedgeBack(gdb.Command):
    """Ends what `selvedge thread` began: gdb shows the kernel thread again."""

    def __init__(self):
        super().__init__("selvedge back", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        SELVEDGE_UNWINDER.hide()
        gdb.newest_frame().select()
        gdb.execute("frame")


def selvedge_inferior_call(event):
    SelvedgeBack.in_call = isinstance(event, gdb.InferiorCallPreEvent)


def selvedge_continues(_event):
    # A call of a function of the program from the command line comes back to the same frames.
    if not SelvedgeBack.in_call:
        SELVEDGE_UNWINDER.hide()


if "SELVEDGE_UNWINDER" in globals():
    # The script was loaded before, with this or another program.
    SELVEDGE_UNWINDER.hide()
    gdb.events.cont.disconnect(SELVEDGE_HANDLERS[0])
    gdb.events.exited.disconnect(SELVEDGE_HANDLERS[0])
    gdb.events.inferior_call.disconnect(SELVEDGE_HANDLERS[1])
SelvedgeBack.in_call = False
SELVEDGE_FILTER, SELVEDGE_UNWINDER = SelvedgeFilter(), SelvedgeUnwinder()
SELVEDGE_HANDLERS = (selvedge_continues, selvedge_inferior_call)
gdb.unwinder.register_unwinder(None, SELVEDGE_UNWINDER, replace=True)
gdb.events.cont.connect(selvedge_continues)
gdb.events.exited.connect(selvedge_continues)
gdb.events.inferior_call.connect(selvedge_inferior_call)
SelvedgeInfo()
SelvedgePrefix()
SelvedgeApply()
SelvedgeBacktrace()
SelvedgeFrame()
SelvedgeSelect()
SelvedgeBack()
