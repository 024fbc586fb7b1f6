//! The thread register of green threads: which rung of the ladder a runtime stands on, and what that means at
//! a thread's start and end. The switch writes the register (`fiber.rs`).
//!
//! | rung | the register | a thread may move | sound |
//! |---|---|---|---|
//! | `Switched` | written by an instruction at each switch | yes | yes |
//! | `Syscall` | written by a system call (no FSGSBASE; valgrind) | yes | yes |
//! | `Pinned` | the LWP's, thread-locals too | no | if no crate keeps a stack discipline in these |
//!
//! **Rejected**: to fall to `Pinned` automatically. What it breaks is not seen until it is broken. So only an
//! `unsafe` method of the builder chooses it, never this file.
//!
//! A rung is used only after a test of it in this process (`self_test`). What the blocks rest on is private
//! to the C library. A surprise should be an error from `build`, not a wrong value in another thread.

mod aside;
mod self_test;

use std::fmt;
use std::io;

use super::stack::Stack;
use crate::arch;
use crate::sys::once::OnceLock;
use crate::sys::tcb::{self, Library};
use aside::ASIDE;

/// How green threads keep a thread register of their own, and with it `thread_local!`, `errno` and C
/// libraries.
///
/// The rungs of a ladder, the best first. A runtime takes the best of the first two that the machine has,
/// unless its [builder](crate::mxn::Builder::thread_register) asks for one.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, ThreadRegister};
///
/// let rt = Mxn::new()?;
/// assert_ne!(rt.info().thread_register, Some(ThreadRegister::Pinned));
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadRegister {
    /// Written at every switch, by an instruction of the processor.
    Switched,
    /// Written at every switch, by a system call.
    Syscall,
    /// Not written. Green threads stay on the LWP that first ran them, and share its thread-locals.
    Pinned,
}

impl ThreadRegister {
    /// Returns `true` if each green thread has a register of its own, and with it thread-locals.
    #[inline]
    pub(crate) fn is_per_thread(self) -> bool {
        self != Self::Pinned
    }
}

impl fmt::Display for ThreadRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Switched => "switched",
            Self::Syscall => "syscall",
            Self::Pinned => "pinned",
        })
    }
}

/// Chooses the rung for what a program asks for; `None`: the best that works, and never `Pinned`.
///
/// # Errors
///
/// If the rung is missing, or (for `None`) both are. The error says why, and what works instead. Another
/// error if there was no room to find that out.
pub(crate) fn choose(wanted: Option<ThreadRegister>) -> io::Result<ThreadRegister> {
    if !arch::SUPPORTED {
        return Err(missing("green threads on this processor", &"there is no context switch for it"));
    }
    match wanted {
        Some(rung) => works(rung)?.map_err(|why| missing(&format!("the rung `{rung}`"), &why)),
        None if works(ThreadRegister::Switched)?.is_ok() => Ok(ThreadRegister::Switched),
        None => works(ThreadRegister::Syscall)?
            .map_err(|why| missing("a thread register for green threads", &why)),
    }
}

#[cold]
fn missing(what: &str, why: &dyn fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{what} cannot be had: {why}; the 1:1 runtime (OneToOne, SELVEDGE_RUNTIME=onetoone) works everywhere"
        ),
    )
}

/// Tests a rung, once in this process.
///
/// # Errors
/// There was no thread or no memory for the test. The next call tries it again.
fn works(rung: ThreadRegister) -> io::Result<Result<ThreadRegister, &'static str>> {
    static SWITCHED: OnceLock<Result<(), String>> = OnceLock::new();
    static SYSCALL: OnceLock<Result<(), String>> = OnceLock::new();
    let (tested, possible) = match rung {
        ThreadRegister::Switched => (&SWITCHED, arch::tp::can_write(tcb::hwcap2())),
        ThreadRegister::Syscall => (&SYSCALL, arch::tp::SYSCALL),
        ThreadRegister::Pinned => return Ok(Ok(rung)),
    };
    let result = tested.get_or_try_init(|| -> io::Result<_> {
        if !possible {
            return Ok(Err("the processor or the kernel does not allow it".into()));
        }
        let write = if rung == ThreadRegister::Switched { arch::tp::write } else { arch::tp::write_syscall };
        match Library::get().and_then(|library| library.relay_setxid(write).map(|()| library)) {
            Err(unfit) if unfit.may_pass() => Err(unfit.into()),
            Err(unfit) => Ok(Err(unfit.to_string())),
            Ok(library) => {
                let tested = self_test::run(rung, library)?;
                Ok(tested.map_err(|what| format!("in the self-test, {what} was wrong")))
            }
        }
    })?;
    Ok(result.as_ref().map(|()| rung).map_err(String::as_str))
}

