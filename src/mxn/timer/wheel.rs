//! A hierarchical timing wheel: deadlines in buckets that get narrower as the deadlines come near.
//!
//! **Structure** (Varghese and Lauck 1987, with the arithmetic of a radix heap). A tick is a nanosecond. Read
//! a deadline as eleven digits to the base 64, and so the wheel's own time. The highest digit in which the
//! two differ says at which level the deadline lies, and the deadline's digit there says in which bucket. A
//! bucket of level 0 is one tick wide, one of level 1 has 64 ticks, one of level 5 about a second. Each level
//! has a mask of its buckets that are not empty, and the wheel has one of its levels.
//!
//! So the first bucket of the lowest level comes first of all, and two instructions find it. Insertion and
//! removal take the same few steps whatever the number of nodes. Nodes are linked into the lists of their
//! buckets, so nothing is allocated. Nothing is rounded: a node is handed out when its own deadline has
//! passed.
//!
//! **Cascade.** The nodes of a bucket that lies in the past are handed out from there. If only the first
//! deadline of a bucket has passed, the bucket is opened. Its whole list goes to the front of the list of
//! *falling* nodes, in one step. From there, each node is handed out if it is due. Otherwise it goes to the
//! bucket that the wheel's time now says, at a lower level. So a node moves ten times at most, and one that
//! is due is not moved. A node that is the earliest of its bucket when it is inserted goes to the front. So
//! the deadline for which the bucket is opened does not wait for the others. Of what has become due since the
//! last call, buckets come in order, and in a bucket comes first what was inserted first.
//!
//! **Budget.** To hand out a node, to move one and to open a bucket is a step each. [`Wheel::expire`] takes
//! as many steps as the caller allows, and hands out as many nodes. The next call goes on from there. If
//! there is enough of both, it hands out nodes and lets nodes fall in turn. So what falls waits for neither a
//! lack of room nor a flood of other deadlines. At worst, it is late by the time in which all of its bucket
//! fall. That is 20 to 150 ns for each, by how far they lie apart in memory.
//!
//! **The next deadline** is known by bucket: the earliest of all nodes that were put there since it was
//! empty. If that node was removed, the wheel asks to be looked at too early, never too late.
//!
//! **Rejected**:
//!
//! - A pairing heap: if many deadlines are equal, the first removal melds them all.
//! - A wheel with a coarser tick: it has fewer levels, but the last bucket must be sorted or searched.
//! - Buckets that are never opened (as Linux has): a deadline is up to an eighth of its distance late.
//! - To search a bucket for its earliest node when that is removed: a removal is no longer O(1).

use std::cell::Cell;
use std::ptr::NonNull;

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;
/// Something is to be done, whatever the time.
pub(crate) const AT_ONCE: u64 = 0;

/// Bits of a digit.
const DIGIT: u32 = 6;
/// Buckets of a level: one for each digit, and a bit in a mask for each.
const BUCKETS: usize = 1 << DIGIT;
/// Digits of a deadline.
const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;

/// One deadline, and what is to be known when it has passed.
#[derive(Debug)]
pub(super) struct Node<T> {
    /// Changed only while the node is in no wheel.
    pub(super) at: Cell<u64>,
    pub(super) value: T,
    place: Cell<Place>,
    next: Cell<Link<T>>,
    prev: Cell<Link<T>>,
}

type Link<T> = Option<NonNull<Node<T>>>;

impl<T> Node<T> {
    pub(super) fn new(at: u64, value: T) -> Self {
        Self {
            at: Cell::new(at),
            value,
            place: Cell::new(Place::NONE),
            next: Cell::new(None),
            prev: Cell::new(None),
        }
    }
}

/// A level and a bucket of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    level: u8,
    digit: u8,
}

impl Place {
    /// The place of a node that is in no wheel.
    const NONE: Self = Self { level: u8::MAX, digit: 0 };

    /// Returns where `at` belongs while it is `now`, which is not later.
    #[inline]
    fn of(at: u64, now: u64) -> Self {
        // A difference of 0 is one in the lowest digit.
        let highest = ((at ^ now) | 1).ilog2();
        let level = highest / DIGIT;
        Self { level: level as u8, digit: (at >> (level * DIGIT)) as u8 % BUCKETS as u8 }
    }

    /// Returns the first and the last tick of the bucket while it is `now`.
    #[inline]
    fn span(self, now: u64) -> (u64, u64) {
        let low = u32::from(self.level) * DIGIT;
        let width = (1 << low) - 1;
        // What lies above the digit: nothing, at the highest level.
        let above = now.checked_shr(low + DIGIT).unwrap_or(0).checked_shl(low + DIGIT).unwrap_or(0);
        let first = above | u64::from(self.digit) << low;
        (first, first | width)
    }
}

