//! Threads that std or C code starts, as green threads: their handles, names, parking, thread-locals, and what
//! the C library's functions say of them.

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::os::unix::thread::JoinHandleExt;
use std::panic;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use libc::{pthread_attr_t, pthread_t, timespec};
use selvedge::thread::{ThreadState, WaitReason};
use selvedge::{LwpState, Mxn, OneToOne, Runtime, ThreadRegister};

use crate::child;
use crate::watchdog::Watchdog;

/// Runs `body` in a green thread of runtimes that take std's threads.
fn green(what: &str, body: fn()) {
    for rung in [ThreadRegister::Switched, ThreadRegister::Syscall] {
        for slots in [1, 3] {
            let _watchdog = Watchdog::start(format!("{what}, {rung}, {slots} slots"));
            let builder = Mxn::builder().thread_register(rung).concurrency(slots).green_std_threads(true);
            match builder.build() {
                Ok(rt) => rt.run(body),
                Err(error) => eprintln!("skipped: {rung}: {error}"),
            }
        }
    }
}

fn is_green<T>(handle: &JoinHandle<T>) -> bool {
    handle.as_pthread_t() & 1 == 1
}

/// Returns the number of kernel threads of this process.
fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn std_handles_names_and_panics() {
    green("std's handles, names and panics", || {
        let named = Builder::new().name("a name of more than 15 bytes".into()).spawn(|| {
            let me = thread::current();
            assert_eq!(me.name(), Some("a name of more than 15 bytes"));
            assert_eq!(selvedge::thread::current().name(), Some("a name of more "));
            me.id()
        });
        let named = named.unwrap();
        assert!(is_green(&named));
        let id = named.thread().id();
        assert_eq!(named.join().unwrap(), id);

        let panicking = thread::spawn(|| -> u8 { panic::resume_unwind(Box::new("its payload")) });
        assert_eq!(*panicking.join().unwrap_err().downcast::<&str>().unwrap(), "its payload");

        let values: Vec<_> = (0..100_u64).map(|n| thread::spawn(move || n * n)).collect();
        assert!(values.into_iter().zip(0_u64..).all(|(it, n)| it.join().unwrap() == n * n));

        let parked = thread::spawn(thread::park);
        assert!(!parked.is_finished());
        parked.thread().unpark();
        parked.join().unwrap();
    });
}

#[test]
fn std_scopes_borrow() {
    green("std's scopes borrow", || {
        let mut sums = [0_u64; 8];
        let numbers: Vec<u64> = (0..1_000).collect();
        thread::scope(|scope| {
            for sum in &mut sums {
                let numbers = &numbers;
                scope.spawn(move || {
                    thread::yield_now();
                    *sum = numbers.iter().sum();
                });
            }
        });
        assert_eq!(sums, [499_500; 8]);
        let outcome = panic::catch_unwind(|| thread::scope(|scope| _ = scope.spawn(|| panic!("expected"))));
        assert!(outcome.is_err());
    });
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

struct Counted;

impl Counted {
    fn new() -> Self {
        ALIVE.fetch_add(1, SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Still the thread that it was.
        assert_eq!(own_id() & 1, 1);
        thread::sleep(Duration::from_micros(10));
        ALIVE.fetch_sub(1, SeqCst);
    }
}

thread_local! {
    static VALUES: RefCell<Vec<Counted>> = const { RefCell::new(Vec::new()) };
}

/// Each thread has its own values, across waits that move it, and they are gone when `join` returns.
#[test]
fn std_thread_locals_belong_to_the_thread() {
    green("std's thread-locals belong to the thread", || {
        let threads: Vec<_> = (1..=50)
            .map(|count| {
                thread::spawn(move || {
                    for _ in 0..count {
                        VALUES.with_borrow_mut(|values| values.push(Counted::new()));
                        thread::sleep(Duration::from_micros(50));
                    }
                    VALUES.with_borrow(Vec::len)
                })
            })
            .collect();
        assert!(threads.into_iter().zip(1..).all(|(it, count)| it.join().unwrap() == count));
        assert_eq!(ALIVE.load(SeqCst), 0);
    });
}

/// A thousand threads of std wait at a barrier, and no kernel thread waits with them.
#[test]
fn a_thousand_std_threads_need_no_kernel_threads() {
    const COUNT: usize = 1_000;
    let _watchdog = Watchdog::start("a thousand std threads need no kernel threads");
    let rt = Mxn::builder().concurrency(2).green_std_threads(true).build().unwrap();
    let barrier = Arc::new(Barrier::new(COUNT + 1));
    let threads = rt.run(|| {
        let start = |number| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                barrier.wait();
                number
            })
        };
        (0..COUNT).map(start).collect::<Vec<_>>()
    });
    let waits = |state| matches!(state, ThreadState::Waiting { reason: WaitReason::Futex, .. });
    while rt.threads().iter().filter(|it| waits(it.state())).count() < COUNT {
        thread::sleep(Duration::from_millis(5));
    }
    let stats = rt.stats();
    assert_eq!(stats.count(LwpState::InKernel), 0, "{stats}");
    barrier.wait();
    // This thread, which is none of the runtime's, joins them.
    assert_eq!(threads.into_iter().map(|it| it.join().unwrap()).sum::<usize>(), COUNT * (COUNT - 1) / 2);
}

