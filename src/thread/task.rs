//! What passes between a thread and the threads that spawn and join it: its closure, then its result, in one
//! cell.
//!
//! A spawn should allocate nothing if possible, and a thread and its join handle should be able to go in
//! either order. `Arc` would do, at the cost of two counters, one allocation for the result and another for
//! the closure. And it would drop the result wherever the last reference happens to be. Instead:
//!
//! 1. The spawner packs the closure into a cell. If the thread has an [`InlineStorage`] and closure and
//!    result fit in it, the cell is there. If only the result fits, the closure may lie apart, on the
//!    thread's [`Porch`]. Then the cell has its address. Otherwise the cell is on the heap.
//! 2. The thread moves the closure out, runs it, catches its panic, and writes the result into the cell.
//! 3. The handle waits for the thread's end and takes the result, or it is dropped without waiting.
//! 4. One of the two drops a result that is never taken, and frees the cell. The exit word decides which
//!    (`park/exit.rs`).
//!
//! A closure is packed only when its thread exists. If a spawn fails before that, the closure stays with the
//! spawner. If it fails after that, it drops its [`Task`] unrun, which drops the closure and frees the
//! cell. In neither case is there a [`ResultCell`] yet.
//!
//! A result is dropped where there are thread-locals:
//!
//! - If the handle is gone by then, by the thread, before its own thread-locals are destroyed.
//! - If the handle goes later, by the thread that drops it.
//! - If the handle goes in between, by a thread that is started for this purpose (`mxn/sched/switch.rs`).
//!
//! Cost: no read-modify-write; one in a thread of a scope.

use std::alloc::{self, Layout};
use std::any::Any;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::current::Thread;
use super::handle::Joining;
use crate::fatal;
use crate::park::backend::{
    InlineStorage, Porch, Rooms, SpawnOptions, Spawner, Task, TaskCell, TaskRef, VTable,
};
use crate::park::thread::ThreadRef;
use crate::recorder::crash;

/// What a thread leaves behind: its value, or the payload of its panic.
pub type Result<T> = std::result::Result<T, Box<dyn Any + Send + 'static>>;

/// Starts a thread on `spawner`, whatever it is for: its closure becomes a task, and its handle has a claim
/// on the result.
///
/// # Safety
/// `f` and `T` are fit to be used on another thread, and what they borrow is alive until `ending` is told.
pub(super) unsafe fn spawn_unchecked<F, T, E>(
    spawner: &dyn Spawner,
    options: &mut SpawnOptions,
    f: F,
    ending: E,
) -> io::Result<Joining<T>>
where
    F: FnOnce() -> T,
    E: Ending,
{
    let mut new_task = NewTask::new(f, ending);
    // SAFETY: the caller's promise.
    let task = unsafe { new_task.task() };
    let core = spawner.spawn(task, options)?;
    Ok(Joining::new(Thread::from_counted(core), new_task.into_result_cell()))
}

/// Called when a thread's closure and result can no longer be reached through the thread.
pub(super) trait Ending: Send {
    /// `true` if a thread waits for the call, and not for the thread's end. Then the thread must be done
    /// with its result before the call.
    const AWAITED: bool;

    /// Notes that the thread `me`, which calls, is about to run its closure.
    fn begins(&self, me: ThreadRef);

    /// Notes the end, called by the same thread. `unread_panic` is `true` if the closure panicked, and the
    /// handle had gone before it could see the payload.
    fn ended(self, me: ThreadRef, unread_panic: bool);
}

/// For threads that are not counted.
impl Ending for () {
    const AWAITED: bool = false;

    #[inline]
    fn begins(&self, _me: ThreadRef) {}

    #[inline]
    fn ended(self, _me: ThreadRef, _unread_panic: bool) {}
}

/// A cell. It holds the closure or its address, then nothing, then the result, which is larger than an
/// address.
#[repr(C)]
union Cell<F, T, E> {
    todo: ManuallyDrop<(F, E)>,
    result: ManuallyDrop<Result<T>>,
}

impl<F, T, E> Cell<F, T, E> {
    /// `true` if it fits in a thread's room.
    const FITS: bool = fits::<Self, InlineStorage>();
    /// `true` if the closure must lie apart for that, and fits there.
    const FITS_APART: bool = !Self::FITS && fits::<(F, E), Porch>() && fits::<Result<T>, InlineStorage>();
}

const fn fits<T, Room>() -> bool {
    size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>()
}

