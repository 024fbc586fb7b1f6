//! Names that a program has given to its locks, for reports.

use super::by_address::by_address;

by_address! { NAMES: String }

/// Gives what is at `key` this name.
pub(crate) fn give(key: usize, name: &str) {
    let mut name = Some(name.to_owned());
    // The old name is dropped with no lock held.
    tell_children();
    NAMES.change(key, |called| std::mem::swap(called, name.get_or_insert_default()));
}

/// Removes the name of what is at `key`.
pub(crate) fn take(key: usize) {
    drop(NAMES.take(key, |_| true));
}

/// Returns the name of what is at `key`. Takes the lock a second time if the text needs more room, because
/// nothing may be allocated with the lock held.
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
        super::take(key);
        assert_eq!(super::of(key), None);
    }
}