#[test]
fn detached_threads_run_on_and_the_runtime_waits_for_them() {
    let _watchdog = Watchdog::start("detached threads run on");
    let ended = Arc::new(AtomicUsize::new(0));
    let rt = Mxn::builder().green_std_threads(true).build().unwrap();
    let count = Arc::clone(&ended);
    rt.run(move || {
        for _ in 0..20 {
            let count = Arc::clone(&count);
            drop(thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                count.fetch_add(1, SeqCst);
            }));
        }
    });
    drop(rt);
    assert_eq!(ended.load(SeqCst), 20);
}

/// Kernel threads of this crate stay kernel threads, and so do threads of other runtimes.
#[test]
fn runtimes_start_their_own_kernel_threads() {
    green("runtimes start their own kernel threads", || {
        use selvedge::os::unix::thread::JoinHandleExt as _;
        let bound =
            selvedge::thread::Builder::new().bound(true).spawn(|| thread::spawn(thread::park)).unwrap();
        assert_eq!(bound.as_pthread_t().unwrap() & 1, 0);
        let of_bound = bound.join().unwrap();
        assert!(is_green(&of_bound), "a bound thread belongs to the runtime");
        of_bound.thread().unpark();
        of_bound.join().unwrap();

        let rt = OneToOne::new().unwrap();
        let of_kernel = rt.run(|| thread::spawn(thread::park));
        assert!(!is_green(&of_kernel));
        of_kernel.thread().unpark();
        of_kernel.join().unwrap();

        let other = Mxn::builder().concurrency(1).green_std_threads(false).build().unwrap();
        let of_other = other.run(|| thread::spawn(thread::park));
        assert!(!is_green(&of_other));
        of_other.thread().unpark();
        of_other.join().unwrap();
    });
}

fn own_id() -> pthread_t {
    // SAFETY: no arguments.
    unsafe { libc::pthread_self() }
}

/// Starts a thread as a C program does.
fn create(
    attributes: Option<&pthread_attr_t>,
    function: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: usize,
) -> pthread_t {
    let mut id = MaybeUninit::uninit();
    let attributes = attributes.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: a place, attributes, and a function that takes any argument.
    let code = unsafe {
        libc::pthread_create(id.as_mut_ptr(), attributes, function, ptr::without_provenance_mut(argument))
    };
    assert_eq!(code, 0);
    // SAFETY: written.
    unsafe { id.assume_init() }
}

fn join(id: pthread_t) -> Result<usize, c_int> {
    let mut value = ptr::null_mut();
    // SAFETY: a thread that is not joined yet.
    match unsafe { libc::pthread_join(id, &raw mut value) } {
        0 => Ok(value.addr()),
        code => Err(code),
    }
}

/// Sleeps for so many ms, and returns their number.
extern "C" fn sleeps(millis: *mut c_void) -> *mut c_void {
    thread::sleep(Duration::from_millis(millis.addr() as u64));
    millis
}

extern "C" fn joins_itself(_: *mut c_void) -> *mut c_void {
    ptr::without_provenance_mut(join(own_id()).unwrap_err() as usize)
}

