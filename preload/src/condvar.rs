//! `pthread_cond_wait` and its like.
//!
//! A condition variable of Selvedge lies over the first bytes of the C library's `pthread_cond_t`. The C
//! library's initializers say in another word whether it is shared between processes, and which clock it has.
//! The last two words are a gate, for waiters whose mutex is the C library's own.

use std::ffi::c_int;
use std::ptr;

use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, timespec};
use selvedge::pthreads::{self, Gate, point};
use selvedge::{WaitError, sync};

use crate::clock::{self, Until};
use crate::layout;
use crate::mutex::{self, Kind, Mutex};
use crate::next::{next, wait_next};

/// A condition variable of the program.
#[repr(C)]
struct Condvar {
    inner: sync::Condvar,
    /// In it, the C library's flags. Bit 0: shared between processes. Bit 1: it waits by the monotonic clock.
    _unused: [u8; 40 - size_of::<sync::Condvar>()],
    /// For waiters with a mutex of the C library's.
    gate: Gate,
}

const _: () = assert!(size_of::<Condvar>() == size_of::<pthread_cond_t>());

/// The answer to a wait at a condition variable of the C library's with a mutex that is not. One of them is
/// shared between processes, or robust, and the other is not.
const MIXED: c_int = libc::EINVAL;

const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;

impl Condvar {
    /// # Safety
    /// It is a condition variable, and stays one while the reference is used.
    unsafe fn of<'a>(condvar: *mut pthread_cond_t) -> &'a Self {
        // SAFETY: the caller's promise. All bits are valid, and what changes is atomic.
        unsafe { &*condvar.cast() }
    }

    fn has(&self, flag: u32) -> bool {
        let flags = ptr::from_ref(self).cast::<u8>().wrapping_add(layout::cond_flags());
        // SAFETY: a word of the condition variable, which changes only if that is destroyed.
        unsafe { flags.cast::<u32>().read_volatile() & flag != 0 }
    }

    fn clock(&self) -> clockid_t {
        if self.has(MONOTONIC) { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
    }

    /// Waits, and locks the mutex again.
    ///
    /// # Safety
    /// The running thread has locked the mutex.
    unsafe fn wait(&self, mutex: *mut pthread_mutex_t, until: Until) -> c_int {
        // SAFETY: the caller's promise.
        let lock = unsafe { Mutex::of(mutex) };
        if lock.kind() == Kind::Other {
            // SAFETY: the caller's promise.
            return unsafe { self.wait_with_other(mutex, until) };
        }
        let count = match lock.leave_for_wait() {
            Ok(count) => count,
            Err(code) => return code,
        };
        if pthreads::handles_signals() {
            let waited = self.wait_apart(lock, until);
            lock.come_back(count);
            return code(waited);
        }
        // SAFETY: the running thread has locked it, and the guard is forgotten below.
        let mut guard = unsafe { lock.inner().make_guard_unchecked() };
        let wait = |wait| self.inner.wait_with(&mut guard, wait);
        let waited = pthreads::wait(until.wait(), wait, is_interrupted);
        std::mem::forget(guard);
        lock.come_back(count);
        code(waited)
    }

    /// Waits, runs handlers of signals without the mutex, and locks it again. A handler may wait until
    /// another thread has run one, which may wait for the mutex.
    fn wait_apart(&self, lock: &Mutex, until: Until) -> Result<(), WaitError> {
        let mut has_mutex = true;
        let wait = |wait| {
            let (waited, has) = pthreads::wait_apart(&self.inner, lock.inner(), wait);
            has_mutex = has;
            waited
        };
        let waited = pthreads::wait(until.wait(), wait, is_interrupted);
        if !has_mutex {
            lock.lock_again();
        }
        waited
    }

    /// Does what [`wait`](Self::wait) does, with a mutex of the C library's.
    ///
    /// # Safety
    /// As there.
    unsafe fn wait_with_other(&self, mutex: *mut pthread_mutex_t, until: Until) -> c_int {
        let mut is_held = true;
        let mut unlock = || {
            // A wait that an interrupt has ended, which was no request to end the thread, begins again.
            if !std::mem::take(&mut is_held) {
                return Ok(());
            }
            // SAFETY: the caller's promise.
            let code = unsafe { mutex::pthread_mutex_unlock(mutex) };
            if code == 0 { Ok(()) } else { Err(code) }
        };
        let wait = |wait| self.gate.wait(&self.inner, wait, &mut unlock);
        let waited =
            match pthreads::wait(until.wait(), wait, |waited| waited.as_ref().is_ok_and(is_interrupted)) {
                Ok(waited) => waited,
                Err(code) => return code,
            };
        // SAFETY: the caller's promise.
        let locked = unsafe { mutex::pthread_mutex_lock(mutex) };
        if locked == 0 { code(waited) } else { locked }
    }
}

fn is_interrupted(waited: &Result<(), WaitError>) -> bool {
    *waited == Err(WaitError::Interrupted)
}

/// Returns what a wait returns. If a request to end the thread has ended it, it was woken for nothing.
fn code(waited: Result<(), WaitError>) -> c_int {
    if waited == Err(WaitError::TimedOut) { libc::ETIMEDOUT } else { 0 }
}

/// See `pthread_cond_wait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_wait(
    condvar: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Condvar::of(condvar) };
    if this.has(SHARED) {
        // SAFETY: the caller's promise.
        if unsafe { Mutex::of(mutex) }.kind() != Kind::Other {
            return MIXED;
        }
        return wait_next!(
            pthread_cond_wait(condvar: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int
        );
    }
    // SAFETY: the caller's promise.
    point(|| unsafe { this.wait(mutex, Until::Forever) })
}

