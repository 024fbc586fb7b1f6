//! The shim over loom: the same names as `std.rs`.
//!
//! What loom cannot do, and what is done about it:
//!
//! - Its atomics and cells are objects of one execution, so they cannot be constants. Here they are created
//!   at their first use. That leaves `const fn new` as it is, and `lock_api` usable. All later uses must
//!   come after the first. So what threads share is created by `from` or `default`, or is used once before
//!   they start.
//! - It knows no time. A deadline has passed once the model's clock has struck ([`strike`]), which a racing
//!   thread of the model does. The clock that programs read advances by a millisecond with each reading.
//! - It has no futex. [`futex`] is one, after the kernel's contract.
//! - Its `SeqCst` accesses are only acquire and release. Fences are what they should be.
//! - It does not know that nothing comes between the two halves of a read-modify-write. It may put a plain
//!   store there, and lose it. Here [`store_among_swaps`] is a swap.
//! - It tries the other order of two accesses only if the later one conflicts with the last before it. And
//!   it forgets a load by one thread once another thread has loaded, too. So one order is never tried: a
//!   thread loads and then stores before the other thread's load. Here a load also touches a second atomic,
//!   which makes loads conflict with each other.
//! - It tries every order of all accesses, so everything that is counted is small here.

use std::time::Duration;

/// Set if loads conflict with loads. Not part of the model.
static LOADS_CONFLICT: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);

/// Sets that, for models that would take too long otherwise. Called between two models.
#[cfg(test)]
pub(crate) fn let_loads_conflict(conflict: bool) {
    LOADS_CONFLICT.store(conflict, std::sync::atomic::Ordering::Relaxed);
}

/// Set if kernel threads are among many that take turns (`park::turns`). Not part of the model.
static CROWD: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Sets that. Called between two models.
#[cfg(test)]
pub(crate) fn make_a_crowd() {
    CROWD.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// Returns what models take for granted of the other threads of a CPU, which are not measured there.
pub(crate) fn assumed_crowd() -> Option<bool> {
    Some(CROWD.load(std::sync::atomic::Ordering::Relaxed))
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
                // Relaxed: it orders nothing, and only needs to be noticed.
                self.0.fetch_or(true, Ordering::Relaxed);
            }
        }
    }

    /// A loom atomic that is created at its first use.
    macro_rules! lazy_atomic {
        ($($name:ident$(<$param:ident>)?: $value:ty = $zero:expr;)*) => {$(
            pub(crate) struct $name$(<$param>)? {
                start: $value,
                cell: OnceLock<(loom::sync::atomic::$name$(<$param>)?, Loads)>,
            }

            impl$(<$param>)? $name$(<$param>)? {
                pub(crate) const fn new(start: $value) -> Self {
                    Self { start, cell: OnceLock::new() }
                }

                fn cell(&self) -> &(loom::sync::atomic::$name$(<$param>)?, Loads) {
                    self.cell.get_or_init(|| (loom::sync::atomic::$name::new(self.start), Loads::new()))
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    let (cell, loads) = self.cell();
                    loads.another();
                    cell.load(order)
                }
            }

            impl$(<$param>)? Deref for $name$(<$param>)? {
                type Target = loom::sync::atomic::$name$(<$param>)?;

                fn deref(&self) -> &Self::Target {
                    &self.cell().0
                }
            }

            impl$(<$param>)? fmt::Debug for $name$(<$param>)? {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(stringify!($name))
                }
            }

            /// Creates the atomic at once, for what threads share before its first use.
            impl$(<$param>)? From<$value> for $name$(<$param>)? {
                fn from(start: $value) -> Self {
                    let this = Self::new(start);
                    this.cell();
                    this
                }
            }

            impl$(<$param>)? Default for $name$(<$param>)? {
                fn default() -> Self {
                    Self::from($zero)
                }
            }
        )*};
    }

    lazy_atomic! {
        AtomicBool: bool = false;
        AtomicU8: u8 = 0;
        AtomicU16: u16 = 0;
        AtomicU32: u32 = 0;
        AtomicU64: u64 = 0;
        AtomicUsize: usize = 0;
        AtomicPtr<T>: *mut T = std::ptr::null_mut();
    }

    // SAFETY: an atomic pointer is shared by its nature; `start` is a constant.
    unsafe impl<T> Sync for AtomicPtr<T> {}
    // SAFETY: an atomic pointer may be used by any thread; `start` is a constant.
    unsafe impl<T> Send for AtomicPtr<T> {}
}

