//! Signals beside preemption: which system calls they cut short, and what handlers of the program see.
//!
//! Both in processes of their own, for handlers belong to the process.

use std::ffi::{c_int, c_void};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, thread};

use crate::calls::{Pipe, Scratch, check};
use crate::child;
use crate::hogs::Hogs;
use crate::ladder::{MIGRATING, ThreadRegister, builder, full, on, sized};
use crate::registers;

/// The shortest that a runtime takes.
pub(crate) const SLICE: Duration = Duration::from_micros(50);

/// The kernel threads that run green threads, by number.
pub(crate) fn lwps() -> Vec<c_int> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a Linux kernel");
    let name = |tid: &str| std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).unwrap_or_default();
    let is_lwp = |tid: &String| {
        let name = name(tid);
        name.trim().strip_prefix("selvedge-").is_some_and(|rest| rest.parse::<u32>().is_ok())
    };
    tasks
        .filter_map(|task| task.ok()?.file_name().into_string().ok())
        .filter(is_lwp)
        .filter_map(|tid| tid.parse().ok())
        .collect()
}

/// Sends signals to all LWPs in turn until it is stopped; gives how many.
struct Storm {
    over: Arc<AtomicBool>,
    sender: JoinHandle<u64>,
}

impl Storm {
    /// One every `pause`.
    fn start(signals: &'static [c_int], pause: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let process = std::process::id();
        let sender = std::thread::spawn(move || {
            let (mut sent, begin) = (0, Instant::now());
            while !stop.load(Ordering::Relaxed) {
                for lwp in lwps() {
                    for &signal in signals {
                        // SAFETY: no memory is involved. A thread that has ended does not get it.
                        unsafe { libc::syscall(libc::SYS_tgkill, process, lwp, signal) };
                        sent += 1;
                    }
                    let due = pause * u32::try_from(sent).unwrap_or(u32::MAX);
                    std::thread::sleep(due.saturating_sub(begin.elapsed()));
                }
            }
            sent
        });
        Self { over, sender }
    }

    fn stop(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.sender.join().unwrap()
    }
}

/// How a call ended.
#[derive(PartialEq, Eq)]
enum Ended {
    Well,
    Interrupted,
}

/// What a system call returned: it may have been interrupted, and nothing else may have gone wrong.
fn ended(result: i64) -> Ended {
    match io::Error::last_os_error() {
        _ if result >= 0 => Ended::Well,
        error if error.kind() == io::ErrorKind::Interrupted => Ended::Interrupted,
        error => panic!("{error}"),
    }
}

/// A kernel thread that does something a little later.
fn later(act: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_micros(500));
        act();
    })
}

