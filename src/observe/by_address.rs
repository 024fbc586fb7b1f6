//! A map from addresses of locks to what is known of them, for programs that look for a fault.
//!
//! **Problem.** A lock of four bytes has no room for its owner's identity, its name or its statistics, and
//! most programs want none of them. The programs that do pay for it separately.
//!
//! **Shape.** A fixed number of buckets, each a list under a queue lock. An address may have several
//! entries. Nothing is allocated or freed with a queue lock held. Nothing is allocated by the program's
//! allocator: the lock that an entry describes may be held, and may belong to that allocator
//! (`system_box.rs`).
//!
//! Entries outlive the locks that they describe, which have no destructors. The code that adds an entry
//! makes sure that it is removed, or documents that it stays.

use super::system_box::SystemBox;
use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::{BUCKET_BITS, bucket_of};

/// More buckets would shorten lists that are short anyway, except in programs with thousands of locks held
/// at once. At most as many as wait queues have: a model has few.
const BUCKETS: usize = if BUCKET_BITS < 8 { 1 << BUCKET_BITS } else { 256 };

/// Defines a map of the process, and `tell_children`. A child of a fork begins with an empty map, if that was
/// called before the fork. It does not touch the map, so it may be called outside of a model.
macro_rules! by_address {
    ($name:ident: $value:ty) => {
        $crate::shim::global! {
            static $name: $crate::observe::by_address::ByAddress<$value> =
                $crate::observe::by_address::ByAddress::new();
        }

        fn tell_children() {
            // SAFETY: it is called by the child's only thread.
            $crate::park::fork::tell_children(|| unsafe { $name.forget_all() });
        }
    };
}

pub(super) use by_address;

/// See the header.
pub(crate) struct ByAddress<V>([QueueLock<Bucket<V>>; BUCKETS]);

struct Bucket<V>(Option<SystemBox<Entry<V>>>);

struct Entry<V> {
    key: usize,
    value: V,
    next: Option<SystemBox<Entry<V>>>,
}

impl<V> Bucket<V> {
    const fn new() -> Self {
        Self(None)
    }

    fn find(&mut self, key: usize) -> Option<&mut V> {
        let mut at = self.0.as_deref_mut();
        while let Some(entry) = at {
            if entry.key == key {
                return Some(&mut entry.value);
            }
            at = entry.next.as_deref_mut();
        }
        None
    }

    fn push(&mut self, mut entry: SystemBox<Entry<V>>) {
        entry.next = self.0.take();
        self.0 = Some(entry);
    }

    /// Unlinks the first entry of `key` that `which` accepts.
    fn take(&mut self, key: usize, which: impl Fn(&V) -> bool) -> Option<SystemBox<Entry<V>>> {
        let mut at = &mut self.0;
        while at.as_ref().is_some_and(|entry| entry.key != key || !which(&entry.value)) {
            at = &mut at.as_mut().expect("looked at just now").next;
        }
        let mut taken = at.take()?;
        *at = taken.next.take();
        Some(taken)
    }

    /// Unlinks what comes after so many entries.
    fn cut(&mut self, most: usize) -> Option<SystemBox<Entry<V>>> {
        let mut at = &mut self.0;
        for _ in 0..most {
            at = &mut at.as_mut()?.next;
        }
        at.take()
    }

    fn entries(&self) -> impl Iterator<Item = &Entry<V>> {
        std::iter::successors(self.0.as_deref(), |entry| entry.next.as_deref())
    }
}

impl<V> ByAddress<V> {
    /// Creates an empty map.
    pub(crate) const fn new() -> Self {
        Self([const { QueueLock::new(Rank::Pool, Bucket::new()) }; BUCKETS])
    }

    fn bucket(&self, key: usize) -> &QueueLock<Bucket<V>> {
        &self.0[bucket_of(key) % BUCKETS]
    }

    /// Adds an entry, beside others of the same address.
    pub(crate) fn add(&self, key: usize, value: V) {
        // A thread that was preempted by signal in the middle of an allocation would hold up others.
        let _no_preempt = NoPreempt::hold();
        let entry = SystemBox::new(Entry { key, value, next: None });
        self.bucket(key).with(|bucket| bucket.push(entry));
    }