/// See `pthread_cond_timedwait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_timedwait(
    condvar: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Condvar::of(condvar) };
    if this.has(SHARED) {
        // SAFETY: the caller's promise.
        if unsafe { Mutex::of(mutex) }.kind() != Kind::Other {
            return MIXED;
        }
        return wait_next!(pthread_cond_timedwait(
            condvar: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, end: *const timespec
        ) -> c_int);
    }
    // SAFETY: the caller's promise.
    match unsafe { clock::until(this.clock(), end) } {
        // SAFETY: the caller's promise.
        Ok(until) => point(|| unsafe { this.wait(mutex, until) }),
        Err(code) => code,
    }
}

/// See `pthread_cond_clockwait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_clockwait(
    condvar: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Condvar::of(condvar) };
    if this.has(SHARED) {
        // SAFETY: the caller's promise.
        if unsafe { Mutex::of(mutex) }.kind() != Kind::Other {
            return MIXED;
        }
        return wait_next!(pthread_cond_clockwait(
            condvar: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, end: *const timespec
        ) -> c_int);
    }
    // SAFETY: the caller's promise.
    match unsafe { clock::until(clock, end) } {
        // SAFETY: the caller's promise.
        Ok(until) => point(|| unsafe { this.wait(mutex, until) }),
        Err(code) => code,
    }
}

/// See `pthread_cond_signal(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_signal(condvar: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Condvar::of(condvar) };
    if this.has(SHARED) {
        return next!(pthread_cond_signal(condvar: *mut pthread_cond_t) -> c_int);
    }
    this.gate.pass();
    this.inner.notify_one();
    0
}

/// See `pthread_cond_broadcast(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_broadcast(condvar: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Condvar::of(condvar) };
    if this.has(SHARED) {
        return next!(pthread_cond_broadcast(condvar: *mut pthread_cond_t) -> c_int);
    }
    this.gate.pass();
    this.inner.notify_all();
    0
}

/// See `pthread_cond_destroy(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_destroy(condvar: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Condvar::of(condvar) };
    if !this.has(SHARED) {
        this.gate.close();
    }
    next!(pthread_cond_destroy(condvar: *mut pthread_cond_t) -> c_int)
}