/// What a thread is to run, while the spawner still holds it.
pub(super) struct NewTask<F, T, E> {
    todo: ManuallyDrop<(F, E)>,
    /// The cell to which `todo` has been moved, if it has.
    packed: Option<TaskCell>,
    _result: PhantomData<T>,
}

impl<F, T, E> NewTask<F, T, E>
where
    F: FnOnce() -> T,
    E: Ending,
{
    const VTABLE: &'static VTable =
        &VTable { run: run::<F, T, E, false>, cancel: cancel::<F, E, false>, discard: discard::<T> };
    /// That of a task with its closure apart.
    const VTABLE_APART: &'static VTable =
        &VTable { run: run::<F, T, E, true>, cancel: cancel::<F, E, true>, discard: discard::<T> };

    #[inline]
    pub(super) fn new(f: F, ending: E) -> Self {
        Self { todo: ManuallyDrop::new((f, ending)), packed: None, _result: PhantomData }
    }

    /// Returns what makes a [`Task`] of it.
    ///
    /// # Safety
    /// The task must be run or dropped while everything that `F` and `T` borrow is alive. Otherwise the
    /// caller must ensure that by waiting for the ending. If it is run or dropped on another thread, `F` and
    /// `T` must be fit for that (`Send`).
    #[inline]
    pub(super) unsafe fn task(&mut self) -> TaskRef<'_> {
        // SAFETY: `pack` is called with this very task, and a task packs once.
        unsafe { TaskRef::new(NonNull::from(self).cast(), Self::pack) }
    }

    /// # Safety
    /// `this` is a task that is not packed yet, and nothing else uses it. If there are `rooms`, they are
    /// memory. One belongs to the cell until the task has been dropped unrun, or until the result has been
    /// disposed of. The porch belongs to it until the task has been dropped, or begins to run.
    unsafe fn pack(this: NonNull<()>, rooms: Option<Rooms>) -> Task {
        // SAFETY: the caller's promise.
        let this = unsafe { this.cast::<Self>().as_mut() };
        let (cell, apart) = match rooms {
            Some(rooms) if Cell::<F, T, E>::FITS => (TaskCell::in_room(rooms.inline), None),
            Some(rooms) if Cell::<F, T, E>::FITS_APART => {
                (TaskCell::in_room(rooms.inline), Some(rooms.porch.cast::<(F, E)>()))
            }
            _ => (TaskCell::on_heap(Layout::new::<Cell<F, T, E>>()), None),
        };
        // SAFETY: not packed, so it is there. `packed` keeps it from being used again.
        let todo = unsafe { ManuallyDrop::take(&mut this.todo) };
        this.packed = Some(cell);
        let Some(apart) = apart else {
            // SAFETY: the cell belongs to this call, and is large enough: it was made for this type, or
            // `FITS` holds.
            unsafe { cell.at().cast::<Cell<F, T, E>>().write(Cell { todo: ManuallyDrop::new(todo) }) };
            return Task { cell, vtable: Self::VTABLE };
        };
        // SAFETY: the porch belongs to this call, and `FITS_APART` holds.
        unsafe { apart.write(todo) };
        // SAFETY: the cell belongs to this call, and an address fits.
        unsafe { cell.at().cast::<*mut (F, E)>().write(apart) };
        Task { cell, vtable: Self::VTABLE_APART }
    }
}

impl<F, T, E> NewTask<F, T, E> {
    /// Returns the handle's share of a new_task that was packed.
    #[inline]
    pub(super) fn into_result_cell(self) -> ResultCell<T> {
        let this = ManuallyDrop::new(self);
        ResultCell { cell: this.packed.expect("what was started was packed"), _result: PhantomData }
    }
}

impl<F, T, E> Drop for NewTask<F, T, E> {
    fn drop(&mut self) {
        if self.packed.is_none() {
            // SAFETY: only `pack` takes it out, and then `packed` is set.
            unsafe { ManuallyDrop::drop(&mut self.todo) };
        }
    }
}

/// The lowest bit of an [`TaskCell`]: set if it is on the heap.
const HEAP: usize = 1;

/// The header of a cell on the heap, right before the cell.
type Header = Layout;

impl TaskCell {
    #[inline]
    fn in_room(room: NonNull<InlineStorage>) -> Self {
        Self(room.cast())
    }