/// A call; whether a signal may surface in it; one try. Those that are not std's are made by number. Where
/// functions of the C library are answered for green threads (feature `interpose`), no signal surfaces there.
type Call = (&'static str, bool, fn() -> Ended);

const CALLS: &[Call] = &[
    ("sleep", false, || {
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(1));
        assert!(start.elapsed() >= Duration::from_millis(1), "a sleep was cut short");
        Ended::Well
    }),
    ("selvedge sleep", false, || {
        let start = Instant::now();
        thread::sleep(Duration::from_millis(1));
        assert!(start.elapsed() >= Duration::from_millis(1), "a sleep was cut short");
        Ended::Well
    }),
    ("condition variable with a timeout", false, || {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let (start, time) = (Instant::now(), Duration::from_millis(1));
        let (_guard, timeout) = condvar.wait_timeout_while(mutex.lock().unwrap(), time, |()| true).unwrap();
        assert!(timeout.timed_out() && start.elapsed() >= time);
        Ended::Well
    }),
    ("read of a pipe", false, || {
        let pipe = Arc::new(Pipe::new());
        let theirs = Arc::clone(&pipe);
        let writer = later(move || theirs.write());
        let mut byte = 0_u8;
        // SAFETY: room for a byte.
        let result = ended(unsafe { libc::syscall(libc::SYS_read, pipe.reader(), &raw mut byte, 1_usize) });
        writer.join().unwrap();
        result
    }),
    ("accept", false, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = later(move || drop(TcpStream::connect(address).unwrap()));
        // SAFETY: an open socket, and no address wanted.
        let accepted =
            unsafe { libc::syscall(libc::SYS_accept4, listener.as_raw_fd(), 0_usize, 0_usize, 0_usize) };
        let result = ended(accepted);
        client.join().unwrap();
        if accepted >= 0 {
            // SAFETY: new, and ours.
            check(unsafe { libc::close(accepted as c_int) });
        }
        result
    }),
    ("connect", false, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // std restarts nothing here: an error would be seen.
        match TcpStream::connect(listener.local_addr().unwrap()) {
            Ok(_) => Ended::Well,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ended::Interrupted,
            Err(error) => panic!("{error}"),
        }
    }),
    ("connect to a full queue", false, || {
        let file = Scratch::new("queue");
        let listener = std::os::unix::net::UnixListener::bind(&file.0).unwrap();
        // SAFETY: changes the length of the queue.
        check(unsafe { libc::listen(listener.as_raw_fd(), 0) });
        let _first = UnixStream::connect(&file.0).unwrap();
        let server = later(move || drop((listener.accept().unwrap(), listener.accept())));
        let result = match UnixStream::connect(&file.0) {
            Ok(_) => Ended::Well,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ended::Interrupted,
            Err(error) => panic!("{error}"),
        };
        if result == Ended::Interrupted {
            // The server waits for a second.
            let _ = UnixStream::connect(&file.0);
        }
        server.join().unwrap();
        result
    }),
    ("wait for a child", false, || {
        let mut sleep = Command::new("sleep");
        let mut child = sleep.arg("0.001").stdin(Stdio::null()).spawn().unwrap();
        // SAFETY: all zeroes is a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: room for the information; the child is ours.
        let result = ended(unsafe {
            libc::syscall(libc::SYS_waitid, libc::P_PID, child.id(), &raw mut info, options, 0_usize)
        });
        assert!(child.wait().unwrap().success());
        result
    }),
    ("poll", true, || {
        let pipe = Pipe::new();
        let mut wanted = libc::pollfd { fd: pipe.reader(), events: libc::POLLIN, revents: 0 };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        // SAFETY: one entry, a time, and no set of signals.
        ended(unsafe {
            libc::syscall(libc::SYS_ppoll, &raw mut wanted, 1_usize, &raw mut time, 0_usize, 0_usize)
        })
    }),
    ("epoll_wait", true, || {
        // SAFETY: a new descriptor, closed below.
        let epoll = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }) as c_int;
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event, and no set of signals.
        let result = ended(unsafe {
            libc::syscall(libc::SYS_epoll_pwait, epoll, &raw mut event, 1_usize, 2_usize, 0_usize, 0_usize)
        });
        // SAFETY: ours.
        check(unsafe { libc::close(epoll) });
        result
    }),
    ("read with a timeout", true, || {
        let (mine, _theirs) = UnixStream::pair().unwrap();
        mine.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let mut byte = 0_u8;
        // SAFETY: room for a byte.
        let result = unsafe { libc::syscall(libc::SYS_read, mine.as_raw_fd(), &raw mut byte, 1_usize) };
        match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock if result < 0 => Ended::Well,
            _ => ended(result),
        }
    }),
];

/// The process. A green thread makes each call again and again, beside hogs that are preempted all the
/// time. Meanwhile signals that no thread asked for come to every LWP.
pub(crate) fn interruptions(rung: ThreadRegister) {
    // One LWP more than slots, for the call that blocks. So a hog is asked by signal, even if CPUs are busy.
    let rt = builder(rung).concurrency(2).max_lwps(3).time_slice(Some(SLICE)).build().unwrap();
    let hogs = Hogs::that_come_back(&rt);
    // The number of the preemption signal; from a stranger, it does nothing but interrupt.
    let storm = Storm::start(&[libc::SIGURG], Duration::from_micros(100));
    let time = sized(Duration::from_millis(100), Duration::from_secs(5));
    eprintln!();
    let mut surfaced = 0;
    for &(name, may, call) in CALLS {
        let tries = move || {
            let (start, mut tries, mut interrupted) = (Instant::now(), 0, 0);
            // On a busy machine, the storm may take longer to hit one that may be interrupted.
            let due = |interrupted| if may && interrupted == 0 { 100 * time } else { time };
            while start.elapsed() < due(interrupted) || tries < 3 {
                interrupted += u32::from(call() == Ended::Interrupted);
                tries += 1;
            }
            (tries, interrupted)
        };
        let (tries, interrupted) = rt.spawn(tries).join().unwrap();
        eprintln!("  {rung:?}: {name}: interrupted {interrupted} of {tries} times");
        assert!(
            may || interrupted == 0,
            "{name} was interrupted, and the documentation says that it never is"
        );
        surfaced += interrupted;
    }
    let preempted = rt.stats().preempted;
    eprintln!("  {rung:?}: {} signals of strangers, {preempted} preemptions", storm.stop());
    assert!(preempted > 0, "{}", rt.stats());
    // The control: the storm did hit those that the kernel does not restart.
    assert!(surfaced > 0, "no signal came through");
    drop(hogs);
}

