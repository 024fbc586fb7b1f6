//! `pthread_create`.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{pthread_attr_t, pthread_t};

use super::record::{self, Record, Value};
use super::{end, kill, masks};
use crate::arch;
use crate::arch::guarded::{Landing, LandingBuffer, call_landed};
use crate::fiber::stack;
use crate::interpose::{self, cancel};
use crate::park::backend::{SpawnOptions, Spawner};
use crate::park::current;
use crate::park::no_preempt::{self, NoPreempt};
use crate::process_default;
use crate::settings;
use crate::sys::kthread::Mask;
use crate::sys::once::OnceLock;
use crate::sys::{kthread, message, next, pthread, sigstack};
use crate::thread::spawning;

unsafe extern "C" {
    /// The C library's; the crate `libc` does not have it.
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
    /// The same.
    fn pthread_getattr_default_np(attributes: *mut pthread_attr_t) -> c_int;
}

/// What a thread runs.
type Function = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What the attributes of a new thread ask for.
struct Wanted {
    /// In bytes; `None`: the runtime's default.
    stack_size: Option<usize>,
    detached: bool,
    /// The signals that it blocks; `None`: those of its creator.
    mask: Option<u64>,
}

/// See `pthread_create(3)`. It unwinds if a request comes meanwhile, and the thread may be ended anywhere.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    // It holds locks, and makes calls with them, of which some are cancellation points.
    // SAFETY: the caller's promise.
    let code = cancel::unended(|| unsafe { create(thread, attributes, function, argument) });
    cancel::test_anywhere();
    code
}

/// Does what `pthread_create` does.
unsafe fn create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    before_the_first();
    let spawner = match spawner() {
        Ok(spawner) => spawner,
        Err(code) => return code,
    };
    if let Some(spawner) = spawner
        // SAFETY: the caller's promise.
        && let Some(wanted) = unsafe { wanted(attributes) }
    {
        let record = Record::new();
        // Before the thread starts, which may free the place.
        // SAFETY: the caller's place.
        unsafe { thread.write(record.id()) };
        start(spawner, &wanted, record, function, argument).map_or_else(|error| code(&error), |()| 0)
    } else if BY_DEFAULT.load(Ordering::Relaxed) && !pthread::is_kernel() {
        // SAFETY: the caller's promise.
        unsafe { start_kernel(thread, attributes, function, argument) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { next::pthread_create(thread, attributes, as_called(function), argument) }
    }
}

/// Looks for what the libraries use that a finished program has loaded since its start. Called before each
/// thread starts, and by the main thread before the first.
fn before_the_first() {
    static DONE: AtomicBool = AtomicBool::new(false);
    // Relaxed, both: the threads that start later see what the first one's creator has written.
    if !DONE.load(Ordering::Relaxed) && is_default() && !DONE.swap(true, Ordering::Relaxed) {
        cancel::listen_if_used_by_now();
    }
}

/// Returns a function as the C library has it, which calls it in the same way, and unwinds it.
fn as_called(function: Function) -> extern "C" fn(*mut c_void) -> *mut c_void {
    // SAFETY: the same function, with the same arguments.
    unsafe { mem::transmute(function) }
}

/// Starts a kernel thread that Selvedge knows from the beginning. Otherwise it would get to know the thread,
/// which takes memory, when that first waits, perhaps for a lock of the allocator.
unsafe fn start_kernel(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    extern "C-unwind" fn known(start: *mut c_void) -> *mut c_void {
        // SAFETY: the box that was passed to this call.
        let (function, argument) = *unsafe { Box::from_raw(start.cast::<(Function, *mut c_void)>()) };
        current::current();
        record::begin_kernel();
        // Nothing here is dropped after this: `pthread_exit` leaves the frame.
        function(argument)
    }
    if cancel::are_signals_used() {
        kill::help();
    }
    record::count();
    let start = Box::into_raw(Box::new((function, argument)));
    // SAFETY: the caller's promise, and a function that takes the box.
    let code = unsafe { next::pthread_create(thread, attributes, as_called(known), start.cast()) };
    if code != 0 {
        record::count_off();
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(start) });
    }
    code
}