    /// Allocates space for a cell.
    #[cold]
    fn on_heap(cell: Layout) -> Self {
        let (layout, offset) = Layout::new::<Header>().extend(cell).expect("the type of a cell has a size");
        debug_assert_eq!(offset, Self::offset(layout));
        // SAFETY: the header alone has a size.
        let start = unsafe { alloc::alloc(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        // SAFETY: within the allocation.
        let at = unsafe { start.add(offset) };
        // SAFETY: within the allocation: the header comes first.
        let header = unsafe { at.cast::<Header>().sub(1) };
        // SAFETY: the header is within the allocation. The cell is aligned at least as a payload, which is a
        // pointer, and so is the header.
        unsafe { header.write(layout) };
        Self(at.cast::<()>().map_addr(|at| at | HEAP))
    }

    /// Returns how far behind the beginning of the allocation a cell is.
    fn offset(layout: Layout) -> usize {
        size_of::<Header>().max(layout.align())
    }

    #[inline]
    fn at(self) -> NonNull<()> {
        // SAFETY: a cell does not lie at 0, and only its lowest bit has another meaning.
        self.0.map_addr(|at| unsafe { NonZeroUsize::new_unchecked(at.get() & !HEAP) })
    }

    /// Frees the cell.
    ///
    /// # Safety
    /// It belongs to the caller alone, and nothing is in it.
    #[inline]
    unsafe fn free(self) {
        if self.0.addr().get() & HEAP != 0 {
            // SAFETY: the caller's promise, and it is on the heap.
            unsafe { self.deallocate() };
        }
    }

    /// # Safety
    /// As for [`free`](Self::free), and it is on the heap.
    #[cold]
    unsafe fn deallocate(self) {
        let at = self.at();
        // SAFETY: within the allocation: see `on_heap`.
        let header = unsafe { at.cast::<Header>().sub(1) };
        // SAFETY: `on_heap` wrote it.
        let layout = unsafe { header.read() };
        // SAFETY: the place where the allocation begins.
        let start = unsafe { at.cast::<u8>().sub(Self::offset(layout)) };
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(start.as_ptr(), layout) };
    }
}

/// Takes the closure out.
///
/// # Safety
/// `pack` made `cell` with the same types, and with the closure apart or not. The cell belongs to the caller,
/// and this is the first call on it.
#[inline(always)]
unsafe fn take_todo<F, E, const APART: bool>(cell: TaskCell) -> (F, E) {
    // A cell is a union, so everything lies at its beginning.
    let todo = if APART {
        // SAFETY: `pack` wrote the address there.
        unsafe { cell.at().cast::<*mut (F, E)>().read() }
    } else {
        cell.at().cast().as_ptr()
    };
    // SAFETY: `pack` wrote the closure there, and it is read once. What lies on a porch is the caller's until
    // then.
    unsafe { todo.read() }
}

/// Runs the closure. Returns `true` if the result lies in the cell, and it is still open which side disposes
/// of it.
///
/// # Safety
/// `pack` made `cell` with the same types, and with the closure apart or not. This is the only call of `run`
/// or `cancel` on it. `me` is the calling thread.
unsafe fn run<F, T, E, const APART: bool>(cell: TaskCell, me: ThreadRef, for_good: bool) -> bool
where
    F: FnOnce() -> T,
    E: Ending,
{
    let result = cell.at().cast::<Result<T>>();
    // SAFETY: the cell belongs to the thread while the thread runs. The rest is the caller's promise.
    let (f, ending) = unsafe { take_todo::<F, E, APART>(cell) };
    ending.begins(me);
    // Written inside `run`, so that the result is made in its place.
    let run = || {
        let value = f();
        // SAFETY: the cell belongs to the thread while it runs, and the closure has been moved out.
        unsafe { result.write(Ok(value)) };
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        crash::write(crash::Reason::Panic);
        // SAFETY: the cell belongs to the thread while it runs, and the closure has been moved out.
        unsafe { result.write(Err(payload)) };
    }
    let open = !me.is_detached();
    if open && !E::AWAITED && !for_good {
        ending.ended(me, false);
        return true;
    }
    let left = open && me.leave_result();
    // SAFETY: the handle is gone, so the cell belongs to this thread alone, and the result is in it.
    let unread_panic = !left && unsafe { discard::<T>(cell) };
    ending.ended(me, unread_panic);
    false
}

/// # Safety
/// As for [`run`].
unsafe fn cancel<F, E, const APART: bool>(cell: TaskCell) {
    // SAFETY: the cell belongs to the task. The rest is the caller's promise.
    let todo = unsafe { take_todo::<F, E, APART>(cell) };
    // SAFETY: the cell is empty by now.
    unsafe { cell.free() };
    // Last: it may unwind.
    drop(todo);
}

/// Drops the result and frees the cell. Returns `true` if the result was a panic.
///
/// # Safety
/// `pack` made `cell` for a thread with this result. The cell belongs to the caller alone, and the result is
/// in it.
unsafe fn discard<T>(cell: TaskCell) -> bool {
    // SAFETY: the caller's promise.
    drop_unread(unsafe { take::<T>(cell) })
}

/// Takes the result out and frees the cell.
///
/// # Safety
/// As for [`discard`].
#[inline]
unsafe fn take<T>(cell: TaskCell) -> Result<T> {
    // SAFETY: the caller's promise, and it is read once. A cell is a union, so everything lies at its
    // beginning.
    let result = unsafe { cell.at().cast::<Result<T>>().read() };
    // SAFETY: the cell is the caller's alone, and the result has been moved out.
    unsafe { cell.free() };
    result
}

/// Drops a result that was not taken. Returns `true` if it was a panic. If the drop of a result panics, the
/// process ends, as in std: no caller is left to tell.
fn drop_unread<T>(result: Result<T>) -> bool {
    let panicked = result.is_err();
    // Kept until the abort: the drop of the payload may panic, too.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(result)));
    if dropped.is_err() {
        fatal::abort("thread result panicked on drop");
    }
    panicked
}

impl Task {
    /// Runs the thread's closure to its end, or to its panic, and leaves the result in the cell. Called by
    /// the thread `me`. If this returns a value, it becomes the thread's duty if the handle is gone at the
    /// thread's end.
    #[inline]
    pub(crate) fn run(self, me: ThreadRef) -> Option<Unclaimed> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `self` is consumed and not dropped, so nothing else runs or cancels it.
        let open = unsafe { (this.vtable.run)(this.cell, me, false) };
        open.then_some(Unclaimed { cell: this.cell, vtable: this.vtable })
    }

