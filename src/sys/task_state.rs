//! What a kernel thread is doing, as the kernel sees it: `/proc/self/task/TID/stat`.
//!
//! The monitor asks this about an LWP if its dispatch tick stands still. It may not allocate (I4), so paths
//! and contents are in small buffers on its stack. To read costs about 2 us, to open as much again.
//!
//! **Problem.** While the monitor reads a file, its descriptor lies in the table of the whole process. A
//! program that closes what it does not know (`close_range(3, ..)`) closes that descriptor, too. If the
//! program then opens a file, the monitor reads and closes that file. If the program has used up its
//! descriptors, the monitor gets none.
//!
//! **Rejected.** To keep the files open. That takes a descriptor for each LWP, which the program sees, may
//! close, and may run out of.
//!
//! **Solution.** The monitor has a table of its own ([`Tasks::private`]). It keeps none of the program's
//! files open: the reader of a pipe must see the end when the program closes the other side. The folder stays
//! open in that table, so that the files are found even after a `chroot`.

use std::cell::Cell;
use std::io;

use super::Tid;
use super::message::Text;
use super::short_file::{ROOT, after_name, read, read_text};

/// The state letter of a kernel thread (`proc_pid_stat(5)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskState(u8);

impl TaskState {
    /// Returns `true` for `S` and `D`: it waits in the kernel for something, whether or not a signal may end
    /// the wait.
    pub(crate) fn is_asleep(self) -> bool {
        matches!(self.0, b'S' | b'D')
    }
}

/// Returns the signals that wait for the calling kernel thread alone, the lowest bit for signal 1.
/// Async-signal-safe.
pub(crate) fn own_signals() -> Option<u64> {
    let mut text = [0; 2048];
    let text = read_text(ROOT, c"/proc/thread-self/status", &mut text).ok()?;
    signals(text, "SigPnd:")
}

/// Returns the signals of a line of a `status` file.
fn signals(status: &str, line: &str) -> Option<u64> {
    let set = status.lines().find_map(|text| text.strip_prefix(line))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// Returns `true` if the kernel says that a kernel thread of this process waits in the kernel.
pub(crate) fn is_asleep(tid: u32) -> bool {
    Tasks::SHARED.state(tid.cast_signed()).is_ok_and(TaskState::is_asleep)
}

/// What the kernel says of a kernel thread to those that may allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskLook {
    /// It waits in the kernel.
    pub(crate) asleep: bool,
    /// The CPU that it ran on last.
    pub(crate) cpu: Option<u32>,
}

/// Returns what the kernel says of a kernel thread of this process; `None` if that has ended.
pub(crate) fn look(tid: u32) -> Option<TaskLook> {
    // The CPU's number is the 39th of numbers that have up to 20 digits each.
    let mut text = [0; 1024];
    let (folder, path) = Tasks::SHARED.place(tid.cast_signed(), "stat");
    let stat = read(folder, path.c_str(), &mut text).ok()?;
    Some(TaskLook { asleep: parse(stat)?.is_asleep(), cpu: parse_cpu(stat) })
}

/// Access to the files of this process's kernel threads.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// The folder, if it is kept open.
    folder: Option<libc::c_int>,
}

/// The folder of all kernel threads.
const FOLDER: &str = "/proc/self/task/";

impl Tasks {
    /// Opens the files by path, with descriptors of the process.
    pub(crate) const SHARED: Self = Self { folder: None };

    /// Gives the calling kernel thread a table of descriptors of its own, from now on. Nothing else is in it:
    /// even standard error is closed there. If the kernel has no call for that (before Linux 5.9), or refuses
    /// it, returns [`SHARED`](Self::SHARED).
    pub(crate) fn private() -> Self {
        if !own_descriptors() {
            return Self::SHARED;
        }
        OWN_DESCRIPTORS.set(true);
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let path = Text::<32>::of(format_args!("{FOLDER}"));
        // SAFETY: the path ends with a zero byte.
        let folder = unsafe { libc::open(path.c_str().as_ptr(), flags) };
        Self { folder: (folder >= 0).then_some(folder) }
    }