/// Returns the runtime that takes a thread which the running one starts; `None`: it is a kernel thread.
///
/// # Errors
/// The code to be returned, if a variable is not valid, or the process default cannot start. A message has
/// been printed. Where green threads are not possible, there is only the message, and a kernel thread.
fn spawner() -> Result<Option<&'static dyn Spawner>, c_int> {
    if pthread::is_kernel() {
        return Ok(None);
    }
    let own = current::try_current().and_then(|me| me.spawner());
    if own.is_some() && !no_preempt::is_allowed() {
        // The code of a runtime itself, or a handler that has interrupted it, is no user's.
        return Ok(None);
    }
    let chosen = match own.and_then(|own| own.green_std_threads()) {
        Some(green) => own.filter(|_| green),
        None => default_spawner().or_else(|error| {
            static TOLD: OnceLock<()> = OnceLock::new();
            TOLD.get_or_init(|| message::to_standard_error(format_args!("selvedge: {error}\n")));
            if error.kind() == io::ErrorKind::Unsupported { Ok(None) } else { Err(code(&error)) }
        })?,
    };
    Ok(chosen.filter(|chosen| chosen.takes_pthreads()))
}

/// Returns the process default, if threads of those that belong to no runtime are to be green.
fn default_spawner() -> io::Result<Option<&'static dyn Spawner>> {
    static GREEN: OnceLock<bool> = OnceLock::new();
    let green = match GREEN.get() {
        Some(green) => *green,
        None => {
            // Relaxed: set before the program starts.
            let otherwise = BY_DEFAULT.load(Ordering::Relaxed);
            let green = settings::green_std_threads(&settings::process)?.unwrap_or(otherwise);
            *GREEN.get_or_init(|| green)
        }
    };
    if green { process_default::spawner().map(Some) } else { Ok(None) }
}

/// `true`: if no variable says anything, threads are green.
static BY_DEFAULT: AtomicBool = AtomicBool::new(false);

/// Makes threads green, unless `SELVEDGE_STD_THREADS` says otherwise. Called by the main thread, before the
/// program starts.
pub fn are_green() {
    BY_DEFAULT.store(true, Ordering::Relaxed);
    sigstack::leave_to_program(may_lock);
    // See `start_kernel`.
    current::current();
    record::kernel_begins();
    end::main_begins();
    cancel::listen_if_used();
}

/// Returns `true` if `are_green` was called: this is `libselvedge_preload.so`.
pub(super) fn is_default() -> bool {
    BY_DEFAULT.load(Ordering::Relaxed)
}

/// Returns `true` if threads of the program may become green, as far as its settings say.
pub fn may_be_green() -> bool {
    let green = settings::green_std_threads(&settings::process);
    green.is_ok_and(|green| green.unwrap_or_else(is_default)) && process_default::is_mxn()
}

/// Returns `true` if the running thread can wait without taking memory for that.
pub fn can_wait() -> bool {
    current::try_current().is_some()
}

/// Returns `true` if this crate's locks may be taken. In a handler of a signal they may not, if it has
/// interrupted this crate's code.
pub(super) fn may_lock() -> bool {
    no_preempt::is_allowed()
}

/// Calls something that may block for long. If the running thread is green, and may wait where it stands, its
/// slot may be released meanwhile.
pub fn announced<R>(call: impl FnOnce() -> R) -> R {
    interpose::announced(call)
}

/// Starts a kernel thread of that name, in which no signals are handled. It is not waited for. Its stack has
/// this many bytes, or as many as the C library gives one.
///
/// # Errors
/// If there may be no more threads.
pub(super) fn start_helper(
    name: &str,
    stack_size: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let options = kthread::Options { name, stack_size, block_signals: true };
    kthread::KernelThread::start(&options, body).map(drop)
}