    /// Does the same with one more read-modify-write, and without such a duty: if the handle is there, the
    /// result is the handle's.
    pub(crate) fn run_for_good(self, me: ThreadRef) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `self` is consumed and not dropped, so nothing else runs or cancels it.
        let open = unsafe { (this.vtable.run)(this.cell, me, true) };
        debug_assert!(!open, "left for good");
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: `run` consumes a task without dropping it, so this one was not run.
        unsafe { (self.vtable.cancel)(self.cell) }
    }
}

// SAFETY: the caller of `task` has promised that the closure may run on another thread.
unsafe impl Send for Task {}

/// A result that lies in its cell. It belongs to the handle, unless the thread finds at its end that there
/// is none.
#[must_use = "it may have to be discarded"]
pub(crate) struct Unclaimed {
    cell: TaskCell,
    vtable: &'static VTable,
}

// SAFETY: the caller of `task` has promised that the result may be used on another thread.
unsafe impl Send for Unclaimed {}

impl Unclaimed {
    /// Drops the result, which may run code of the user's.
    ///
    /// # Safety
    /// [`finish_with`](crate::park::thread::ThreadCore::finish_with) has said that the handle is gone.
    #[cold]
    pub(crate) unsafe fn discard(self) {
        // SAFETY: the handle has gone while the thread ran, so the result is the thread's. No ending is
        // awaited.
        unsafe { (self.vtable.discard)(self.cell) };
    }
}

/// The handle's share of a cell. It knows the type of the result, but not of the closure.
pub(super) struct ResultCell<T> {
    cell: TaskCell,
    _result: PhantomData<T>,
}

// SAFETY: the result was made on another thread, so it may be sent (the caller of `task` promised `T:
// Send`).
unsafe impl<T> Send for ResultCell<T> {}
// SAFETY: a shared claim gives access to nothing.
unsafe impl<T> Sync for ResultCell<T> {}

impl<T> ResultCell<T> {
    /// Returns the result.
    ///
    /// # Safety
    /// The thread has ended, or has left its result for good, and the handle was there then.
    #[inline]
    pub(super) unsafe fn take(self) -> Result<T> {
        // SAFETY: the caller says that the result is there and belongs to the claim, which is used up.
        unsafe { take(self.cell) }
    }

    /// Drops the result. Returns `true` if it was a panic that was not seen.
    ///
    /// # Safety
    /// As for [`take`](Self::take).
    pub(super) unsafe fn discard(self) -> bool {
        // SAFETY: the caller says that the result is there and belongs to the claim, which is used up.
        unsafe { discard::<T>(self.cell) }
    }
}

#[cfg(all(test, loom))]
mod loom_task;
#[cfg(test)]
mod tests;
