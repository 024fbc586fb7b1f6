//! The switch: what is observed of threads and locks (`observe`). One word for all of it.

use std::sync::atomic::{AtomicU32, Ordering};

use super::owner::OwnerHint;

/// The low half: the bits that are added to threads' hints, so that owners are recorded (`lock_owners`). The
/// high half: the rest of the switch. An atomic of std in models too, because it does not change in one.
static SWITCH: AtomicU32 = AtomicU32::new(0);

/// Includes the bit of kernel threads' hints, because hints with that bit are examined more closely anyway.
const OWNERS: u32 = OwnerHint::RECORDING.bits() as u32;
/// Waits for locks are counted (`contention`).
const CONTENTION: u32 = 1 << 16;

/// Times of threads are counted (`traced`).
const ACCOUNTS: u32 = 1 << 17;
/// Events of threads are recorded, too.
const EVENTS: u32 = 1 << 18;
/// Clients of `threadmon` want waits for locks to be counted.
const CONTENTION_WANTED: u32 = 1 << 19;

/// Returns `true` if times of threads are counted.
#[inline]
pub(crate) fn is_traced() -> bool {
    SWITCH.load(Ordering::Relaxed) & ACCOUNTS != 0
}

/// Returns `true` if events of threads are recorded.
#[inline]
pub(crate) fn are_events_recorded() -> bool {
    SWITCH.load(Ordering::Relaxed) & EVENTS != 0
}

/// Begins or ends the counting of times, and the recording of events.
pub(crate) fn trace(times: bool, events: bool) {
    let bits = if times { ACCOUNTS } else { 0 } | if events { EVENTS } else { 0 };
    // Relaxed: a switch. `traced` orders what must come before.
    let change = |switch| Some(switch & !(ACCOUNTS | EVENTS) | bits);
    let _ = SWITCH.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
}

/// Returns the bits that are added to hints.
#[inline]
pub(super) fn hint_bits() -> u16 {
    // Relaxed, here and below: a switch, it orders nothing.
    SWITCH.load(Ordering::Relaxed) as u16
}

/// Returns `true` if a kernel thread has anything to do for observers when it has slept.
#[inline]
pub(super) fn is_any_after_sleep() -> bool {
    SWITCH.load(Ordering::Relaxed) & (OWNERS | ACCOUNTS) != 0
}

/// Returns `true` if owners of locks are recorded.
#[inline]
pub(crate) fn are_owners_recorded() -> bool {
    hint_bits() != 0
}

/// Has owners of locks recorded from now on. It is never switched off, so every entry is removed again.
pub(crate) fn record_owners() {
    SWITCH.fetch_or(OWNERS, Ordering::Relaxed);
}

/// Returns `true` if waits for locks are counted.
#[inline]
pub(crate) fn is_contention_counted() -> bool {
    SWITCH.load(Ordering::Relaxed) & (CONTENTION | CONTENTION_WANTED) != 0
}

/// Begins or ends the counting of waits for locks.
pub(crate) fn count_contention(on: bool) {
    switch(CONTENTION, on);
}

/// Does the same for clients of `threadmon`.
#[cfg(unix)]
pub(crate) fn want_contention(on: bool) {
    switch(CONTENTION_WANTED, on);
}

fn switch(bit: u32, on: bool) {
    if on {
        SWITCH.fetch_or(bit, Ordering::Relaxed);
    } else {
        SWITCH.fetch_and(!bit, Ordering::Relaxed);
    }
}
