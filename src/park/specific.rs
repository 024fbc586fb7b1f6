//! The values of any types that a thread keeps under the keys of [`tsd`](crate::tsd), and how they end with
//! it.
//!
//! **Problem.** A look must cost what a thread-local costs. That includes keys that are created at run time,
//! and green threads that share a thread register. Values belong to one thread, so nothing here is shared.
//! But code of the user's runs in the middle of everything: in destructors, and while a value is in use.
//!
//! **Rejected.**
//!
//! - Entries in the thread's core for the first keys. One more would push a green thread over the size at
//!   which neighbours share no cache set. And a look must still find the core first.
//! - Counted references to values: two dependent read-modify-writes of memory for each look.
//! - Entries that hold the values themselves: a value in use must not move when the entries grow.
//! - All entries behind a pointer in a thread-local: loads are the cost of a look, and that is one more.
//!
//! **Protocol.** A thread's first value gives its core a [`Values`], which the core keeps for its next
//! lives. It has an entry for each key that has been used, by the key's index: a few at once, and more for
//! later keys, elsewhere. An entry points to a value's [`Header`].
//!
//! A native thread-local ([`Native`]) points to the `Values`, and has *near* entries, by the last bits of the
//! index. Of the values with these bits, a near entry points to the one that was looked at last. A look goes
//! there first. An empty entry points to [`NOTHING`], and a thread without values points to [`NO_VALUES`]. So
//! a look needs to test for neither, nor for the right index. It compares the header's mark with the key's
//! number, which no other key has had or will have.
//!
//! A value is *in use* while the user looks at it. Its mark then says so, by two stores of known values,
//! which no later look has to wait for. The value stays where it is: a call that would replace or take it
//! finds the mark and panics.
//!
//! Threads that share a thread register (`Pinned`) go through their core. Their near entries stay empty.
//!
//! **The end.** Each value is taken out of its entry and destroyed, which may put others there. This is done
//! [`ROUNDS`] times. What is left then stays allocated and is forgotten, as POSIX allows. It happens before
//! the thread's native thread-locals are destroyed, so that destructors find those. It happens once more
//! after that, for values that their destructors have put here.
//!
//! **Cost.** A look: four loads, one branch. A thread that uses no key: two loads.

mod number;

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::shim::local;
use number::NEAR;

pub(crate) use number::KeyId;

/// How often a thread that ends destroys the values that destructors have left. POSIX asks for at least 4;
/// glibc does 4.
pub(crate) const ROUNDS: usize = 4;

/// Entries that every thread with a value has. More keys than most programs have.
pub(crate) const FIRST: usize = 16;

/// The number of further entries that an ended thread keeps for the next life of its core.
const KEPT: usize = 64;

/// Why a value is destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// Its thread ends. A panic has no caller left to go to.
    ThreadEnds,
    /// Its key is gone, and another key needs its entry.
    Displaced,
}

/// What every value begins with.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    /// | mark | the value |
    /// |---|---|
    /// | the key's number | exists, and is not in use |
    /// | `IN_USE` | is used by `others + 1` calls, and stays where it is |
    /// | `NOTHING` | does not exist |
    mark: Cell<KeyId>,
    key: KeyId,
    others: Cell<usize>,
    /// Destroys and frees the value, which is out of its entry and not in use.
    discard: unsafe fn(NonNull<Header>, Occasion),
}

impl Header {
    /// Creates the header of a value under `key`.
    ///
    /// `discard` may be called once, with the header, on the thread that put the value in its entry. The
    /// value must be out of its entry, and not in use.
    pub(crate) fn new(key: KeyId, discard: unsafe fn(NonNull<Header>, Occasion)) -> Self {
        Self { mark: Cell::new(key), key, others: Cell::new(0), discard }
    }

    pub(crate) fn key(&self) -> KeyId {
        self.key
    }

    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        self.mark.get() == KeyId::IN_USE
    }

    /// Begins the use of a value that no call uses yet.
    #[inline]
    pub(crate) fn begin_first_use(&self) {
        self.mark.set(KeyId::IN_USE);
    }

    /// Begins one more use of the value.
    pub(crate) fn begin_use(&self) {
        if self.is_in_use() {
            self.others.set(self.others.get() + 1);
        } else {
            self.begin_first_use();
        }
    }

    /// Ends one of the uses. They end in any order.
    #[inline]
    pub(crate) fn end_use(&self, key: KeyId) {
        debug_assert!(self.is_in_use() && self.key == key);
        match self.others.get() {
            0 => self.mark.set(key),
            others => self.others.set(others - 1),
        }
    }
}

