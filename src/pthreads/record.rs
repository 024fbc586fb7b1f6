//! What is known of a green thread that `pthread_create` has started, and its `pthread_t`.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::mem::{self, offset_of};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use libc::pthread_t;

use super::kernel::Kernels;
use super::semaphore;
use crate::interpose::cancel::{self, Cancel};
use crate::park::futex::errands::Errand;
use crate::park::thread::ThreadRef;
use crate::sync::Mutex;
use crate::sys::fork;
use crate::sys::once::OnceLock;
use crate::sys::thread_end;
use crate::thread::current::{self, Thread};
use crate::thread::handle::JoinHandle;

/// Evaluates to the record of a green thread. Of any other thread, returns what the C library's function does.
macro_rules! green_record {
    ($function:ident($thread:ident $(, $argument:ident)*)) => {
        // SAFETY: the caller's promise.
        match unsafe { $crate::pthreads::record::Record::of($thread) } {
            Some(record) => record,
            // SAFETY: the caller's promise.
            None => return unsafe { $crate::sys::next::$function($thread $(, $argument)*) },
        }
    };
}
pub(super) use green_record;

/// What the thread's function returns.
pub(super) struct Value(pub(super) *mut c_void);

// SAFETY: the C library passes it from one thread to another, too.
unsafe impl Send for Value {}

/// The right to join the thread of a record.
#[derive(Default)]
pub(super) struct Started {
    /// Taken by the thread that joins, or detaches.
    pub(super) handle: Option<JoinHandle<Value>>,
    pub(super) detached: bool,
}

/// What a thread has passed to `pthread_exit`, if it has called that. Used by the thread alone.
#[derive(Default)]
pub(super) struct Exit {
    called: AtomicBool,
    value: AtomicPtr<c_void>,
}

