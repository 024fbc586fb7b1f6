//! Chapter: how to look at green threads with dumps, with gdb, and with profilers.
//!
//! # Dumps
//!
//! A program that runs with `SELVEDGE_DUMP=on` (Linux) prints what all threads do, and where they stand, at
//! each `SIGQUIT`: `kill -QUIT PID`, or Ctrl-\ in its terminal. It goes on as if nothing had happened.
//! Threads that do the same at the same place are shown together:
//!
//! ```text
//! ThreadId(7) "reader": waiting for a message (receive)
//! ThreadId(8) "reader": waiting for a message (receive)
//! ThreadId(9) "reader": waiting for a message (receive)
//! and 9997 more threads like these
//!     at selvedge::mxn::sched::switch::... (src/mxn/sched/switch.rs:103)
//!     at program::serve (src/main.rs:41)
//! ```
//!
//! [`threadmon::Dump`](crate::threadmon::Dump) is the same for programs, and writes JSON. It says which
//! threads have backtraces. No thread is stopped, so a dump may be taken in production. Lines need
//! `debug = 1`, or `line-tables-only`; names need a program that was not stripped.
//!
//! # gdb
//!
//! gdb knows kernel threads. A green thread that waits is a stack in memory, and `info threads` does not show
//! it. A script of this crate does. It lies in each program that uses the crate and has debug information
//! (`debug = 1` is enough). gdb loads it with the program, if the user allows that once, in `~/.gdbinit`:
//!
//! ```text
//! add-auto-load-safe-path /path/to/my/target
//! ```
//!
//! Without this line, gdb says why it declined the script. Any gdb from version 10 on will do, if it has
//! Python. The script has been used with gdb 13 on x86-64. It knows aarch64 and riscv64, but has
//! not been run there.
//!
//! | command | shows |
//! |---|---|
//! | `info selvedge [TEXT]` | all threads with what they do; with TEXT, only lines that contain it |
//! | `selvedge bt THREAD [ARGUMENTS]` | the backtrace of a thread; the arguments are those of `bt` |
//! | `selvedge bt all` | the backtraces of all threads |
//! | `selvedge frame THREAD NUMBER` | a frame with its arguments and variables |
//! | `selvedge apply THREAD COMMAND` | what any command of gdb says about the thread |
//! | `selvedge thread THREAD` | selects it: `bt`, `up`, `info locals` are about it |
//! | `selvedge back` | selects the kernel thread again |
//!
//! THREAD is an id, an address or a name from the list:
//!
//! ```text
//! (gdb) info selvedge
//! Green threads: 3
//!   Id  Address         Name     State
//!   2   0x7f910400b200  reader   waits for a message (receive) at 0x7f910400aa00
//!   -   0x7f910400b600  writer   waits for a mutex at 0x7f91040032c0
//!   -   0x7f910400bc00  counter  on LWP 5830
//! (gdb) selvedge bt writer
//! ```
//!
//! An id is `-` if nothing has asked for it yet. A state is one of these:
//!
//! - on an LWP, with the kernel's number of that;
//! - runnable: also *preempted*, if it lost its slice, or *has not run yet*;
//! - waiting: for what, and at which address.
//!
//! The frames of a thread that does not run follow those of a kernel thread, which are hidden. So they do not
//! begin with number 0. A backtrace begins with the scheduler's frames, and ends with
//! `selvedge::arch::x86_64::start`. A preempted thread has the frames of the preemption in between.
//!
//! The script reads memory and writes nothing. So a process goes on as if it had not been looked at, and core
//! files work, too. When the process goes on, gdb shows kernel threads again.
//!
//! # Limits
//!
//! - A program that was stripped of its symbols shows nothing. With lines only (`debug = 1`, or
//!   `line-tables-only`), the list and the backtraces are complete, but frames have no variables.
//! - gdb's own `gcore` leaves out stacks if the kernel marks their ends (Linux 6.13 and later). Core files
//!   that the kernel writes have them.
//! - A thread that was granted a message, the end of its sleep or of another thread is shown as waiting until
//!   it runs.
//! - A thread-local that gdb prints for a selected thread is the kernel thread's. So is any register that no
//!   frame has saved. A function that gdb calls runs on the kernel thread.
//! - Threads of a parent process are listed in its forked children, where nothing runs them.
//! - Only the LWPs that run a thread are listed for a core file, since it does not have their names.
//!
//! # perf
//!
//! A green stack is an ordinary stack, and its unwind tables end at its first frame. `perf record
//! --call-graph dwarf` shows whole call chains on green threads, from `start` to the innermost inlined
//! function. So does `perf record -g`, which follows frame pointers, for programs that have them
//! (`RUSTFLAGS=-Cforce-frame-pointers=yes`). Without them, it shows one function and a wrong caller, as in
//! kernel threads. All this was seen with perf 6.1.
//!
//! perf names the kernel thread of a sample, `selvedge-0` and so on, not the green thread. A thread that
//! waits takes no samples: what it waits for is a question for gdb or for
//! [`Runtime::deadlocks`](crate::Runtime::deadlocks).
//!
//! samply unwinds stacks as perf does, from copies of them, but has not been tried here.
//!
//! # Heap profilers
//!
//! They unwind stacks at each allocation, and find the whole chains of green threads. This was seen with
//! massif, of valgrind 3.19. heaptrack 1.4 recorded such a program. But its reader crashed on the recording,
//! so nothing is known of its chains. Stacks and thread-local blocks of green threads are mapped by the
//! crate, and no heap profiler counts them.
