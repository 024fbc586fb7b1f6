//! Names that a program has given to its locks, for reports.

use super::by_address::ByAddress;
use crate::shim::global;

global! {
    static NAMES: ByAddress<String> = ByAddress::new();
}

/// From now on, what is at `key` is called so.
pub(crate) fn give(key: usize, name: &str) {
    let mut name = Some(name.to_owned());
    // The old one is dropped with no lock held.
    NAMES.change(key, |called| std::mem::swap(called, name.get_or_insert_default()));
}

/// What is at `key` has no name any more.
pub(crate) fn take(key: usize) {
    drop(NAMES.take(key, |_| true));
}

/// What the thing at `key` is called. Twice under the lock, so that nothing is allocated with it held.
pub(crate) fn of(key: usize) -> Option<String> {
    let mut text = String::new();
    loop {
        let needed = NAMES.get(key, |name| {
            if name.len() <= text.capacity() {
                text.clear();
                text.push_str(name);
                return 0;
            }
            name.len()
        })?;
        if needed == 0 {
            return Some(text);
        }
        text.reserve(needed);
    }
}

/// # Safety
/// In the child of a fork, by its only thread.
pub(super) unsafe fn forget_all() {
    // SAFETY: the caller's promise.
    unsafe { NAMES.forget_all() };
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_given_and_taken() {
        let place = &raw const super::NAMES as usize;
        assert_eq!(super::of(place), None);
        super::give(place, "one");
        super::give(place, "another, which is longer");
        assert_eq!(super::of(place).as_deref(), Some("another, which is longer"));
        super::take(place);
        assert_eq!(super::of(place), None);
    }
}
