//! What a thread keeps under the keys of [`tsd`](crate::tsd): values of any types, and how they end with it.
//!
//! **Problem.** A look must cost what a thread-local costs, also in green threads that share a thread register, and for keys that
//! are made at run time. Values belong to one thread, so nothing here is shared; but code of the user's runs in the middle
//! of everything: in destructors, and while a value is in use.
//!
//! **Rejected.** Places in the thread's core for the first keys: one more would push a green thread over the size at which
//! neighbours share no cache set, and the look still has to find the core first. References to values that are counted: two dependent
//! read-modify-writes of memory a look. Places that hold the values themselves: a value in use must not move when the places grow.
//! All places behind a pointer in a thread-local: loads are what a look costs, and that is one more.
//!
//! **Protocol.** A thread's first value gives its core a [`Values`], which the core keeps for its next lives. It has a place for each
//! key that has been used, by the key's index: a few at once, and more, elsewhere, for later ones. A place points to a value's
//! [`Header`]. A native thread-local ([`Native`]) points to the `Values`, and has *near* places, by the last bits of the index, each of
//! which points to the last value of those that was looked at. A look goes there first. A place that is empty points to [`NOTHING`],
//! and a thread without values to [`NOBODY`], so that a look needs to ask for neither, nor for the right index: it compares the header's
//! mark with the key's number, which no other key has had or will have.
//!
//! A value is *in use* while the user looks at it; its mark then says so, in two stores of known values, which no later look has to
//! wait for. It stays where it is: who would replace or take it, finds the mark and panics.
//!
//! Threads that share a thread register (rung 3) go through their core; their near places stay empty.
//!
//! **The end.** Each value is taken out of its place and destroyed, which may put others there: [`ROUNDS`] times, then what there
//! is stays allocated and is forgotten, as POSIX allows. It is done before the thread's native thread-locals are destroyed, so
//! that destructors find those; and once more after that, for what their destructors have put here.
//!
//! **Cost.** A look: four loads, one branch. A thread that uses no key: two loads.

mod number;

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::current;
use super::thread::{ThreadCore, ThreadRef};
use crate::shim::local;
use number::NEAR;

pub(crate) use number::KeyId;

/// How often a thread that ends destroys what destructors have left. POSIX asks for 4 at least; glibc does 4.
pub(crate) const ROUNDS: usize = 4;

/// Places that every thread with a value has. More keys than most programs have.
pub(crate) const FIRST: usize = 16;

/// A thread that ends keeps so many further places for the next life of its core.
const KEPT: usize = 64;

/// Why a value is destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// Its thread ends. A panic has nobody left to go to.
    ThreadEnds,
    /// Its key is gone, and another one wants its place.
    Displaced,
}

/// What every value begins with.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    /// | mark | the value |
    /// |---|---|
    /// | the key's number | is there, and nobody uses it |
    /// | `IN_USE` | is used by `others + 1` calls, and stays where it is |
    /// | `NOTHING` | is none |
    mark: Cell<KeyId>,
    key: KeyId,
    others: Cell<usize>,
    /// Destroys and frees the value: out of its place, not in use.
    discard: unsafe fn(NonNull<Header>, Occasion),
}

impl Header {
    /// Of a value under `key`.
    ///
    /// `discard` may be called once, with the header, when it is out of its place and not in use, on the thread that put it there.
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

    /// A call uses the value, which none does yet.
    #[inline]
    pub(crate) fn begin_first_use(&self) {
        self.mark.set(KeyId::IN_USE);
    }

    /// One call more uses the value.
    pub(crate) fn begin_use(&self) {
        if self.is_in_use() {
            self.others.set(self.others.get() + 1);
        } else {
            self.begin_first_use();
        }
    }

    /// One of them has done. They end in any order.
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

// SAFETY: what is in it is compared with and read, and written to by nobody: no key has the number `NOTHING`, and no thread
// puts anything in a place of `NOBODY`, which is no thread's.
unsafe impl<T> Sync for Constant<T> {}

/// The header of no value.
static NOTHING: Constant<Header> = Constant(Header {
    mark: Cell::new(KeyId::NOTHING),
    key: KeyId::NOTHING,
    others: Cell::new(0),
    discard: never,
});

/// The values of a thread that has none.
static NOBODY: Constant<Values> = Constant(Values::new());

fn never(_: NonNull<Header>, _: Occasion) {
    unreachable!("there is no value");
}

/// A value's header, or [`NOTHING`]. A pointer to the whole value, not a reference to the header: the value is freed through it.
type Place = Cell<NonNull<Header>>;

#[inline]
const fn nothing() -> NonNull<Header> {
    let nothing = &raw const NOTHING.0;
    // SAFETY: a static does not lie at 0.
    unsafe { NonNull::new_unchecked(nothing.cast_mut()) }
}

#[inline]
const fn nobody() -> NonNull<Values> {
    let nobody = &raw const NOBODY.0;
    // SAFETY: as above.
    unsafe { NonNull::new_unchecked(nobody.cast_mut()) }
}

/// What one thread keeps. Only that thread uses it.
struct Values {
    first: [Place; FIRST],
    /// Places for further keys, on the heap.
    more: Cell<NonNull<[Place]>>,
    /// How many places have a value.
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
    fn more(&self) -> &[Place] {
        // SAFETY: on the heap until `replace_more`, after which nobody uses what was given here: no code of the user's runs while
        // this file has it in hand.
        unsafe { self.more.get().as_ref() }
    }

