//! What the tests need of a kernel and some emulators of it do not do. Nothing here uses Selvedge.
//!
//! On Linux, all of these pass. `ci/emulated/` names those that fail under the emulator, for each
//! architecture. Each is the reason why tests of Selvedge fail there. The leg runs them and fails if one
//! passes: then those tests may pass, too.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, ptr, thread};

const PAGE: usize = 4096;

/// Runs `child` in a fork of this process, which has one thread. Returns how the child ended: its exit code,
/// or `None` after a signal.
fn forked(child: impl FnOnce() -> bool) -> Option<i32> {
    // SAFETY: the child leaves by `_exit`, and glibc lets it allocate.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no memory is involved. Ends a child that hangs.
        unsafe { libc::alarm(20) };
        let good = child();
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
}

/// Maps `len` bytes, readable and writable.
fn map(len: usize) -> io::Result<*mut u8> {
    map_at(ptr::null_mut(), len)
}

/// Maps `len` bytes, at `start` if nothing is there.
fn map_at(start: *mut libc::c_void, len: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping disturbs nothing.
    let start = unsafe { libc::mmap(start, len, access, flags, -1, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start.cast()) }
}

/// Returns how many mappings this process lists. Needs no new one.
fn mappings() -> usize {
    let Ok(mut list) = fs::File::open("/proc/self/maps") else { return 0 };
    let (mut count, mut buffer) = (0, [0; 16 << 10]);
    while let Ok(len @ 1..) = list.read(&mut buffer) {
        count += buffer[..len].iter().filter(|&&byte| byte == b'\n').count();
    }
    count
}

#[test]
fn a_process_may_copy_its_own_memory() {
    let (from, mut to) = ([7_u8; 100], [0_u8; 100]);
    let source = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let target = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let own = std::process::id().cast_signed();
    // SAFETY: both describe arrays, and only the second is written.
    let copied = unsafe { libc::process_vm_readv(own, &raw const target, 1, &raw const source, 1, 0) };
    assert_eq!(copied, 100, "{}", io::Error::last_os_error());
    assert_eq!(from, to);
}

/// Markers that make pages fault (Linux 6.13). Older kernels refuse the advice.
#[test]
fn pages_that_are_marked_as_guards_cannot_be_read() {
    const GUARD_INSTALL: libc::c_int = 102;
    let page = map(PAGE).unwrap();
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: a page of this test, which holds nothing.
    if unsafe { libc::madvise(page.cast(), PAGE, GUARD_INSTALL) } == 0 {
        // SAFETY: a bad address is an error, not a fault.
        let written = unsafe { libc::write(ends[1], page.cast(), 1) };
        assert_eq!((written, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EFAULT)));
    }
    for end in ends {
        // SAFETY: opened above.
        unsafe { libc::close(end) };
    }
}

#[test]
fn a_limit_on_address_space_holds() {
    let ended = forked(|| {
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: a valid limit, for this child.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
        set == 0 && map(2 << 30).is_err()
    });
    assert_eq!(ended, Some(0));
}

/// The shell sets the limit, which holds for an emulator as a whole.
#[test]
fn a_process_outlives_the_end_of_address_space() {
    const CHILD: &str = "SELVEDGE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let mut last = ptr::null_mut();
        for len in [64 << 20, 1 << 20, PAGE] {
            while let Ok(start) = map(len) {
                last = start;
            }
        }
        // One page moves to where nothing is. An emulator notes that in new tables of its own.
        for place in 1..20_000 {
            // SAFETY: a page that was mapped above, and that nothing uses.
            assert_eq!(unsafe { libc::munmap(last.cast(), PAGE) }, 0);
            last = map_at(ptr::without_provenance_mut((1 << 36) + (place << 22)), PAGE).unwrap();
        }
        return;
    }
    let mut shell = Command::new("sh");
    // In KiB: 4 GiB.
    shell.args(["-c", "ulimit -v 4194304 && exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    shell.args(["a_process_outlives_the_end_of_address_space", "--exact", "--test-threads=1"]);
    let mut child = shell.env(CHILD, "1").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait().unwrap() {
            None if begun.elapsed() < Duration::from_secs(5) => thread::sleep(Duration::from_millis(10)),
            ended => break ended,
        }
    };
    // Some emulators hang there. A process that has ended is not harmed.
    let _ = child.kill();
    child.wait().unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

/// Returns how many pages of this process are in memory.
fn resident() -> usize {
    let line = fs::read_to_string("/proc/self/statm").unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn address_space_takes_no_memory_until_it_is_touched() {
    let ended = forked(|| {
        let before = resident();
        let mapped = map(4 << 30);
        mapped.is_ok() && resident() - before < 256
    });
    assert_eq!(ended, Some(0));
}

/// The other tests of this process may take some memory meanwhile.
#[test]
fn memory_of_ended_kernel_threads_comes_back() {
    let begin_and_end = |threads| (0..threads).for_each(|_| thread::spawn(|| ()).join().unwrap());
    begin_and_end(20);
    let before = resident();
    begin_and_end(200);
    let grown = resident().saturating_sub(before);
    assert!(grown < 4_000, "{grown} pages");
}

#[test]
fn the_size_of_a_signal_frame_is_told() {
    // SAFETY: no memory is involved.
    assert_ne!(unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) }, 0);
}