/// Returns what `attributes` ask for, or `None` if only a kernel thread can have that.
///
/// # Safety
/// They are null, or initialized.
unsafe fn wanted(attributes: *const pthread_attr_t) -> Option<Wanted> {
    let Some(attributes) = ptr::NonNull::new(attributes.cast_mut()) else {
        // Relaxed: the program orders its calls.
        if HAS_DEFAULTS.load(Ordering::Relaxed) {
            return wanted_by_default();
        }
        return Some(Wanted { stack_size: usual_stack(), detached: false, mask: None });
    };
    let attributes: *const pthread_attr_t = attributes.as_ptr();
    let (mut state, mut address, mut size) = (0, ptr::null_mut(), 0_usize);
    // SAFETY: the caller's promise, and a place for the answer.
    unsafe { pthread_attr_getdetachstate(attributes, &raw mut state) };
    // SAFETY: the caller's promise, and places for the answers.
    unsafe { libc::pthread_attr_getstack(attributes, &raw mut address, &raw mut size) };
    // The C library keeps the end of the stack. It is 0 if none was set, and so is the size.
    if address.addr().wrapping_add(size) != 0 || size > stack::LARGEST {
        return None;
    }
    let (mut inherits, mut policy) = (0, libc::SCHED_OTHER);
    // SAFETY: the caller's promise, and a place for the answer.
    unsafe { libc::pthread_attr_getinheritsched(attributes, &raw mut inherits) };
    // SAFETY: the caller's promise, and a place for the answer.
    unsafe { libc::pthread_attr_getschedpolicy(attributes, &raw mut policy) };
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the caller's promise, and a place for the answer.
    unsafe { libc::pthread_attr_getschedparam(attributes, &raw mut parameters) };
    // The policy of all others has one priority. The C library refuses a thread with another.
    let is_usual = policy == libc::SCHED_OTHER && parameters.sched_priority == 0;
    if inherits == libc::PTHREAD_EXPLICIT_SCHED && !is_usual {
        return None;
    }
    // SAFETY: plain data.
    let mut cpus: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the caller's promise, and a place for the answer.
    unsafe { libc::pthread_attr_getaffinity_np(attributes, size_of_val(&cpus), &raw mut cpus) };
    // SAFETY: a set that was filled in. If none was chosen, it has all that there can be.
    if unsafe { libc::CPU_COUNT(&cpus) } != libc::CPU_SETSIZE {
        return None;
    }
    // SAFETY: the caller's promise.
    let mask = unsafe { next::signal_mask_of(attributes) };
    Some(Wanted {
        stack_size: if size == 0 { usual_stack() } else { Some(size) },
        detached: state == libc::PTHREAD_CREATE_DETACHED,
        mask: mask.as_ref().map(masks::bits),
    })
}

/// The program has said which attributes threads have that are started with none.
static HAS_DEFAULTS: AtomicBool = AtomicBool::new(false);

/// See `pthread_setattr_default_np(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setattr_default_np(attributes: *const pthread_attr_t) -> c_int {
    HAS_DEFAULTS.store(true, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { next::pthread_setattr_default_np(attributes) }
}

/// Does what [`wanted`] does, with the attributes of [`HAS_DEFAULTS`].
#[cold]
fn wanted_by_default() -> Option<Wanted> {
    // SAFETY: plain data, initialized by the call below.
    let mut attributes: pthread_attr_t = unsafe { mem::zeroed() };
    // SAFETY: a place for attributes.
    if unsafe { pthread_getattr_default_np(&raw mut attributes) } != 0 {
        return None;
    }
    // SAFETY: initialized.
    let wanted = unsafe { wanted(&raw const attributes) };
    // SAFETY: initialized, and not used after this.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    wanted
}

