//! What clients want the program to count and record. The most of it holds, until they go.
//!
//! **Rejected.** A client that puts back what it has found. It may be killed, and it may have found what
//! another client wanted that has gone since.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::observe::contention;
use crate::sys::once::Mutex;
use crate::trace::{Level, want_level};

/// What one client wants.
#[derive(Default)]
pub(super) struct Want {
    pub(super) level: Level,
    /// It wants the events of one thread of so many.
    pub(super) one_of: Option<NonZeroU32>,
    /// It wants contention to be counted.
    pub(super) locks: bool,
}

/// By number. Only the thread that serves comes here.
static ALL: Mutex<BTreeMap<u64, Want>> = Mutex::new(BTreeMap::new());

/// The number of a client that wants anything. Dropped with its connection.
#[derive(Default)]
pub(super) struct Wants(Option<u64>);

impl Wants {
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Want)) {
        let mut all = ALL.lock(|_| ());
        let next = all.last_key_value().map_or(0, |(last, _)| last + 1);
        change(all.entry(*self.0.get_or_insert(next)).or_default());
        apply(&all);
    }
}

impl Drop for Wants {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            let mut all = ALL.lock(|_| ());
            all.remove(&number);
            apply(&all);
        }
    }
}

fn apply(all: &BTreeMap<u64, Want>) {
    let level = all.values().map(|it| it.level).max().unwrap_or_default();
    want_level(level, all.values().filter_map(|it| it.one_of).min());
    contention::want(all.values().any(|it| it.locks));
}
