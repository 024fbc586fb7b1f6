//! `pthread_mutex_lock` and its like.
//!
//! A mutex lies over the C library's `pthread_mutex_t` of 64-bit systems. The lock is in the first word, and
//! the number of times that a recursive one is locked in the second. The owner's number is in the third. The
//! kind is in the fifth, where the C library's initializers put it. A ceiling is in the sixth.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;

use libc::{clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};
use lock_api::RawMutex as _;
use selvedge::sync::{self, LockWith as _, RawMutex};
use selvedge::{Wait, WaitError};

use crate::clock;
use crate::next::{lock_next, next};
use crate::owner;

/// A mutex of the program.
#[repr(C)]
pub(crate) struct Mutex {
    /// A mutex of Selvedge, without data.
    lock: sync::Mutex<()>,
    /// How often its owner has locked it, if it is recursive.
    count: Cell<u32>,
    /// The owner's number, if it matters. Only the owner can find its own there.
    owner: std::sync::atomic::AtomicU32,
    /// How many threads wait at condition variables, and will lock it again. The owner changes it. The C
    /// library refuses to destroy a mutex that has any.
    waiters: std::sync::atomic::AtomicU32,
    kind: c_int,
    /// What `pthread_mutex_getprioceiling` returns. The owner changes it. The C library has it in the lock.
    ceiling: Cell<c_int>,
}

const _: () =
    assert!(size_of::<Mutex>() <= size_of::<pthread_mutex_t>() && size_of::<sync::Mutex<()>>() == 4);

/// In a kind: robust, or shared between processes. Those may raise the priority of their owner, too.
const OTHER: c_int = 16 | 128;
/// In a kind: the owner gets the mutex's own priority, the ceiling (`PTHREAD_PRIO_PROTECT`).
const PROTECTS: c_int = 64;
/// In a kind: it raises the priority of its owner, to that or to that of waiters (`PTHREAD_PRIO_INHERIT`).
/// Green threads have none of the kernel's.
const RAISES: c_int = 32 | PROTECTS;
/// Above these bits of the lock, the C library puts the ceiling.
const BELOW_CEILING: u32 = 19;

/// What the owner may do with a mutex.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Recursive,
    Checked,
    /// The C library's own.
    Other,
}

impl Mutex {
    /// # Safety
    /// It is a mutex, and stays one while the reference is used.
    pub(crate) unsafe fn of<'a>(mutex: *mut pthread_mutex_t) -> &'a Self {
        // SAFETY: the caller's promise. All bits are valid, and what changes is a cell.
        unsafe { &*mutex.cast() }
    }

    pub(crate) fn kind(&self) -> Kind {
        /// Says whether processors may elide it.
        const ELISION: c_int = 256 | 512;
        if self.kind & OTHER != 0 {
            return Kind::Other;
        }
        match self.kind & 0xffff & !(ELISION | RAISES) {
            // 3: it may spin, as all here do.
            0 | 3 => Kind::Normal,
            1 => Kind::Recursive,
            2 => Kind::Checked,
            _ => Kind::Other,
        }
    }

    pub(crate) fn inner(&self) -> &sync::Mutex<()> {
        &self.lock
    }

    fn raw(&self) -> &RawMutex {
        // SAFETY: it is locked and unlocked here alone, by the rules of its kind.
        unsafe { self.lock.raw() }
    }

    fn is_own(&self) -> bool {
        // Relaxed: only the running thread writes its own number.
        self.owner.load(std::sync::atomic::Ordering::Relaxed) == owner::own()
    }

    fn set_owner(&self, owner: u32) {
        self.owner.store(owner, std::sync::atomic::Ordering::Relaxed);
    }

    /// Acquires the mutex by `acquire`, if it is not the running thread's already. If it is, `again` is
    /// returned for a checked one.
    fn acquire(&self, again: c_int, acquire: impl FnOnce(&RawMutex) -> Result<(), c_int>) -> c_int {
        let kind = self.kind();
        if kind == Kind::Normal {
            return acquire(self.raw()).err().unwrap_or(0);
        }
        if self.is_own() {
            if kind == Kind::Checked {
                return again;
            }
            let Some(count) = self.count.get().checked_add(1) else { return libc::EAGAIN };
            self.count.set(count);
            return 0;
        }
        if let Err(code) = acquire(self.raw()) {
            return code;
        }
        self.set_owner(owner::own());
        self.count.set(1);
        0
    }