impl Exit {
    pub(super) fn set(&self, value: *mut c_void) {
        // Relaxed, here and below: one thread's.
        self.value.store(value, Ordering::Relaxed);
        self.called.store(true, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Option<*mut c_void> {
        self.called.load(Ordering::Relaxed).then(|| self.value.load(Ordering::Relaxed))
    }
}

/// The bytes of a name, with the zero behind it.
pub(super) const NAME: usize = 16;

/// A green thread that `pthread_create` has started; or a kernel thread (`kernel.rs`).
///
/// It is shared by the `pthread_t`, until that is joined or detached, and by the thread.
pub(super) struct Record {
    /// Its creator holds the lock until the thread is there.
    pub(super) thread: Mutex<Started>,
    /// The thread, once it has started. Set by its creator or by itself.
    pub(super) started: OnceLock<Thread>,
    /// What the thread has passed to `pthread_exit`.
    pub(super) exit: Exit,
    pub(super) cancel: Cancel,
    /// That the helper is to look at its signals (`kill.rs`).
    pub(super) errand: Errand,
    /// That the helper has given up shares.
    pub(super) given_up: Errand,
    /// How often its keys have been destroyed. A futex in a child that the thread has forked.
    rounds: AtomicU32,
    /// The child in which the thread goes on that has forked it; 0: none.
    child: AtomicI32,
    /// The name as C has it; the thread's own is another's concern.
    pub(super) name: Mutex<[u8; NAME]>,
}

/// The bit of a `pthread_t` that says that it is a record's.
const GREEN: usize = 1;

impl Record {
    pub(super) fn new() -> Arc<Self> {
        Self::with(Cancel::green())
    }

    fn with(cancel: Cancel) -> Arc<Self> {
        Arc::new(Self {
            thread: Mutex::new(Started::default()),
            started: OnceLock::new(),
            exit: Exit::default(),
            cancel,
            errand: Errand::new(),
            given_up: Errand::new(),
            rounds: AtomicU32::new(0),
            child: AtomicI32::new(0),
            name: Mutex::new([0; NAME]),
        })
    }

    /// Returns its `pthread_t`.
    pub(super) fn id(&self) -> pthread_t {
        (ptr::from_ref(self).expose_provenance() | GREEN) as pthread_t
    }

    /// Returns the record of a `pthread_t`, or `None` if that is the C library's.
    ///
    /// # Safety
    /// The thread has been neither joined nor detached, or it has not ended.
    #[inline]
    pub(super) unsafe fn of<'a>(id: pthread_t) -> Option<&'a Self> {
        let address = id as usize;
        if address & GREEN == 0 {
            return None;
        }
        let record: *const Self = ptr::with_exposed_provenance(address & !GREEN);
        // SAFETY: made by `id`. The `pthread_t` or the thread, which is there, has a share.
        Some(unsafe { &*record })
    }

    /// Returns a share. The caller keeps the record by it while another thread joins this one, or the thread
    /// ends that was detached.
    pub(super) fn share(&self) -> Arc<Self> {
        let record = ptr::from_ref(self);
        // SAFETY: `new` has made it, and there is another share, which lets the caller borrow.
        unsafe { Arc::increment_strong_count(record) };
        // SAFETY: the share that was just added.
        unsafe { Arc::from_raw(record) }
    }

    /// Gives up the share that its `pthread_t` has, which has been joined or detached.
    ///
    /// # Safety
    /// Called once, if its creator has left the share to the `pthread_t`. The caller does not use the record
    /// any more.
    pub(super) unsafe fn give_up_id(&self) {
        // SAFETY: the caller's promise.
        drop(unsafe { Arc::from_raw(self) });
    }

    /// Returns `true` if it is the running thread's.
    pub(super) fn is_own(&self) -> bool {
        ptr::eq(OWN.get(), self)
    }

    /// Runs `look` with the thread, unless it has ended.
    pub(super) fn with_thread<R>(&self, look: impl FnOnce(ThreadRef) -> R) -> Option<R> {
        if self.is_own() {
            return crate::park::current::try_current().map(look);
        }
        let _started = self.thread.lock();
        self.with_started(look).unwrap_or(None)
    }

    /// Does what [`with_thread`](Self::with_thread) does, without the lock: it may be a stopped thread's.
    /// `Err`: this thread may not be there yet.
    pub(super) fn with_started<R>(&self, look: impl FnOnce(ThreadRef) -> R) -> Result<Option<R>, ()> {
        let thread = self.started.get().ok_or(())?.core();
        Ok((!thread.is_done() && !thread.is_lost()).then(|| look(thread)))
    }

    /// Returns where the stack of the thread is, unless it has ended.
    pub(super) fn stack(&self) -> Option<Range<usize>> {
        let stack_of = |thread: ThreadRef| thread.backend().stack_of(&thread);
        if self.has_forked_this() && !self.is_own() {
            // It goes on with another core, on the stack that it had.
            return stack_of(self.started.get().filter(|_| !self.has_ended())?.core());
        }
        self.with_thread(stack_of).flatten()
    }

    /// Returns the record of which this is the errand.
    ///
    /// # Safety
    /// It is a record's.
    pub(super) unsafe fn of_errand(errand: *const Errand) -> *const Self {
        // SAFETY: the caller's promise.
        unsafe { errand.byte_sub(offset_of!(Self, errand)) }.cast()
    }

    /// Returns the record that has this as [`given_up`](Self::given_up).
    ///
    /// # Safety
    /// It is a record's.
    pub(super) unsafe fn of_given_up(errand: *const Errand) -> *const Self {
        // SAFETY: the caller's promise.
        unsafe { errand.byte_sub(offset_of!(Self, given_up)) }.cast()
    }

    /// Returns `true` if the thread runs no code of the program any more. Async-signal-safe.
    pub(super) fn has_ended(&self) -> bool {
        // Acquire: pairs with `end`.
        self.rounds.load(Ordering::Acquire) >= ROUNDS
    }

    /// Returns `true` if this process is a child that the thread has forked, and in which it goes on.
    pub(super) fn has_forked_this(&self) -> bool {
        // Relaxed: written by the child's only thread.
        fork::is_child() && self.child.load(Ordering::Relaxed) == process()
    }

    /// Returns what a thread waits at for its end, in such a child.
    pub(super) fn end_in_child(&self) -> &AtomicU32 {
        &self.rounds
    }

    /// Sets the name, of at most 15 bytes.
    pub(super) fn set_name(&self, name: &CStr) {
        let mut bytes = [0; NAME];
        let name_bytes = name.to_bytes();
        bytes[..name_bytes.len()].copy_from_slice(name_bytes);
        *self.name.lock() = bytes;
        if !name_bytes.is_empty() {
            let text = name.to_string_lossy().into_owned().into_boxed_str();
            self.with_thread(|thread| thread.give_name(text));
        }
    }
}

thread_local! {
    /// The record of the running thread, if it has one. It has no destructor, so that any code may read it.
    static OWN: Cell<*const Record> = const { Cell::new(ptr::null()) };
}

/// How many threads that were started here have not ended. A number, not a lock: a fork must not find it
/// held.
static ALIVE: AtomicU32 = AtomicU32::new(0);
/// The process whose threads these are; 0: there were none.
static PROCESS: AtomicI32 = AtomicI32::new(0);

fn process() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::getpid() }
}

