//! What passes between a thread and who spawns and joins it: its closure, then its result, in one cell.
//!
//! A spawn should allocate nothing, where it can be helped, and a thread and its join handle should be able to go in either
//! order. `Arc` would do, at two counters' cost, an allocation for the result and another for the closure, and a drop of
//! the result whose place depends on who happens to be last. Here:
//!
//! 1. the spawner packs the closure into a cell: the thread's own [`Room`], if it has one and they fit in it, else on the heap;
//! 2. the thread moves the closure out, runs it, catches its panic, and writes the result into the same bytes;
//! 3. the handle waits for the thread's end and takes the result, or it is dropped without waiting;
//! 4. which of the two drops a result that nobody takes, and frees the cell, the exit word says (`park/exit.rs`).
//!
//! A closure is packed as late as its thread is there; a spawn that fails before leaves it with the spawner, one that fails
//! after drops its [`Start`] unrun, which drops the closure and frees the cell. There is no [`Claim`] yet in either case.
//!
//! A result is dropped where there are thread-locals: by the thread before its own are destroyed, if the handle is gone by then;
//! by who drops the handle; or, if the handle goes in between, by a thread that is started for it (`mxn/sched/switch.rs`).
//!
//! Cost: no read-modify-write; one in a thread of a scope.

use std::alloc::{self, Layout};
use std::any::Any;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::fatal;
use crate::park::backend::{AnyCell, Packing, Room, Start, Verbs};
use crate::park::thread::ThreadRef;

/// What a panic carries to `join`.
type Payload = Box<dyn Any + Send + 'static>;

/// Told when a thread's closure and result can no longer be reached through the thread.
pub(super) trait Ending: Send {
    /// Whether somebody waits to be told, and not for the thread's end. The thread must then be done with its result before
    /// it tells.
    const AWAITED: bool;

    /// The thread `me`, which calls, is about to run its closure.
    fn begins(&self, me: ThreadRef);

    /// By the same. `unread_panic`: the closure panicked, and the handle had gone before it could see the payload.
    fn ended(self, me: ThreadRef, unread_panic: bool);
}

/// Threads that nobody counts.
impl Ending for () {
    const AWAITED: bool = false;

    #[inline]
    fn begins(&self, _me: ThreadRef) {}

    #[inline]
    fn ended(self, _me: ThreadRef, _unread_panic: bool) {}
}

/// A cell. The closure, then nothing, then the result.
#[repr(C)]
union Cell<F, T, E> {
    todo: ManuallyDrop<(F, E)>,
    result: ManuallyDrop<Result<T, Payload>>,
}

impl<F, T, E> Cell<F, T, E> {
    /// In a thread's room.
    const FITS: bool = size_of::<Self>() <= size_of::<Room>() && align_of::<Self>() <= align_of::<Room>();
}

/// What a thread is to run, while its spawner has it.
pub(super) struct Parcel<F, T, E> {
    todo: ManuallyDrop<(F, E)>,
    /// Where `todo` has been moved to, if it has.
    packed: Option<AnyCell>,
    _result: PhantomData<T>,
}

impl<F, T, E> Parcel<F, T, E>
where
    F: FnOnce() -> T,
    E: Ending,
{
    const VERBS: &'static Verbs =
        &Verbs { run: run::<F, T, E>, cancel: cancel::<F, E>, discard: discard::<T> };

    #[inline]
    pub(super) fn new(f: F, ending: E) -> Self {
        Self { todo: ManuallyDrop::new((f, ending)), packed: None, _result: PhantomData }
    }

    /// What makes a [`Start`] of it.
    ///
    /// # Safety
    /// The start must be run or dropped while everything that `F` and `T` borrow is alive, or the caller must see to that by
    /// waiting for the ending. If it is run or dropped on another thread, `F` and `T` must be fit for that (`Send`).
    #[inline]
    pub(super) unsafe fn packing(&mut self) -> Packing<'_> {
        // SAFETY: `pack` is given this very parcel, and a packing packs once.
        unsafe { Packing::new(NonNull::from(self).cast(), Self::pack) }
    }

    /// # Safety
    /// `this` is a parcel, not packed yet, and nobody else uses it. `room`, if there is one, is the cell's until the start has
    /// been dropped unrun, or whoever disposes of the result has done so.
    unsafe fn pack(this: NonNull<()>, room: Option<NonNull<Room>>) -> Start {
        // SAFETY: the caller's promise.
        let this = unsafe { this.cast::<Self>().as_mut() };
        let cell = match room {
            Some(room) if Cell::<F, T, E>::FITS => AnyCell::in_room(room),
            _ => AnyCell::on_heap(Layout::new::<Cell<F, T, E>>()),
        };
        // SAFETY: not packed, so it is there; `packed` keeps it from being used again.
        let todo = unsafe { ManuallyDrop::take(&mut this.todo) };
        this.packed = Some(cell);
        // SAFETY: ours, and fit for it: made for it, or because of `FITS`.
        unsafe { cell.at().cast::<Cell<F, T, E>>().write(Cell { todo: ManuallyDrop::new(todo) }) };
        Start { cell, verbs: Self::VERBS }
    }
}