    fn acquire_until(&self, clock: clockid_t, end: *const timespec) -> c_int {
        if let Err(code) = clock::check(clock) {
            return code;
        }
        self.acquire(libc::EDEADLK, |raw| {
            if raw.try_lock() {
                return Ok(());
            }
            // SAFETY: the promise of the function's caller.
            match unsafe { clock::until(clock, end) }? {
                until if lock_by(&self.lock, until.wait()) => Ok(()),
                _ => Err(libc::ETIMEDOUT),
            }
        })
    }

    /// Counts waiters at condition variables. Called by the owner.
    fn count_waiters(&self, count: impl FnOnce(u32) -> u32) {
        // Relaxed, both: the lock orders them.
        let waiters = self.waiters.load(std::sync::atomic::Ordering::Relaxed);
        self.waiters.store(count(waiters), std::sync::atomic::Ordering::Relaxed);
    }

    /// Gives the mutex up for a wait at a condition variable, whatever the count. Returns the count, or an
    /// error if the running thread does not own it.
    pub(crate) fn leave_for_wait(&self) -> Result<u32, c_int> {
        if self.kind() == Kind::Normal {
            if !self.raw().is_locked() {
                // A mistake: see `pthread_mutex_unlock`. The wait begins with the mutex locked.
                let _ = self.raw().try_lock();
            }
            self.count_waiters(|waiters| waiters + 1);
            return Ok(0);
        }
        if !self.is_own() {
            return Err(libc::EPERM);
        }
        self.count_waiters(|waiters| waiters + 1);
        self.set_owner(0);
        Ok(self.count.get())
    }

    /// Locks the mutex after a wait at a condition variable.
    pub(crate) fn lock_again(&self) {
        if !self.raw().try_lock() {
            lock_by(&self.lock, Wait::forever());
        }
    }

    /// Notes that the running thread owns the mutex again.
    pub(crate) fn come_back(&self, count: u32) {
        // The program may have initialized it anew.
        self.count_waiters(|waiters| waiters.saturating_sub(1));
        if self.kind() != Kind::Normal {
            self.set_owner(owner::own());
            self.count.set(count);
        }
    }
}

/// See `pthread_mutex_init(3)`.
///
/// If the owner of a mutex is to get a priority, the kernel looks for it by its number. It does not find a
/// green thread. So where there may be such, it gets none. All processes see that in the mutex.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    let code = next!(
        pthread_mutex_init(mutex: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t) -> c_int
    );
    if code == 0 {
        // SAFETY: the caller's mutex, which no other thread uses yet.
        let this = unsafe { &mut *mutex.cast::<Mutex>() };
        let is_others = this.kind & OTHER != 0;
        if this.kind & RAISES != 0 && (!is_others || selvedge::pthreads::may_be_green()) {
            let lock = ptr::from_mut(&mut this.lock).cast::<u32>();
            // SAFETY: one word.
            let lock = unsafe { lock.replace(0) };
            this.ceiling.set((lock >> BELOW_CEILING) as c_int);
            if is_others {
                this.kind &= !RAISES;
            }
        }
    }
    code
}

/// Waits for a mutex, and runs handlers of signals meanwhile. Returns `false` if it was not acquired in time.
#[cold]
fn lock_by(mutex: &sync::Mutex<()>, wait: Wait) -> bool {
    let lock = |wait| mutex.lock_with(wait).map(std::mem::forget);
    selvedge::pthreads::lock(wait, lock, |locked| *locked == Err(WaitError::Interrupted)).is_ok()
}

/// Waits for a mutex.
#[cold]
fn lock_slow(mutex: &sync::Mutex<()>, raw: &RawMutex) {
    if selvedge::pthreads::can_wait() {
        lock_by(mutex, Wait::forever());
        return;
    }
    // A thread that the program has started past this library. The mutex may be the allocator's.
    let mut tries = 0_u32;
    while !raw.try_lock() {
        tries += 1;
        if tries < 100 {
            // SAFETY: no arguments.
            unsafe { libc::sched_yield() };
        } else {
            // The C library's functions that sleep would end a thread that was asked to end.
            let pause = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
            // SAFETY: a time, and no place for what is left of it.
            unsafe {
                libc::syscall(libc::SYS_nanosleep, &raw const pause, ptr::null_mut::<libc::timespec>())
            };
        }
    }
}

