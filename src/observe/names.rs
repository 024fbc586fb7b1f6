//! Names that a program has given to its locks, for reports.
//!
//! **Problem.** A viewer that lists only what has changed keeps the names that it has listed. It cannot look
//! at each name again.
//!
//! **Protocol.** There is a count of all changes. Each change of a name counts up with the lock of its entry
//! held, and marks the entry with the new count, or removes the entry. A viewer loads the count at the
//! beginning of a walk, and looks at marks only if it is another than before.
//!
//! **Proof.** A viewer that finds a change counted acquires the entry's lock after that change, and so finds
//! the mark. If it had acquired the lock before, its look at the count would have come before the change. If
//! it does not find the change counted, it does so in a later walk.

use super::by_address::by_address;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::global;

#[derive(Default)]
struct Name {
    text: String,
    mark: u64,
}

by_address! { NAMES: Name }

global! {
    /// How many names were given and removed.
    static CHANGES: AtomicU64 = AtomicU64::new(0);
}

/// Counts a change. Returns its number, from 1 on. Called with the entry's lock held.
fn count() -> u64 {
    // Relaxed: the entry's lock orders it; see the header.
    CHANGES.fetch_add(1, Ordering::Relaxed) + 1
}

/// Gives what is at `key` this name.
pub(crate) fn give(key: usize, name: &str) {
    let mut text = name.to_owned();
    // The old name is dropped with no lock held.
    tell_children();
    NAMES.change(key, |name| {
        std::mem::swap(&mut name.text, &mut text);
        name.mark = count();
    });
}

/// Removes the name of what is at `key`.
pub(crate) fn take(key: usize) {
    let counts = |_: &Name| {
        count();
        true
    };
    drop(NAMES.take(key, counts));
}

/// Returns the mark of the name of what is at `key`: another one after each change, and 0 if it has no name.
pub(crate) fn mark_of(key: usize) -> u64 {
    NAMES.get(key, |name| name.mark).unwrap_or(0)
}

/// What a viewer has seen of the names.
#[derive(Debug, Default)]
pub(crate) struct Seen(u64);

impl Seen {
    /// Returns `true` if any name has changed since the last call. Marks are to be looked at after it.
    pub(crate) fn have_changed(&mut self) -> bool {
        // Relaxed: the locks of entries order it.
        let now = CHANGES.load(Ordering::Relaxed);
        std::mem::replace(&mut self.0, now) != now
    }
}

/// Returns the name of what is at `key`. Takes the lock a second time if the text needs more room, because
/// nothing may be allocated with the lock held.
pub(crate) fn of(key: usize) -> Option<String> {
    let mut text = String::new();
    loop {
        let needed = NAMES.get(key, |name| {
            if name.text.len() <= text.capacity() {
                text.clear();
                text.push_str(&name.text);
                return 0;
            }
            name.text.len()
        })?;
        if needed == 0 {
            return Some(text);
        }
        text.reserve(needed);
    }
}

#[cfg(all(test, loom))]
mod loom_names;

#[cfg(test)]
mod tests {
    use crate::park::tests::heap::allocates_without_locks;

    #[test]
    fn names_are_given_and_taken() {
        let key = &raw const super::NAMES as usize;
        assert_eq!(super::of(key), None);
        super::give(key, "one");
        super::give(key, "another, which is longer");
        let name = allocates_without_locks(|| super::of(key));
        assert_eq!(name.as_deref(), Some("another, which is longer"));
        let marked = super::mark_of(key);
        super::give(key, "a third");
        assert!(super::mark_of(key) > marked && marked > 0);
        super::take(key);
        assert_eq!((super::of(key), super::mark_of(key)), (None, 0));
    }
}