    #[inline]
    fn place(&self, index: usize) -> Option<&Place> {
        match self.first.get(index) {
            Some(place) => Some(place),
            None => self.more().get(index - FIRST),
        }
    }

    #[inline]
    fn at(&self, index: usize) -> NonNull<Header> {
        match self.place(index) {
            Some(place) => place.get(),
            None => nothing(),
        }
    }

    /// Puts `header` into a place that there is; gives what was there.
    fn exchange(&self, index: usize, header: NonNull<Header>) -> Option<NonNull<Header>> {
        let old = self.place(index)?.replace(header);
        NATIVE.with(|native| native.exchanged(self, index, old, header));
        let is_value = |header| header != nothing();
        self.held.set(self.held.get() + usize::from(is_value(header)) - usize::from(is_value(old)));
        is_value(old).then_some(old)
    }

    /// Sees to it that there is a place of this index.
    #[cold]
    fn grow(&self, index: usize) {
        let len = (index - FIRST + 1).next_power_of_two().max(FIRST);
        // An allocator may use keys, too.
        let more: Box<[Place]> = (0..len).map(|_| Cell::new(nothing())).collect();
        let old = self.more();
        if old.len() < len {
            old.iter().zip(&more).for_each(|(old, new)| new.set(old.get()));
            self.replace_more(more);
        }
    }

    fn replace_more(&self, more: Box<[Place]>) {
        let more = NonNull::from(Box::leak(more));
        let old = self.more.replace(more);
        if !old.is_empty() {
            // SAFETY: leaked by an earlier call, and out of reach now.
            drop(unsafe { Box::from_raw(old.as_ptr()) });
        }
    }

    /// Destroys each value that is found in its place.
    fn discard_all(&self) {
        for index in 0.. {
            if self.place(index).is_none() {
                break;
            }
            if let Some(value) = self.exchange(index, nothing()) {
                // SAFETY: out of its place, on its thread, which is this one.
                unsafe { discard(value, Occasion::ThreadEnds) };
            }
        }
    }

    /// Forgets what is left, and leaves things as a next life may find them.
    fn clear(&self) {
        self.first.iter().chain(self.more()).for_each(|place| place.set(nothing()));
        NATIVE.with(|native| native.cleared(self));
        self.held.set(0);
        if self.more().len() > KEPT {
            self.replace_more(Box::default());
        }
    }
}

/// `ThreadCore::specific`: where its thread's values are; null until it has had one.
#[derive(Debug)]
pub(super) struct Specific(Cell<*const Values>);

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
        self.values().unwrap_or_else(|| {
            let values: &'static Values = Box::leak(Box::new(Values::new()));
            self.0.set(values);
            values
        })
    }

    /// For the next life of the core, which the caller has to itself. Whoever ended it has left no value, but an allocator that
    /// uses keys may have: not for another thread to find.
    #[inline]
    pub(super) fn begin(&self) {
        if self.is_used() {
            self.values().expect("used").clear();
        }
    }

    #[inline]
    fn is_used(&self) -> bool {
        self.values().is_some_and(|values| values.held.get() != 0)
    }
}

impl ThreadCore {
    /// The thread called `fork` and goes on in the child, as the thread of `heir`.
    ///
    /// # Safety
    /// In the child of a fork, by its only thread, whose core this is; nobody uses `heir` yet.
    pub(super) unsafe fn leave_values_to(&self, heir: &Self) {
        self.specific.0.swap(&heir.specific.0);
    }
}

/// What a look needs, in a native thread-local.
///
/// What is in a near place is in its place, too, of `values`.
struct Native {
    near: [Place; NEAR],
    /// Those of the running thread, or of [`NOBODY`].
    values: Cell<NonNull<Values>>,
}

impl Native {
    const fn new() -> Self {
        Self { near: [const { Cell::new(nothing()) }; NEAR], values: Cell::new(nobody()) }
    }

    /// Where a look at `key` begins.
    #[inline]
    fn near(&self, key: KeyId) -> &Place {
        // SAFETY: that of a number is less than `NEAR`, and so are those of the marks.
        unsafe { self.near.get_unchecked(key.near()) }
    }

    fn are(&self, values: &Values) -> bool {
        ptr::eq(self.values.get().as_ptr(), values)
    }