impl<F, T, E> Parcel<F, T, E> {
    /// What the handle gets of a parcel that was packed.
    #[inline]
    pub(super) fn into_claim(self) -> Claim<T> {
        let this = ManuallyDrop::new(self);
        Claim { cell: this.packed.expect("what was started was packed"), _result: PhantomData }
    }
}

impl<F, T, E> Drop for Parcel<F, T, E> {
    fn drop(&mut self) {
        if self.packed.is_none() {
            // SAFETY: `pack` alone takes it out, and says so.
            unsafe { ManuallyDrop::drop(&mut self.todo) };
        }
    }
}

/// The lowest bit of an [`AnyCell`]: it is on the heap.
const HEAP: usize = 1;

/// Of a cell on the heap; right before the cell.
type Header = Layout;

impl AnyCell {
    #[inline]
    fn in_room(room: NonNull<Room>) -> Self {
        Self(room.cast())
    }

    /// Space for a cell.
    #[cold]
    fn on_heap(cell: Layout) -> Self {
        let (layout, offset) = Layout::new::<Header>().extend(cell).expect("the type of a cell has a size");
        debug_assert_eq!(offset, Self::offset(layout));
        // SAFETY: the header alone has a size.
        let start = unsafe { alloc::alloc(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        // SAFETY: within the allocation.
        let at = unsafe { start.add(offset) };
        // SAFETY: as above: the header comes first.
        let header = unsafe { at.cast::<Header>().sub(1) };
        // SAFETY: as above. The cell is aligned as a payload, which is a pointer, at least, and so is the header.
        unsafe { header.write(layout) };
        Self(at.cast::<()>().map_addr(|at| at | HEAP))
    }

    /// How far behind the beginning of the allocation a cell is.
    fn offset(layout: Layout) -> usize {
        size_of::<Header>().max(layout.align())
    }

    #[inline]
    fn at(self) -> NonNull<()> {
        // SAFETY: a cell does not lie at 0, and its lowest bit is the only one that is ours.
        self.0.map_addr(|at| unsafe { NonZeroUsize::new_unchecked(at.get() & !HEAP) })
    }

    /// Frees the cell.
    ///
    /// # Safety
    /// It is the caller's alone, and nothing is in it.
    #[inline]
    unsafe fn free(self) {
        if self.0.addr().get() & HEAP != 0 {
            // SAFETY: the caller's promise, and it is on the heap.
            unsafe { self.deallocate() };
        }
    }

    /// # Safety
    /// As [`free`](Self::free), and it is on the heap.
    #[cold]
    unsafe fn deallocate(self) {
        let at = self.at();
        // SAFETY: within the allocation: see `on_heap`.
        let header = unsafe { at.cast::<Header>().sub(1) };
        // SAFETY: `on_heap` wrote it.
        let layout = unsafe { header.read() };
        // SAFETY: where the allocation begins.
        let start = unsafe { at.cast::<u8>().sub(Self::offset(layout)) };
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(start.as_ptr(), layout) };
    }
}

/// Gives `true` if the result lies in the cell, and who disposes of it is still open.
///
/// # Safety
/// `pack` made `cell` with the same types, and this is the only call of `run` or `cancel` on it. `me` is the thread that
/// calls.
unsafe fn run<F, T, E>(cell: AnyCell, me: ThreadRef, for_good: bool) -> bool
where
    F: FnOnce() -> T,
    E: Ending,
{
    // A cell is a union: all lies at its beginning.
    let (todo, result) = (cell.at().cast::<(F, E)>(), cell.at().cast::<Result<T, Payload>>());
    // SAFETY: the cell belongs to the thread as long as that runs, and what `pack` wrote is read once.
    let (f, ending) = unsafe { todo.read() };
    ending.begins(me);
    // Within, so that the result is made in its place.
    let run = || {
        let value = f();
        // SAFETY: as above, and the closure has been moved out.
        unsafe { result.write(Ok(value)) };
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        // SAFETY: as above.
        unsafe { result.write(Err(payload)) };
    }
    let open = !me.is_detached();
    if open && !E::AWAITED && !for_good {
        ending.ended(me, false);
        return true;
    }
    let left = open && me.leave_result();
    // SAFETY: the handle is gone, so the cell is ours alone, and the result is in it.
    let unread_panic = !left && unsafe { discard::<T>(cell) };
    ending.ended(me, unread_panic);
    false
}

/// # Safety
/// As for [`run`].
unsafe fn cancel<F, E>(cell: AnyCell) {
    // SAFETY: the cell belongs to the start, and what `pack` wrote is read once.
    let todo = unsafe { cell.at().cast::<(F, E)>().read() };
    // SAFETY: nothing is in it any more.
    unsafe { cell.free() };
    // Last: it may unwind.
    drop(todo);
}

/// Drops the result and frees the cell; says whether the result was a panic.
///
/// # Safety
/// `pack` made `cell` for a thread with this result. It is the caller's alone, and the result is in it.
unsafe fn discard<T>(cell: AnyCell) -> bool {
    // SAFETY: the caller's promise.
    drop_unread(unsafe { take::<T>(cell) })
}

/// Takes the result out and frees the cell.
///
/// # Safety
/// As for [`discard`].
#[inline]
unsafe fn take<T>(cell: AnyCell) -> Result<T, Payload> {
    // SAFETY: the caller's promise, and it is read once. A cell is a union: all lies at its beginning.
    let result = unsafe { cell.at().cast::<Result<T, Payload>>().read() };
    // SAFETY: as above, and the result has been moved out.
    unsafe { cell.free() };
    result
}

/// Drops a result that nobody took; says whether it was a panic. A result that panics when it is dropped ends the
/// process, as in std: nobody is left to tell.
fn drop_unread<T>(result: Result<T, Payload>) -> bool {
    let panicked = result.is_err();
    if catch_unwind(AssertUnwindSafe(|| drop(result))).is_err() {
        fatal::abort("thread result panicked on drop");
    }
    panicked
}

impl Start {
    /// Runs the thread's closure to its end, or to its panic, and leaves the result in the cell. What is given, if anything,
    /// is the thread's duty if it finds at its end that its handle is gone. By the thread `me`.
    #[inline]
    pub(crate) fn run(self, me: ThreadRef) -> Option<Unclaimed> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `self` is consumed, and not dropped: nobody else runs or cancels it.
        let open = unsafe { (this.verbs.run)(this.cell, me, false) };
        open.then_some(Unclaimed { cell: this.cell, verbs: this.verbs })
    }

