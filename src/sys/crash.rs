//! What is done when the process is about to end. There is a call at its exit, a call at an abort, and a file
//! that is written meanwhile.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::system::keep_errno;
use super::{process, sigaction};

/// Calls `f` when the process exits: `main` has returned, or `exit` was called. Other threads may still run.
///
/// # Errors
///
/// No memory.
pub(crate) fn at_exit(f: extern "C" fn()) -> io::Result<()> {
    // SAFETY: a function without arguments that does not unwind.
    let refused = unsafe { libc::atexit(f) } != 0;
    if refused { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
}

/// What is called at an abort; null for nothing.
static AT_ABORT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// The program ignored `SIGABRT` of other senders.
static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Calls `f` before the process is aborted, unless the program handles `SIGABRT` itself. `f` must be
/// async-signal-safe. Another process may send the signal, too. Then this one ends, or goes on, as it would
/// have without this.
///
/// # Errors
///
/// The kernel refuses.
pub(crate) fn at_abort(f: fn()) -> io::Result<()> {
    // Release: pairs with `aborts`.
    AT_ABORT.store(f as *mut (), Ordering::Release);
    let before = sigaction::of(libc::SIGABRT)?;
    if sigaction::is_handler(&before) {
        return Ok(());
    }
    let is_ignored = before.sa_sigaction == libc::SIG_IGN;
    // Relaxed: the handler is installed after it.
    WAS_IGNORED.store(is_ignored, Ordering::Relaxed);
    // For one signal: the next one gets the default action. A signal that is ignored ends neither the process
    // nor a call.
    let mut action =
        sigaction::calling(aborts, if is_ignored { libc::SA_RESTART } else { libc::SA_RESETHAND });
    // The caller of `abort` has a stack. An alternate one may be too small: that of std has 8 KiB, of which a
    // signal frame may take half.
    action.sa_flags &= !libc::SA_ONSTACK;
    // SAFETY: the handler is async-signal-safe if what it calls is.
    unsafe { sigaction::set(libc::SIGABRT, &action) }
}

extern "C" fn aborts(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    keep_errno(write_and_end);
}

fn write_and_end() {
    // Acquire: pairs with `at_abort`.
    let f = AT_ABORT.load(Ordering::Acquire);
    if !f.is_null() {
        // SAFETY: stored by `at_abort`, as a function of this type.
        let f = unsafe { std::mem::transmute::<*mut (), fn()>(f) };
        f();
    }
    // A handler that the program has installed since may call this one, as the one before its own. Without
    // this crate, it would have found none.
    let is_called = |now: libc::sigaction| {
        sigaction::is_handler(&now) && now.sa_sigaction != aborts as sigaction::Handler as usize
    };
    if sigaction::of(libc::SIGABRT).is_ok_and(is_called) {
        return;
    }
    // Relaxed: as in `at_abort`.
    if WAS_IGNORED.load(Ordering::Relaxed) {
        // If the signal is the C library's, that sees to the end of the process itself.
        let mut ignored = sigaction::default();
        ignored.sa_sigaction = libc::SIG_IGN;
        // SAFETY: no handler.
        let _ = unsafe { sigaction::set(libc::SIGABRT, &ignored) };
    } else {
        process::send_abort();
    }
}

/// A file that is written without an allocation or a lock.
#[derive(Debug)]
pub(crate) struct File(c_int);

impl File {
    /// Creates the file, or empties it. Returns `None` if that is not possible.
    pub(crate) fn create(path: &CStr) -> Option<Self> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        // SAFETY: the path ends with a zero byte.
        let fd = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
        (fd >= 0).then_some(Self(fd))
    }

    /// Writes all bytes. Returns `false` if that is not possible.
    pub(crate) fn write(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            // SAFETY: `bytes` is readable for its length.
            let written = unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => bytes = &bytes[written..],
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return false,
            }
        }
        true
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: opened by `create`, and not used after this.
        unsafe { libc::close(self.0) };
    }
}
