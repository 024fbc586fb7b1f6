//! Threads that C code starts, as green threads: what the C library's functions say of them.
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "all questions to one thread, with one reason")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use libc::{pthread_attr_t, pthread_t, timespec};

use crate::std_threads::{green, own_id};

/// Starts a thread as a C program does.
pub(crate) fn create(
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

pub(crate) fn join(id: pthread_t) -> Result<usize, c_int> {
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

/// Waits until the flag at this address says so, and returns the address.
extern "C" fn waits_for_word(told: *mut c_void) -> *mut c_void {
    // SAFETY: `living` passes a flag that is never freed.
    let flag = unsafe { &*ptr::with_exposed_provenance::<AtomicBool>(told.addr()) };
    while !flag.load(SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
    told
}

/// Starts a thread that lives until the flag says that it may end.
fn living() -> (pthread_t, &'static AtomicBool) {
    let told: &AtomicBool = Box::leak(Box::default());
    (create(None, waits_for_word, ptr::from_ref(told).expose_provenance()), told)
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

        let (id, told) = living();
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
        told.store(true, SeqCst);
        let far = in_ms(libc::CLOCK_REALTIME, 100_000);
        // SAFETY: a thread that is not joined yet, and a time.
        assert_eq!(unsafe { pthread_timedjoin_np(id, &raw mut value, &raw const far) }, 0);
        assert_eq!(value.addr(), ptr::from_ref(told).addr());
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
        let (other, told) = living();
        let mut own = attributes();
        // SAFETY: a thread that is not joined yet, and places.
        unsafe {
            assert_eq!(libc::pthread_kill(other, 0), 0);
            // It goes to the process, which ignores it.
            assert_eq!(libc::pthread_kill(other, libc::SIGWINCH), 0);
            assert_eq!(libc::pthread_kill(other, 4_000), libc::EINVAL);
            assert_eq!(libc::pthread_getattr_np(other, &raw mut own), 0);
        }
        told.store(true, SeqCst);
        join(other).unwrap();
    });
}

/// The process has other threads, which a signal for a thread that has ended does not concern.
#[test]
fn c_threads_that_have_ended_get_no_signals() {
    green("C threads that have ended get no signals", || {
        let ended = create(None, sleeps, 0);
        let none = libc::sigval { sival_ptr: ptr::null_mut() };
        // SAFETY: a thread that is not joined yet.
        while unsafe { libc::pthread_sigqueue(ended, 0, none) } == 0 {
            thread::yield_now();
        }
        // SAFETY: a thread that is not joined yet.
        let codes = unsafe {
            [libc::pthread_kill(ended, libc::SIGWINCH), libc::pthread_sigqueue(ended, libc::SIGWINCH, none)]
        };
        // As the C library has it.
        assert_eq!(codes, [0, libc::ESRCH]);
        join(ended).unwrap();
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

#[link(name = "m")]
unsafe extern "C" {
    fn fegetround() -> c_int;
    fn fesetround(way: c_int) -> c_int;
}

/// `FE_TOWARDZERO`; to the nearest is 0.
const TOWARDS_ZERO: c_int = if cfg!(target_arch = "x86_64") {
    0xc00
} else if cfg!(target_arch = "aarch64") {
    3 << 22
} else {
    1
};

extern "C" fn how_it_rounds(_: *mut c_void) -> *mut c_void {
    // SAFETY: no arguments.
    ptr::without_provenance_mut(unsafe { fegetround() } as usize)
}

/// POSIX: "The floating-point environment shall be inherited from the creating thread."
#[test]
fn c_threads_compute_as_their_creators_do() {
    green("C threads compute as their creators do", || {
        for way in [0, TOWARDS_ZERO, 0] {
            // SAFETY: a way that there is.
            assert_eq!(unsafe { fesetround(way) }, 0);
            let id = create(None, how_it_rounds, 0);
            // SAFETY: a way that there is.
            assert_eq!(unsafe { fesetround(0) }, 0);
            assert_eq!(join(id), Ok(way as usize));
        }
    });
}