/// A static that is never written to, of a type that could be.
struct Constant<T>(T);

// SAFETY: the content is compared and read, and never written to. No key has the number `NOTHING`, and no
// thread puts anything in an entry of `NO_VALUES`, which belongs to no thread.
unsafe impl<T> Sync for Constant<T> {}

/// The header of no value.
static NOTHING: Constant<Header> = Constant(Header {
    mark: Cell::new(KeyId::NOTHING),
    key: KeyId::NOTHING,
    others: Cell::new(0),
    discard: never,
});

/// The values of a thread that has none.
static NO_VALUES: Constant<Values> = Constant(Values::new());

fn never(_: NonNull<Header>, _: Occasion) {
    unreachable!("there is no value");
}

/// The header of a value, or [`NOTHING`]. A pointer to the whole value, not a reference to the header,
/// because the value is freed through it.
type Entry = Cell<NonNull<Header>>;

#[inline]
const fn nothing() -> NonNull<Header> {
    let nothing = &raw const NOTHING.0;
    // SAFETY: a static does not lie at 0.
    unsafe { NonNull::new_unchecked(nothing.cast_mut()) }
}

#[inline]
const fn no_values() -> NonNull<Values> {
    let no_values = &raw const NO_VALUES.0;
    // SAFETY: a static does not lie at 0.
    unsafe { NonNull::new_unchecked(no_values.cast_mut()) }
}

/// The values of one thread. Only that thread uses them.
struct Values {
    first: [Entry; FIRST],
    /// Entries for further keys, on the heap.
    more: Cell<NonNull<[Entry]>>,
    /// How many entries have a value.
    held: Cell<usize>,
}

impl Values {
    const fn new() -> Self {
        Self {
            first: [const { Cell::new(nothing()) }; FIRST],
            more: Cell::new(NonNull::slice_from_raw_parts(NonNull::dangling(), 0)),
            held: Cell::new(0),
        }
    }

    #[inline]
    fn more(&self) -> &[Entry] {
        // SAFETY: on the heap until `replace_more`. After that, nothing uses what was returned here: no code
        // of the user's runs while this file holds it.
        unsafe { self.more.get().as_ref() }
    }

    #[inline]
    fn entry(&self, index: usize) -> Option<&Entry> {
        match self.first.get(index) {
            Some(entry) => Some(entry),
            None => self.more().get(index - FIRST),
        }
    }

    #[inline]
    fn at(&self, index: usize) -> NonNull<Header> {
        match self.entry(index) {
            Some(entry) => entry.get(),
            None => nothing(),
        }
    }

    /// Puts `header` into an existing entry. Returns what was there.
    fn exchange(&self, index: usize, header: NonNull<Header>) -> Option<NonNull<Header>> {
        let old = self.entry(index)?.replace(header);
        NATIVE.with(|native| native.exchanged(self, index, old, header));
        let is_value = |header| header != nothing();
        self.held.set(self.held.get() + usize::from(is_value(header)) - usize::from(is_value(old)));
        is_value(old).then_some(old)
    }

    /// Makes sure that there is an entry of this index.
    #[cold]
    fn grow(&self, index: usize) {
        let len = (index - FIRST + 1).next_power_of_two().max(FIRST);
        // An allocator may use keys, too.
        let more: Box<[Entry]> = (0..len).map(|_| Cell::new(nothing())).collect();
        let old = self.more();
        if old.len() < len {
            old.iter().zip(&more).for_each(|(old, new)| new.set(old.get()));
            self.replace_more(more);
        }
    }

    fn replace_more(&self, more: Box<[Entry]>) {
        let more = NonNull::from(Box::leak(more));
        let old = self.more.replace(more);
        if !old.is_empty() {
            // SAFETY: leaked by an earlier call, and out of reach by now.
            drop(unsafe { Box::from_raw(old.as_ptr()) });
        }
    }

