//! Where the owner of a lock runs: 16 bits in the lock, and the table that makes them readable.
//!
//! **Problem.** To spin for a lock pays only while the lock's owner runs on another CPU. If the owner waits
//! for the very CPU that the spinner burns, it is ruinous. The spinner must learn that from the lock. It
//! must not touch the owner, which may have ended long ago.
//!
//! **Rejected.** The owner's address in the lock: eight bytes. A thread number and a table of threads: one
//! more dependent load, and as many entries as threads. The `running` flag of the thread: a store at every
//! switch.
//!
//! **Protocol.** The owner stores its hint by a plain store after the acquire, which orders nothing. If a
//! spinner reads a stale hint, it wastes a spin or misses one, within the spin bound.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | not known |
//! | 15 set, 14 clear, 0 to 13 | a kernel thread, and its CPU at the acquire; all set: an unknown CPU |
//! | 15 and 14 set | in no lock: a placeholder, which a thread has in its cache (`current::cached_hint`) |
//! | 1 | in no lock: see `lock_owners.rs` |
//! | 15 clear, 4 to 14 | a green thread; the number of its LWP, from 1 |
//! | 15 clear, 0 to 3 | of a green thread: the low bits of that LWP's dispatch tick |
//!
//! A green owner still runs if its LWP has not dispatched since, so that the tick's low bits are the same.
//! One time in 16 they are the same by chance, and a spin is wasted. A kernel owner on the spinner's own CPU
//! cannot be running.

use crate::shim::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use crate::shim::{LWP_TABLE, cpu, global};

/// A compact answer to "where does this thread run". See the table in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerHint(u16);

const KERNEL: u16 = 1 << 15;
/// With [`KERNEL`]: a placeholder. Green threads have every bit set while owners are recorded.
const PLACEHOLDER: u16 = 1 << 14;
const TICK_BITS: u32 = 4;
const TICK_MASK: u16 = (1 << TICK_BITS) - 1;

/// All LWP numbers are below this.
pub(crate) const MAX_LWPS: usize = 1 << (15 - TICK_BITS);

impl OwnerHint {
    /// Not known.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// The hint of no thread. A thread gets it in place of its own while what it acquires must be recorded
    /// (`lock_owners.rs`). It is never in a lock, so it differs from every hint there.
    pub(crate) const RECORDED: Self = Self(1);

    /// The placeholder in a kernel thread's core. Whenever the thread acquires a lock, it fills in the CPU on
    /// which it runs. The placeholder itself is never in a lock, so it differs from the hint of every CPU.
    pub(crate) const OF_KERNEL_THREAD: Self = Self(KERNEL | PLACEHOLDER);

    /// The placeholder of a thread of any kind while the locks that it acquires are recorded. It has every
    /// bit, so that an `or` turns a green thread's hint into it. Never in a lock.
    pub(crate) const RECORDING: Self = Self(u16::MAX);

    /// The hint of a kernel thread on an unknown CPU.
    pub(crate) const KERNEL_ANYWHERE: Self = Self(!PLACEHOLDER);

    /// Returns the hint of a kernel thread that runs on `cpu`.
    #[inline]
    pub(crate) fn kernel(cpu: u32) -> Self {
        Self((cpu as u16 | KERNEL) & !PLACEHOLDER)
    }

    /// Returns the hint of a green thread on the LWP of number `lwp`, which counts its dispatches in `tick`.
    #[inline]
    pub(crate) fn green(lwp: u16, tick: u32) -> Self {
        debug_assert!(lwp != 0 && usize::from(lwp) < MAX_LWPS);
        Self(lwp << TICK_BITS | (tick as u16 & TICK_MASK))
    }

    #[inline]
    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    #[inline]
    pub(crate) fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Returns `true` if a kernel thread wrote it.
    #[inline]
    pub(crate) fn is_kernel(self) -> bool {
        self.0 & KERNEL != 0
    }

    /// Returns the number of the LWP of a green thread; 0 if it is not known.
    #[inline]
    pub(crate) fn lwp(self) -> u16 {
        self.0 >> TICK_BITS
    }

    /// Returns `true` if the thread of this hint ran on another LWP than the thread of the hint `mine`.
    #[inline]
    pub(crate) fn is_on_another_lwp(self, mine: OwnerHint) -> bool {
        !self.is_kernel() && !mine.is_kernel() && self.lwp() != 0 && self.lwp() != mine.lwp()
    }