/// What a handler may see wrong.
const NOT_BLOCKED: u64 = 1;
const WRONG_STACK: u64 = 2;
const MOVED: u64 = 4;
static WRONG: AtomicU64 = AtomicU64::new(0);
/// Signals handled on the alternate stack, and on the interrupted one.
static HANDLED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// The other expectation, for the control.
static SWAPPED: AtomicBool = AtomicBool::new(false);

/// The kernel thread that runs the caller.
pub(crate) fn gettid() -> i64 {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// The signals that the calling kernel thread blocks.
fn blocked() -> libc::sigset_t {
    // SAFETY: all zeroes is a valid, empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: room for a set, and nothing to change.
    assert_eq!(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set) }, 0);
    set
}

fn blocks(set: &libc::sigset_t, signal: c_int) -> bool {
    // SAFETY: a set, and the number of a signal.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// SIGUSR1 is handled on the alternate stack, SIGUSR2 on whatever stack it finds.
extern "C" fn handler(signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the C library's thread-local, the interrupted code's.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: ours to read, for we put it back.
    let kept = unsafe { *errno };
    let (begun_on, elsewhere) = (gettid(), signal == libc::SIGUSR2);
    let mut wrong = 0;
    if !blocks(&blocked(), signal) {
        wrong |= NOT_BLOCKED;
    }
    // SAFETY: all zeroes is a valid value.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: room for the answer, and nothing to change.
    unsafe { libc::sigaltstack(std::ptr::null(), &raw mut stack) };
    let here = (&raw const stack).addr();
    let alternate = stack.ss_sp.addr()..stack.ss_sp.addr() + stack.ss_size;
    // SAFETY: what the kernel passes to such a handler.
    let interrupted = interrupted_sp(unsafe { &*context.cast::<libc::ucontext_t>() });
    let right = match elsewhere ^ SWAPPED.load(Ordering::Relaxed) {
        // A kernel thread that begins or ends has no alternate stack, and runs nothing green.
        false if stack.ss_flags & libc::SS_DISABLE != 0 => true,
        false => alternate.contains(&here) && stack.ss_flags & libc::SS_ONSTACK != 0,
        // The other handler may have been interrupted: then it is its stack that counts.
        true => (interrupted.saturating_sub(64 << 10)..interrupted).contains(&here),
    };
    if !right {
        wrong |= WRONG_STACK;
    }
    let handled = HANDLED[usize::from(elsewhere)].fetch_add(1, Ordering::Relaxed);
    // Now and then for longer than a slice.
    let spins = if handled.is_multiple_of(16) { 30_000 } else { 10 };
    (0..spins).for_each(|_| std::hint::spin_loop());
    if gettid() != begun_on {
        wrong |= MOVED;
    }
    WRONG.fetch_or(wrong, Ordering::Relaxed);
    // SAFETY: ours to write: it gets what it had.
    unsafe { *errno = kept };
}

#[cfg(target_arch = "x86_64")]
fn interrupted_sp(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

#[cfg(target_arch = "aarch64")]
fn interrupted_sp(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}

#[cfg(target_arch = "riscv64")]
fn interrupted_sp(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.__gregs[libc::REG_SP] as usize
}

/// Installs a handler that takes three arguments.
pub(crate) fn install(
    signal: c_int,
    handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void),
    flags: c_int,
) {
    // SAFETY: all zeroes is a valid value, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | flags;
    // SAFETY: the handler does only what handlers may.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }, 0);
}

/// What `/proc` says that each LWP blocks.
fn masks() -> Vec<String> {
    let line = |tid| {
        let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
        status.lines().find(|line| line.starts_with("SigBlk")).unwrap_or("SigBlk gone").to_owned()
    };
    let mut masks: Vec<_> = lwps().into_iter().map(line).collect();
    masks.sort();
    masks.dedup();
    masks
}

/// Hogs that look at their mask and at their registers.
fn look(rt: &Mxn, hogs: usize, time: Duration) {
    let baseline = rt.spawn(blocked).join().unwrap();
    let until = Instant::now() + time;
    let hog = |_| {
        rt.spawn(move || {
            let mut turns = 0;
            // On a slow machine, the time may be over before the last of them has begun.
            while turns == 0 || Instant::now() < until {
                let now = blocked();
                for signal in 1..=64 {
                    assert_eq!(blocks(&now, signal), blocks(&baseline, signal), "signal {signal}");
                }
                registers::general();
                turns += 1;
                if turns % 100 == 0 {
                    // One takes part again after its slot was handed off.
                    thread::yield_now();
                }
            }
        })
    };
    let hogs: Vec<_> = (0..hogs).map(hog).collect();
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}

/// The process: handlers of both sorts, ten thousand signals a second, and preemption.
pub(crate) fn handlers(rung: ThreadRegister) {
    install(libc::SIGUSR1, handler, libc::SA_ONSTACK);
    install(libc::SIGUSR2, handler, 0);
    // Without spares, slots are not handed off instead, as they would be where other processes have the CPUs.
    let rt = builder(rung).concurrency(2).max_lwps(2).time_slice(Some(SLICE)).build().unwrap();
    rt.run(|| ());
    let before = masks();
    let time = sized(Duration::from_secs(1), Duration::from_secs(60));
    let mut sent = 0;
    for tried in 0..20 {
        // On a slow machine, a thread may find all signals at once, and refuses to be preempted in a handler.
        // So they become fewer.
        let storm = Storm::start(&[libc::SIGUSR1, libc::SIGUSR2], Duration::from_micros(50 << (tried / 2)));
        look(&rt, 16, time);
        sent += storm.stop();
        if rt.stats().preempted > 0 {
            break;
        }
    }
    let [alternate, interrupted] = [0, 1].map(|kind: usize| HANDLED[kind].load(Ordering::Relaxed));
    eprintln!("\n  {rung:?}: {sent} signals: {alternate} on the alternate stack, {interrupted} not");
    assert_eq!(
        WRONG.load(Ordering::Relaxed),
        0,
        "1: not blocked, 2: wrong stack, 4: moved to another kernel thread"
    );
    assert!(alternate > 0 && interrupted > 0);
    eprintln!("  {rung:?}: {} preemptions", rt.stats().preempted);
    assert!(rt.stats().preempted > 0, "{}", rt.stats());
    // The last handlers may still run.
    let soon = Instant::now() + Duration::from_secs(5);
    while masks() != before {
        assert!(Instant::now() < soon, "LWPs blocked {before:?}, and now {:?}", masks());
        std::thread::yield_now();
    }
    // The control: with the stacks the other way round, the handler complains.
    SWAPPED.store(true, Ordering::Relaxed);
    let storm = Storm::start(&[libc::SIGUSR1], Duration::from_micros(100));
    look(&rt, 4, time / 2);
    storm.stop();
    assert_eq!(WRONG.load(Ordering::Relaxed), WRONG_STACK, "the handler does not notice its stack");
}

/// Plays a role in a process of its own, and prints its report.
pub(crate) fn in_a_process(role: &str, rung: ThreadRegister) {
    let variables: &[(&str, &str)] = if full() { &[("SELVEDGE_STRESS", "full")] } else { &[] };
    let ended = child::run_within(&format!("{role}, {rung:?}"), variables, Duration::from_secs(200));
    ended.expect_success();
    println!("{}", ended.said.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_surfaces_of_signals_is_what_is_documented() {
    on(MIGRATING, "interrupted calls", |rung| in_a_process("interruptions", rung));
}

#[test]
fn handlers_of_the_program_are_left_alone() {
    on(MIGRATING, "handlers of the program", |rung| in_a_process("handlers", rung));
}