static DETACHED: AtomicUsize = AtomicUsize::new(0);

/// Detaches itself, once.
extern "C" fn detaches_itself(_: *mut c_void) -> *mut c_void {
    // SAFETY: the running thread.
    assert_eq!(unsafe { libc::pthread_detach(own_id()) }, 0);
    // SAFETY: it has not ended.
    assert_eq!(unsafe { libc::pthread_detach(own_id()) }, libc::EINVAL);
    DETACHED.fetch_add(1, SeqCst);
    ptr::null_mut()
}

fn in_ms(clock: c_int, ms: i64) -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    let at = now.tv_nsec + ms * 1_000_000;
    timespec { tv_sec: now.tv_sec + at / 1_000_000_000, tv_nsec: at % 1_000_000_000 }
}

unsafe extern "C" {
    fn pthread_timedjoin_np(thread: pthread_t, value: *mut *mut c_void, end: *const timespec) -> c_int;
    fn pthread_clockjoin_np(
        thread: pthread_t,
        value: *mut *mut c_void,
        clock: c_int,
        end: *const timespec,
    ) -> c_int;
    fn pthread_tryjoin_np(thread: pthread_t, value: *mut *mut c_void) -> c_int;
}

#[test]
fn c_threads_are_joined_as_the_manual_says() {
    green("C threads are joined as the manual says", || {
        let id = create(None, sleeps, 5);
        assert_eq!(id & 1, 1);
        assert_eq!(join(id), Ok(5));
        assert_eq!(join(create(None, joins_itself, 0)), Ok(libc::EDEADLK as usize));

        let id = create(None, sleeps, 300);
        let mut value = ptr::null_mut();
        // SAFETY: a thread that is not joined yet.
        assert_eq!(unsafe { pthread_tryjoin_np(id, &raw mut value) }, libc::EBUSY);
        for (clock, timed) in [(libc::CLOCK_REALTIME, true), (libc::CLOCK_MONOTONIC, false)] {
            let (end, start) = (in_ms(clock, 5), Instant::now());
            let code = if timed {
                // SAFETY: a thread that is not joined yet, and a time.
                unsafe { pthread_timedjoin_np(id, &raw mut value, &raw const end) }
            } else {
                // SAFETY: a thread that is not joined yet, and a time.
                unsafe { pthread_clockjoin_np(id, &raw mut value, clock, &raw const end) }
            };
            assert_eq!(code, libc::ETIMEDOUT);
            assert!(start.elapsed() >= Duration::from_millis(4));
        }
        let wrong = timespec { tv_sec: 0, tv_nsec: -1 };
        // SAFETY: a thread that is not joined yet.
        assert_eq!(unsafe { pthread_timedjoin_np(id, ptr::null_mut(), &raw const wrong) }, libc::EINVAL);
        let far = in_ms(libc::CLOCK_REALTIME, 100_000);
        // SAFETY: a thread that is not joined yet, and a time.
        assert_eq!(unsafe { pthread_timedjoin_np(id, &raw mut value, &raw const far) }, 0);
        assert_eq!(value.addr(), 300);
        let id = create(None, sleeps, 0);
        loop {
            // SAFETY: a thread that is not joined yet.
            match unsafe { pthread_tryjoin_np(id, ptr::null_mut()) } {
                0 => break,
                code => assert_eq!(code, libc::EBUSY),
            }
            thread::yield_now();
        }
    });
}

#[test]
fn c_threads_detach_themselves() {
    green("C threads detach themselves", || {
        (0..50).for_each(|_| _ = create(None, detaches_itself, 0));
        while DETACHED.load(SeqCst) < 50 {
            thread::yield_now();
        }
        DETACHED.store(0, SeqCst);
    });
}

fn attributes() -> pthread_attr_t {
    // SAFETY: plain data.
    let mut attributes: pthread_attr_t = unsafe { mem::zeroed() };
    // SAFETY: a place for attributes.
    assert_eq!(unsafe { libc::pthread_attr_init(&raw mut attributes) }, 0);
    attributes
}