#[test]
fn a_process_lists_all_of_its_mappings() {
    let limit: usize = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if limit > 200_000 {
        println!("skipped: {limit} mappings take too long to use up");
        return;
    }
    let ended = forked(|| {
        let limit =
            fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse::<usize>().unwrap();
        let Ok(start) = map(2 * limit * PAGE) else { return false };
        // Every second page becomes a mapping, until there are too many.
        let refused = (0..limit).any(|page| {
            let at = start.wrapping_add(2 * page * PAGE);
            // SAFETY: a page of this child, which holds nothing.
            unsafe { libc::mprotect(at.cast(), PAGE, libc::PROT_NONE) != 0 }
        });
        refused && mappings() + 16 >= limit
    });
    assert_eq!(ended, Some(0));
}

#[test]
fn a_forked_child_has_one_kernel_thread() {
    // A folder has one link from above, one from itself, and one from each folder in it.
    let ended = forked(|| fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == 3));
    assert_eq!(ended, Some(0));
}

#[test]
fn a_forked_child_may_start_a_kernel_thread() {
    // Threads that are younger than the one that forks.
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let younger = thread::spawn(move || ends.recv());
    let ended = forked(|| thread::spawn(|| 5).join().is_ok_and(|five| five == 5));
    drop(end);
    younger.join().unwrap().unwrap_err();
    assert_eq!(ended, Some(0));
}

/// Children that do nothing, of a process whose other threads start and end threads meanwhile.
#[test]
fn all_children_of_a_process_with_threads_end() {
    let over = AtomicBool::new(false);
    let hung = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    thread::spawn(|| drop(vec![1_u8; 200_000])).join().unwrap();
                }
            });
        }
        let begin = Instant::now();
        let hung = (0..5_000).any(|_| begin.elapsed() < Duration::from_secs(10) && hangs());
        over.store(true, Ordering::Relaxed);
        hung
    });
    assert!(!hung);
}

/// Returns `true` if a child that should end at once has not ended after some seconds.
fn hangs() -> bool {
    // SAFETY: the child calls nothing else.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::_exit(0) };
    }
    assert!(pid > 0, "fork: {}", io::Error::last_os_error());
    let begin = Instant::now();
    // SAFETY: a child of this process.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG) } == 0 {
        if begin.elapsed() > Duration::from_secs(5) {
            // SAFETY: the child is there until it is waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: a child of this process.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            return true;
        }
        thread::sleep(Duration::from_micros(100));
    }
    false
}

#[test]
fn all_signals_can_be_sent() {
    let ended = forked(|| {
        (libc::SIGRTMIN()..=libc::SIGRTMAX()).all(|signal| {
            // SAFETY: no code of ours is installed.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
            // SAFETY: the signal is ignored.
            unsafe { libc::raise(signal) == 0 }
        })
    });
    assert_eq!(ended, Some(0));
}

/// By the system call, with the kernel's structure: handler, flags, restorer, mask. On riscv64 there is no
/// restorer.
#[test]
fn a_handler_has_the_mask_that_was_asked_for() {
    static BLOCKED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(_: libc::c_int) {
        let mut mask = 0_u64;
        // SAFETY: changes nothing, and writes eight bytes.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0_usize, &raw mut mask, 8_usize) };
        BLOCKED.store(mask, Ordering::Relaxed);
    }
    let ended = forked(|| {
        let asked = 1_u64 << (libc::SIGALRM - 1) | 1 << (libc::SIGUSR1 - 1);
        // SAFETY: all zeroes is a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int) = handler;
        action.sa_sigaction = handler as usize;
        // SAFETY: a handler that does what handlers may. The C library knows what else it takes.
        unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut()) };
        let mut words = [0_u64; 4];
        // SAFETY: the kernel writes three or four words.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGUSR2, 0_usize, words.as_mut_ptr(), 8_usize) };
        words[if cfg!(target_arch = "riscv64") { 2 } else { 3 }] = asked;
        // SAFETY: the action that is installed, with another mask.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGUSR2, words.as_ptr(), 0_usize, 8_usize) };
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGUSR2) };
        BLOCKED.load(Ordering::Relaxed) & asked == asked
    });
    assert_eq!(ended, Some(0));
}

