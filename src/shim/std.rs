//! The shim over std: re-exports and zero-cost wrappers.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

#[cfg(not(test))]
pub(crate) use crate::sys::futex;
pub(crate) use crate::sys::kthread::KernelThread;
pub(crate) use crate::sys::moment::Moment;
pub(crate) use crate::sys::once::OnceLock;
#[cfg(unix)]
pub(crate) use crate::sys::process;
pub(crate) use crate::sys::{cpu, fork, poll_set, thread_end};
#[cfg(test)]
pub(crate) use atomic::{futex, record};
#[cfg(not(test))]
pub(crate) use std::sync::atomic;

/// See its header.
#[cfg(test)]
#[path = "counted.rs"]
pub(crate) mod atomic;

/// An `UnsafeCell` with loom's access protocol: one closure for each access, so that loom can see
/// conflicting ones.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A number of one thread. A signal handler on that thread may read it between any two instructions.
#[derive(Debug)]
pub(crate) struct SignalCell(atomic::AtomicU32);

impl SignalCell {
    pub(crate) const fn new(value: u32) -> Self {
        Self(atomic::AtomicU32::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        // Relaxed: it belongs to one thread.
        self.0.load(atomic::Ordering::Relaxed)
    }

    /// Stores `value`. When the handler sees the value, everything that the program does before this call
    /// has been done, and nothing that comes after it.
    #[inline(always)]
    pub(crate) fn set(&self, value: u32) {
        // The processor keeps the order of one thread; the compiler must be told.
        atomic::compiler_fence(atomic::Ordering::SeqCst);
        // Relaxed: as in `get`.
        self.0.store(value, atomic::Ordering::Relaxed);
        atomic::compiler_fence(atomic::Ordering::SeqCst);
    }
}

/// Keeps the compiler from moving stores across it. A fork copies what a thread has done in program order.
#[inline(always)]
pub(crate) fn in_program_order() {
    atomic::compiler_fence(atomic::Ordering::SeqCst);
}

/// Orders what the thread has stored before its last read-modify-write with what it loads from now on, as a
/// fence does. Between those stores and that read-modify-write, the code is [`in_program_order`].
#[inline(always)]
pub(crate) fn fence_behind_swap() {
    if cfg!(target_arch = "x86_64") {
        // The read-modify-write is a full fence there. The compiler must be told.
        atomic::compiler_fence(atomic::Ordering::SeqCst);
    } else {
        atomic::fence(atomic::Ordering::SeqCst);
    }
}

/// Tells the processor (or the model) that this is a spin loop.
#[inline(always)]
pub(crate) fn spin_hint() {
    std::hint::spin_loop();
}

/// Stores a value while others may do read-modify-writes. (Loom needs to be told; see `loom.rs`.)
macro_rules! store_among_swaps {
    ($word:expr, $value:expr, $order:expr) => {
        $word.store($value, $order)
    };
}
pub(crate) use store_among_swaps;

pub(crate) use crate::arch::fetch_to_write;

/// Lets the kernel run another kernel thread on this CPU.
pub(crate) fn yield_cpu() {
    std::thread::yield_now();
}

/// Returns `None`: the other threads of a CPU are measured (`park::turns`).
#[inline(always)]
pub(crate) fn assumed_crowd() -> Option<bool> {
    None
}

/// Reads the monotonic clock.
#[inline]
pub(crate) fn now() -> Moment {
    Moment::now()
}

pub(crate) use crate::sys::nap::nap;

/// The wait queue table has two to the power of this many buckets.
pub(crate) const BUCKET_BITS: u32 = 12;

/// Returns a hash of `key`; its low bits count. The four addresses of a word have the same hash
/// (`park::word_queues`).
///
/// Objects of a program lie at regular distances. With this multiplier (Steele and Vigna, 2021) and these
/// bits of the product, a thousand of them have 979 buckets of 4,096 at least. That holds for distances of 4
/// bytes to a megabyte. With the golden ratio and the high bits they had 658.
#[inline(always)]
pub(crate) fn hash_of(key: usize) -> usize {
    (((key & !3) as u64).wrapping_mul(0xAF25_1AF3_B0F0_25B5) >> 40) as usize
}

/// Returns the bucket of `key`.
#[inline(always)]
pub(crate) fn bucket_of(key: usize) -> usize {
    hash_of(key) & ((1 << BUCKET_BITS) - 1)
}

/// Declares statics. Each has one value for each test or program, and under loom one for each execution of
/// a model.
macro_rules! global {
    ($($(#[$meta:meta])* static $name:ident: $ty:ty = $value:expr;)+) => {
        $($(#[$meta])* static $name: $ty = $value;)+
    };
}
pub(crate) use global;

/// `std::thread_local!` with a constant start. Loom has no constants.
macro_rules! local {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $value:expr;) => {
        std::thread_local! { $(#[$meta])* $vis static $name: $ty = const { $value }; }
    };
}
pub(crate) use local;

/// The hint of a thread that has not been met, until it first acquires a lock (`observe::lock_owners`).
pub(crate) const STRANGER: u16 = u16::MAX;

/// See [`FULL_LOOKS`](crate::park::spin::FULL_LOOKS). A model needs one look to see every order.
pub(crate) const MANY_LOOKS: u16 = 300;
/// See [`GREEN_LOOKS`](crate::park::spin::GREEN_LOOKS).
pub(crate) const FEW_LOOKS: u16 = 40;
/// See `park::pending::taking`.
pub(crate) const LOOKS_AT_TAKING: u16 = 1000;
/// How often a thread is looked at while an LWP may still stand on its stack (`fiber::on_cpu`).
pub(crate) const MOUNTED_LOOKS: u16 = 64;
/// While a waiter is on its way, unlocks of a mutex wake no other. After this many such unlocks, the next
/// waiter is woken all the same: some 40 us of short critical sections.
///
/// If the LWPs compute, a woken thread waits for a millisecond, and a queue of 14 was never empty. The least
/// served of 16 threads fell behind by 50 %, and by 13 % with this value. On `mxn`, 32, 100 and 250 are
/// alike, within the noise. On `onetoone`, 100 is a little better.
pub(crate) const MAX_SKIPPED_WAKES: u8 = 100;
/// PAUSE instructions between two looks of a searching LWP (`mxn::sched::policy`).
pub(crate) const SEARCH_PAUSES: u32 = 16;
/// The number of LWPs in the table of ticks (`park::owner`): as many as it needs.
pub(crate) const LWP_TABLE: usize = 1 << 11;

pub(crate) use crate::sys::affinity::available as available_cpus;

/// Returns how many CPUs this process may use. Asks the system once.
#[inline]
pub(crate) fn cpus() -> usize {
    static CPUS: atomic::AtomicUsize = atomic::AtomicUsize::new(0);
    // Relaxed: only the number matters.
    match CPUS.load(atomic::Ordering::Relaxed) {
        0 => count_cpus(&CPUS),
        n => n,
    }
}

#[cold]
fn count_cpus(cpus: &atomic::AtomicUsize) -> usize {
    let n = available_cpus();
    cpus.store(n, atomic::Ordering::Relaxed);
    n
}

/// Words in the first chunk of the keys for thread-specific data (`tsd::keys`).
pub(crate) const FIRST_KEYS: usize = 64;

/// Events in a page of a ring (`recorder::ring`). A power of two.
pub(crate) const TRACE_PAGE: usize = 64;

/// Returns this many rows of zeros. If they are many, the system gives memory only for those that are
/// written.
pub(crate) fn zeroed<const N: usize>(rows: usize) -> Box<[[atomic::AtomicU64; N]]> {
    const { assert!(N > 0) };
    assert!(rows > 0);
    let layout = Layout::array::<[atomic::AtomicU64; N]>(rows).expect("they fit into memory");
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    let rows = std::ptr::slice_from_raw_parts_mut(memory.cast(), rows);
    // SAFETY: allocated with the layout of these rows. Zeros are an atomic's value.
    unsafe { Box::from_raw(rows) }
}

/// Messages in a block of a channel (`channel::segments`).
pub(crate) const CHANNEL_BLOCK: usize = 64;

/// Cells of an LWP's run queue.
pub(crate) const LOCAL_QUEUE_CAPACITY: u32 = 256;

/// No gap between two looks is longer than this many pauses: 0.7 us on a processor with a pause of 11 ns.
pub(crate) const GAP_LIMIT: u32 = 64;
