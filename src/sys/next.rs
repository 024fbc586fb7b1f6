//! The C library's own functions, behind those of this crate that have the same names (`interpose`).
//!
//! The executable's functions come first when a program is linked, and the C library's are found by asking
//! the loader for the next ones. The loader takes its lock for that, so it is asked before the program
//! starts. Later, that lock may be held by a thread that waits for the very call. A function that is called
//! even earlier, by a constructor of a library, is looked for at its first call.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{
    addrinfo, clockid_t, cpu_set_t, epoll_event, fd_set, id_t, idtype_t, iovec, mmsghdr, mode_t, msghdr,
    nfds_t, off_t, pid_t, pollfd, pthread_attr_t, pthread_t, rusage, sched_param, sighandler_t, siginfo_t,
    sigset_t, sigval, size_t, sockaddr, socklen_t, ssize_t, stack_t, timespec, timeval, useconds_t,
};

/// A function of the C library, once it has been looked for.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    fn get(&self) -> *mut c_void {
        // Relaxed: code that was there before the program started.
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    /// Asks the loader. Returns null if no library has it.
    fn look(&self) -> *mut c_void {
        let mut found = ptr::null_mut();
        // Before 2.36, the loader finds the oldest version of a function. Of these functions, that does not
        // take the length of the set.
        if cfg!(target_arch = "x86_64") && self.name.to_bytes().ends_with(b"affinity_np") {
            // SAFETY: C strings, and a pseudo-handle.
            found = unsafe { libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), c"GLIBC_2.3.4".as_ptr()) };
        }
        if found.is_null() {
            // SAFETY: a C string, and a pseudo-handle.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        }
        // Relaxed: as above.
        self.found.store(found, Ordering::Relaxed);
        found
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let found = self.look();
        if found.is_null() {
            let name = self.name.to_str().unwrap_or("?");
            super::message::to_standard_error(format_args!(
                "fatal runtime error: selvedge, feature `interpose`: no library has `{name}`, aborting\n"
            ));
            // SAFETY: it never returns.
            unsafe { libc::abort() }
        }
        found
    }
}

/// What the loader finds first under the name `syscall`.
static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// See [`is_sanitized`].
static SANITIZED: AtomicBool = AtomicBool::new(false);

/// Returns what the loader finds first under a name.
fn first(name: &CStr) -> *mut c_void {
    // SAFETY: a C string, and a pseudo-handle.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Looks for all functions. One that is missing is missed when it is called.
extern "C" fn look_for_all() {
    for next in ALL {
        next.look();
    }
    PTHREAD_ATTR_GETSIGMASK.look();
    let sanitizers = [c"__asan_init", c"__tsan_init", c"__msan_init", c"__lsan_init"];
    // Relaxed: before the program starts.
    FIRST.store(first(c"syscall"), Ordering::Relaxed);
    SANITIZED.store(sanitizers.iter().any(|name| !first(name).is_null()), Ordering::Relaxed);
}

/// The loader calls what it finds here, before the program starts.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_THE_START: extern "C" fn() = look_for_all;

macro_rules! next {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The functions below, while each is looked for.
        #[allow(non_upper_case_globals, reason = "each has the name of its function")]
        mod nexts {
            use super::{CStr, Next};

            $(pub(super) static $name: Next = Next::new({
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                }
            });)*
        }

        /// All of them.
        static ALL: &[&Next] = &[$(&nexts::$name,)* &PTHREAD_EXIT];

        $(
            /// Calls the C library's function of this name. It may unwind, if it is a cancellation point.
            ///
            /// # Safety
            /// As that says.
            #[inline]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
                // SAFETY: the C library's function of this name has this type.
                let next = unsafe { std::mem::transmute::<*mut c_void, Function>(nexts::$name.get()) };
                // SAFETY: the caller's promise.
                unsafe { next($($argument),*) }
            }
        )*
    };
}