/// Counts a thread that is about to start.
pub(super) fn count() {
    begin_process();
    ALIVE.fetch_add(1, Ordering::Relaxed);
}

/// Forgets the threads of a parent process. The running one is still counted, if it was.
pub(super) fn begin_process() {
    let here = process();
    // Relaxed: a fork has one thread.
    if PROCESS.swap(here, Ordering::Relaxed) != here {
        fork::children_end_after(until_none_is_alive);
        let _ = fork::Generation::watched(in_child);
        ALIVE.store(u32::from(is_counted()), Ordering::Relaxed);
        if value().is_null() && super::end::is_main() {
            set_value(MAIN);
        }
    }
}

/// Does what comes first in a child. Threads of the parent may have locked what is known of the running one.
fn in_child() {
    fn free<T>(lock: &Mutex<T>) {
        if lock.try_lock().is_none() {
            // SAFETY: the thread that holds it is the parent's, and is not here.
            unsafe { lock.force_unlock() };
        }
    }
    with_own(|own| {
        free(&own.name);
        free(&own.thread);
        // Of no use here, and it may be half written.
        mem::forget(own.thread.lock().handle.take());
        // Relaxed: the only thread.
        own.child.store(process(), Ordering::Relaxed);
    });
}

/// Returns `true` if the running thread was counted, and not counted off, in this process or in the parent.
pub(super) fn is_counted() -> bool {
    !value().is_null() && value() != MAIN
}

/// Returns what the running thread has under the key.
fn value() -> *const c_void {
    // SAFETY: the key exists.
    key().map_or(ptr::null(), |key| unsafe { libc::pthread_getspecific(key) })
}

/// Returns `false` if the C library has no key, or no memory.
fn set_value(value: *const c_void) -> bool {
    // SAFETY: the key exists, and its destructor knows all values.
    key().is_some_and(|key| unsafe { libc::pthread_setspecific(key, value) } == 0)
}

/// Counts a thread off.
pub(super) fn count_off() {
    // Release: what the thread did comes before the end of the program. Pairs with the load below.
    if ALIVE.fetch_sub(1, Ordering::Release) == 1 {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: a static word.
        unsafe { libc::syscall(libc::SYS_futex, ALIVE.as_ptr(), wake, i32::MAX) };
    }
}

/// Returns `true` if this process has started any thread here.
pub(super) fn was_any() -> bool {
    // Relaxed: a thread asks that has started one, or heard of it.
    PROCESS.load(Ordering::Relaxed) == process()
}

/// Waits until all threads have ended that this process has started here.
pub(super) fn until_none_is_alive() {
    while was_any() {
        let alive = ALIVE.load(Ordering::Acquire);
        if alive == 0 {
            return;
        }
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: a static word, and no time.
        unsafe { libc::syscall(libc::SYS_futex, ALIVE.as_ptr(), wait, alive, ptr::null::<libc::timespec>()) };
    }
}

