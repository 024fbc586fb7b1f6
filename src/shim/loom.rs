//! The shim over loom: the same names as `std.rs`.
//!
//! What loom cannot do, and what is done about it:
//!
//! - Its atomics and cells are objects of one execution, and so cannot be constants. Here they come into being at their
//!   first use, which leaves `const fn new` as it is, and `lock_api` usable. All later uses must come after the first,
//!   so what threads meet at is made by `from` or `default`, or looked at before they start.
//! - It knows no time. A deadline has passed once the model's clock has struck ([`strike`]), which a racing thread
//!   of the model does; the clock that programs read goes on by a millisecond with each reading.
//! - It has no futex: [`futex`] is one, after the kernel's contract.
//! - Its `SeqCst` accesses are only acquire and release; fences are what they should be.
//! - It does not know that nothing comes between the two halves of a read-modify-write: it may put a plain store there, and
//!   lose it. [`store_among_swaps`] is a swap here.
//! - It tries the other order of two accesses only where the later one conflicts with the last before it; and it forgets a
//!   load by one thread once another has loaded too. So a thread that loads and then stores was never tried before the other
//!   one's load. Here a load also touches a second atomic, which makes loads conflict with each other.
//! - It tries every order of all accesses, so everything that is counted is small here.

use std::time::{Duration, Instant};

/// Whether loads conflict with loads; no part of the model.
static LOADS_CONFLICT: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);

/// For models that would take too long otherwise. Called between two models.
#[cfg(test)]
pub(crate) fn let_loads_conflict(conflict: bool) {
    LOADS_CONFLICT.store(conflict, std::sync::atomic::Ordering::Relaxed);
}

/// The names of `std::sync::atomic`, over loom.
pub(crate) mod atomic {
    use std::fmt;
    use std::ops::Deref;
    use std::sync::OnceLock;

    pub(crate) use loom::sync::atomic::{Ordering, fence};

    /// What makes the loads of an atomic conflict with each other.
    struct Loads(loom::sync::atomic::AtomicBool);

    impl Loads {
        fn new() -> Self {
            Self(loom::sync::atomic::AtomicBool::new(true))
        }

        fn another(&self) {
            if super::LOADS_CONFLICT.load(std::sync::atomic::Ordering::Relaxed) {
                // Relaxed: it orders nothing, and is only to be noticed.
                self.0.fetch_or(true, Ordering::Relaxed);
            }
        }
    }

    /// A loom atomic that comes into being at its first use.
    macro_rules! lazy_atomic {
        ($($name:ident: $value:ty),* $(,)?) => {$(
            pub(crate) struct $name {
                start: $value,
                cell: OnceLock<(loom::sync::atomic::$name, Loads)>,
            }

            impl $name {
                pub(crate) const fn new(start: $value) -> Self {
                    Self { start, cell: OnceLock::new() }
                }

                fn cell(&self) -> &(loom::sync::atomic::$name, Loads) {
                    self.cell.get_or_init(|| (loom::sync::atomic::$name::new(self.start), Loads::new()))
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    let (cell, loads) = self.cell();
                    loads.another();
                    cell.load(order)
                }
            }

            impl Deref for $name {
                type Target = loom::sync::atomic::$name;

                fn deref(&self) -> &Self::Target {
                    &self.cell().0
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(stringify!($name))
                }
            }

            /// Comes into being at once: for what threads share before anybody has used it.
            impl From<$value> for $name {
                fn from(start: $value) -> Self {
                    let this = Self::new(start);
                    let _: &loom::sync::atomic::$name = &this;
                    this
                }
            }

            impl Default for $name {
                fn default() -> Self {
                    Self::from(<$value>::default())
                }
            }
        )*};
    }

    lazy_atomic! {
        AtomicBool: bool, AtomicU8: u8, AtomicU16: u16, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize,
    }

    /// As the others; a pointer is not `Send` by itself.
    pub(crate) struct AtomicPtr<T> {
        start: *mut T,
        cell: OnceLock<(loom::sync::atomic::AtomicPtr<T>, Loads)>,
    }

    // SAFETY: an atomic pointer is shared by its nature; `start` is a constant.
    unsafe impl<T> Sync for AtomicPtr<T> {}
    // SAFETY: as above.
    unsafe impl<T> Send for AtomicPtr<T> {}

    impl<T> AtomicPtr<T> {
        pub(crate) const fn new(start: *mut T) -> Self {
            Self { start, cell: OnceLock::new() }
        }

        fn cell(&self) -> &(loom::sync::atomic::AtomicPtr<T>, Loads) {
            self.cell.get_or_init(|| (loom::sync::atomic::AtomicPtr::new(self.start), Loads::new()))
        }