/// Tells of its own stack and name what the manual says.
extern "C" fn looks_at_itself(size: *mut c_void) -> *mut c_void {
    let me = own_id();
    let mut own = attributes();
    let (mut low, mut len, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: the running thread, and places.
    unsafe {
        assert_eq!(libc::pthread_getattr_np(me, &raw mut own), 0);
        assert_eq!(libc::pthread_attr_getstack(&raw const own, &raw mut low, &raw mut len), 0);
        assert_eq!(libc::pthread_attr_getguardsize(&raw const own, &raw mut guard), 0);
    }
    assert!(guard > 0 && len >= size.addr(), "{len} bytes, asked for {}", size.addr());
    let here = (&raw const len).addr();
    assert!((low.addr()..low.addr() + len).contains(&here));

    let mut name = [0; 16];
    // SAFETY: the running thread, C strings, and a place.
    unsafe {
        assert_eq!(libc::pthread_setname_np(me, c"sixteen bytes do not fit".as_ptr()), libc::ERANGE);
        assert_eq!(libc::pthread_setname_np(me, c"a C thread".as_ptr()), 0);
        assert_eq!(libc::pthread_getname_np(me, name.as_mut_ptr(), 15), libc::ERANGE);
        assert_eq!(libc::pthread_getname_np(me, name.as_mut_ptr(), 16), 0);
        assert_eq!(CStr::from_ptr(name.as_ptr()), c"a C thread");
        assert_eq!(libc::pthread_kill(me, 0), 0);
    }
    assert_eq!(selvedge::thread::current().name(), Some("a C thread"));
    let (mut policy, mut parameters) = (-1, libc::sched_param { sched_priority: -1 });
    // SAFETY: plain data.
    let mut cpus: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the running thread, and places.
    unsafe {
        assert_eq!(libc::pthread_getschedparam(me, &raw mut policy, &raw mut parameters), 0);
        assert_eq!((policy, parameters.sched_priority), (libc::SCHED_OTHER, 0));
        assert_eq!(libc::pthread_setschedparam(me, libc::SCHED_FIFO, &raw const parameters), libc::ENOTSUP);
        assert_eq!(libc::pthread_getaffinity_np(me, size_of_val(&cpus), &raw mut cpus), 0);
        assert!(libc::CPU_COUNT(&cpus) > 0);
        assert_eq!(libc::pthread_setaffinity_np(me, size_of_val(&cpus), &raw const cpus), libc::ENOTSUP);
    }
    ptr::null_mut()
}

#[test]
fn c_threads_tell_of_themselves() {
    green("C threads tell of themselves", || {
        assert_eq!(join(create(None, looks_at_itself, 256 << 10)), Ok(0));
        for size in [64 << 10, 1 << 20, 3 << 20] {
            let mut wanted = attributes();
            // SAFETY: initialized.
            assert_eq!(unsafe { libc::pthread_attr_setstacksize(&raw mut wanted, size) }, 0);
            assert_eq!(join(create(Some(&wanted), looks_at_itself, size)), Ok(0));
        }
        let other = create(None, sleeps, 30);
        let mut own = attributes();
        // SAFETY: a thread that is not joined yet, and places.
        unsafe {
            assert_eq!(libc::pthread_kill(other, 0), 0);
            // It goes to the process, which ignores it.
            assert_eq!(libc::pthread_kill(other, libc::SIGWINCH), 0);
            assert_eq!(libc::pthread_kill(other, 4_000), libc::EINVAL);
            assert_eq!(libc::pthread_getattr_np(other, &raw mut own), 0);
        }
        join(other).unwrap();
    });
}

/// What only kernel threads have makes the thread one.
#[test]
fn c_threads_with_a_stack_of_their_own_are_kernel_threads() {
    green("C threads with a stack of their own", || {
        let mut memory = vec![0_u128; 256 << 10];
        let mut wanted = attributes();
        // SAFETY: initialized, and memory that outlives the thread.
        let code = unsafe {
            libc::pthread_attr_setstack(&raw mut wanted, memory.as_mut_ptr().cast(), 16 * memory.len())
        };
        assert_eq!(code, 0);
        let id = create(Some(&wanted), sleeps, 1);
        assert_eq!(id & 1, 0);
        assert_eq!(join(id), Ok(1));

        let mut detached = attributes();
        // SAFETY: initialized.
        unsafe { libc::pthread_attr_setdetachstate(&raw mut detached, libc::PTHREAD_CREATE_DETACHED) };
        assert_eq!(create(Some(&detached), sleeps, 1) & 1, 1);
    });
}

/// A program that knows nothing of Selvedge, but that its user wants green threads.
pub(crate) fn plain_program() {
    let before = kernel_threads();
    let barrier = Arc::new(Barrier::new(1_001));
    let threads: Vec<_> = (0..1_000)
        .map(|number| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                barrier.wait();
                let inner = thread::spawn(move || number);
                inner.join().unwrap()
            })
        })
        .collect();
    let (green, now) = (threads.iter().filter(|it| is_green(it)).count(), kernel_threads());
    barrier.wait();
    assert_eq!(threads.into_iter().map(|it| it.join().unwrap()).sum::<usize>(), 499_500);
    println!("{green} green threads, {} more kernel threads", now - before);
}

