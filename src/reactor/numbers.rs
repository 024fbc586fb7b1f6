//! Which entry the number of a descriptor has.
//!
//! Each number gets one when a thread first waits for it, and keeps it for good. The descriptor that has the
//! number next uses the entry again: in its next life, if no source of the last one is left (`entries.rs`).

use std::os::fd::RawFd;
use std::ptr;

use super::entries::Entry;
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::global;

/// Numbers in a page.
const PAGE: usize = 1 << 10;
/// Pages: more than the kernel's limit of descriptors, as a rule.
const PAGES: usize = 1 << 12;

type Page = [AtomicPtr<Entry>; PAGE];

global! {
    static NUMBERS: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(ptr::null_mut()) }; PAGES];
}

fn place(descriptor: RawFd) -> Option<(&'static AtomicPtr<Page>, usize)> {
    let number = usize::try_from(descriptor).ok()?;
    Some((NUMBERS.get(number / PAGE)?, number % PAGE))
}

/// Returns the entry of a number that threads have waited for.
pub(super) fn known(descriptor: RawFd) -> Option<&'static Entry> {
    let (page, at) = place(descriptor)?;
    // Acquire: pairs with `keep`.
    // SAFETY: null, or a page that is never freed.
    let page = unsafe { page.load(Ordering::Acquire).as_ref() }?;
    // Acquire: pairs with `keep`.
    // SAFETY: null, or an entry that is never given back.
    unsafe { page[at].load(Ordering::Acquire).as_ref() }
}

/// Returns the entry of a number, or `None` for a number that no descriptor has.
pub(super) fn entry(descriptor: RawFd) -> Option<&'static Entry> {
    known(descriptor).or_else(|| make(descriptor))
}

#[cold]
fn make(descriptor: RawFd) -> Option<&'static Entry> {
    let (page, at) = place(descriptor)?;
    let page = keep(
        page,
        || Box::leak(Box::new([const { AtomicPtr::new(ptr::null_mut()) }; PAGE])),
        |page| {
            // SAFETY: leaked by this call, and no other thread has it.
            drop(unsafe { Box::from_raw(ptr::from_ref(page).cast_mut()) });
        },
    );
    Some(keep(&page[at], Entry::take, Entry::give_back))
}

/// Returns what is kept in `place`. If there is nothing, keeps what `make` returns; `drop` gets it if another
/// thread was faster.
fn keep<T>(
    place: &AtomicPtr<T>,
    make: impl FnOnce() -> &'static T,
    drop: impl FnOnce(&'static T),
) -> &'static T {
    // Acquire: pairs with the exchange.
    // SAFETY: null, or kept for good.
    if let Some(kept) = unsafe { place.load(Ordering::Acquire).as_ref() } {
        return kept;
    }
    let new = make();
    let pointer = ptr::from_ref(new).cast_mut();
    // Release: pairs with `known`. Acquire: as above.
    match place.compare_exchange(ptr::null_mut(), pointer, Ordering::Release, Ordering::Acquire) {
        Ok(_) => new,
        Err(kept) => {
            drop(new);
            // SAFETY: another thread keeps it there for good.
            unsafe { &*kept }
        }
    }
}