/// With `SA_NOCLDSTOP`, a handler of `SIGCHLD` is called for children that end, and for no others.
#[test]
fn a_handler_may_ask_for_children_that_end() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(_: libc::c_int) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    let ended = forked(|| {
        // SAFETY: all zeroes is a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int) = handler;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_NOCLDSTOP | libc::SA_RESTART;
        // SAFETY: a handler that does what handlers may.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, ptr::null_mut()) };
        // SAFETY: the child calls nothing else.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            loop {
                // SAFETY: no preconditions.
                unsafe { libc::pause() };
            }
        }
        assert!(pid > 0, "fork: {}", io::Error::last_os_error());
        [libc::SIGSTOP, libc::SIGCONT, libc::SIGKILL].into_iter().all(|signal| {
            // SAFETY: no memory is involved.
            unsafe { libc::kill(pid, signal) };
            // SAFETY: a child of this process, that is told of in each of these states.
            let told = unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WUNTRACED | libc::WCONTINUED) };
            told == pid && (signal == libc::SIGKILL || CALLS.load(Ordering::Relaxed) == 0)
        })
    });
    assert_eq!(ended, Some(0));
}

/// At no certain position, as `readv` does (Linux 4.6).
#[test]
fn a_pipe_can_be_read_by_preadv2() {
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(&[7]).unwrap();
    let mut byte = 0_u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: room for one byte.
    let read =
        unsafe { libc::syscall(libc::SYS_preadv2, reader.as_raw_fd(), &raw const part, 1, -1_i64, 0, 0) };
    assert_eq!((read, byte), (1, 7), "{}", io::Error::last_os_error());
}

/// Returns when a process was started, as `/proc` says: the 22nd field, the 20th after the name.
fn start_of(process: &str) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    line.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[test]
fn processes_agree_when_one_was_started() {
    let own = start_of("self");
    assert!(own.is_some());
    let parent = std::process::id().to_string();
    let ended = forked(|| start_of(&parent) == own);
    assert_eq!(ended, Some(0));
}

/// The caller is in the call that reads this.
#[test]
fn where_a_thread_made_its_system_call_can_be_read() {
    let here = 0_u8;
    let here = (&raw const here).addr();
    // SAFETY: no memory is involved.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words.first(), Some(&libc::SYS_read.to_string().as_str()), "{text}");
    let sp = words.get(7).and_then(|word| usize::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    assert!(sp.is_some_and(|sp| sp < here && here - sp < 64 << 10), "{here:#x}: {text}");
}

/// From a thread's first use of a vector register on.
#[cfg(target_arch = "riscv64")]
#[test]
fn a_signal_frame_has_the_vectors() {
    const V: u64 = 1 << (b'V' - b'A');
    const MAGIC: u32 = 0x5346_5457;
    static FOUND: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    extern "C" fn handler(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // Behind the general and the float registers.
        let at = std::mem::offset_of!(libc::ucontext_t, uc_mcontext) + 256 + 520;
        // SAFETY: in the frame, or above a shorter one on the same stack.
        let [magic, size] = unsafe { context.wrapping_byte_add(at).cast::<[u32; 2]>().read() };
        FOUND[0].store(magic.into(), Ordering::Relaxed);
        FOUND[1].store(size.into(), Ordering::Relaxed);
    }
    // SAFETY: reads a list that does not change.
    if unsafe { libc::getauxval(libc::AT_HWCAP) } & V == 0 {
        println!("skipped: the processor has no vectors");
        return;
    }
    // SAFETY: all zeroes is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handler;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: a handler that does what handlers may.
    unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()) };
    let length: u64;
    // SAFETY: the processor has the register, vlenb. To read it is a use.
    unsafe { std::arch::asm!("csrr {}, 0xC22", out(reg) length, options(nomem, nostack)) };
    // SAFETY: no memory is involved.
    unsafe { libc::raise(libc::SIGUSR1) };
    assert_eq!(FOUND[0].load(Ordering::Relaxed), MAGIC.into());
    assert_eq!(FOUND[1].load(Ordering::Relaxed), 56 + 32 * length);
}