/// See `pthread_mutex_lock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Mutex::of(mutex) };
    if this.kind() == Kind::Other {
        return lock_next!(pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int);
    }
    this.acquire(libc::EDEADLK, |raw| {
        if !raw.try_lock() {
            lock_slow(&this.lock, raw);
        }
        Ok(())
    })
}

/// See `pthread_mutex_trylock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Mutex::of(mutex) };
    if this.kind() == Kind::Other {
        return next!(pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int);
    }
    this.acquire(libc::EBUSY, |raw| if raw.try_lock() { Ok(()) } else { Err(libc::EBUSY) })
}

/// See `pthread_mutex_timedlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, end: *const timespec) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Mutex::of(mutex) };
    if this.kind() == Kind::Other {
        return lock_next!(pthread_mutex_timedlock(
            mutex: *mut pthread_mutex_t,
            end: *const timespec
        ) -> c_int);
    }
    this.acquire_until(libc::CLOCK_REALTIME, end)
}

/// See `pthread_mutex_clocklock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    end: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Mutex::of(mutex) };
    if this.kind() == Kind::Other {
        return lock_next!(pthread_mutex_clocklock(
            mutex: *mut pthread_mutex_t,
            clock: clockid_t,
            end: *const timespec
        ) -> c_int);
    }
    this.acquire_until(clock, end)
}

/// See `pthread_mutex_unlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Mutex::of(mutex) };
    let kind = this.kind();
    if kind == Kind::Other {
        return next!(pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int);
    }
    if kind != Kind::Normal {
        if !this.is_own() {
            return libc::EPERM;
        }
        let count = this.count.get() - 1;
        this.count.set(count);
        if count > 0 {
            return 0;
        }
        this.set_owner(0);
    } else if !this.raw().is_locked() {
        // A mistake of the program, which the C library's function does not notice.
        return 0;
    }
    // SAFETY: it is locked: by the caller's promise, or by the running thread.
    unsafe { this.raw().unlock() };
    0
}

/// See `pthread_mutex_destroy(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Mutex::of(mutex) };
    if this.kind() != Kind::Other && this.raw().is_locked() {
        return libc::EBUSY;
    }
    next!(pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int)
}

/// See `pthread_mutex_getprioceiling(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_getprioceiling(mutex: *const pthread_mutex_t, to: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Mutex::of(mutex.cast_mut()) };
    if this.kind() == Kind::Other || this.kind & PROTECTS == 0 {
        return next!(pthread_mutex_getprioceiling(mutex: *const pthread_mutex_t, to: *mut c_int) -> c_int);
    }
    // SAFETY: the caller's place.
    unsafe { to.write(this.ceiling.get()) };
    0
}

/// See `pthread_mutex_setprioceiling(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_setprioceiling(
    mutex: *mut pthread_mutex_t,
    ceiling: c_int,
    old: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Mutex::of(mutex) };
    if this.kind() == Kind::Other || this.kind & PROTECTS == 0 {
        return next!(
            pthread_mutex_setprioceiling(
                mutex: *mut pthread_mutex_t, ceiling: c_int, old: *mut c_int
            ) -> c_int
        );
    }
    // SAFETY: no memory is involved.
    let least = unsafe { libc::sched_get_priority_min(libc::SCHED_FIFO) };
    // SAFETY: as above.
    let most = unsafe { libc::sched_get_priority_max(libc::SCHED_FIFO) };
    if !(least..=most).contains(&ceiling) {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promise.
    let code = unsafe { pthread_mutex_lock(mutex) };
    if code != 0 {
        return code;
    }
    let before = this.ceiling.replace(ceiling);
    if !old.is_null() {
        // SAFETY: the caller's place.
        unsafe { old.write(before) };
    }
    // SAFETY: locked above.
    unsafe { pthread_mutex_unlock(mutex) }
}