next! {
    fn syscall(n: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;

    fn read(fd: c_int, to: *mut c_void, n: size_t) -> ssize_t;
    fn write(fd: c_int, from: *const c_void, n: size_t) -> ssize_t;
    fn readv(fd: c_int, to: *const iovec, n: c_int) -> ssize_t;
    fn writev(fd: c_int, from: *const iovec, n: c_int) -> ssize_t;
    fn preadv2(fd: c_int, to: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t;
    fn pwritev2(fd: c_int, from: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t;
    fn close(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;

    fn recv(fd: c_int, to: *mut c_void, n: size_t, flags: c_int) -> ssize_t;
    fn send(fd: c_int, from: *const c_void, n: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(
        fd: c_int, to: *mut c_void, n: size_t, flags: c_int, by: *mut sockaddr, len: *mut socklen_t
    ) -> ssize_t;
    fn sendto(
        fd: c_int, from: *const c_void, n: size_t, flags: c_int, to: *const sockaddr, len: socklen_t
    ) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn recvmmsg(fd: c_int, m: *mut mmsghdr, n: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    fn sendmmsg(fd: c_int, m: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int;
    fn accept(fd: c_int, by: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, by: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, option: c_int, value: *const c_void, len: socklen_t) -> c_int;

    fn __read_chk(fd: c_int, to: *mut c_void, n: size_t, room: size_t) -> ssize_t;
    fn __recv_chk(fd: c_int, to: *mut c_void, n: size_t, room: size_t, flags: c_int) -> ssize_t;
    fn __recvfrom_chk(
        fd: c_int, to: *mut c_void, n: size_t, room: size_t, flags: c_int, by: *mut sockaddr, len: *mut socklen_t
    ) -> ssize_t;
    fn __poll_chk(fds: *mut pollfd, n: nfds_t, millis: c_int, room: size_t) -> c_int;
    fn __ppoll_chk(
        fds: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t
    ) -> c_int;

    fn poll(fds: *mut pollfd, n: nfds_t, millis: c_int) -> c_int;
    fn ppoll(fds: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn select(
        n: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval
    ) -> c_int;
    fn pselect(
        n: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec,
        mask: *const sigset_t
    ) -> c_int;
    fn epoll_wait(set: c_int, events: *mut epoll_event, n: c_int, millis: c_int) -> c_int;
    fn epoll_pwait(
        set: c_int, events: *mut epoll_event, n: c_int, millis: c_int, mask: *const sigset_t
    ) -> c_int;

    fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int;
    fn clock_nanosleep(clock: clockid_t, flags: c_int, time: *const timespec, left: *mut timespec) -> c_int;
    fn usleep(micros: useconds_t) -> c_int;
    fn sleep(seconds: c_uint) -> c_uint;
    fn sched_yield() -> c_int;

    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t;
    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
    fn waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int;

    fn getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const addrinfo, found: *mut *mut addrinfo
    ) -> c_int;
    fn getnameinfo(
        address: *const sockaddr, len: socklen_t,
        host: *mut c_char, host_len: socklen_t, service: *mut c_char, service_len: socklen_t, flags: c_int
    ) -> c_int;
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;

    fn pthread_setattr_default_np(attributes: *const pthread_attr_t) -> c_int;
    fn pthread_sigmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int;
    fn sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int;

    fn pthread_create(
        thread: *mut pthread_t, attributes: *const pthread_attr_t,
        start: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void
    ) -> c_int;
    fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int;
    fn pthread_tryjoin_np(thread: pthread_t, value: *mut *mut c_void) -> c_int;
    fn pthread_timedjoin_np(thread: pthread_t, value: *mut *mut c_void, end: *const timespec) -> c_int;
    fn pthread_clockjoin_np(
        thread: pthread_t, value: *mut *mut c_void, clock: clockid_t, end: *const timespec
    ) -> c_int;
    fn pthread_detach(thread: pthread_t) -> c_int;
    fn pthread_self() -> pthread_t;
    fn pthread_getattr_np(thread: pthread_t, attributes: *mut pthread_attr_t) -> c_int;
    fn pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int;
    fn pthread_getname_np(thread: pthread_t, name: *mut c_char, len: size_t) -> c_int;
    fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int;
    fn pthread_sigqueue(thread: pthread_t, signal: c_int, value: sigval) -> c_int;
    fn pthread_cancel(thread: pthread_t) -> c_int;
    fn pthread_testcancel() -> ();
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    fn pthread_getcpuclockid(thread: pthread_t, clock: *mut clockid_t) -> c_int;
    fn pthread_getaffinity_np(thread: pthread_t, len: size_t, set: *mut cpu_set_t) -> c_int;
    fn pthread_setaffinity_np(thread: pthread_t, len: size_t, set: *const cpu_set_t) -> c_int;
    fn pthread_getschedparam(thread: pthread_t, policy: *mut c_int, parameters: *mut sched_param) -> c_int;
    fn pthread_setschedparam(thread: pthread_t, policy: c_int, parameters: *const sched_param) -> c_int;
    fn pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int;
    fn sigpending(set: *mut sigset_t) -> c_int;
    fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int;
    fn longjmp(buffer: *mut c_void, value: c_int) -> ();
    fn _longjmp(buffer: *mut c_void, value: c_int) -> ();
    fn siglongjmp(buffer: *mut c_void, value: c_int) -> ();
    fn __longjmp_chk(buffer: *mut c_void, value: c_int) -> ();
    fn sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec) -> c_int;
    fn flock(fd: c_int, operation: c_int) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;

    fn sigpause(mask: c_int) -> c_int;
    fn sigsuspend(mask: *const sigset_t) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn __xpg_sigpause(signal: c_int) -> c_int;
    fn __sigpause(mask_or_signal: c_int, is_signal: c_int) -> c_int;
    fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int;
    fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int;
    fn tcdrain(fd: c_int) -> c_int;
    fn msgrcv(queue: c_int, to: *mut c_void, n: size_t, kind: c_long, flags: c_int) -> ssize_t;
    fn msgsnd(queue: c_int, from: *const c_void, n: size_t, flags: c_int) -> c_int;
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn creat(path: *const c_char, mode: mode_t) -> c_int;
    fn creat64(path: *const c_char, mode: mode_t) -> c_int;
    fn pread(fd: c_int, to: *mut c_void, n: size_t, at: off_t) -> ssize_t;
    fn pread64(fd: c_int, to: *mut c_void, n: size_t, at: off_t) -> ssize_t;
    fn pwrite(fd: c_int, from: *const c_void, n: size_t, at: off_t) -> ssize_t;
    fn pwrite64(fd: c_int, from: *const c_void, n: size_t, at: off_t) -> ssize_t;
    fn preadv(fd: c_int, to: *const iovec, n: c_int, at: off_t) -> ssize_t;
    fn preadv64(fd: c_int, to: *const iovec, n: c_int, at: off_t) -> ssize_t;
    fn pwritev(fd: c_int, from: *const iovec, n: c_int, at: off_t) -> ssize_t;
    fn pwritev64(fd: c_int, from: *const iovec, n: c_int, at: off_t) -> ssize_t;
    fn preadv64v2(fd: c_int, to: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t;
    fn pwritev64v2(fd: c_int, from: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t;
    fn msync(start: *mut c_void, len: size_t, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int;
}

/// Returns where the C library's function is.
pub(crate) fn address_of_pthread_cancel() -> usize {
    nexts::pthread_cancel.get().addr()
}

static PTHREAD_EXIT: Next = Next::new(c"pthread_exit");

/// Calls the C library's function of this name. It unwinds the stack.
///
/// # Safety
/// As that says.
pub(crate) unsafe fn pthread_exit(value: *mut c_void) -> ! {
    type Function = unsafe extern "C-unwind" fn(*mut c_void) -> !;
    // SAFETY: the C library's function of this name has this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Function>(PTHREAD_EXIT.get()) };
    // SAFETY: the caller's promise.
    unsafe { next(value) }
}

/// Since 2.32.
static PTHREAD_ATTR_GETSIGMASK: Next = Next::new(c"pthread_attr_getsigmask_np");

/// Returns the mask of signals that these attributes of a thread have, if they have one.
///
/// # Safety
/// They are initialized.
pub(crate) unsafe fn signal_mask_of(attributes: *const pthread_attr_t) -> Option<sigset_t> {
    type Function = unsafe extern "C" fn(*const pthread_attr_t, *mut sigset_t) -> c_int;
    // Relaxed: code that was there before the program started.
    let found = PTHREAD_ATTR_GETSIGMASK.found.load(Ordering::Relaxed);
    // SAFETY: null, or the C library's function of this name, which has this type.
    let get = unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(found) }?;
    // SAFETY: plain data.
    let mut mask: sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the caller's promise, and a place for the answer. Without a mask, it returns another number.
    (unsafe { get(attributes, &raw mut mask) } == 0).then_some(mask)
}

unsafe extern "C" {
    /// The C library's `sigsetjmp`.
    #[link_name = "__sigsetjmp"]
    pub(crate) fn set_jump(buffer: *mut c_void, mask: c_int) -> c_int;
    /// Makes a buffer the place where `pthread_exit` goes next.
    #[link_name = "__pthread_register_cancel"]
    pub(crate) fn register_landing(buffer: *mut c_void);
    /// Makes the buffer before this one the place where `pthread_exit` goes next.
    #[link_name = "__pthread_unregister_cancel"]
    pub(crate) fn unregister_landing(buffer: *mut c_void);
}

/// Returns `true` if this function is what the loader finds first under the name `syscall`.
pub(crate) fn is_first(syscall: *const ()) -> bool {
    // Relaxed: from before the program started.
    let mut found = FIRST.load(Ordering::Relaxed);
    if found.is_null() {
        // The constructor of another library asks.
        found = first(c"syscall");
    }
    found.cast_const().cast() == syscall
}

/// Returns `true` if a sanitizer has functions of these names, too, and must see all calls.
pub(crate) fn is_sanitized() -> bool {
    // Relaxed: from before the program started.
    SANITIZED.load(Ordering::Relaxed)
}

/// Sets the calling thread's `errno`, and returns what a call returns that has failed.
pub(crate) fn fail<T: From<i8>>(error: c_int) -> T {
    // SAFETY: no arguments.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the calling thread's own.
    unsafe { *place = error };
    T::from(-1)
}

/// Returns the calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that called one for the first time once waited at the loader's lock. Its holder, in the
    /// constructor of a library, waited for that call.
    #[test]
    fn the_loader_is_not_asked_while_the_program_runs() {
        for next in ALL {
            assert!(!next.found.load(Ordering::Relaxed).is_null(), "{:?} was not looked for", next.name);
        }
    }
}