        pub(crate) fn load(&self, order: Ordering) -> *mut T {
            let (cell, loads) = self.cell();
            loads.another();
            cell.load(order)
        }
    }

    impl<T> Default for AtomicPtr<T> {
        fn default() -> Self {
            Self::new(std::ptr::null_mut())
        }
    }

    impl<T> Deref for AtomicPtr<T> {
        type Target = loom::sync::atomic::AtomicPtr<T>;

        fn deref(&self) -> &Self::Target {
            &self.cell().0
        }
    }

    impl<T> fmt::Debug for AtomicPtr<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("AtomicPtr")
        }
    }
}

/// Loom's cell, whose accesses are checked for order; it too comes into being at its first use.
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T> {
    value: std::cell::UnsafeCell<T>,
    accesses: std::sync::OnceLock<loom::cell::UnsafeCell<()>>,
}

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { value: std::cell::UnsafeCell::new(value), accesses: std::sync::OnceLock::new() }
    }

    fn accesses(&self) -> &loom::cell::UnsafeCell<()> {
        self.accesses.get_or_init(|| loom::cell::UnsafeCell::new(()))
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.accesses().with(|_| f(self.value.get()))
    }

    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.accesses().with_mut(|_| f(self.value.get()))
    }
}

/// Nothing: a model runs each thread in program order.
pub(crate) fn in_program_order() {}

/// Lets the model run another thread: a spin loop that does not yield would never end under loom.
pub(crate) fn spin_hint() {
    loom::thread::yield_now();
}

/// A store that races with read-modify-writes takes part in their order.
pub(crate) fn store_among_swaps(word: &atomic::AtomicU8, value: u8, order: atomic::Ordering) {
    word.swap(value, order);
}

/// As [`store_among_swaps`].
pub(crate) fn store_pointer_among_swaps<T>(
    word: &atomic::AtomicPtr<T>,
    value: *mut T,
    order: atomic::Ordering,
) {
    word.swap(value, order);
}

/// As [`store_among_swaps`].
pub(crate) fn store_ticket_among_swaps(word: &atomic::AtomicUsize, value: usize, order: atomic::Ordering) {
    word.swap(value, order);
}

/// A model has no caches.
pub(crate) fn fetch_to_write(_at: *const u8) {}

/// As [`spin_hint`].
pub(crate) fn yield_cpu() {
    loom::thread::yield_now();
}

/// As [`spin_hint`].
pub(crate) fn nap(_time: Duration) {
    loom::thread::yield_now();
}

/// A clock that is the same in every execution that takes the same way.
pub(crate) fn now() -> Instant {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let readings = CLOCK.readings.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    *ORIGIN.get_or_init(Instant::now) + Duration::from_millis(readings)
}

/// The model's time: loom's own state is no part of it, so that reading the clock is no step of the model.
struct Clock {
    readings: std::sync::atomic::AtomicU64,
}

loom::lazy_static! {
    static ref CLOCK: Clock = Clock { readings: std::sync::atomic::AtomicU64::new(0) };
    static ref FUTEX: futex::Futex = futex::Futex::new();
}

/// The model's clock strikes: every deadline has passed.
#[cfg(test)]
pub(crate) fn strike() {
    FUTEX.strike();
}

/// A futex after the contract of `sys/futex.rs`: comparing and falling asleep are one step with respect to a wake, and a
/// wake takes an address only.
pub(crate) mod futex {
    use std::time::Instant;

    use loom::sync::{Condvar, Mutex};

    use super::FUTEX;
    use super::atomic::{AtomicU32, Ordering};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[must_use]
    pub(crate) enum Waited {
        Woken,
        TimedOut,
    }

    /// Everybody who sleeps in the kernel.
    pub(super) struct Futex {
        kernel: Mutex<Kernel>,
        changed: Condvar,
    }

    struct Kernel {
        /// Who sleeps, as (address, ticket).
        sleepers: Vec<(usize, u32)>,
        tickets: u32,
        struck: bool,
    }

    impl Futex {
        pub(super) fn new() -> Self {
            let kernel = Kernel { sleepers: Vec::new(), tickets: 0, struck: false };
            Self { kernel: Mutex::new(kernel), changed: Condvar::new() }
        }

