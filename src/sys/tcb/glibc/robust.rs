//! Robust mutexes that a green thread leaves locked. Their next owners must be told.
//!
//! A thread lists the robust mutexes that it holds in its block. At the end of a kernel thread, the kernel
//! goes through the list that the thread has told it of (`exit_robust_list`). It knows none of a green
//! thread's. So this does the same: it marks each mutex on the list that still has the thread's id, and wakes
//! one waiter. Waiters sleep in the kernel, because the C library asks it past all others.
//!
//! **Broken lists.** The program may have unmapped a mutex, or written over one. The kernel then stops, and
//! so does this. It has the kernel look at each address before it is used. A list may be a circle; so both
//! give up after [`MOST`] mutexes.
//!
//! **Not here**:
//!
//! - Mutexes that pass on priorities. The kernel does not find their owner, so no thread can wait for one
//!   that a green thread holds. They are marked like all others.
//! - Threads without a block (the rung `Pinned`). Their mutexes are the kernel thread's.
//! - The end of the process. The kernel knows the lists of kernel threads alone.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::super::futex;
use super::super::common::{peek, poke};

/// How many mutexes the kernel looks at: `ROBUST_LIST_LIMIT`.
const MOST: usize = 2048;
/// In a mutex: threads sleep there.
const WAITERS: u32 = libc::FUTEX_WAITERS;
/// The bits of its owner's id.
const OWNER: u32 = libc::FUTEX_TID_MASK;
/// In a pointer to a mutex on the list: it passes on priorities.
const PRIORITY: usize = 1;

/// Makes the list at `head` empty.
///
/// # Safety
/// `head` is what the C library makes known with `set_robust_list`: the first mutex, the distance to the lock
/// of each, and the one that the thread locks or unlocks now. The last mutex is before. The calling thread
/// alone uses these four words.
pub(super) unsafe fn clear(head: usize) {
    for (word, empty) in [(head - 8, head), (head, head), (head + 16, 0)] {
        // SAFETY: the caller's promise.
        unsafe { poke(word, empty) };
    }
}

/// Returns `true` if there is nothing to give up.
///
/// # Safety
/// As [`clear`].
#[inline]
pub(super) unsafe fn is_empty(head: usize) -> bool {
    // SAFETY: the first word (contract).
    let first: usize = unsafe { peek(head) };
    // SAFETY: the third word (contract).
    first == head && unsafe { peek::<usize>(head + 16) } == 0
}

/// Gives up the mutexes on the list at `head` that thread `tid` still holds, and makes it empty.
///
/// # Safety
/// As [`clear`].
#[cold]
pub(super) unsafe fn give_up(head: usize, tid: u32) {
    // SAFETY: the caller's promise.
    unsafe { walk(head, tid) };
    // SAFETY: the caller's promise.
    unsafe { clear(head) };
}

/// Goes through the list, as the kernel would.
///
/// # Safety
/// As [`clear`].
unsafe fn walk(head: usize, tid: u32) {
    // SAFETY: the second word (contract).
    let distance: isize = unsafe { peek(head + 8) };
    let lock = |entry: usize| entry.wrapping_add_signed(distance);
    // SAFETY: the third word (contract).
    let pending = unsafe { peek::<usize>(head + 16) } & !PRIORITY;
    // SAFETY: the first word (contract).
    let mut entry = unsafe { peek::<usize>(head) } & !PRIORITY;
    for _ in 0..MOST {
        if entry == head || !is_there(entry) || !is_there(entry + 4) {
            break;
        }
        // SAFETY: the kernel has just found it. The calling thread alone changes its list.
        let next = unsafe { peek::<usize>(entry) } & !PRIORITY;
        if entry != pending && !leave(lock(entry), tid) {
            return;
        }
        entry = next;
    }
    if pending != 0 {
        leave(lock(pending), tid);
    }
}

/// Marks the lock at an address if thread `tid` holds it, and wakes a waiter. Returns `false` if there is no
/// lock.
fn leave(address: usize, tid: u32) -> bool {
    if !is_there(address) {
        return false;
    }
    // SAFETY: aligned, and there for reads and writes: the kernel has just found it. Whatever it is, all that
    // change it while others do so use atomic instructions.
    let word = unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) };
    let marked = |now: u32| (now & OWNER == tid).then_some(now & WAITERS | libc::FUTEX_OWNER_DIED);
    // Release: the next owner sees what this one has written.
    match word.fetch_update(Ordering::Release, Ordering::Relaxed, marked) {
        Ok(before) if before & WAITERS != 0 => {}
        // It was unlocked, and no waiter has been woken yet: see the list's third word.
        Err(now) if now & OWNER == 0 => {}
        _ => return true,
    }
    futex::wake_shared(word, 1);
    true
}

/// Returns `true` if there is an aligned word at an address, which can be read and written.
fn is_there(address: usize) -> bool {
    /// The second word: or it with zero. If it was zero, wake a waiter; it finds nothing changed.
    const OR_NOTHING: u32 = (libc::FUTEX_OP_OR as u32) << 28;
    let (first, wake_op) = (AtomicU32::new(0), libc::FUTEX_WAKE_OP);
    // SAFETY: the kernel takes any address as the second, and writes there what it finds.
    unsafe { libc::syscall(libc::SYS_futex, first.as_ptr(), wake_op, 0, 0, address, OR_NOTHING) >= 0 }
}