/// A step of [`Wheel::expire`].
enum Step<T> {
    /// Hand out the first node of a bucket that lies in the past.
    HandOut(NonNull<Node<T>>),
    /// Open a bucket: some of it is due.
    Open(Place),
    /// Hand out the first node that falls, or put it into the bucket where it belongs by now.
    LetFall(NonNull<Node<T>>),
    /// Nothing is due.
    Done,
}

/// Deadlines in the order in which they pass.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    /// The wheel's time: no node lies before it but in `falling`.
    now: u64,
    /// The levels that are not empty, as a mask.
    occupied: u16,
    /// On the heap: 11 KiB are too much for the stacks of helpers that make LWPs.
    levels: Box<[Level<T>; LEVELS]>,
    /// Nodes of buckets that were opened. They keep the places that they had.
    falling: List<T>,
}

#[derive(Debug)]
struct Level<T> {
    /// The buckets that are not empty, as a mask.
    occupied: u64,
    buckets: [Bucket<T>; BUCKETS],
}

#[derive(Debug)]
struct Bucket<T> {
    /// No node in it has an earlier deadline.
    earliest: u64,
    list: List<T>,
}

impl<T> Wheel<T> {
    pub(super) fn new() -> Self {
        const { assert!(LEVELS <= u16::BITS as usize) };
        let bucket = || Bucket { earliest: NEVER, list: List::new() };
        let level = |_| Level { occupied: 0, buckets: std::array::from_fn(|_| bucket()) };
        let levels: Box<[_]> = (0..LEVELS).map(level).collect();
        let Ok(levels) = levels.try_into() else { unreachable!("there are as many") };
        Self { now: 0, occupied: 0, levels, falling: List::new() }
    }

    /// Returns when the wheel is to be looked at next: at the earliest deadline, or before. `AT_ONCE`: nodes
    /// fall. `NEVER`: it is empty.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        if self.falling.first.is_some() {
            return AT_ONCE;
        }
        self.first().map_or(NEVER, |first| self.bucket(first).earliest)
    }

    /// Inserts a node.
    ///
    /// # Safety
    /// The node is in no wheel, and stays where it is until it has been removed or handed out.
    #[inline]
    pub(super) unsafe fn insert(&mut self, node: NonNull<Node<T>>) {
        self.put(node);
    }

    /// Removes a node if it is here. Returns `false` if [`next`](Self::next) is as before.
    ///
    /// # Safety
    /// The node is in no other wheel.
    #[inline]
    pub(super) unsafe fn remove(&mut self, node: NonNull<Node<T>>) -> bool {
        let place = get(node).place.get();
        if place == Place::NONE {
            return false;
        }
        if self.falling.first == Some(node) {
            self.take_falling(node);
            return true;
        }
        // If it falls, but is not the first, it leaves without its head. The list of its place, whatever is
        // in it by now, is not changed.
        self.take_out(node)
    }

    /// Hands out what has a deadline that is not after `now`: at most `most` nodes, in at most `steps` steps.
    /// Returns how many that were. What is left, if anything, is due by [`next`](Self::next).
    ///
    /// If `due` returns a deadline after `now`, the node comes back with that. Otherwise the node may be gone
    /// when `due` has returned.
    pub(super) fn expire(
        &mut self,
        now: u64,
        steps: usize,
        most: usize,
        mut due: impl FnMut(&T) -> Option<u64>,
    ) -> usize {
        let mut handed_out = 0;
        for turn in 0..steps {
            let node = match self.next_step(now, handed_out < most, turn % 2 == 1) {
                Step::HandOut(node) => {
                    self.take_out(node);
                    node
                }
                Step::Open(place) => {
                    self.open(place, now);
                    continue;
                }
                Step::LetFall(node) => {
                    self.take_falling(node);
                    if get(node).at.get() > now || handed_out == most {
                        self.put(node);
                        continue;
                    }
                    node
                }
                Step::Done => break,
            };
            handed_out += 1;
            if let Some(later) = due(&get(node).value) {
                debug_assert!(later > now, "it would be handed out again");
                get(node).at.set(later);
                self.put(node);
            }
        }
        handed_out
    }

    /// Chooses what to do next. If both can be done, a bucket that is due is handed out, or (`falls_first`) a
    /// node falls.
    fn next_step(&mut self, now: u64, may_hand_out: bool, falls_first: bool) -> Step<T> {
        let first = self.first();
        let mut step = Step::Done;
        if let Some(place) = first {
            let Bucket { earliest, list } = self.bucket(place);
            if *earliest <= now {
                match list.first {
                    Some(_) if place.span(self.now).1 > now => return Step::Open(place),
                    Some(node) if may_hand_out => step = Step::HandOut(node),
                    _ => {}
                }
            } else if now < place.span(self.now).0 {
                // No place changes by that.
                self.now = self.now.max(now);
            }
        } else {
            self.now = self.now.max(now);
        }
        match self.falling.first {
            Some(node) if falls_first || matches!(step, Step::Done) => Step::LetFall(node),
            _ => step,
        }
    }

    /// Lets all nodes of a bucket fall. It is the first, so the wheel's time may go on into it.
    fn open(&mut self, place: Place, now: u64) {
        self.now = self.now.max(now);
        let list = std::mem::replace(&mut self.bucket_mut(place).list, List::new());
        self.mark_empty(place);
        self.falling.prepend(list);
    }

    /// Takes a node out of its bucket. Returns `true` if that is empty now.
    #[inline]
    fn take_out(&mut self, node: NonNull<Node<T>>) -> bool {
        let place = get(node).place.replace(Place::NONE);
        let list = &mut self.bucket_mut(place).list;
        list.remove(node);
        let is_empty = list.first.is_none();
        if is_empty {
            self.mark_empty(place);
        }
        is_empty
    }

    fn take_falling(&mut self, node: NonNull<Node<T>>) {
        self.falling.remove(node);
        get(node).place.set(Place::NONE);
    }

    /// Puts a node where it belongs by now.
    #[inline]
    fn put(&mut self, node: NonNull<Node<T>>) {
        let at = get(node).at.get();
        let place = Place::of(at.max(self.now), self.now);
        get(node).place.set(place);
        let level = &mut self.levels[usize::from(place.level)];
        let bucket = &mut level.buckets[usize::from(place.digit)];
        if bucket.list.first.is_none() {
            level.occupied |= 1 << place.digit;
            self.occupied |= 1 << place.level;
        }
        bucket.list.append(node);
        if at < bucket.earliest {
            bucket.earliest = at;
            bucket.list.first = Some(node);
        }
    }

    /// Returns the first bucket that is not empty: all nodes in others are later.
    #[inline]
    fn first(&self) -> Option<Place> {
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as u8;
        let digit = self.levels[usize::from(level)].occupied.trailing_zeros() as u8;
        Some(Place { level, digit })
    }

    #[inline]
    fn bucket(&self, place: Place) -> &Bucket<T> {
        &self.levels[usize::from(place.level)].buckets[usize::from(place.digit)]
    }

    #[inline]
    fn bucket_mut(&mut self, place: Place) -> &mut Bucket<T> {
        &mut self.levels[usize::from(place.level)].buckets[usize::from(place.digit)]
    }

    /// Notes that a bucket is empty.
    #[inline]
    fn mark_empty(&mut self, place: Place) {
        let level = &mut self.levels[usize::from(place.level)];
        level.buckets[usize::from(place.digit)].earliest = NEVER;
        level.occupied &= !(1 << place.digit);
        if level.occupied == 0 {
            self.occupied &= !(1 << place.level);
        }
    }
}