        #[cfg(test)]
        pub(super) fn strike(&self) {
            self.kernel.lock().unwrap().struck = true;
            self.changed.notify_all();
        }
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> Waited {
        let mut kernel = FUTEX.kernel.lock().unwrap();
        // Relaxed: a wake that comes before has held the kernel's lock, which shows us the word.
        if word.load(Ordering::Relaxed) != expected {
            return Waited::Woken;
        }
        let ticket = kernel.tickets;
        kernel.tickets += 1;
        kernel.sleepers.push((std::ptr::from_ref(word).addr(), ticket));
        loop {
            let me = kernel.sleepers.iter().position(|&(_, sleeper)| sleeper == ticket);
            match me {
                None => return Waited::Woken,
                Some(me) if deadline.is_some() && kernel.struck => {
                    kernel.sleepers.swap_remove(me);
                    return Waited::TimedOut;
                }
                Some(_) => kernel = FUTEX.changed.wait(kernel).unwrap(),
            }
        }
    }

    /// A model is one process.
    pub(crate) use {wait as wait_shared, wake as wake_shared};

    pub(crate) fn wake(word: *const AtomicU32, n: u32) -> usize {
        let mut kernel = FUTEX.kernel.lock().unwrap();
        let before = kernel.sleepers.len();
        let mut left = n;
        kernel.sleepers.retain(|&(address, _)| {
            let wakes = left > 0 && address == word.addr();
            left -= u32::from(wakes);
            !wakes
        });
        let woken = before - kernel.sleepers.len();
        drop(kernel);
        if woken > 0 {
            FUTEX.changed.notify_all();
        }
        woken
    }
}

/// A model is one process, and does not fork.
pub(crate) use crate::sys::kthread::KernelThread;
pub(crate) use crate::sys::{fork, process, thread_end};

/// Nobody can say where a model runs.
pub(crate) mod cpu {
    pub(crate) fn current() -> u32 {
        0
    }

    pub(crate) type Word = std::sync::atomic::AtomicU32;

    pub(crate) fn word() -> Option<std::ptr::NonNull<Word>> {
        None
    }
}

/// Two buckets: enough for a move between two.
pub(crate) const BUCKET_BITS: u32 = 1;

/// By a bit that depends on the place inside a model's structure only: the same in every execution.
pub(crate) fn bucket_of(key: usize) -> usize {
    key >> MODEL_STRIDE.trailing_zeros() & 1
}

/// Models align their shared structure to twice this, and put keys that are to share a bucket less than this apart.
pub(crate) const MODEL_STRIDE: usize = 1024;

/// Nothing is recorded of strangers: it would be one more step in each model.
pub(crate) const STRANGER: u16 = 0;

/// A spin that looks once sees all that one that looks often would see.
pub(crate) const MANY_LOOKS: u16 = 1;
/// As above.
pub(crate) const FEW_LOOKS: u16 = 1;
/// As above.
pub(crate) const MOUNTED_LOOKS: u16 = 1;
/// One unlock passes a waiter that is on its way, the next wakes another.
pub(crate) const LATE: u8 = 1;
/// Each look at the clock takes a millisecond.
pub(crate) const OFTEN: Duration = Duration::from_secs(1);
/// As in `std.rs`.
pub(crate) const SEARCH_PAUSES: u32 = 1;
/// As above.
pub(crate) const LWP_TABLE: usize = 8;

pub(crate) use crate::sys::affinity::available as available_cpus;
pub(crate) use crate::sys::once::OnceLock;

/// Enough for spinning to be tried.
pub(crate) fn cpus() -> usize {
    2
}

/// Two chunks are enough for a race.
pub(crate) const FIRST_KEYS: usize = 1;

/// So that two messages end one.
pub(crate) const CHANNEL_BLOCK: usize = 2;

/// Cells of an LWP's run queue, small so that the model meets full rings and wrap-around.
pub(crate) const LOCAL_QUEUE_CAPACITY: u32 = 4;

/// There are no signals in a model.
pub(crate) type SignalCell = std::cell::Cell<u32>;

/// A value for each execution of a model.
macro_rules! global {
    ($(#[$meta:meta])* static $name:ident: $ty:ty = $value:expr;) => {
        loom::lazy_static! { $(#[$meta])* static ref $name: $ty = $value; }
    };
}
pub(crate) use global;

/// A value for each thread of each execution.
macro_rules! local {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $value:expr;) => {
        loom::thread_local! { $(#[$meta])* $vis static $name: $ty = $value; }
    };
}
pub(crate) use local;

/// See `std.rs`; here too a constant, since everything comes into being later.
macro_rules! const_new {
    ($(#[$meta:meta])* $vis:vis const fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        $(#[$meta])* $vis const fn $name($($arg: $ty),*) -> $ret $body
    };
}
pub(crate) use const_new;

/// One yield between two looks is as good as many.
pub(crate) const GAP_LIMIT: u32 = 1;