    /// The same, with one read-modify-write more and no duty left: the result is the handle's, if that is there.
    pub(crate) fn run_for_good(self, me: ThreadRef) {
        let this = ManuallyDrop::new(self);
        // SAFETY: as in `run`.
        let open = unsafe { (this.verbs.run)(this.cell, me, true) };
        debug_assert!(!open, "left for good");
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        // SAFETY: `run` consumes a start without dropping it, so this one was not run.
        unsafe { (self.verbs.cancel)(self.cell) }
    }
}

// SAFETY: `packing`'s caller has promised that the closure may run on another thread.
unsafe impl Send for Start {}

/// A result that lies in its cell. It is the handle's, unless the thread finds at its end that there is none.
#[must_use = "it may have to be discarded"]
pub(crate) struct Unclaimed {
    cell: AnyCell,
    verbs: &'static Verbs,
}

// SAFETY: `packing`'s caller has promised that the result may be used on another thread.
unsafe impl Send for Unclaimed {}

impl Unclaimed {
    /// Drops the result, which may run code of the user's.
    ///
    /// # Safety
    /// [`ThreadCore::finish`](crate::park::thread::ThreadCore::finish) has said that the handle is gone.
    #[cold]
    pub(crate) unsafe fn discard(self) {
        // SAFETY: the handle has gone while the thread ran, so the result is the thread's; and nobody awaits to be told.
        unsafe { (self.verbs.discard)(self.cell) };
    }
}

/// The handle's share of a cell. It knows the result's type, and not the closure's.
pub(super) struct Claim<T> {
    cell: AnyCell,
    _result: PhantomData<T>,
}

// SAFETY: the result was made on another thread, so it is fit to be sent (`packing`'s caller promised `T: Send`).
unsafe impl<T> Send for Claim<T> {}
// SAFETY: a shared claim gives access to nothing.
unsafe impl<T> Sync for Claim<T> {}

impl<T> Claim<T> {
    /// The result.
    ///
    /// # Safety
    /// The thread has ended, or has left its result for good, and the handle was there then.
    #[inline]
    pub(super) unsafe fn take(self) -> Result<T, Payload> {
        // SAFETY: the caller says that the result is there and ours; the claim is used up.
        unsafe { take(self.cell) }
    }

    /// Drops the result; `true`: it was a panic that nobody saw.
    ///
    /// # Safety
    /// As for [`take`](Self::take).
    pub(super) unsafe fn discard(self) -> bool {
        // SAFETY: as in `take`.
        unsafe { discard::<T>(self.cell) }
    }
}

#[cfg(test)]
mod tests;