    /// Changes the entry of an address that has at most one. If there is none, creates it first.
    pub(crate) fn change(&self, key: usize, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        self.change_one_of(usize::MAX, key, change);
    }

    /// Does the same, and keeps at most so many entries in a bucket: those that were changed last.
    pub(crate) fn change_one_of(&self, most: usize, key: usize, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        let _no_preempt = NoPreempt::hold();
        let mut change = Some(change);
        let mut spare: Option<SystemBox<Entry<V>>> = None;
        while let Some(change_it) = change.take() {
            // What is returned is freed here, with no lock held.
            self.bucket(key).with(|bucket| {
                let known = bucket.take(key, |_| true);
                let is_new = known.is_none();
                let Some(mut entry) = known.or_else(|| spare.take()) else {
                    change = Some(change_it);
                    return None;
                };
                change_it(&mut entry.value);
                bucket.push(entry);
                if is_new { bucket.cut(most) } else { None }
            });
            if change.is_some() {
                spare = Some(SystemBox::new(Entry { key, value: V::default(), next: None }));
            }
        }
    }

    /// Removes an entry of `key` that `which` accepts. Returns its value.
    pub(crate) fn take(&self, key: usize, which: impl Fn(&V) -> bool) -> Option<V> {
        let taken = self.bucket(key).with(|bucket| bucket.take(key, which));
        // Freed here, with no lock held.
        taken.map(|entry| entry.into_inner().value)
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        for bucket in &self.0 {
            let mut all = bucket.with(|bucket| bucket.0.take());
            // One by one, because dropping a long list would recurse deeply.
            while let Some(mut entry) = all {
                all = entry.next.take();
            }
        }
    }

    /// Calls `read` with the entry of `key` that was added last. Returns its result, or `None` if there is
    /// no entry.
    pub(crate) fn get<R>(&self, key: usize, read: impl FnOnce(&V) -> R) -> Option<R> {
        self.bucket(key).with(|bucket| bucket.find(key).map(|value| read(value)))
    }

    /// Returns copies of the entries of `key`, all of one moment.
    pub(crate) fn all_of(&self, key: usize) -> Vec<V>
    where
        V: Copy,
    {
        let mut all = Vec::new();
        self.bucket(key).copy_to(&mut all, |bucket, add| {
            let those = bucket.entries().filter(|entry| entry.key == key);
            those.for_each(|entry| add(entry.value));
        });
        all
    }

    /// Returns copies of all entries, each of its own moment.
    pub(crate) fn all(&self) -> Vec<(usize, V)>
    where
        V: Copy,
    {
        let mut all = Vec::new();
        for bucket in &self.0 {
            bucket.copy_to(&mut all, |bucket, add| {
                bucket.entries().for_each(|entry| add((entry.key, entry.value)));
            });
        }
        all
    }

    /// Forgets all entries without freeing them, and frees the locks from holders that do not exist in this
    /// process.
    ///
    /// # Safety
    /// Called in the child of a fork, by its only thread.
    pub(crate) unsafe fn forget_all(&self) {
        for bucket in &self.0 {
            // SAFETY: the caller's promise.
            unsafe { bucket.mend(|bucket, _| std::mem::forget(bucket.0.take())) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::tests::heap::allocates_without_locks;

    #[test]
    fn entries_are_found_by_their_address() {
        let map = ByAddress::new();
        for key in 0..1000 {
            map.add(key * 4, key);
            map.add(key * 4, key + 1);
        }
        assert_eq!(allocates_without_locks(|| map.all()).len(), 2000);
        assert_eq!(allocates_without_locks(|| map.all_of(40)), [11, 10]);
        assert_eq!(map.take(40, |&value| value == 10), Some(10));
        assert_eq!(map.take(40, |&value| value == 10), None);
        assert_eq!(map.take(40, |_| true), Some(11));
        assert_eq!(map.get(40, |&value| value), None);
        assert_eq!(map.get(44, |&value| value), Some(12), "the last that came");
        map.clear();
        assert_eq!(map.all(), []);
    }

    #[test]
    fn changes_of_many_threads_are_all_made() {
        let map = ByAddress::<u32>::new();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|n| map.change(n % 10, |count| *count += 1)));
            }
        });
        let mut all = map.all();
        all.sort_unstable();
        assert_eq!(all, (0..10).map(|key| (key, 400)).collect::<Vec<_>>());
    }
}