/// Returns the stack of a thread that does not say how much it needs. That is as much as the C library gives
/// it, unless the user has set a size for green threads.
fn usual_stack() -> Option<usize> {
    static USUAL: OnceLock<Option<usize>> = OnceLock::new();
    *USUAL.get_or_init(|| {
        if settings::process(settings::STACK_SIZE).is_some() {
            return None;
        }
        // SAFETY: plain data, initialized by the call below.
        let mut attributes: pthread_attr_t = unsafe { mem::zeroed() };
        let mut size = 0;
        // SAFETY: a place for attributes.
        unsafe { libc::pthread_attr_init(&raw mut attributes) };
        // SAFETY: initialized, and a place for the answer.
        unsafe { libc::pthread_attr_getstacksize(&raw const attributes, &raw mut size) };
        // SAFETY: initialized, and not used after this.
        unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
        Some(size.clamp(stack::SMALLEST, stack::LARGEST))
    })
}

/// Keeps handlers of signals from the running thread. A handler may wait until the new thread has run one, as
/// that of a collector, and nothing could tell that thread meanwhile (`kill.rs`).
enum Quiet {
    /// The kernel keeps them.
    Kernel { _mask: Mask },
    /// Its signals wait (`interpose/cancel/signals.rs`).
    Green { _signals: NoPreempt },
}

impl Quiet {
    fn begin() -> Self {
        if current::try_current().is_some_and(|me| !me.is_kernel()) {
            Self::Green { _signals: NoPreempt::hold() }
        } else {
            Self::Kernel { _mask: Mask::block_asynchronous() }
        }
    }
}

/// Starts a green thread.
fn start(
    spawner: &dyn Spawner,
    wanted: &Wanted,
    record: Arc<Record>,
    function: Function,
    argument: *mut c_void,
) -> io::Result<()> {
    let argument = Value(argument);
    // As POSIX has it.
    let inherited = arch::float_modes();
    let body = {
        let record = Arc::clone(&record);
        move || {
            let argument = argument;
            record::begin(Arc::clone(&record));
            if arch::float_modes() != inherited {
                arch::set_float_modes(inherited);
            }
            let mut landing = Landing {
                set: next::set_jump,
                register: next::register_landing,
                unregister: next::unregister_landing,
                function,
                value: argument.0,
                buffer: LandingBuffer([0; 48]),
            };
            // SAFETY: the C library's functions, and room for what they write. The frames that `pthread_exit`
            // leaves are of the thread's function, and its caller knows what they own.
            unsafe { call_landed(&raw mut landing) };
            cancel::leave();
            let value = record.exit.get().unwrap_or(landing.value);
            // For one that joins it in a child that it has forked.
            record.exit.set(value);
            Value(value)
        }
    };
    let creators = masks::of_caller();
    let mask = masks::allowed(wanted.mask.unwrap_or(creators));
    let mut options =
        SpawnOptions { stack_size: wanted.stack_size, mask: Some(mask), ..SpawnOptions::default() };
    let _quiet = Quiet::begin();
    // The thread, and those that it tells its name, must find its handle.
    let mut own = record.thread.lock();
    own.detached = wanted.detached;
    let counts = is_default();
    if cancel::are_signals_used() {
        kill::help();
    }
    if counts {
        record::count();
        masks::begin(spawner, creators, mask);
    }
    let started = spawning::spawn_on(spawner, &mut options, body);
    let started = started.inspect_err(|_| {
        if counts {
            masks::forget(mask);
            record::count_off();
        }
    })?;
    let _ = record.started.set(started.thread().clone());
    if wanted.detached {
        // The thread has a share of its record, too.
        return Ok(());
    }
    own.handle = Some(started);
    drop(own);
    // The share of its `pthread_t`.
    mem::forget(record);
    Ok(())
}

/// Returns an error as `pthread_create` returns it.
fn code(error: &io::Error) -> c_int {
    match error.kind() {
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::Unsupported => libc::ENOTSUP,
        _ => libc::EAGAIN,
    }
}
