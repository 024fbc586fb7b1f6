//! The one heap cell of a thread: its closure, then its result.
//!
//! A spawn should cost one allocation, and a thread and its join handle should be able to go in either order. `Arc`
//! would do, at two counters' cost, a second allocation for the closure, and a drop of the result whose place depends on who
//! happens to be last. Here the cell has two sides, the *thread* and the *claim* (the join handle), and one bit that says
//! whether one of them has left:
//!
//! 1. the spawner makes the cell with the closure in it, and both sides;
//! 2. the thread moves the closure out, runs it, catches its panic, writes the result into the same bytes, and leaves;
//! 3. the claim either waits for the thread's end, which is after 2, and takes the result; or it leaves without waiting;
//! 4. whoever leaves second owns the cell alone: it drops the result that nobody took, and frees the cell.
//!
//! A spawn that fails drops its [`Start`] unrun, which drops the closure and leaves for the thread.
//!
//! Cost: one read-modify-write (2); none in the claim that waits, none in a thread whose claim has left already.

use std::alloc::{self, Layout};
use std::any::Any;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::fatal;
use crate::park::backend::Start;
use crate::shim::atomic::{AtomicU32, Ordering};

/// What a panic carries to `join`.
type Payload = Box<dyn Any + Send + 'static>;

/// Which sides of a cell are there, and what is in it.
///
/// | value | the body is | and belongs to | the cell is freed by |
/// |---|---|---|---|
/// | `BOTH`  | the closure, then nothing, then the result | the thread | whoever leaves second |
/// | `ONE`   | the thread has left: the result; the claim has: as in `BOTH` | the side that is there | that side |
/// | `EMPTY` | nothing: the thread was never started | nobody | the claim |
#[derive(Debug)]
struct Sides(AtomicU32);

const BOTH: u32 = 0;
const ONE: u32 = 1;
const EMPTY: u32 = 2;

/// What the side that leaves has to do.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
enum Left {
    /// Nothing, and it must not touch the cell again.
    First,
    /// Drop the result, and free the cell.
    LastWithResult,
    /// Free the cell.
    LastWithout,
}

impl Sides {
    fn new() -> Self {
        Self(AtomicU32::new(BOTH))
    }

    /// Leaves the cell for one of its sides. `as_what` is `ONE`, or `EMPTY` for a thread that was not started.
    #[inline]
    fn leave(&self, as_what: u32) -> Left {
        // Acquire, in the load and in the swap, pairs with the release of the other side's swap: what it wrote into the cell
        // is visible to the side that drops it. The load alone settles it where the other side has left already.
        let mut other = self.0.load(Ordering::Acquire);
        if other == BOTH {
            other = self.0.swap(as_what, Ordering::AcqRel);
        }
        match (other, as_what) {
            (BOTH, _) => Left::First,
            (ONE, ONE) => Left::LastWithResult,
            _ => Left::LastWithout,
        }
    }

    /// Whether the thread has left its result to the claim, which has not left.
    fn has_result(&self) -> bool {
        // Acquire: as in `leave`.
        self.0.load(Ordering::Acquire) == ONE
    }
}

/// Told when a thread's closure and result can no longer be reached through the thread.
pub(super) trait Ending: Send {
    /// `unread_panic`: the closure panicked, and the claim had left before it could see the payload.
    fn ended(self, unread_panic: bool);
}

/// Threads that nobody counts.
impl Ending for () {
    #[inline]
    fn ended(self, _unread_panic: bool) {}
}

/// What a claim knows of a cell without knowing its closure's type.
struct Header {
    sides: Sides,
    layout: Layout,
    result_at: usize,
}

union Body<F, T, E> {
    todo: ManuallyDrop<(F, E)>,
    result: ManuallyDrop<Result<T, Payload>>,
}

#[repr(C)]
struct Cell<F, T, E> {
    header: Header,
    body: Body<F, T, E>,
}

/// Makes a thread's cell, and its two sides.
///
/// # Safety
/// The thread's side must be run or dropped while everything that `f` and `T` borrow is alive, or the caller must see to
/// that by waiting for `ending`. If it is run or dropped on another thread, `f` and `T` must be fit for that (`Send`).
pub(super) unsafe fn packet<F, T, E>(f: F, ending: E) -> (Start, Claim<T>)
where
    F: FnOnce() -> T,
    E: Ending,
{
    let cell = Box::new(Cell::<F, T, E> {
        header: Header {
            sides: Sides::new(),
            layout: Layout::new::<Cell<F, T, E>>(),
            result_at: offset_of!(Cell<F, T, E>, body),
        },
        body: Body { todo: ManuallyDrop::new((f, ending)) },
    });
    let cell: NonNull<()> = NonNull::from(Box::leak(cell)).cast();
    let start = Start { cell, run: run::<F, T, E>, cancel: cancel::<F, T, E> };
    (start, Claim { cell: cell.cast(), _result: PhantomData })
}

/// # Safety
/// `cell` was made by [`packet`] with the same types, and this is the only call of `run` or `cancel` on it.
unsafe fn run<F, T, E>(cell: NonNull<()>)
where
    F: FnOnce() -> T,
    E: Ending,
{
    let cell = cell.cast::<Cell<F, T, E>>().as_ptr();
    // SAFETY: the cell lives until both sides have left, and the body belongs to the thread until it leaves.
    let body = unsafe { &raw mut (*cell).body };
    // SAFETY: as above.
    let todo = unsafe { &raw const (*body).todo };
    // SAFETY: `packet` wrote it, and it is read once.
    let (f, ending) = ManuallyDrop::into_inner(unsafe { todo.read() });
    let result = catch_unwind(AssertUnwindSafe(f));
    // SAFETY: as above.
    let place = unsafe { &raw mut (*body).result };
    // SAFETY: the closure has been moved out, so the bytes are free for the result.
    unsafe { place.write(ManuallyDrop::new(result)) };
    // SAFETY: this side has not left yet.
    let left = unsafe { (*cell).header.sides.leave(ONE) };
    // SAFETY: the claim had left before, so the cell is ours alone, and the result is in it.
    let unread_panic = left == Left::LastWithResult && unsafe { discard::<T>(header(cell)) };
    ending.ended(unread_panic);
}