    /// Returns `true` if the owner has left its LWP, and the thread of the hint `mine` runs there now.
    #[inline]
    pub(crate) fn has_left_lwp_to(self, mine: OwnerHint) -> bool {
        !mine.is_kernel() && self.lwp() == mine.lwp() && self != mine
    }

    /// Returns `true` if the owner runs elsewhere, seen from the thread of the hint `mine`; `None` if that
    /// is not known.
    #[inline]
    pub(crate) fn runs_elsewhere(self, mine: OwnerHint) -> Option<bool> {
        if self == Self::UNKNOWN {
            return None;
        }
        if self.is_kernel() {
            let my_cpu = if mine.is_kernel() { mine } else { Self::kernel(cpu::current()) };
            return Some(self != my_cpu || self == Self::KERNEL_ANYWHERE);
        }
        if !mine.is_kernel() && self.lwp() == mine.lwp() {
            // The owner is on the caller's LWP, which runs the caller.
            return Some(false);
        }
        let tick = lwp_entry(self.lwp()).dispatches();
        Some(tick as u16 & TICK_MASK == self.0 & TICK_MASK)
    }
}

/// A word with a hint, in a lock and in each thread. All its accesses are relaxed: a reader that sees an old
/// hint guesses wrong, and loses a spin.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct OwnerWord(AtomicU16);

impl OwnerWord {
    /// Creates a word that says that the owner is not known.
    pub(crate) const fn new() -> Self {
        Self(AtomicU16::new(0))
    }

    #[inline]
    pub(crate) fn get(&self) -> OwnerHint {
        OwnerHint::from_bits(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set(&self, hint: OwnerHint) {
        self.0.store(hint.bits(), Ordering::Relaxed);
    }
}

/// What the process knows of one LWP: how often it has dispatched, and if it leaves locks to others.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct LwpEntry {
    /// See [`OwnerHint::green`].
    tick: AtomicU64,
    taken: AtomicU16,
    /// See `park/fetches.rs`. Relaxed in all accesses: the LWP comes back without a call, too.
    away: AtomicBool,
}

impl LwpEntry {
    const fn new() -> Self {
        Self { tick: AtomicU64::new(0), taken: AtomicU16::new(0), away: AtomicBool::new(false) }
    }

    /// Returns how often LWPs of this number have dispatched.
    #[inline]
    fn dispatches(&self) -> u64 {
        // Relaxed: compared, never relied on.
        self.tick.load(Ordering::Relaxed)
    }

    /// Notes that the LWP leaves locks to others, or has come back. LWP only.
    pub(super) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Calls the LWP back if it leaves locks to others. Called by a thread that waits for a lock of its own.
    #[inline]
    pub(super) fn call_back(&self) {
        // A store at each look would take the line from the LWP.
        if self.is_away() {
            self.away.store(false, Ordering::Relaxed);
        }
    }
}

/// As many LWPs as hints can tell apart; fewer in models.
const TABLE: usize = if LWP_TABLE < MAX_LWPS { LWP_TABLE } else { MAX_LWPS };

global! {
    static LWPS: [LwpEntry; TABLE] = [const { LwpEntry::new() }; TABLE];
}

/// Returns the entry of the LWP of number `lwp`.
#[inline]
pub(super) fn lwp_entry(lwp: u16) -> &'static LwpEntry {
    &LWPS[usize::from(lwp) % TABLE]
}

/// How often an LWP has dispatched, and the number by which hints name it. It lies in the table, so any
/// thread can read hints.
#[derive(Debug)]
pub(crate) struct Tick {
    number: u16,
    entry: &'static LwpEntry,
    /// Its value when it was taken: the number keeps the tick of the LWP that had it before.
    first: u64,
}

impl Tick {
    /// Takes a tick for a new LWP. Returns `None` if the process has as many LWPs as hints can tell apart.
    pub(crate) fn take() -> Option<Self> {
        let number = (1..TABLE as u16).find(|&number| {
            let taken = &lwp_entry(number).taken;
            // Relaxed: only the number matters.
            taken.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })?;
        let entry = lwp_entry(number);
        Some(Self { number, entry, first: entry.dispatches() })
    }

