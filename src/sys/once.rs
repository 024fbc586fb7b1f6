//! Values that the first thread to need them makes, and locks. All threads of a process share them, and they
//! work in the child of a fork.
//!
//! **Problem.** A fork may come while a thread makes such a value or holds such a lock. The child does not
//! have that thread. With std's types, any thread of the child that needs the value or the lock would wait
//! forever.
//!
//! **Rejected.**
//!
//! - Handlers that free all locks in the child. They would have to know each place, and what a lock protects
//!   may be half changed.
//! - Taking all locks before each fork. The start of a runtime takes milliseconds.
//!
//! **Protocol.** The word says which *process* makes the value or holds the lock: it has the process's number
//! and the count of forks. If a thread finds another process there, the maker or holder is gone, and the
//! thread takes its place by compare-and-swap. A value that was half made is overwritten, and never dropped.
//! For a lock, the caller says how to make its contents good.
//!
//! A thread waits by sleeping a little. That happens at the start of a program, if ever.

use std::cell::UnsafeCell;
use std::convert::Infallible;
use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::fork::Generation;

/// The lock is free; the value has not been made.
const FREE: u64 = 0;
/// The value has been made.
const DONE: u64 = u64::MAX;

/// Returns this process as it stands in a word: neither `FREE` nor `DONE`.
fn this_process() -> u64 {
    // Both are needed: forks are counted only once a runtime has asked for that, and process numbers are
    // reused.
    Generation::now().number() << 32 | u64::from(std::process::id())
}

/// Waits until `step` returns `Some`, by sleeping a little.
pub(super) fn wait_for<R>(mut step: impl FnMut() -> Option<R>) -> R {
    const YIELDS: u32 = 10;
    let mut attempt = 0_u32;
    loop {
        if let Some(result) = step() {
            return result;
        }
        attempt = attempt.saturating_add(1);
        if attempt <= YIELDS {
            std::thread::yield_now();
        } else {
            sleep(Duration::from_micros(50));
        }
    }
}

/// Sleeps. The C library's functions that do so would end a thread that was asked to end (`pthread_cancel`):
/// in the middle of what it makes, or with a lock.
fn sleep(time: Duration) {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    {
        let time = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: a time, and no place for what is left of it.
        unsafe {
            libc::syscall(libc::SYS_nanosleep, &raw const time, std::ptr::null_mut::<libc::timespec>())
        };
        // The one that is waited for may be green, and need this LWP.
        std::thread::yield_now();
    }
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    std::thread::sleep(time);
}

/// Takes the word if it is `FREE` or another process's; otherwise waits. Returns what was there before.
/// `None`: it is `DONE`.
fn take(word: &AtomicU64) -> Option<u64> {
    let me = this_process();
    wait_for(|| {
        let seen = word.load(Ordering::Relaxed);
        if seen == DONE {
            return Some(None);
        }
        // Acquire: pairs with the release of the last holder, if that was of this process. After a fork, what
        // another process did has been copied.
        let taken =
            seen != me && word.compare_exchange(seen, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken.then_some(Some(seen))
    })
}

/// As [`std::sync::OnceLock`], but it works in a child that was forked while the value was made.
pub(crate) struct OnceLock<T> {
    word: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: one thread writes the value, once, and from then on it is shared.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU64::new(FREE), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Returns the value, if it has been made.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the release of `make`.
        if self.word.load(Ordering::Acquire) != DONE {
            return None;
        }
        // SAFETY: the value does not change any more.
        let value = unsafe { &*self.value.get() };
        // SAFETY: the value was written before the word.
        Some(unsafe { value.assume_init_ref() })
    }

    /// Returns the value without a look at the word.
    ///
    /// # Safety
    /// The value has been made, and the calling thread knows that from another one that has seen it, or has
    /// seen it itself.
    #[inline]
    pub(crate) unsafe fn get_unchecked(&self) -> &T {
        debug_assert!(self.get().is_some(), "the value has not been made");
        // SAFETY: the value does not change any more.
        let value = unsafe { &*self.value.get() };
        // SAFETY: the caller's promise.
        unsafe { value.assume_init_ref() }
    }

    /// Returns the value. If it has not been made, `make` makes it.
    #[inline]
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.get_or_try_init(|| Ok::<_, Infallible>(make())) {
            Ok(value) => value,
        }
    }

    /// Returns the value. If it has not been made, `make` makes it.
    ///
    /// # Errors
    /// That of `make`. Then the next thread that needs the value makes it.
    #[inline]
    pub(crate) fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.make(make),
        }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// If there is a value already, returns `value`.
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("it is called once"));
        value.map_or(Ok(()), Err)
    }

    #[cold]
    fn make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if take(&self.word).is_some() {
            let free = Free(&self.word);
            let value = make()?;
            mem::forget(free);
            // SAFETY: the word says that this process makes the value, and within the process only this
            // thread does.
            unsafe { self.value.get().write(MaybeUninit::new(value)) };
            // Release: pairs with `get`.
            self.word.store(DONE, Ordering::Release);
        }
        Ok(self.get().expect("it has been made"))
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        if *self.word.get_mut() == DONE {
            // SAFETY: the value was written before the word, and is not used again.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

/// Frees a word when dropped, even by unwinding.
struct Free<'a>(&'a AtomicU64);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        // Release: pairs with `take`.
        self.0.store(FREE, Ordering::Release);
    }
}

