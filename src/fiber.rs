//! Fibers: flows of control with stacks and thread registers of their own, and the switch from one to
//! another. No scheduler is in here.
//!
//! A runtime with green threads stands on this. It decides which fiber runs next, and on which kernel thread.
//! A fiber is mounted on one kernel thread at a time (`on_cpu`). Its stack comes from a pool of the process
//! and outlives it (`stack`). How it keeps a thread register of its own is `tls`'s.
//!
//! This is the only file that has the register written (I1). That happens in the switch itself, by the
//! instruction before the stack pointer changes. So no code that could use a thread-local runs in between. On
//! `Pinned` it stays the LWP's, and the thread-locals with it.

pub(crate) mod on_cpu;
pub(crate) mod stack;
pub(crate) mod tls;

use std::cell::Cell;
use std::mem::offset_of;

use self::on_cpu::Mounted;
use self::stack::{Bounds, Stack};
pub use self::tls::ThreadRegister;
use crate::arch::{self, Entry, SavedSp};
use crate::park::debugger::{Fact, Facts};
use crate::sys::memory;

/// Where a fiber continues, or a kernel thread's own code while a fiber runs there. It belongs to the code
/// that runs in it; otherwise to the kernel thread that is about to switch to it.
pub(crate) struct Context {
    sp: Cell<SavedSp>,
    /// The thread register for life (I1); zero on `Pinned`.
    tp: Cell<usize>,
}

impl Context {
    /// Makes one that continues nowhere, until it is switched from.
    pub(crate) fn new() -> Self {
        Self { sp: Cell::new(SavedSp::NONE), tp: Cell::new(0) }
    }

    /// Makes this the context of the calling kernel thread's own code.
    pub(crate) fn adopt(&self) {
        self.tp.set(arch::tp::read());
    }

    /// Returns the thread register.
    pub(crate) fn tp(&self) -> usize {
        self.tp.get()
    }

    /// Leaves this context for `to`. Returns when this one is switched to, with the argument of that switch.
    ///
    /// # Safety
    ///
    /// The caller runs in this context. `to` belongs to the caller, no kernel thread stands on its stack
    /// (I2), and it has been left by a switch, or laid out by [`Fiber::wait`].
    #[inline(always)]
    pub(crate) unsafe fn switch_to(&self, rung: ThreadRegister, to: &Self, arg: usize) -> usize {
        let (save, sp, tp) = (self.sp.as_ptr(), to.sp.get(), to.tp.get());
        match rung {
            // SAFETY: the caller's contract. The register is `to`'s own (I1), and [`tls::choose`] has seen
            // that the instruction is allowed.
            ThreadRegister::Switched => unsafe { arch::switch_tp(save, sp, tp, arg) },
            // SAFETY: the caller's contract. The register is `to`'s own (I1).
            ThreadRegister::Syscall => unsafe { arch::switch_tp_syscall(save, sp, tp, arg) },
            // SAFETY: the caller's contract.
            ThreadRegister::Pinned => unsafe { arch::switch(save, sp, arg) },
        }
    }
}

crate::shown::debug! { [] Context: "Context" }

/// A flow of control with a stack of its own.
#[derive(Debug)]
pub(crate) struct Fiber {
    /// Set while a kernel thread stands on the stack (I2).
    pub(crate) mounted: Mounted,
    pub(crate) context: Context,
    stack: Cell<Option<Stack>>,
}

/// For debuggers.
pub(crate) static FACTS: Facts<4> = Facts::new([
    Fact::address("more", &raw const stack::FACTS),
    Fact::number("fiber.mounted", offset_of!(Fiber, mounted)),
    Fact::number("fiber.sp", offset_of!(Fiber, context.sp)),
    Fact::number("fiber.stack", offset_of!(Fiber, stack)),
]);

const WORD: usize = size_of::<usize>();

/// Reads a word that other threads may change or unmap. `None`: it is not mapped.
fn word(at: usize) -> Option<usize> {
    let mut word = [0; WORD];
    (memory::read(at, &mut word).ok()? == WORD).then(|| usize::from_ne_bytes(word))
}

impl Fiber {
    /// Makes a fiber without a stack.
    pub(crate) fn new() -> Self {
        Self { mounted: Mounted::new(), context: Context::new(), stack: Cell::new(None) }
    }

    /// Puts the fiber on `stack`, whose memory stays as it is until [`wait`](Self::wait).
    ///
    /// # Safety
    ///
    /// The caller owns the fiber and `stack`, and no kernel thread stands on either. `tp` comes from
    /// [`tls::prepare`] of this stack.
    #[inline]
    pub(crate) unsafe fn put_on(&self, stack: Stack, tp: usize) {
        // In any order: a look from outside asks whether the thread lives, and its life begins after this.
        self.mounted.be_new();
        self.context.tp.set(tp);
        self.stack.set(Some(stack));
    }

    /// Waits a little until the fiber can be switched to. Returns `false` if it cannot. If it is new, lays
    /// out its context: the first switch to it calls `entry` with `data`.
    ///
    /// # Safety
    ///
    /// The caller owns the fiber. A new one is on a stack, and `entry` does not return.
    #[inline]
    pub(crate) unsafe fn wait(&self, entry: Entry, data: *mut ()) -> bool {
        // SAFETY: the caller's contract.
        self.mounted.is_clear() || unsafe { self.lay_out_or_wait(entry, data) }
    }

    /// Does what [`wait`](Self::wait) does, for a fiber whose flag is not clear.
    ///
    /// # Safety
    ///
    /// As [`wait`](Self::wait).
    #[inline(never)]
    unsafe fn lay_out_or_wait(&self, entry: Entry, data: *mut ()) -> bool {
        let Some(stack) = self.stack.get().filter(|_| self.mounted.is_new()) else {
            return self.mounted.wait_clear();
        };
        // SAFETY: the stack is the fiber's, and so the caller's. Its start is aligned, and nothing stands
        // there.
        let sp = unsafe { arch::init(stack.start(), entry, data) };
        self.context.sp.set(sp);
        true
    }

    /// Begins to fetch what a switch to this fiber reads first, unless a kernel thread still stands on its
    /// stack. The caller has taken the fiber off a queue.
    #[inline]
    pub(crate) fn fetch(&self) {
        if self.mounted.is_saved() {
            self.context.sp.get().fetch();
        }
    }

    /// Reads what only the owner may read otherwise: the saved stack pointer, and what is usable of the
    /// stack. For a look from outside, which must find out if the fiber was left alone meanwhile. Returns
    /// `None` without a stack, and if the fiber is new.
    pub(crate) fn look(&self) -> Option<(usize, Bounds)> {
        const { assert!(size_of::<SavedSp>() == WORD) }
        let bounds = self.bounds().filter(|_| !self.mounted.is_new())?;
        Some((word(self.context.sp.as_ptr().addr())?, bounds))
    }

    /// Reads what is usable of the stack, as [`look`](Self::look) does. Returns `None` without a stack.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        const { assert!(size_of::<Option<Stack>>() == WORD) }
        let header = word(self.stack.as_ptr().addr()).filter(|&header| header != 0)?;
        Bounds::read(header, word)
    }

    /// Returns the stack, if the fiber has one.
    pub(crate) fn stack(&self) -> Option<Stack> {
        self.stack.get()
    }

    /// Takes the stack of a fiber that has ended. The caller gives it back from another stack (I8).
    #[inline]
    pub(crate) fn take_stack(&self) -> Option<Stack> {
        self.stack.take()
    }
}