    /// Returns `true` if the calling kernel thread has a table of descriptors of its own.
    pub(crate) fn are_private(&self) -> bool {
        self.folder.is_some()
    }

    /// Returns what the kernel thread `tid` of this process does at this moment. If it has ended, that is an
    /// error.
    pub(crate) fn state(&self, tid: Tid) -> io::Result<TaskState> {
        // The letter stands after `pid (name) `. A name has at most 15 bytes, or 64 in the kernel's own
        // threads.
        let mut text = [0; 128];
        let (folder, path) = self.place(tid, "stat");
        parse(read(folder, path.c_str(), &mut text)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns how long the kernel thread `tid` of this process has run, and has waited for a CPU
    /// (`/proc/self/task/TID/schedstat`, if the kernel is configured for it).
    pub(crate) fn cpu_time(&self, tid: Tid) -> io::Result<CpuTime> {
        let mut text = [0; 64];
        let (folder, path) = self.place(tid, "schedstat");
        let text = read_text(folder, path.c_str(), &mut text)?;
        let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(ran), Some(waited)) => Ok(CpuTime { ran, waited }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Returns `true` if the kernel thread `tid` of this process sleeps in a system call that begins again
    /// after a handler has returned. The caller does not notice, and the kernel thread may be another one by
    /// then. (See `signal(7)`. Read from `/proc/self/task/TID/syscall`, if the kernel has that, and lets the
    /// process be looked at.)
    pub(crate) fn may_begin_again(&self, tid: Tid) -> bool {
        let mut text = [0; 128];
        let (folder, path) = self.place(tid, "syscall");
        read_text(folder, path.c_str(), &mut text).is_ok_and(begins_again)
    }

    /// Returns where the kernel thread `tid` of this process stands in a system call or a page fault. Returns
    /// `None` if it uses a CPU, is ready to, or has ended, and if the kernel does not say.
    pub(crate) fn in_kernel(&self, tid: Tid) -> Option<InKernel> {
        let mut text = [0; 192];
        let (folder, path) = self.place(tid, "syscall");
        parse_call(read_text(folder, path.c_str(), &mut text).ok()?)
    }

    /// Returns the signals that a kernel thread blocks, the lowest bit for signal 1.
    pub(crate) fn blocked(&self, tid: Tid) -> Option<u64> {
        let mut text = [0; 2048];
        let (folder, path) = self.place(tid, "status");
        signals(read_text(folder, path.c_str(), &mut text).ok()?, "SigBlk:")
    }

    /// Returns where the file `name` of the kernel thread `tid` is: a folder, and the path from there.
    fn place(&self, tid: Tid, name: &str) -> (libc::c_int, Text<48>) {
        let (folder, from_there) = self.folder.map_or((ROOT, FOLDER), |folder| (folder, ""));
        (folder, Text::of(format_args!("{from_there}{tid}/{name}")))
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        if let Some(folder) = self.folder {
            // SAFETY: opened by `private`, in a table that no other thread has.
            unsafe { libc::close(folder) };
        }
    }
}

thread_local! {
    static OWN_DESCRIPTORS: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` if the calling kernel thread has a table of descriptors of its own.
pub(crate) fn has_own_descriptors() -> bool {
    OWN_DESCRIPTORS.get()
}

/// Gives the calling kernel thread an empty table of file descriptors of its own. Returns `false` if it still
/// shares the process's table.
fn own_descriptors() -> bool {
    /// Absent from libc on some targets (Linux 5.9, `close_range.h`).
    const UNSHARE: libc::c_uint = 1 << 1;
    // What is closed in the new table stays open in the process, and keeps its record locks: those belong to
    // a table.
    // SAFETY: no memory is involved, and the other threads keep their table.
    unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, UNSHARE) == 0 }
}

/// What a kernel thread has had of its CPUs, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// How long it ran, in ns.
    pub(crate) ran: u64,
    /// How long it could have run, and waited for a CPU, in ns.
    pub(crate) waited: u64,
}

/// Returns how long the kernel thread `tid` of this process has run, in ns. One system call of half a
/// microsecond.
pub(crate) fn cpu_clock(tid: Tid) -> io::Result<u64> {
    /// The clock of a thread, and what the scheduler has counted (`MAKE_THREAD_CPUCLOCK` of the kernel).
    const OF_THREAD: libc::clockid_t = 6;
    read_clock(!tid << 3 | OF_THREAD)
}

/// Returns how long the calling kernel thread has run, in ns.
pub(crate) fn own_cpu_clock() -> io::Result<u64> {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns how long all kernel threads of this process have run, in ns. Takes the longer the more there are.
pub(crate) fn process_cpu_clock() -> io::Result<u64> {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (seconds, nanos) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Returns `true` if the call in a `syscall` file begins again after a handler with `SA_RESTART` has
/// interrupted it, on any kernel thread: `202 0x7f0c 0x80 ...`. For a running thread the file says `running`;
/// for a thread that waits outside of system calls, `-1`.
///
/// Only calls in which threads sleep for long are named. Calls that write, or collect all of a message, are
/// not: they tell how much there was by then. (A socket with a time limit is an exception, which the call
/// does not show. A program that sets one must expect it.)
fn begins_again(syscall: &str) -> bool {
    let mut words = syscall.split(' ');
    let Some(number) = words.next().and_then(|number| number.parse().ok()) else { return false };
    let mut arguments = [0; 4];
    for place in &mut arguments {
        let word = words.next().and_then(|word| word.strip_prefix("0x"));
        let Some(value) = word.and_then(|word| u64::from_str_radix(word, 16).ok()) else { return false };
        *place = value;
    }
    let [_, second, third, fourth] = arguments;
    let collects = |flags: u64| flags & libc::MSG_WAITALL as u64 != 0;
    match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_accept | libc::SYS_accept4 | libc::SYS_flock => true,
        libc::SYS_recvfrom => !collects(fourth),
        libc::SYS_recvmsg => !collects(third),
        // Not calls that take a lock in the name of the kernel thread. Those with a time limit do not begin
        // again.
        libc::SYS_futex => {
            let operation = second as libc::c_int & libc::FUTEX_CMD_MASK;
            matches!(operation, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) && fourth == 0
        }
        _ => false,
    }
}

/// Where a kernel thread entered the kernel, in which it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InKernel {
    pub(crate) sp: usize,
    pub(crate) pc: usize,
    /// It is in a system call that begins again after a handler has returned, as for
    /// [`Tasks::may_begin_again`].
    pub(crate) begins_again: bool,
}

/// Reads a `syscall` file.
fn parse_call(text: &str) -> Option<InKernel> {
    // The last two words. A page fault has only these after its -1; "running" stands alone.
    let mut words = text.split_ascii_whitespace().rev();
    let mut number = || usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (pc, sp) = (number()?, number()?);
    Some(InKernel { sp, pc, begins_again: begins_again(text) })
}

/// Returns the letter after the name.
fn parse(stat: &[u8]) -> Option<TaskState> {
    let letter = after_name(stat)?.strip_prefix(' ')?.bytes().next()?;
    letter.is_ascii_alphabetic().then_some(TaskState(letter))
}

/// Returns the CPU on which the thread ran last.
fn parse_cpu(stat: &[u8]) -> Option<u32> {
    // The state, which stands after the name, is number 3.
    after_name(stat)?.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::kthread;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    const SHARED: Tasks = Tasks::SHARED;

    #[test]
    fn names_may_look_like_the_rest() {
        let letter = |text: &str| parse(text.as_bytes()).map(|state| char::from(state.0));
        assert_eq!(letter("12 (sh) S 1 12"), Some('S'));
        assert_eq!(letter("12 (a) R (b c) D 1 12"), Some('D'));
        assert_eq!(letter("12 ()) R 1"), Some('R'));
        assert_eq!(letter("12 (cut of"), None);
        assert_eq!(letter("12 (x)"), None);
        assert_eq!(letter(""), None);
    }

    #[test]
    fn the_cpu_is_number_39() {
        let numbers: String = (4..=52).map(|n| format!(" {n}")).collect();
        assert_eq!(parse_cpu(format!("12 (a b) c) R{numbers}\n").as_bytes()), Some(39));
        assert_eq!(parse_cpu(b"12 (sh) R 1 12"), None);
        let me = look(kthread::gettid().cast_unsigned()).expect("the caller lives");
        assert!(!me.asleep && me.cpu.is_some(), "{me:?}");
        assert_eq!(look(u32::MAX >> 1), None);
    }

    #[test]
    fn what_begins_again() {
        let (futex, read, sleep) = (libc::SYS_futex, libc::SYS_read, libc::SYS_nanosleep);
        let begins = |text: String| begins_again(&text);
        assert!(begins(format!("{futex} 0x7f 0x80 0x2 0x0 0x0 0x0 0x7ffe 0x7f0c\n")));
        assert!(begins(format!("{futex} 0x7f 0x189 0x2 0x0 0x0 0x0 0x7ffe 0x7f0c\n")));
        assert!(!begins(format!("{futex} 0x7f 0x86 0x2 0x0 0x0 0x0 0x7ffe 0x7f0c\n")), "FUTEX_LOCK_PI");
        assert!(!begins(format!("{futex} 0x7f 0x80 0x2 0x7ffe 0x0 0x0 0x7ffe 0x7f0c\n")), "a time limit");
        assert!(begins(format!("{read} 0x3 0x7f 0x20000 0x0 0x0 0x0 0x7ffe 0x7f0c\n")));
        assert!(!begins(format!("{sleep} 0x3 0x7f 0x20000 0x0 0x0 0x0 0x7ffe 0x7f0c\n")));
        assert!(
            !begins("running\n".into()) && !begins("-1 0x7ffe 0x7f0c\n".into()) && !begins(String::new())
        );
    }

    #[test]
    fn where_a_call_was_made() {
        let read = libc::SYS_read;
        let call = parse_call(&format!("{read} 0x3 0x7f 0x20 0x0 0x0 0x0 0x7ffe 0x7f0c\n"));
        assert_eq!(call, Some(InKernel { sp: 0x7ffe, pc: 0x7f0c, begins_again: true }));
        let fault = Some(InKernel { sp: 0x7ffe, pc: 0x7f0c, begins_again: false });
        assert_eq!(parse_call("-1 0x7ffe 0x7f0c\n"), fault);
        assert_eq!(["running\n", "", "1 2", "0x7ffe"].map(parse_call), [None; 4]);
        // The sanitizer puts variables elsewhere, so frames are compared.
        #[inline(never)]
        fn look(depth: u32) -> InKernel {
            let own =
                || SHARED.in_kernel(kthread::gettid()).expect("the caller is in the call that reads this");
            std::hint::black_box(if depth == 0 { own() } else { look(depth - 1) })
        }
        let (here, deeper) = (look(0), look(3));
        assert!(here.pc != 0 && !here.begins_again, "{here:?}");
        assert!(deeper.sp < here.sp && here.sp - deeper.sp < 1 << 20, "{here:?} {deeper:?}");
        assert_eq!(SHARED.in_kernel(Tid::MAX), None);
    }

    /// Runs on a kernel thread of its own, because the private table ends with its thread.
    #[test]
    fn a_private_table_has_the_folder_and_nothing_else() {
        let file = std::fs::File::open("/dev/null").unwrap();
        // A high number, because the folder gets the lowest free one.
        // SAFETY: an open descriptor.
        let fd = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) };
        // SAFETY: no memory is involved.
        let has = |fd: libc::c_int| unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1;
        let private = std::thread::spawn(move || {
            let tasks = Tasks::private();
            let me = kthread::gettid();
            assert!(tasks.folder.is_none() || !has(fd), "a descriptor of the process is there");
            assert!(tasks.state(me).is_ok() && tasks.cpu_time(me).is_ok() && !tasks.may_begin_again(me));
            tasks.folder.is_some()
        });
        if !private.join().unwrap() {
            println!("skipped: the kernel gives no thread a table of its own");
        }
        assert!(has(fd), "the process has lost a descriptor");
        // SAFETY: a descriptor that this test opened.
        unsafe { libc::close(fd) };
    }

    #[test]
    fn a_path_has_all_digits() {
        for tid in [1, 10, 4_194_304, i32::MAX] {
            let (folder, path) = SHARED.place(tid, "stat");
            assert_eq!(folder, ROOT);
            assert_eq!(path.c_str().to_str().unwrap(), format!("/proc/self/task/{tid}/stat"));
        }
    }

    #[test]
    fn a_thread_that_computes_has_run() {
        let me = kthread::gettid();
        let before = SHARED.cpu_time(me).unwrap();
        let limit = Instant::now() + Duration::from_secs(20);
        while SHARED.cpu_time(me).unwrap().ran == before.ran {
            assert!(Instant::now() < limit);
        }
        assert!(SHARED.cpu_time(me).unwrap().waited >= before.waited);
        assert!(SHARED.cpu_time(0).is_err());
        assert!(process_cpu_clock().unwrap() >= cpu_clock(me).unwrap());
        let (clock, limit) = (cpu_clock(me).unwrap(), Instant::now() + Duration::from_secs(20));
        while cpu_clock(me).unwrap() == clock {
            assert!(Instant::now() < limit);
        }
        assert!(cpu_clock(me).unwrap() <= SHARED.cpu_time(me).unwrap().ran + 1_000_000_000);
    }

    #[test]
    fn sleeping_running_and_gone() {
        static TID: AtomicI32 = AtomicI32::new(0);
        static MAY_END: AtomicU32 = AtomicU32::new(0);
        let me = kthread::gettid();
        assert!(SHARED.state(me).unwrap() == TaskState(b'R'), "the caller is running");
        let options = kthread::Options { name: ") S 1 (", ..Default::default() };
        let thread = kthread::KernelThread::start(&options, || {
            TID.store(kthread::gettid(), Ordering::Release);
            while MAY_END.load(Ordering::Acquire) == 0 {
                let _ = crate::sys::futex::wait(&MAY_END, 0, None);
            }
        })
        .unwrap();
        let limit = Instant::now() + Duration::from_secs(20);
        let soon = |what: &str, mut happened: Box<dyn FnMut() -> bool>| {
            while !happened() {
                assert!(Instant::now() < limit, "{what}");
                std::thread::yield_now();
            }
        };
        soon("starts", Box::new(|| TID.load(Ordering::Acquire) != 0));
        let tid = TID.load(Ordering::Acquire);
        soon("sleeps", Box::new(move || SHARED.state(tid).unwrap().is_asleep()));
        assert_eq!(SHARED.state(tid).unwrap(), TaskState(b'S'), "the file can be read again");
        assert!(SHARED.may_begin_again(tid) && !SHARED.may_begin_again(me), "a wait at a futex");
        MAY_END.store(1, Ordering::Release);
        crate::sys::futex::wake(&raw const MAY_END, 1);
        thread.join();
        // join may return a moment before the kernel has taken the entry away.
        soon("is gone", Box::new(move || SHARED.state(tid).is_err()));
    }
}