/// Loom's cell, which checks the order of accesses. It too is created at its first use.
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

/// Does nothing: a model runs each thread in program order.
pub(crate) fn in_program_order() {}

/// Is a fence: the model's read-modify-writes are none.
pub(crate) fn fence_behind_swap() {
    loom::sync::atomic::fence(atomic::Ordering::SeqCst);
}

/// Lets the model run another thread. A spin loop that does not yield would never end under loom.
pub(crate) fn spin_hint() {
    loom::thread::yield_now();
}

/// Stores by a swap: a store that races with read-modify-writes must take part in their order.
macro_rules! store_among_swaps {
    ($word:expr, $value:expr, $order:expr) => {
        _ = $word.swap($value, $order)
    };
}
pub(crate) use store_among_swaps;

pub(crate) use crate::arch::fetch_to_write;

/// Does the same as [`spin_hint`].
pub(crate) fn yield_cpu() {
    loom::thread::yield_now();
}

/// Does the same as [`spin_hint`].
pub(crate) fn nap(_time: Duration) {
    loom::thread::yield_now();
}

/// Reads a clock that is the same in every execution that takes the same path.
pub(crate) fn now() -> Moment {
    static ORIGIN: std::sync::OnceLock<Moment> = std::sync::OnceLock::new();
    let readings = CLOCK.readings.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    *ORIGIN.get_or_init(Moment::now) + Duration::from_millis(readings)
}

/// The model's time. It uses none of loom's state, so that a reading of the clock is no step of the model.
struct Clock {
    readings: std::sync::atomic::AtomicU64,
}

loom::lazy_static! {
    static ref CLOCK: Clock = Clock { readings: std::sync::atomic::AtomicU64::new(0) };
    static ref FUTEX: futex::Futex = futex::Futex::new();
}

/// Lets the model's clock strike: every deadline has passed.
#[cfg(test)]
pub(crate) fn strike() {
    FUTEX.strike();
}

/// A futex after the contract of `sys/futex.rs`. Comparing and falling asleep are one step with respect to a
/// wake, and a wake takes only an address.
pub(crate) mod futex {
    use loom::sync::{Condvar, Mutex};

    use super::atomic::{AtomicU32, Ordering};
    use super::{FUTEX, Moment};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[must_use]
    pub(crate) enum Waited {
        Woken,
        TimedOut,
    }

    /// All threads that sleep in the kernel.
    pub(super) struct Futex {
        kernel: Mutex<Kernel>,
        changed: Condvar,
    }

    struct Kernel {
        /// The sleepers, as (address, ticket).
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

    pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Moment>) -> Waited {
        // Relaxed: a wake that comes before has held the kernel's lock, which makes the word visible here.
        wait_while(std::ptr::from_ref(word).addr(), || word.load(Ordering::Relaxed) == expected, deadline)
    }