/// Returns the C library's part.
///
/// # Safety
/// [`choose`] has returned `Switched` or `Syscall` in this process: it has found this part.
#[inline]
unsafe fn library() -> &'static Library {
    // SAFETY: the caller's promise.
    unsafe { Library::found() }
}

/// Returns how many bytes of a span a thread's block takes.
///
/// # Errors
/// There was no room to find that out. It holds for all stacks of the process, also for those of a later
/// runtime.
pub(crate) fn reserve() -> io::Result<usize> {
    match Library::get() {
        Err(unfit) if unfit.may_pass() => Err(unfit.into()),
        library => Ok(library.map_or(0, Library::reserve)),
    }
}

/// Frees what a block owns outside of its span.
///
/// # Safety
///
/// `tp` is the register of a block that [`prepare`] made, and no thread has it.
pub(crate) unsafe fn destroy(tp: usize) {
    // SAFETY: a block was made, so a rung with blocks was chosen.
    let library = unsafe { library() };
    // SAFETY: the caller's contract.
    unsafe { library.destroy(tp) };
}

/// Gives a stack a block for a new thread, if it has none. Returns the thread register. Called by the
/// spawner: it may allocate.
///
/// # Safety
///
/// [`choose`] has returned the rung in this process.
#[inline(always)]
pub(crate) unsafe fn prepare(rung: ThreadRegister, stack: Stack) -> io::Result<usize> {
    if rung == ThreadRegister::Pinned {
        return Ok(0);
    }
    // SAFETY: the caller's promise, for a rung with blocks.
    prepare_block(unsafe { library() }, stack)
}

/// Kept out of [`prepare`], of which `Pinned` needs the first line only.
#[inline(never)]
fn prepare_block(library: &Library, stack: Stack) -> io::Result<usize> {
    match stack.tls().get() {
        0 => {
            // SAFETY: the span is the caller's, and has no block.
            unsafe { stack.clear_for_block() };
            // SAFETY: the span is the caller's, and this part of it was reserved for a block.
            let tp = unsafe { library.create(stack.tls_end(), stack.limit()) }?;
            stack.tls().set(tp);
            Ok(tp)
        }
        tp => {
            // SAFETY: made above for a thread that has ended. Its stack was given back from another one (I8).
            if unsafe { library.renew(tp) }.is_ok() {
                return Ok(tp);
            }
            // There is no block here any more: no memory, or it is that of a parent process.
            stack.tls().set(0);
            prepare_block(library, stack)
        }
    }
}

/// Enters a new thread's own register: the first thing there.
///
/// # Safety
///
/// Called once in a thread's life, by the thread, before any code that is not this crate's.
#[inline]
pub(crate) unsafe fn enter(rung: ThreadRegister) {
    if rung != ThreadRegister::Pinned {
        // SAFETY: the thread is on such a rung.
        let library = unsafe { library() };
        // SAFETY: `prepare` made or renewed the block.
        unsafe { library.enter() };
    }
}

/// Leaves a thread's own register: runs its destructors, as the last thing there. On `Pinned` the destructors
/// are the LWP's, and run when that ends.
///
/// # Safety
///
/// Called once in a thread's life, by the thread, when no user code is left to run on its register.
#[inline(always)]
pub(crate) unsafe fn exit(rung: ThreadRegister) {
    if rung != ThreadRegister::Pinned {
        // SAFETY: the thread is on such a rung.
        let library = unsafe { library() };
        // SAFETY: the caller's contract.
        unsafe { library.exit(&ASIDE) };
    }
}
