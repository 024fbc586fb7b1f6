//! Raw kernel threads, for LWPs and helpers.
//!
//! Not std's: a std thread allocates thread-locals with destructors, takes locks in its start and end, and
//! installs its own signal stack. An LWP must do without all of that (I4). Nothing of std's is set up here.
//! Code that asks std for the current thread in such a thread gets an anonymous one.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::os::unix::thread::JoinHandleExt;
use std::ptr;
use std::thread::JoinHandle;
use std::time::Duration;

use super::mmap::page_size;
use super::{Tid, pthread, system};

/// How to start a kernel thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// Seen in `ps -L` and debuggers. Cut to the 15 bytes that the kernel keeps.
    pub(crate) name: &'a str,
    /// In bytes, without the C library's own share, which is added; `None`: the C library's default.
    pub(crate) stack_size: Option<usize>,
    /// Starts with all signals blocked except those that faults raise.
    pub(crate) block_signals: bool,
}

/// A kernel thread that has been started and not yet joined. To drop it detaches the thread.
#[derive(Debug)]
pub(crate) struct KernelThread(libc::pthread_t);

// SAFETY: a pthread_t may be joined from any thread.
unsafe impl Send for KernelThread {}
// SAFETY: a `&KernelThread` allows nothing.
unsafe impl Sync for KernelThread {}

/// What a new thread runs.
struct Start {
    name: CString,
    body: Box<dyn FnOnce() + Send>,
}

impl KernelThread {
    /// Starts a thread that runs `body`. A panic that leaves `body` aborts the process.
    ///
    /// # Errors
    /// `WouldBlock`, with the limits that may be the cause, if there may be no more threads. `InvalidInput`
    /// for a stack size that cannot be.
    pub(crate) fn start(options: &Options<'_>, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let attributes = Attributes::new(options)?;
        let start = Box::into_raw(Box::new(Start { name: kernel_name(options.name), body: Box::new(body) }));
        // A new thread inherits the mask, so there is no moment in which it has another one.
        let mask = options.block_signals.then(Mask::block_asynchronous);
        let mut handle = mem::MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: valid places, initialized attributes, and a start function that takes what `start` points
        // to.
        let code = unsafe {
            pthread::pthread_create(handle.as_mut_ptr(), &raw const attributes.0, main, start.cast())
        };
        drop(mask);
        if code == 0 {
            // SAFETY: written by the successful call.
            return Ok(Self(unsafe { handle.assume_init() }));
        }
        // SAFETY: made from a box above, and no thread was started that would own it.
        drop(unsafe { Box::from_raw(start) });
        let error = io::Error::from_raw_os_error(code);
        if code == libc::EAGAIN {
            Err(too_many(&error))
        } else {
            Err(super::explain(&error, "cannot start a kernel thread"))
        }
    }

    /// Waits until the thread has ended. If it is the calling thread, in its last destructors, it is detached
    /// instead.
    pub(crate) fn join(self) {
        let handle = self.0;
        // SAFETY: no arguments.
        if handle == unsafe { pthread::pthread_self() } {
            return drop(self);
        }
        mem::forget(self);
        // SAFETY: neither joined nor detached before. Only the owner of `self` could do that.
        let code = unsafe { pthread::pthread_join(handle, ptr::null_mut()) };
        debug_assert_eq!(code, 0, "a thread joins itself");
    }

    /// Does what [`join`](Self::join) does, if that does not have to wait. (If the system cannot tell, it
    /// waits.)
    ///
    /// # Errors
    /// Returns the thread, if it has not ended.
    pub(crate) fn try_join(self) -> Result<(), Self> {
        // SAFETY: neither joined nor detached before. If it was joined, it is forgotten here.
        if unsafe { system::try_join(self.0) } {
            mem::forget(self);
            Ok(())
        } else {
            Err(self)
        }
    }
}

impl From<JoinHandle<()>> for KernelThread {
    fn from(started: JoinHandle<()>) -> Self {
        // musl has it as a pointer, std as a number everywhere.
        Self(started.into_pthread_t() as libc::pthread_t)
    }
}

impl Drop for KernelThread {
    fn drop(&mut self) {
        // SAFETY: neither joined nor detached before.
        unsafe { pthread::pthread_detach(self.0) };
    }
}