    /// From here on it is of these.
    fn begin(&self, values: &Values) {
        if !self.are(values) {
            self.near.iter().for_each(|near| near.set(nothing()));
            self.values.set(NonNull::from(values));
        }
    }

    /// The place of this index in `values` has `new` instead of `old`.
    fn exchanged(&self, values: &Values, index: usize, old: NonNull<Header>, new: NonNull<Header>) {
        let near = &self.near[index % NEAR];
        if self.are(values) && (new != nothing() || near.get() == old) {
            near.set(new);
        }
    }

    /// All places of `values` are empty now.
    fn cleared(&self, values: &Values) {
        if self.are(values) {
            self.near.iter().for_each(|near| near.set(nothing()));
        }
    }
}

local! {
    // No destructor and a constant start, as `current.rs` has it: a green thread starts with none. Of a thread that shares the
    // register it is never anything else.
    static NATIVE: Native = Native::new();
}

/// The running thread's value under `key`, if it is near, and not in use.
#[inline]
pub(crate) fn find_fast(key: KeyId) -> Option<NonNull<Header>> {
    let found = NATIVE.with(|native| native.near(key).get());
    // SAFETY: what is in its place is alive.
    (unsafe { found.as_ref() }.mark.get() == key).then_some(found)
}

/// The running thread's value under `key`. (Cold, so that its call stays out of the way of what follows.)
#[cold]
pub(crate) fn find(key: KeyId) -> Option<NonNull<Header>> {
    let values = NATIVE.with(|native| native.values.get());
    // SAFETY: of the running thread, or of nobody; never freed.
    let values = unsafe { values.as_ref() };
    let found = values.at(key.index());
    // SAFETY: what is in its place is alive.
    if unsafe { found.as_ref() }.mark.get() == key {
        // Not those of nobody, which have no value.
        NATIVE.with(|native| native.near(key).set(found));
        Some(found)
    } else {
        find_slow(values, found, key)
    }
}

/// It is in use; or the thread has none, or shares its register.
#[inline(never)]
fn find_slow(values: &Values, mut found: NonNull<Header>, key: KeyId) -> Option<NonNull<Header>> {
    if ptr::eq(values, nobody().as_ptr()) {
        found = current::try_current()?.core().specific.values()?.at(key.index());
    }
    // SAFETY: what is in its place is alive.
    (unsafe { found.as_ref() }.key == key).then_some(found)
}

/// Puts a value into its place, for the running thread `me`. What was there is the caller's.
///
/// # Safety
/// The header is that of a value on the heap, which nobody frees while it is in its place or in use.
pub(crate) unsafe fn put(me: ThreadRef, header: NonNull<Header>) -> Option<NonNull<Header>> {
    // SAFETY: the caller's promise.
    let index = unsafe { header.as_ref() }.key.index();
    let values = me.core().specific.values_or_new();
    while values.place(index).is_none() {
        values.grow(index);
    }
    if me.backend().has_own_register() {
        NATIVE.with(|native| native.begin(values));
    }
    values.exchange(index, header)
}

/// Takes the value under `key` out of its place, for the running thread `me`. It is the caller's.
pub(crate) fn remove(me: ThreadRef, key: KeyId) -> Option<NonNull<Header>> {
    let values = me.core().specific.values()?;
    // SAFETY: what is in its place is alive.
    if unsafe { values.at(key.index()).as_ref() }.key == key {
        values.exchange(key.index(), nothing())
    } else {
        None
    }
}

/// Destroys and frees a value. One that is in use although its key is gone, or its thread ends, is left alone for ever: the
/// stack that it is used on may be that of a coroutine, which nobody has finished.
///
/// # Safety
/// The value is out of its place, the caller's alone, and the running thread's.
pub(crate) unsafe fn discard(value: NonNull<Header>, why: Occasion) {
    // SAFETY: the caller's promise.
    let header = unsafe { value.as_ref() };
    let (is_in_use, discard) = (header.is_in_use(), header.discard);
    if !is_in_use {
        // SAFETY: the caller's promise, and not in use.
        unsafe { discard(value, why) };
    }
}

/// The running thread `me` ends: destroys its values. May be called again, if there may be others since; the thread must do
/// all that it ever does with keys before its last call.
#[inline]
pub(crate) fn end(me: ThreadRef) {
    if me.core().specific.is_used() {
        end_slow(me);
    }
}

/// Whether [`end`] would find something.
#[inline]
pub(crate) fn has_any(me: ThreadRef) -> bool {
    me.core().specific.is_used()
}

#[cold]
fn end_slow(me: ThreadRef) {
    let values = me.core().specific.values_or_new();
    for _ in 0..ROUNDS {
        if values.held.get() == 0 {
            break;
        }
        values.discard_all();
    }
    values.clear();
}

/// The running thread is nobody's from here on; who has its core next has its values.
pub(super) fn leave() {
    NATIVE.with(|native| native.begin(&NOBODY.0));
}