    /// Returns the number by which hints name the LWP.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Counts a dispatch, or that the LWP has found nothing to run. Owner only. Returns the low bits, as
    /// `get` does.
    #[inline]
    pub(crate) fn bump(&self) -> u32 {
        let tick = self.entry.dispatches().wrapping_add(1);
        // Relaxed: as in `dispatches`.
        self.entry.tick.store(tick, Ordering::Relaxed);
        tick as u32
    }

    /// Returns how many dispatches there were in this runtime.
    pub(crate) fn dispatches(&self) -> u64 {
        self.entry.dispatches().wrapping_sub(self.first)
    }

    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.entry.dispatches() as u32
    }

    /// Returns what the thread that is mounted since this tick writes into locks.
    #[inline]
    pub(crate) fn hint(&self) -> OwnerHint {
        OwnerHint::green(self.number, self.get())
    }
}

impl Drop for Tick {
    fn drop(&mut self) {
        // Relaxed: as in `take`.
        let was = self.entry.taken.swap(0, Ordering::Relaxed);
        debug_assert_eq!(was, 1, "an LWP number given back twice");
    }
}

/// Makes all numbers free in the child of a fork, which has none of the LWPs. Called by its only thread.
pub(crate) fn forget_lwps() {
    // Relaxed: the only thread.
    (1..TABLE as u16).for_each(|lwp| lwp_entry(lwp).taken.store(0, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::STRANGER;

    #[test]
    fn kernel_owners_run_elsewhere_unless_they_share_my_cpu() {
        let owner = OwnerHint::kernel(3);
        assert_eq!(owner.runs_elsewhere(OwnerHint::kernel(3)), Some(false));
        assert_eq!(owner.runs_elsewhere(OwnerHint::kernel(4)), Some(true));
    }

    #[test]
    fn green_owners_run_while_their_lwp_has_not_dispatched() {
        let (mine, theirs) = (Tick::take().unwrap(), Tick::take().unwrap());
        let (owner, me) = (theirs.hint(), mine.hint());
        assert_eq!(owner.runs_elsewhere(me), Some(true));
        assert_eq!(owner.runs_elsewhere(owner), Some(false), "my own LWP runs me");
        theirs.bump();
        assert_eq!(owner.runs_elsewhere(me), Some(false));
        assert_eq!(owner.runs_elsewhere(OwnerHint::kernel(0)), Some(false));
        assert!(owner.has_left_lwp_to(theirs.hint()));
        assert!(!owner.has_left_lwp_to(owner) && !owner.has_left_lwp_to(me));
    }

    #[test]
    fn numbers_are_used_again() {
        for _ in 0..2 * TABLE {
            drop(Tick::take().expect("a number that was given back"));
        }
    }

    /// To see if the hint in a lock is its own, a thread compares that hint with the one that it has cached.
    /// If a kernel thread's placeholder equalled the hint of CPU 0, a lock would keep that hint, whichever
    /// CPU its next owners run on.
    #[test]
    fn no_placeholder_is_a_hint_that_a_lock_can_have() {
        for cached in [OwnerHint::OF_KERNEL_THREAD, OwnerHint::RECORDING, OwnerHint::from_bits(STRANGER)] {
            assert!(cached.is_kernel(), "the fast path looks closer at {cached:?}");
            assert_ne!(cached, OwnerHint::KERNEL_ANYWHERE);
            for cpu in 0..1 << 15 {
                assert_ne!(cached, OwnerHint::kernel(cpu), "CPU {cpu}");
            }
        }
        // As if a green thread's hint is refreshed while owners are recorded.
        for lwp in 1..MAX_LWPS as u16 {
            let cached = OwnerHint::green(lwp, 0).bits() | OwnerHint::RECORDING.bits();
            assert_eq!(OwnerHint::from_bits(cached), OwnerHint::RECORDING);
        }
    }

    /// If a thread's area is not registered, or not any more, its CPU number is -1.
    #[test]
    fn a_cpu_that_the_kernel_does_not_know_is_not_known() {
        assert_eq!(OwnerHint::kernel(u32::MAX), OwnerHint::KERNEL_ANYWHERE);
    }

    #[test]
    fn nothing_is_known_of_the_unknown() {
        assert_eq!(OwnerHint::UNKNOWN.runs_elsewhere(OwnerHint::kernel(0)), None);
    }
}