/// # Safety
/// As for [`run`].
unsafe fn cancel<F, T, E>(cell: NonNull<()>) {
    /// Leaves for the thread, even if dropping the closure unwinds.
    struct Leave(NonNull<Header>);
    impl Drop for Leave {
        fn drop(&mut self) {
            // SAFETY: the thread's side has not left yet.
            if unsafe { self.0.as_ref() }.sides.leave(EMPTY) != Left::First {
                // SAFETY: both have left, and the closure has been moved out.
                unsafe { free(self.0) };
            }
        }
    }
    let cell = cell.cast::<Cell<F, T, E>>().as_ptr();
    let _leave = Leave(header(cell));
    // SAFETY: the cell lives until both sides have left.
    let todo = unsafe { &raw const (*cell).body.todo };
    // SAFETY: the closure was never moved out, and the body belongs to the thread's side.
    drop(ManuallyDrop::into_inner(unsafe { todo.read() }));
}

fn header<F, T, E>(cell: *mut Cell<F, T, E>) -> NonNull<Header> {
    // The header is the first field (`repr(C)`).
    NonNull::new(cell.cast()).expect("made from a box")
}

/// # Safety
/// The cell is the caller's alone, and its result is in it. Frees the cell; the result is the caller's.
unsafe fn take<T>(cell: NonNull<Header>) -> Result<T, Payload> {
    // SAFETY: the cell is the caller's alone.
    let at = unsafe { cell.as_ref() }.result_at;
    // SAFETY: `result_at` is the offset of the body in this very cell.
    let result = unsafe { cell.cast::<u8>().add(at) };
    // SAFETY: the result lies there, and is read once.
    let result = unsafe { result.cast::<Result<T, Payload>>().read() };
    // SAFETY: the result has been moved out.
    unsafe { free(cell) };
    result
}

/// Drops the result and frees the cell; says whether the result was a panic. A result that panics when it is dropped
/// ends the process, as in std: nobody is left to tell.
///
/// # Safety
/// As for [`take`].
unsafe fn discard<T>(cell: NonNull<Header>) -> bool {
    // SAFETY: the caller's promise.
    let result = unsafe { take::<T>(cell) };
    let panicked = result.is_err();
    if catch_unwind(AssertUnwindSafe(|| drop(result))).is_err() {
        fatal::abort("thread result panicked on drop");
    }
    panicked
}

/// # Safety
/// Both sides have left or the caller is the one that is there, and the body has been moved out.
unsafe fn free(cell: NonNull<Header>) {
    // SAFETY: as the caller says; the header owns nothing that needs dropping.
    let layout = unsafe { cell.as_ref() }.layout;
    // SAFETY: `packet` boxed the cell with this layout.
    unsafe { alloc::dealloc(cell.as_ptr().cast(), layout) };
}

impl Start {
    /// Runs the thread's closure to its end, or to its panic, and leaves the result in the cell.
    #[inline]
    pub(crate) fn run(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `self` is consumed, and not dropped: nobody else runs or cancels it.
        unsafe { (this.run)(this.cell) }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        // SAFETY: `run` consumes a start without dropping it, so this one was not run.
        unsafe { (self.cancel)(self.cell) }
    }
}

// SAFETY: `packet`'s caller has promised that the closure may run on another thread.
unsafe impl Send for Start {}

/// The side of a cell that waits for the result.
pub(super) struct Claim<T> {
    cell: NonNull<Header>,
    _result: PhantomData<T>,
}

// SAFETY: the result was made on another thread, so it is fit to be sent (`packet`'s caller promised `T: Send`).
unsafe impl<T> Send for Claim<T> {}
// SAFETY: a shared claim gives access to nothing.
unsafe impl<T> Sync for Claim<T> {}

impl<T> Claim<T> {
    /// The result of a thread that has ended.
    ///
    /// # Panics
    /// If the thread has not left its result.
    #[inline]
    pub(super) fn take(self) -> Result<T, Payload> {
        let this = ManuallyDrop::new(self);
        // SAFETY: this side has not left, so the cell is there.
        assert!(unsafe { this.cell.as_ref() }.sides.has_result(), "a joined thread has left its result");
        // SAFETY: the thread has left with its result, and this side goes now.
        unsafe { take(this.cell) }
    }

    /// Leaves; the result is dropped here, if it is there already. `true`: it was a panic that nobody saw.
    pub(super) fn abandon(self) -> bool {
        let this = ManuallyDrop::new(self);
        // SAFETY: this side leaves once.
        unsafe { abandon::<T>(this.cell) }
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        // SAFETY: the verbs above do not drop the claim, so this side has not left.
        unsafe { abandon::<T>(self.cell) };
    }
}

/// # Safety
/// The claim of `cell` has not left, and leaves now.
unsafe fn abandon<T>(cell: NonNull<Header>) -> bool {
    // SAFETY: the claim has not left, so the cell is there.
    match unsafe { cell.as_ref() }.sides.leave(ONE) {
        Left::First => false,
        // SAFETY: the thread has left before with its result: the cell is ours alone.
        Left::LastWithResult => unsafe { discard::<T>(cell) },
        Left::LastWithout => {
            // SAFETY: the thread was not started, and its closure is gone.
            unsafe { free(cell) };
            false
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod loom_sides;