    /// Destroys each value that it finds in its entry.
    fn discard_all(&self) {
        for index in 0.. {
            if self.entry(index).is_none() {
                break;
            }
            if let Some(value) = self.exchange(index, nothing()) {
                // SAFETY: out of its entry, on its thread, which is this one.
                unsafe { discard(value, Occasion::ThreadEnds) };
            }
        }
    }

    /// Forgets what is left, and leaves everything as a next life may find it.
    fn clear(&self) {
        self.first.iter().chain(self.more()).for_each(|entry| entry.set(nothing()));
        NATIVE.with(|native| native.cleared(self));
        self.held.set(0);
        if self.more().len() > KEPT {
            self.replace_more(Box::default());
        }
    }
}

/// `ThreadCore::specific`: a pointer to its thread's values; null until it has had one.
#[derive(Debug)]
pub(crate) struct Specific(Cell<*const Values>);

impl Specific {
    pub(super) const fn new() -> Self {
        Self(Cell::new(ptr::null()))
    }

    #[inline]
    fn values(&self) -> Option<&'static Values> {
        // SAFETY: null, or leaked by `values_or_new`: as type-stable as the core.
        unsafe { self.0.get().as_ref() }
    }

    #[cold]
    fn values_or_new(&self) -> &'static Values {
        if let Some(values) = self.values() {
            return values;
        }
        let new = Box::new(Values::new());
        // An allocator may use keys, too, and have had the values made meanwhile.
        self.values().unwrap_or_else(|| {
            let values: &'static Values = Box::leak(new);
            self.0.set(values);
            values
        })
    }

    /// Clears the values for the next life of the core, which the caller has to itself. The code that ended
    /// the last life has left no value. But an allocator that uses keys may have, and another thread must
    /// not find such values.
    #[inline]
    pub(super) fn begin(&self) {
        if self.has_any() {
            self.values().expect("used").clear();
        }
    }

    /// Returns `true` if [`end`](Self::end) would find a value.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.values().is_some_and(|values| values.held.get() != 0)
    }

    /// Takes over the values of `from`. Its thread called `fork`, and goes on in the child with this core.
    ///
    /// # Safety
    /// Called in the child of a fork, by its only thread, which has both cores.
    pub(super) unsafe fn inherit(&self, from: &Self) {
        self.0.swap(&from.0);
    }

    /// Puts a value into its entry, for the running thread, whose values these are. Returns what was there,
    /// which is the caller's. `own_register`: the thread has its own thread register.
    ///
    /// # Safety
    /// The header is that of a value on the heap, which is not freed while it is in its entry or in use.
    pub(crate) unsafe fn put(&self, own_register: bool, header: NonNull<Header>) -> Option<NonNull<Header>> {
        // SAFETY: the caller's promise.
        let index = unsafe { header.as_ref() }.key.index();
        let values = self.values_or_new();
        while values.entry(index).is_none() {
            values.grow(index);
        }
        if own_register {
            NATIVE.with(|native| native.begin(values));
        }
        values.exchange(index, header)
    }

    /// Takes the value under `key` out of its entry, for the running thread, whose values these are. The
    /// value is then the caller's.
    pub(crate) fn remove(&self, key: KeyId) -> Option<NonNull<Header>> {
        let values = self.values()?;
        // SAFETY: a value in its entry is alive.
        if unsafe { values.at(key.index()).as_ref() }.key == key {
            values.exchange(key.index(), nothing())
        } else {
            None
        }
    }

    /// Destroys the values of the running thread, which ends. May be called again if there may be new
    /// values. Before its last call, the thread must have done all that it ever does with keys.
    #[inline]
    pub(crate) fn end(&self) {
        if self.has_any() {
            self.end_slow();
        }
    }

    #[cold]
    fn end_slow(&self) {
        let values = self.values_or_new();
        for _ in 0..ROUNDS {
            if values.held.get() == 0 {
                break;
            }
            values.discard_all();
        }
        values.clear();
    }
}

/// What a look needs, in a native thread-local.
///
/// A value in a near entry is also in its entry of `values`.
struct Native {
    near: [Entry; NEAR],
    /// The values of the running thread, or [`NO_VALUES`].
    values: Cell<NonNull<Values>>,
}