/// A ring of nodes, entered at the first. Nodes leave it without its head, unless they are the first.
#[derive(Debug)]
struct List<T> {
    first: Link<T>,
}

// SAFETY: the pointers are followed only through the wheel, by the thread that has it to itself.
unsafe impl<T: Send> Send for List<T> {}

/// Follows a link.
#[inline]
fn get<'w, T>(link: NonNull<Node<T>>) -> &'w Node<T> {
    // SAFETY: private to this file, and called only on nodes that are in the wheel, or just leave or enter
    // it. These stay where they are (`insert`).
    unsafe { link.as_ref() }
}

#[inline]
fn join<T>(one: NonNull<Node<T>>, next: NonNull<Node<T>>) {
    get(one).next.set(Some(next));
    get(next).prev.set(Some(one));
}

impl<T> List<T> {
    const fn new() -> Self {
        Self { first: None }
    }

    #[inline]
    fn append(&mut self, node: NonNull<Node<T>>) {
        let first = self.first.unwrap_or(node);
        let last = self.last().unwrap_or(node);
        join(last, node);
        join(node, first);
        self.first = Some(first);
    }

    /// Puts another list, which is not empty, in front.
    fn prepend(&mut self, list: Self) {
        if let (Some(last), Some(its_first), Some(its_last)) = (self.last(), list.first, list.last()) {
            let first = self.first.unwrap_or(its_first);
            join(its_last, first);
            join(last, its_first);
        }
        self.first = list.first;
    }

    #[inline]
    fn last(&self) -> Link<T> {
        self.first.and_then(|first| get(first).prev.get())
    }

    #[inline]
    fn remove(&mut self, node: NonNull<Node<T>>) {
        let (prev, next) = (get(node).prev.take(), get(node).next.take());
        let (Some(prev), Some(next)) = (prev, next) else {
            unreachable!("a node in a ring has neighbours, if only itself");
        };
        if next == node {
            self.first = None;
            return;
        }
        join(prev, next);
        if self.first == Some(node) {
            self.first = Some(next);
        }
    }
}

#[cfg(test)]
mod tests;