/// As [`std::sync::Mutex`] without poison, but it works in a child that was forked while it was locked.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    word: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time reaches the value.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// Access to what a [`Mutex`] protects.
pub(crate) struct Guard<'a, T> {
    value: &'a UnsafeCell<T>,
    _free: Free<'a>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { word: AtomicU64::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Acquires the lock. If a fork has left it locked, `renew` makes the value good: the lost owner may have
    /// been anywhere.
    pub(crate) fn lock(&self, renew: impl FnOnce(&mut T)) -> Guard<'_, T> {
        let before = take(&self.word).expect("a lock is never done");
        let mut guard = Guard { value: &self.value, _free: Free(&self.word) };
        if before != FREE {
            renew(&mut guard);
        }
        guard
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held for as long as the guard is borrowed.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, there is one guard, and it is borrowed exclusively.
        unsafe { &mut *self.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_first_value_stays() {
        let place = OnceLock::new();
        assert_eq!(place.get(), None);
        assert!(catch_unwind(AssertUnwindSafe(|| place.get_or_init(|| panic!("on purpose")))).is_err());
        assert_eq!(*place.get_or_init(|| 1), 1);
        assert_eq!(*place.get_or_init(|| 2), 1);
        assert_eq!(place.set(3), Err(3));
    }

    /// The C library ended it in `nanosleep`, perhaps with a lock of this crate.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_was_asked_to_end_waits_on() {
        use std::ffi::{c_int, c_void};
        use std::ptr;

        /// `PTHREAD_CANCEL_DISABLE`.
        const DISABLE: c_int = 1;

        unsafe extern "C" {
            fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
        }

        extern "C" fn waits(value: *mut c_void) -> *mut c_void {
            // SAFETY: no arguments.
            let own = unsafe { libc::pthread_self() };
            // SAFETY: the running thread. It is no cancellation point.
            unsafe { libc::pthread_cancel(own) };
            let mut attempts = 0;
            wait_for(|| {
                attempts += 1;
                (attempts > 20).then_some(())
            });
            // SAFETY: no place for the old state.
            unsafe { pthread_setcancelstate(DISABLE, ptr::null_mut()) };
            value
        }

        let mut thread = MaybeUninit::uninit();
        let mut found: *mut c_void = ptr::null_mut();
        let value = (&raw mut found).cast();
        // SAFETY: places, no attributes, and a function that takes any value.
        assert_eq!(unsafe { libc::pthread_create(thread.as_mut_ptr(), ptr::null(), waits, value) }, 0);
        // SAFETY: written by the call that has succeeded.
        let thread = unsafe { thread.assume_init() };
        // SAFETY: neither joined nor detached, and a place for its value.
        assert_eq!(unsafe { libc::pthread_join(thread, &raw mut found) }, 0);
        assert_eq!(found, value);
    }

    #[test]
    fn the_value_goes_with_its_place() {
        let value = std::sync::Arc::new(());
        let place = OnceLock::new();
        assert!(place.set(value.clone()).is_ok());
        assert_eq!(std::sync::Arc::strong_count(&value), 2);
        drop(place);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
        drop(OnceLock::<Box<u8>>::new());
    }

    #[test]
    fn one_of_many_makes_the_value() {
        let (place, made) = (OnceLock::new(), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| place.get_or_init(|| made.fetch_add(1, Ordering::Relaxed)));
            }
        });
        assert_eq!((place.get(), made.into_inner()), (Some(&0), 1));
    }

    #[test]
    fn one_at_a_time_has_the_lock() {
        let lock = Mutex::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|_| *lock.lock(|_| unreachable!("no fork")) += 1));
            }
        });
        assert_eq!(*lock.lock(|_| ()), 4000);
    }

    /// Forks while another thread makes the value, or holds the lock. `f` runs in the child.
    #[cfg(unix)]
    fn fork_amid(holds: impl FnOnce(&mut dyn FnMut()) + Send, f: impl FnOnce() -> bool) {
        use std::sync::mpsc;
        let (tell, told) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        std::thread::scope(|s| {
            s.spawn(move || {
                holds(&mut || {
                    tell.send(()).unwrap();
                    let _ = wait.recv();
                });
            });
            told.recv().unwrap();
            // SAFETY: the child looks at a value and leaves.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: no preconditions. Ends a child that hangs.
                unsafe { libc::alarm(20) };
                let code = i32::from(!f());
                // SAFETY: no preconditions.
                unsafe { libc::_exit(code) };
            }
            drop(go_on);
            let mut status = -1;
            // SAFETY: a child of this process, and a local variable for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        });
    }

    #[cfg(unix)]
    #[test]
    fn a_child_makes_what_its_parent_was_making() {
        let place = OnceLock::new();
        let make = |pause: &mut dyn FnMut()| {
            place.get_or_init(|| {
                pause();
                1
            });
        };
        fork_amid(make, || *place.get_or_init(|| 2) == 2 && place.get() == Some(&2));
        assert_eq!(place.get(), Some(&1), "the parent's own");
    }

    #[cfg(unix)]
    #[test]
    fn a_child_gets_the_lock_that_its_parent_holds() {
        let lock = Mutex::new(1);
        let hold = |pause: &mut dyn FnMut()| {
            let _guard = lock.lock(|_| ());
            pause();
        };
        fork_amid(hold, || {
            let first = *lock.lock(|value| *value = 7);
            first == 7 && *lock.lock(|value| *value = 8) == 7
        });
        assert_eq!(*lock.lock(|value| *value = 9), 1, "the parent's own");
    }
}