impl Native {
    const fn new() -> Self {
        Self { near: [const { Cell::new(nothing()) }; NEAR], values: Cell::new(no_values()) }
    }

    /// Returns the entry where a look at `key` begins.
    #[inline]
    fn near(&self, key: KeyId) -> &Entry {
        // SAFETY: the index of every number is less than `NEAR`, and so are those of the marks.
        unsafe { self.near.get_unchecked(key.near()) }
    }

    fn are(&self, values: &Values) -> bool {
        ptr::eq(self.values.get().as_ptr(), values)
    }

    /// Switches to these values.
    fn begin(&self, values: &Values) {
        if !self.are(values) {
            self.near.iter().for_each(|near| near.set(nothing()));
            self.values.set(NonNull::from(values));
        }
    }

    /// Notes that the entry of this index in `values` has `new` instead of `old`.
    fn exchanged(&self, values: &Values, index: usize, old: NonNull<Header>, new: NonNull<Header>) {
        let near = &self.near[index % NEAR];
        if self.are(values) && (new != nothing() || near.get() == old) {
            near.set(new);
        }
    }

    /// Notes that all entries of `values` are empty.
    fn cleared(&self, values: &Values) {
        if self.are(values) {
            self.near.iter().for_each(|near| near.set(nothing()));
        }
    }
}

local! {
    // No destructor and a constant start, as in `current.rs`: a green thread starts without values. For a
    // thread that shares the register, it is never anything else.
    static NATIVE: Native = Native::new();
}

/// Returns the running thread's value under `key`, if it is near and not in use.
#[inline]
pub(crate) fn find_fast(key: KeyId) -> Option<NonNull<Header>> {
    let found = NATIVE.with(|native| native.near(key).get());
    // SAFETY: a value in its entry is alive.
    (unsafe { found.as_ref() }.mark.get() == key).then_some(found)
}

/// Returns the running thread's value under `key`. `of_core` returns what the thread's core has. Called by
/// cold code, so that the call does not get in the way of the code after it.
#[inline]
pub(crate) fn find(
    key: KeyId,
    of_core: impl FnOnce() -> Option<&'static Specific>,
) -> Option<NonNull<Header>> {
    let values = NATIVE.with(|native| native.values.get());
    // SAFETY: the values of the running thread, or `NO_VALUES`; never freed.
    let values = unsafe { values.as_ref() };
    let found = values.at(key.index());
    // SAFETY: a value in its entry is alive.
    if unsafe { found.as_ref() }.mark.get() == key {
        // Not for `NO_VALUES`, which has no value.
        NATIVE.with(|native| native.near(key).set(found));
        Some(found)
    } else {
        find_slow(values, found, key, of_core)
    }
}

/// Finds a value that is in use, or of a thread that shares its register. Or there is none.
#[inline(never)]
fn find_slow(
    values: &Values,
    mut found: NonNull<Header>,
    key: KeyId,
    of_core: impl FnOnce() -> Option<&'static Specific>,
) -> Option<NonNull<Header>> {
    if ptr::eq(values, no_values().as_ptr()) {
        found = of_core()?.values()?.at(key.index());
    }
    // SAFETY: a value in its entry is alive.
    (unsafe { found.as_ref() }.key == key).then_some(found)
}

/// Destroys and frees a value. If the value is in use although its key is gone or its thread ends, it is
/// left alone forever. It may be in use on the stack of a coroutine that was never finished.
///
/// # Safety
/// The value is out of its entry, belongs to the caller alone, and is one of the running thread.
pub(crate) unsafe fn discard(value: NonNull<Header>, why: Occasion) {
    // SAFETY: the caller's promise.
    let header = unsafe { value.as_ref() };
    let (is_in_use, discard) = (header.is_in_use(), header.discard);
    if !is_in_use {
        // SAFETY: the caller's promise, and not in use.
        unsafe { discard(value, why) };
    }
}

/// Says that the running thread has no core any more. Its values stay with the core, for the core's next
/// thread.
pub(super) fn leave() {
    NATIVE.with(|native| native.begin(&NO_VALUES.0));
}

#[cfg(test)]
mod tests;