/// Runs the body. `extern "C"`: an unwind out of it aborts with a message.
extern "C" fn main(start: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the box that `start` passed to exactly this call.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    if !start.name.is_empty() {
        system::name_thread(&start.name);
    }
    (start.body)();
    ptr::null_mut()
}

/// Returns a name as the kernel keeps it: 15 bytes at most, no zero inside, cut between characters.
fn kernel_name(name: &str) -> CString {
    const KEPT: usize = 15;
    let name = name.split('\0').next().unwrap_or_default();
    let end = (0..=KEPT.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    CString::new(&name[..end]).unwrap_or_default()
}

/// What a kernel thread is started with.
pub(super) struct Attributes(pub(super) libc::pthread_attr_t);

impl Attributes {
    pub(super) fn new(options: &Options<'_>) -> io::Result<Self> {
        // SAFETY: plain data, initialized by the call below.
        let mut attributes: libc::pthread_attr_t = unsafe { mem::zeroed() };
        // SAFETY: a place for attributes.
        let code = unsafe { libc::pthread_attr_init(&raw mut attributes) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        let mut attributes = Self(attributes);
        if let Some(size) = options.stack_size {
            let size = size.max(libc::PTHREAD_STACK_MIN).checked_add(system::own_share_of_stacks());
            let size = size.and_then(|size| size.checked_next_multiple_of(page_size()));
            // SAFETY: initialized attributes.
            let set = |size| unsafe { libc::pthread_attr_setstacksize(&raw mut attributes.0, size) };
            let code = size.map_or(libc::EINVAL, set);
            if code != 0 {
                let error = io::Error::from_raw_os_error(code);
                return Err(super::explain(
                    &error,
                    format_args!("impossible stack size {:?}", options.stack_size),
                ));
            }
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialized by `new`, and not used after this.
        unsafe { libc::pthread_attr_destroy(&raw mut self.0) };
    }
}

/// The signals that a thread's own instructions raise. If these are blocked, a fault ends the process without
/// a message.
pub(crate) const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// A signal mask.
#[derive(Clone, Copy)]
pub(crate) struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Returns the mask that blocks everything except [`FAULTS`].
    pub(crate) fn asynchronous() -> Self {
        // SAFETY: plain data, filled in below.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: a valid place.
        unsafe { libc::sigfillset(&raw mut set) };
        for signal in FAULTS {
            // SAFETY: an initialized set and an existing signal.
            unsafe { libc::sigdelset(&raw mut set, signal) };
        }
        Self(set)
    }

    /// Returns it as the C library has it.
    pub(crate) fn set(self) -> libc::sigset_t {
        self.0
    }

    /// Returns a bit for each signal, the lowest for signal 1.
    #[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
    pub(crate) fn bits(&self) -> u64 {
        // SAFETY: the C library's type begins with the kernel's eight bytes.
        unsafe { (&raw const self.0).cast::<u64>().read() }
    }

    /// Returns the calling thread's mask.
    pub(crate) fn of_caller() -> Self {
        // SAFETY: plain data, filled in below.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: a query that writes to a local variable.
        unsafe { pthread::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut set) };
        Self(set)
    }

    /// Makes this the calling thread's mask.
    pub(crate) fn adopt(&self) {
        // SAFETY: a set that was queried, or built from an initialized one.
        unsafe { pthread::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

impl fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignalMask")
    }
}

/// The calling thread's signal mask, to be restored when dropped.
pub(crate) struct Mask(SignalMask);

impl Mask {
    /// Blocks [`SignalMask::asynchronous`].
    pub(crate) fn block_asynchronous() -> Self {
        let before = SignalMask::of_caller();
        SignalMask::asynchronous().adopt();
        Self(before)
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        self.0.adopt();
    }
}

/// Returns the bytes of each kernel thread's stack that the C library takes for itself, above all for static
/// thread-locals.
pub(crate) fn own_share_of_stacks() -> usize {
    system::own_share_of_stacks()
}

/// Returns the kernel's number of the calling kernel thread.
pub(crate) fn gettid() -> Tid {
    system::gettid()
}

/// Asks the kernel to let the calling kernel thread run as soon as it wakes. In return, the thread promises
/// to run for no longer than `slice`. Does nothing if the kernel cannot.
pub(crate) fn ask_for_short_slice(slice: Duration) {
    system::ask_for_short_slice(slice);
}

/// The least timer slack, in ns.
const NO_SLACK: u64 = 1;

/// While this exists, timers of the calling kernel thread go off as exactly as the kernel can. (By default,
/// they may be 50 us late, so that it can wait for several at once.) To drop it restores what was set before,
/// which may be the program's own choice.
///
/// Both ends are a system call or two. So this is for a sleep, which costs many times more.
#[derive(Debug)]
#[must_use]
pub(crate) struct ExactTimers {
    before: u64,
}

impl ExactTimers {
    pub(crate) fn begin() -> Self {
        let before = system::timer_slack();
        if before > NO_SLACK {
            system::set_timer_slack(NO_SLACK);
        }
        Self { before }
    }
}

impl Drop for ExactTimers {
    fn drop(&mut self) {
        if self.before > NO_SLACK {
            system::set_timer_slack(self.before);
        }
    }
}

/// Explains why there may be no more threads: the limits, with their values if they can be read.
#[cold]
fn too_many(error: &io::Error) -> io::Error {
    let value = |path: &str| fs::read_to_string(path).map_or("?".to_owned(), |text| text.trim().to_owned());
    let message = format!(
        "cannot start another kernel thread: a limit on threads or memory is reached (ulimit -u: {}, \
         kernel.threads-max: {}, kernel.pid_max: {}, or pids.max of the control group)",
        user_limit(),
        value("/proc/sys/kernel/threads-max"),
        value("/proc/sys/kernel/pid_max"),
    );
    io::Error::new(error.kind(), message)
}

fn user_limit() -> String {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid place.
    match unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) } {
        0 if limit.rlim_cur == libc::RLIM_INFINITY => "unlimited".to_owned(),
        0 => limit.rlim_cur.to_string(),
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Returns `true` if the mask of the calling thread has this signal.
    fn blocked(signal: libc::c_int) -> bool {
        // SAFETY: plain data, filled in below.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: a query into a valid place.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, ptr::null(), &raw mut set) };
        // SAFETY: an initialized set.
        unsafe { libc::sigismember(&raw const set, signal) == 1 }
    }

    #[test]
    fn starts_named_and_joins() {
        let (tell, hear) = mpsc::channel();
        let options = Options { name: "selvedge-lwp-0000", stack_size: Some(1), block_signals: true };
        let thread = KernelThread::start(&options, move || {
            let name = fs::read_to_string(format!("/proc/self/task/{}/comm", gettid())).unwrap();
            tell.send((name, blocked(libc::SIGTERM), blocked(libc::SIGSEGV))).unwrap();
        })
        .unwrap();
        thread.join();
        assert_eq!(hear.try_recv().unwrap(), ("selvedge-lwp-00\n".to_owned(), true, false));
        assert!(!blocked(libc::SIGTERM), "the starter's own mask is as before");
    }

    #[test]
    fn a_join_that_would_wait_says_so() {
        let (go, gone) = mpsc::channel::<()>();
        let wait = move || _ = gone.recv();
        let ours = KernelThread::start(&Options::default(), wait).unwrap();
        let mut left = ours.try_join().expect_err("it has not ended");
        drop(go);
        while let Err(thread) = left.try_join() {
            left = thread;
            std::thread::yield_now();
        }
        // One of std's.
        let mut left = KernelThread::from(std::thread::spawn(|| ()));
        while let Err(thread) = left.try_join() {
            left = thread;
            std::thread::yield_now();
        }
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(kernel_name("aaaaaaaaaaaaaaé").to_str(), Ok("aaaaaaaaaaaaaa"));
        assert_eq!(kernel_name("a\0b").to_str(), Ok("a"));
        assert_eq!(kernel_name("").to_str(), Ok(""));
    }

    #[test]
    fn an_absurd_stack_is_an_error_and_drops_the_body() {
        let (tell, hear) = mpsc::channel::<()>();
        let options = Options { stack_size: Some(usize::MAX / 2), ..Default::default() };
        let error = KernelThread::start(&options, move || drop(tell)).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::InvalidInput), "{error}");
        assert_eq!(hear.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }
}