    /// Waits for the futex at an address, as [`wait`] does, if `is_same` returns `true`. It compares what
    /// loom has no atomic for: half of a word.
    pub(crate) fn wait_while(
        address: usize,
        is_same: impl FnOnce() -> bool,
        deadline: Option<Moment>,
    ) -> Waited {
        let mut kernel = FUTEX.kernel.lock().unwrap();
        if !is_same() {
            return Waited::Woken;
        }
        let ticket = kernel.tickets;
        kernel.tickets += 1;
        kernel.sleepers.push((address, ticket));
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
    pub(crate) const ACROSS_PROCESSES: bool = true;
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

pub(crate) mod poll_set;

/// A model is one process, and does not fork.
pub(crate) use crate::sys::kthread::KernelThread;
pub(crate) use crate::sys::moment::Moment;
pub(crate) use crate::sys::{fork, process};

/// A model's threads end with their thread-locals.
pub(crate) mod thread_end {
    pub(crate) fn call_last(_: fn(*const ()), _: *const (), _: bool) -> bool {
        false
    }
}

/// The CPU on which a model runs is not known.
pub(crate) mod cpu {
    pub(crate) fn current() -> u32 {
        0
    }

    pub(crate) fn quick() -> Option<u32> {
        None
    }

    pub(crate) type Word = std::sync::atomic::AtomicU32;

    pub(crate) fn word() -> Option<std::ptr::NonNull<Word>> {
        None
    }
}

/// Two buckets: enough for a move between two.
pub(crate) const BUCKET_BITS: u32 = 1;

/// Returns a hash by the place inside a model's structure. Its lowest bit, which gives the bucket, is the
/// same in every execution.
pub(crate) fn hash_of(key: usize) -> usize {
    key >> MODEL_STRIDE.trailing_zeros()
}

pub(crate) fn bucket_of(key: usize) -> usize {
    hash_of(key) & 1
}

/// Models align their shared structure to twice this. If keys are to share a bucket, models put them less
/// than this apart.
pub(crate) const MODEL_STRIDE: usize = 1024;

/// Nothing is recorded of threads that have not been met: it would be one more step in each model.
pub(crate) const STRANGER: u16 = 0;

/// A spin with one look sees all that a spin with many looks would see.
pub(crate) const MANY_LOOKS: u16 = 1;
/// One look is enough, as for `MANY_LOOKS`.
pub(crate) const FEW_LOOKS: u16 = 1;
/// One look is enough, as for `MANY_LOOKS`.
pub(crate) const LOOKS_AT_TAKING: u16 = 1;
/// One look is enough, as for `MANY_LOOKS`.
pub(crate) const MOUNTED_LOOKS: u16 = 1;
/// One unlock passes a waiter that is on its way, and the next wakes another.
pub(crate) const MAX_SKIPPED_WAKES: u8 = 1;
/// See `std.rs`.
pub(crate) const SEARCH_PAUSES: u32 = 1;
/// See `std.rs`.
pub(crate) const LWP_TABLE: usize = 8;

pub(crate) use crate::sys::affinity::available as available_cpus;
pub(crate) use crate::sys::once::OnceLock;

/// Returns 2: enough for spinning to be tried.
pub(crate) fn cpus() -> usize {
    2
}

/// Two chunks are enough for a race.
pub(crate) const FIRST_KEYS: usize = 1;

/// Pages of one event: every event begins one.
pub(crate) const TRACE_PAGE: usize = 1;

/// Returns this many rows of zeros.
pub(crate) fn zeroed<const N: usize>(rows: usize) -> Box<[[atomic::AtomicU64; N]]> {
    (0..rows).map(|_| std::array::from_fn(|_| Default::default())).collect()
}

/// Small, so that two messages fill one block.
pub(crate) const CHANNEL_BLOCK: usize = 2;

/// Cells of an LWP's run queue, small so that the model meets full rings and wrap-around.
pub(crate) const LOCAL_QUEUE_CAPACITY: u32 = 4;

/// There are no signals in a model.
pub(crate) type SignalCell = std::cell::Cell<u32>;

/// Declares statics with one value for each execution of a model.
macro_rules! global {
    ($($(#[$meta:meta])* static $name:ident: $ty:ty = $value:expr;)+) => {
        loom::lazy_static! { $($(#[$meta])* static ref $name: $ty = $value;)+ }
    };
}
pub(crate) use global;

/// Declares a thread-local with one value for each thread of each execution.
macro_rules! local {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $value:expr;) => {
        loom::thread_local! { $(#[$meta])* $vis static $name: $ty = $value; }
    };
}
pub(crate) use local;

/// One yield between two looks is as good as many.
pub(crate) const GAP_LIMIT: u32 = 1;

/// Calls `f`. In a model, no accesses are recorded.
#[cfg(test)]
pub(crate) fn record(f: impl FnOnce()) -> Vec<(usize, bool)> {
    f();
    Vec::new()
}