#[test]
fn the_variable_makes_std_threads_green() {
    let _watchdog = Watchdog::start("the variable makes std threads green");
    let run = |variables: &[(&str, &str)]| {
        let ended = child::run("plain_program", variables);
        ended.expect_success();
        let line = ended.said.lines().find(|line| line.contains("green threads,")).expect("it tells");
        let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        (numbers[0], numbers[1])
    };
    let (green, kernel) = run(&[("SELVEDGE_STD_THREADS", "green")]);
    assert_eq!(green, 1_000);
    // LWPs that were needed while others slept in the C library's allocator.
    assert!(kernel < 300, "{kernel} kernel threads");
    for variables in [
        &[("SELVEDGE_STD_THREADS", "kernel")][..],
        &[][..],
        &[("SELVEDGE_STD_THREADS", "green"), ("SELVEDGE_RUNTIME", "onetoone")][..],
    ] {
        let (green, kernel) = run(variables);
        assert_eq!((green, kernel), (0, 1_000), "{variables:?}");
    }
}

#[test]
fn a_wrong_variable_is_named() {
    let _watchdog = Watchdog::start("a wrong variable is named");
    let cases = [
        ("SELVEDGE_STD_THREADS", "yes", ["`yes`", "SELVEDGE_STD_THREADS", "green or kernel"]),
        ("SELVEDGE_CONCURRENCY", "0", ["`0`", "SELVEDGE_CONCURRENCY", "from 1 to"]),
    ];
    for (variable, value, words) in cases {
        let ended = child::run("plain_program", &[("SELVEDGE_STD_THREADS", "green"), (variable, value)]);
        // The harness cannot start a thread for the role.
        for word in words.into_iter().chain(["failed to spawn thread", "Invalid argument"]) {
            assert!(ended.said.contains(word), "no {word:?} in:\n{}", ended.said);
        }
    }
}

pub(crate) fn overflows() {
    #[inline(never)]
    fn deeper(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 100]);
        if depth == u64::MAX { 0 } else { deeper(depth + 1) + frame[7] }
    }
    let _ = Builder::new().name("a deep one".into()).spawn(|| deeper(0)).unwrap().join();
}

#[test]
fn an_overflow_of_a_std_thread_names_it() {
    let _watchdog = Watchdog::start("an overflow of a std thread names it");
    let ended = child::run("overflows", &[("SELVEDGE_STD_THREADS", "green")]);
    ended.expect_abort(&["thread 'a deep one'", "overflowed its stack of 2 MiB"]);
}

/// A fork of a green thread of std goes on as the one thread of the child, which can start others.
pub(crate) fn std_forks() {
    let parent = thread::spawn(|| {
        let other = thread::spawn(|| thread::sleep(Duration::from_millis(50)));
        // SAFETY: the child uses what a child may use.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let own = own_id();
            let started = thread::spawn(|| 7);
            let fine = own & 1 == 1 && !is_green(&started) && started.join().unwrap() == 7;
            // SAFETY: it ends the child.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        let mut status = -1;
        // SAFETY: the child that was started.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        other.join().unwrap();
    });
    assert!(is_green(&parent));
    parent.join().unwrap();
}

#[test]
fn a_std_thread_forks() {
    let _watchdog = Watchdog::start("a std thread forks");
    child::run("std_forks", &[("SELVEDGE_STD_THREADS", "green")]).expect_success();
}