/// Makes `record` the running thread's, until the destructors of its keys have run. (Rejected: a thread-local
/// with a destructor. Those run before the keys', in which the thread must still be itself. And to register
/// one takes the loader's lock, which a thread may hold that waits for this one.)
///
/// If the C library has no key left, the thread keeps its share forever.
pub(super) fn begin(record: Arc<Record>) {
    OWN.set(Arc::as_ptr(&record));
    if record.started.get().is_none() {
        // Its creator does so, too, perhaps later. If the thread forks before that, the child has no creator.
        let _ = record.started.set(current::current());
    }
    record.cancel.begin();
    let share = Arc::into_raw(record);
    if let Some(key) = key() {
        // SAFETY: the key exists, and its destructor takes a share.
        unsafe { libc::pthread_setspecific(key, share.cast()) };
    }
    cancel::begin_signals();
}

/// Those of kernel threads.
pub(super) static KERNELS: Kernels<Record> = Kernels::new();

/// Makes a record for the running thread, which is a kernel thread.
pub(super) fn kernel_begins() {
    let record = Record::with(Cancel::kernel());
    let _ = record.started.set(current::current());
    record.cancel.begin();
    KERNELS.begin(&record);
}

/// Takes the running thread's record from it, which is a kernel thread's.
fn kernel_ends() {
    let own = KERNELS.end();
    if let Some(own) = &own {
        // Relaxed: it only says that.
        own.rounds.store(ROUNDS, Ordering::Relaxed);
        cancel::kernel::end_kernel();
    }
    // Before the record is freed: handlers of signals look there.
    cancel::end();
}

/// Notes that the running thread, which is a kernel thread, was counted.
pub(super) fn begin_kernel() {
    if set_value(KERNEL) {
        kernel_begins();
    }
}

/// What a kernel thread that was counted has in the place of a share, at first: the number of the round in
/// which its keys are destroyed next. No share is at an address like these.
const KERNEL: *const c_void = ptr::without_provenance(1);

/// What the main thread has there until it calls `pthread_exit`. If it ends without that, another thread has
/// ended it.
const MAIN: *const c_void = ptr::without_provenance(ROUNDS as usize + 1);

/// Counts off the running thread, which is a kernel thread, in the last round. The program may end then.
fn end_kernel(round: usize) {
    if round < ROUNDS as usize && set_value(ptr::without_provenance(round + 1)) {
        return;
    }
    kernel_ends();
    super::end::kernel_ends();
    count_off();
}

/// Returns the key under which each thread keeps its share of its record.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    // SAFETY: the destructor of what `begin` and `set_value` store.
    *KEY.get_or_init(|| unsafe { thread_end::new_key(end) })
}

/// `PTHREAD_DESTRUCTOR_ITERATIONS`.
const ROUNDS: u32 = 4;

/// The destructor of the key. The C library calls destructors again, a few times, while there are values. So
/// this one stores the value again until the last time.
unsafe extern "C" fn end(share: *mut c_void) {
    if share.cast_const() == MAIN {
        super::end::main_ends();
        return end_kernel(1);
    }
    if share.cast_const() == KERNEL && super::end::is_survivor() {
        // It is counted.
        set_value(KERNEL);
        super::end::main_ends();
    }
    if share.addr() <= ROUNDS as usize {
        return end_kernel(share.addr());
    }
    // SAFETY: the share that `begin` stored.
    let record = unsafe { &*share.cast::<Record>().cast_const() };
    // Release: pairs with `has_ended`.
    let round = record.rounds.fetch_add(1, Ordering::Release) + 1;
    if round < ROUNDS
        && let Some(key) = key()
    {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(key, share) };
        return;
    }
    if record.has_forked_this() {
        semaphore::wake(record.end_in_child().as_ptr(), i32::MAX);
    }
    OWN.set(ptr::null());
    cancel::end();
    record.cancel.forget_signals();
    // SAFETY: the share that `begin` stored, taken once.
    drop(unsafe { Arc::from_raw(share.cast::<Record>().cast_const()) });
    super::kill::drop_given_up();
    if super::start::is_default() {
        super::masks::end();
        count_off();
    }
}

/// Runs `look` with the record of the running thread, if it was started here.
#[inline]
pub(super) fn with_own<R>(look: impl FnOnce(&Record) -> R) -> Option<R> {
    // SAFETY: null, or the record that the thread keeps.
    unsafe { OWN.get().as_ref() }.map(look)
}
