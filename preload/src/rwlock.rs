//! `pthread_rwlock_rdlock` and its like.
//!
//! A lock of Selvedge lies over the first words of the C library's `pthread_rwlock_t`. The word after that is
//! the number of the thread that writes. In the eighth word, the C library's initializers say whether the
//! lock is shared between processes, and in the thirteenth whether writers go first.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{clockid_t, pthread_rwlock_t, timespec};
use lock_api::{RawRwLock as _, RawRwLockRecursive as _};
use selvedge::sync::{self, RawRwLock, RwLockWith as _};
use selvedge::{Wait, WaitError, pthreads};

use crate::clock;
use crate::next::{lock_next, next};
use crate::owner;

/// A read-write lock of the program.
#[repr(C)]
struct RwLock {
    /// A lock of Selvedge, without data.
    lock: sync::RwLock<()>,
    _unused: [u8; 24 - size_of::<sync::RwLock<()>>()],
    /// The number of the thread that writes. Only that thread can find its own there.
    writer: AtomicU32,
    shared: c_int,
    _more: [u32; 4],
    /// 2: waiting writers go before new readers.
    kind: c_int,
}

/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
const WRITERS_FIRST: c_int = 2;

const _: () =
    assert!(size_of::<RwLock>() <= size_of::<pthread_rwlock_t>() && std::mem::offset_of!(RwLock, kind) == 48);

impl RwLock {
    /// # Safety
    /// It is a lock, and stays one while the reference is used.
    unsafe fn of<'a>(lock: *mut pthread_rwlock_t) -> &'a Self {
        // SAFETY: the caller's promise. All bits are valid, and what changes is atomic.
        unsafe { &*lock.cast() }
    }

    fn raw(&self) -> &RawRwLock {
        // SAFETY: it is locked and unlocked here alone, by the rules of its kind.
        unsafe { self.lock.raw() }
    }

    fn is_written_here(&self) -> bool {
        // Relaxed: only the running thread writes its own number.
        self.writer.load(Ordering::Relaxed) == owner::own()
    }

    /// Notes that the running thread writes, if it has acquired the lock.
    fn written(&self, acquired: bool, otherwise: c_int) -> c_int {
        if !acquired {
            return otherwise;
        }
        self.writer.store(owner::own(), Ordering::Relaxed);
        0
    }

    fn read_until(&self, clock: clockid_t, end: *const timespec) -> c_int {
        if let Err(code) = clock::check(clock) {
            return code;
        }
        if self.is_written_here() {
            return libc::EDEADLK;
        }
        if self.try_read() {
            return 0;
        }
        // SAFETY: the promise of the function's caller.
        match unsafe { clock::until(clock, end) } {
            Ok(until) if self.read_by(until.wait()) => 0,
            Ok(_) => libc::ETIMEDOUT,
            Err(code) => code,
        }
    }

    /// Acquires it to read. As a rule, a thread that reads may read again, whichever threads wait to write:
    /// the C library's default.
    fn read(&self) {
        if !self.try_read() {
            self.read_by(Wait::forever());
        }
    }

    /// Waits to read, and runs handlers of signals meanwhile. Returns `false` if it did not come in in time.
    #[cold]
    fn read_by(&self, wait: Wait) -> bool {
        let read = |wait| {
            let first = self.kind == WRITERS_FIRST;
            let guard = if first { self.lock.read_with(wait) } else { self.lock.read_recursive_with(wait) };
            guard.map(std::mem::forget)
        };
        pthreads::lock(wait, read, is_interrupted).is_ok()
    }

    /// Does the same to write.
    #[cold]
    fn write_by(&self, wait: Wait) -> bool {
        let write = |wait| self.lock.write_with(wait).map(std::mem::forget);
        pthreads::lock(wait, write, is_interrupted).is_ok()
    }

    fn try_read(&self) -> bool {
        if self.kind == WRITERS_FIRST {
            self.raw().try_lock_shared()
        } else {
            self.raw().try_lock_shared_recursive()
        }
    }

    fn write_until(&self, clock: clockid_t, end: *const timespec) -> c_int {
        if let Err(code) = clock::check(clock) {
            return code;
        }
        if self.is_written_here() {
            return libc::EDEADLK;
        }
        if self.raw().try_lock_exclusive() {
            return self.written(true, 0);
        }
        // SAFETY: the promise of the function's caller.
        match unsafe { clock::until(clock, end) } {
            Ok(until) => self.written(self.write_by(until.wait()), libc::ETIMEDOUT),
            Err(code) => code,
        }
    }
}

fn is_interrupted(waited: &Result<(), WaitError>) -> bool {
    *waited == Err(WaitError::Interrupted)
}

/// See `pthread_rwlock_rdlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return lock_next!(pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int);
    }
    if this.is_written_here() {
        return libc::EDEADLK;
    }
    this.read();
    0
}

/// See `pthread_rwlock_tryrdlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return next!(pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int);
    }
    if this.try_read() { 0 } else { libc::EBUSY }
}

/// See `pthread_rwlock_timedrdlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, end: *const timespec) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return lock_next!(pthread_rwlock_timedrdlock(
            lock: *mut pthread_rwlock_t,
            end: *const timespec
        ) -> c_int);
    }
    this.read_until(libc::CLOCK_REALTIME, end)
}

/// See `pthread_rwlock_clockrdlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_clockrdlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return lock_next!(pthread_rwlock_clockrdlock(
            lock: *mut pthread_rwlock_t,
            clock: clockid_t,
            end: *const timespec
        ) -> c_int);
    }
    this.read_until(clock, end)
}

/// See `pthread_rwlock_wrlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return lock_next!(pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int);
    }
    if this.is_written_here() {
        return libc::EDEADLK;
    }
    this.written(this.raw().try_lock_exclusive() || this.write_by(Wait::forever()), 0)
}

/// See `pthread_rwlock_trywrlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return next!(pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int);
    }
    this.written(this.raw().try_lock_exclusive(), libc::EBUSY)
}

/// See `pthread_rwlock_timedwrlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, end: *const timespec) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return lock_next!(pthread_rwlock_timedwrlock(
            lock: *mut pthread_rwlock_t,
            end: *const timespec
        ) -> c_int);
    }
    this.write_until(libc::CLOCK_REALTIME, end)
}

/// See `pthread_rwlock_clockwrlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_clockwrlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return lock_next!(pthread_rwlock_clockwrlock(
            lock: *mut pthread_rwlock_t,
            clock: clockid_t,
            end: *const timespec
        ) -> c_int);
    }
    this.write_until(clock, end)
}

/// See `pthread_rwlock_unlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { RwLock::of(lock) };
    if this.shared != 0 {
        return next!(pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int);
    }
    if this.is_written_here() {
        this.writer.store(0, Ordering::Relaxed);
        // SAFETY: the running thread writes.
        unsafe { this.raw().unlock_exclusive() };
    } else {
        // SAFETY: the caller's promise: it reads.
        unsafe { this.raw().unlock_shared() };
    }
    0
}
