//! What is known of runtimes and threads, where a crash can read it.
//!
//! The events of a ring go back a few milliseconds, if its LWP is busy. The name of a thread is an event, and
//! soon overwritten. What a runtime was built with is no event at all.

use super::notes::Notes;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::global;

/// The words of a runtime's facts (`runtime/registry.rs`). The first is its number.
pub(crate) const FACTS: usize = 9;

/// The longest part of a name that is kept, in bytes: as much as there is in events.
pub(crate) const NAME: usize = 48;

/// A thread's identity, and its name.
const NAME_WORDS: usize = 1 + NAME / 8;

global! {
    /// The facts about runtimes.
    static RUNTIMES: Notes<FACTS, 128> = Notes::new();
    /// The names of threads that record events.
    static NAMES: Notes<NAME_WORDS, 1024> = Notes::new();
    /// How many CPUs the process might use, when that was last noted; 0: it is not known.
    static CPUS: AtomicU64 = AtomicU64::new(0);
}

/// Notes a runtime that has been started. Called once for each number.
pub(crate) fn runtime_starts(facts: [u64; FACTS]) {
    RUNTIMES.add(facts);
}

/// Notes what a runtime has come to. Neither allocates nor waits.
pub(crate) fn runtime_changes(facts: [u64; FACTS]) {
    RUNTIMES.change(facts);
}

/// Notes that a runtime is about to end. Its facts are kept as long as there is room.
pub(crate) fn runtime_ends(facts: [u64; FACTS]) {
    RUNTIMES.change(facts);
    RUNTIMES.let_go(facts[0]);
}

/// Returns the facts about runtimes. Async-signal-safe.
pub(crate) fn runtimes() -> impl Iterator<Item = [u64; FACTS]> {
    RUNTIMES.rows()
}

/// Notes how many CPUs the process may use.
pub(crate) fn set_cpus(cpus: u64) {
    // Relaxed: a figure.
    CPUS.store(cpus, Ordering::Relaxed);
}

/// Returns how many CPUs the process may use; 0 if that is not known.
pub(crate) fn cpus() -> u64 {
    // Relaxed: a figure.
    CPUS.load(Ordering::Relaxed)
}

/// Notes the name of a thread that begins. Neither allocates nor waits.
pub(crate) fn named(id: u64, name: &str) {
    let mut end = name.len().min(NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut words = [0; NAME_WORDS];
    words[0] = id;
    for (word, bytes) in words[1..].iter_mut().zip(name.as_bytes()[..end].chunks(8)) {
        let mut room = [0; 8];
        room[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(room);
    }
    NAMES.add(words);
}

/// Notes that a thread with a name ends. Its name is kept as long as there is room.
pub(crate) fn ends(id: u64) {
    NAMES.let_go(id);
}

/// Forgets all names: another recording begins, or the threads are those of the parent of a fork.
pub(crate) fn forget_names() {
    NAMES.clear();
}

/// Returns the identities of threads and their names. Async-signal-safe.
pub(crate) fn names() -> impl Iterator<Item = (u64, KnownName)> {
    NAMES.rows().map(|words| {
        let mut bytes = [0; NAME];
        for (room, word) in bytes.chunks_exact_mut(8).zip(&words[1..]) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        (words[0], KnownName(bytes))
    })
}

/// The name of a thread, with zeros behind it.
pub(crate) struct KnownName([u8; NAME]);

impl KnownName {
    /// Returns the bytes, up to the first zero.
    pub(crate) fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(NAME);
        &self.0[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(id: u64) -> Option<String> {
        let name = names().find(|(of, _)| *of == id)?.1;
        Some(String::from_utf8(name.bytes().to_vec()).expect("whole letters"))
    }

    #[test]
    fn a_runtime_that_has_ended_is_known_as_it_was_at_the_end() {
        let number = u64::MAX - 10;
        let facts = |lwps| [number, 1, 2, 3, lwps, 5, 6, 7, 8];
        let known = || runtimes().filter(|it| it[0] == number).collect::<Vec<_>>();
        runtime_starts(facts(1));
        runtime_changes(facts(2));
        assert_eq!(known(), [facts(2)]);
        runtime_ends(facts(3));
        runtime_changes(facts(4));
        assert_eq!(known(), [facts(3)]);
    }

    #[test]
    fn a_long_name_is_cut_between_letters() {
        // No thread has these.
        let first = u64::MAX - 10;
        for (id, name, expected) in [
            (first, "short", "short"),
            (first + 1, "x".repeat(48).as_str(), "x".repeat(48).as_str()),
            (
                first + 2,
                ("x".to_owned() + &"é".repeat(30)).as_str(),
                ("x".to_owned() + &"é".repeat(23)).as_str(),
            ),
            (first + 3, "a\0b", "a"),
        ] {
            named(id, name);
            assert_eq!(name_of(id).as_deref(), Some(expected));
            ends(id);
            assert_eq!(name_of(id).as_deref(), Some(expected), "there is room");
        }
    }
}
