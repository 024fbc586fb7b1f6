//! The thread register of green threads: which rung of the ladder a runtime stands on, and what that means at a switch, at
//! a thread's start and at its end.
//!
//! This is the only file that has the register written (I1): in the switch itself, by the instruction before the stack
//! pointer changes, so that no code which could use a thread-local runs in between. On rung 3 it stays the LWP's, and the
//! thread-locals with it.
//!
//! | rung | the register | a thread may move | sound |
//! |---|---|---|---|
//! | [`Rung::Switched`] | written by an instruction at each switch | yes | yes |
//! | [`Rung::Syscall`] | written by a system call (no FSGSBASE; valgrind) | yes | yes |
//! | [`Rung::Pinned`] | left alone: thread-locals belong to the LWP | no | if no crate keeps a stack discipline in them |
//!
//! **Rejected**: falling to `Pinned` by itself. What it breaks is not seen until it is broken, so it is chosen by an
//! `unsafe` method of the builder and never from here.
//!
//! A rung is used only after a test of it in this process (`self_test`): what the blocks rest on is private to the C
//! library, and a surprise should be an error from `build`, not a wrong value in a stranger's thread.

mod self_test;

use std::io;

use super::config::{Register, ThreadRegister};
use super::stack::Stack;
use crate::arch::{self, SavedSp};
pub(crate) use crate::runtime::Rung;
use crate::sys::once::OnceLock;
use crate::sys::tcb::{self, Glibc};

/// The rung for what a program asks for.
///
/// # Errors
///
/// If the rung is missing, or (`Auto`) both are: the error says why, and what works instead.
pub(super) fn choose(register: Register) -> io::Result<Rung> {
    if !arch::SUPPORTED {
        return Err(missing("green threads on this processor", &"there is no context switch for it"));
    }
    match register {
        Register::Pinned => Ok(Rung::Pinned),
        Register::Own(ThreadRegister::Switched) => {
            works(Rung::Switched).map_err(|why| missing("the rung `switched`", &why))
        }
        Register::Own(ThreadRegister::Syscall) => {
            works(Rung::Syscall).map_err(|why| missing("the rung `syscall`", &why))
        }
        Register::Own(ThreadRegister::Auto) => works(Rung::Switched)
            .or_else(|_| works(Rung::Syscall))
            .map_err(|why| missing("a thread register for green threads", &why)),
    }
}

#[cold]
fn missing(what: &str, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{what} cannot be had: {why}; the 1:1 runtime (OneToOne, SELVEDGE_RUNTIME=onetoone) works everywhere"
        ),
    )
}

/// Tests a rung, once in this process.
fn works(rung: Rung) -> Result<Rung, &'static str> {
    static SWITCHED: OnceLock<Result<(), String>> = OnceLock::new();
    static SYSCALL: OnceLock<Result<(), String>> = OnceLock::new();
    let (tested, possible) = match rung {
        Rung::Switched => (&SWITCHED, arch::tp::can_write(tcb::hwcap2())),
        Rung::Syscall => (&SYSCALL, arch::tp::SYSCALL),
        Rung::Pinned => return Ok(rung),
    };
    let result = tested.get_or_init(|| {
        if !possible {
            return Err("the processor or the kernel does not allow it".into());
        }
        let glibc = Glibc::get().map_err(|unfit| unfit.to_string())?;
        let write = if rung == Rung::Switched { arch::tp::write } else { arch::tp::write_syscall };
        glibc.relay_setxid(write).map_err(|unfit| unfit.to_string())?;
        self_test::run(rung, glibc).map_err(|what| format!("in the self-test, {what} was wrong"))
    });
    result.as_ref().map(|()| rung).map_err(String::as_str)
}

/// The C library's part. Rungs 1 and 2 exist only where `choose` has found it.
#[inline]
fn glibc() -> &'static Glibc {
    match Glibc::get() {
        Ok(glibc) => glibc,
        Err(_) => unreachable!("a rung was chosen without it"),
    }
}

/// Bytes at the top of a slot that a thread's block takes.
pub(super) fn reserve() -> usize {
    Glibc::get().map_or(0, Glibc::reserve)
}

/// Frees what a block owns outside of its slot.
///
/// # Safety
///
/// `tp` is the register of a block that [`prepare`] made, and no thread has it.
pub(super) unsafe fn destroy(tp: usize) {
    // SAFETY: the caller's contract.
    unsafe { glibc().destroy(tp) };
}

/// Sees to it that a stack has a block for a new thread; gives the thread register. By the spawner: it may allocate.
#[inline]
pub(super) fn prepare(rung: Rung, stack: Stack) -> io::Result<usize> {
    if rung == Rung::Pinned {
        return Ok(0);
    }
    match stack.tls().get() {
        0 => {
            // SAFETY: the slot is ours, and its top was reserved for this.
            let tp = unsafe { glibc().create(stack.top(), stack.limit()) }?;
            stack.tls().set(tp);
            Ok(tp)
        }
        tp => {
            // SAFETY: made above for a thread that has ended: its stack was given back from another one (I8).
            if let Err(error) = unsafe { glibc().renew(tp) } {
                stack.tls().set(0);
                return Err(error);
            }
            Ok(tp)
        }
    }
}

/// First thing on a new thread's own register.
///
/// # Safety
///
/// Called once in a thread's life, by the thread, before any code that is not this crate's.
#[inline]
pub(super) unsafe fn enter(rung: Rung) {
    if rung != Rung::Pinned {
        // SAFETY: `prepare` made or renewed the block.
        unsafe { glibc().enter() };
    }
}

/// Last thing on a thread's own register: runs its destructors. On rung 3 they are the LWP's, and run when that ends.
///
/// # Safety
///
/// Called once in a thread's life, by the thread, when nothing of the user's is left to run on its register.
#[inline]
pub(super) unsafe fn exit(rung: Rung) {
    if rung != Rung::Pinned {
        // SAFETY: the caller's contract.
        unsafe { glibc().exit() };
    }
}

/// The value of the machine's other register of this kind (x86-64: the base of GS), which programs may use.
/// Only a preempted thread keeps it. In a call to the runtime the kernel thread may change, and a program can
/// know that.
pub(super) struct OtherRegister {
    base: usize,
    fast: bool,
}

impl OtherRegister {
    /// Reads the calling LWP's register.
    pub(super) fn read(rung: Rung) -> Self {
        let fast = rung == Rung::Switched;
        Self { base: arch::tp::read_other(fast), fast }
    }

    /// Writes the calling LWP's register.
    pub(super) fn write(self) {
        arch::tp::write_other(self.fast, self.base);
    }
}

/// Leaves one context for another, with the thread register.
///
/// # Safety
///
/// As [`arch::switch_tp`]; `tp` is the register of the thread that `to` belongs to, and of no use on rung 3.
#[inline(always)]
pub(super) unsafe fn switch(rung: Rung, save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    match rung {
        // SAFETY: the caller's contract; `choose` has seen that the instruction is allowed.
        Rung::Switched => unsafe { arch::switch_tp(save, to, tp, arg) },
        // SAFETY: the caller's contract.
        Rung::Syscall => unsafe { arch::switch_tp_syscall(save, to, tp, arg) },
        // SAFETY: the caller's contract.
        Rung::Pinned => unsafe { arch::switch(save, to, arg) },
    }
}
