//! What a preemption signal stopped, according to the kernel's frame: where the code stands, and whether a
//! call may be inserted there.
//!
//! All of this is async-signal-safe. Nothing is assumed here about the interrupted code. What a call needs is
//! a separate question, which `mxn/preempt.rs` answers.

use std::ops::{Range, RangeInclusive};
use std::{ptr, slice};

use super::{ASYNCHRONOUS, Mask, Registers, frame, text};

/// What the signal stopped. It lives as long as the handler runs.
pub(crate) struct Interrupted<'a> {
    context: &'a mut libc::ucontext_t,
    /// The signal carries this crate's mark.
    is_marked: bool,
    is_claimed: bool,
}

impl<'a> Interrupted<'a> {
    pub(super) fn new(context: &'a mut libc::ucontext_t, is_marked: bool) -> Self {
        Self { context, is_marked, is_claimed: is_marked }
    }

    pub(super) fn is_claimed(&self) -> bool {
        self.is_claimed
    }

    /// Returns `true` if the signal is certainly one of [`send`](super::send)'s. Otherwise the kernel had no
    /// memory for the mark, and the signal may be another sender's.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// Claims a signal without a mark, so that other handlers do not get it.
    pub(crate) fn claim(&mut self) {
        self.is_claimed = true;
    }

    /// Returns the stack pointer.
    pub(crate) fn sp(&self) -> usize {
        frame::sp(self.context)
    }

    /// Returns the registers that callers may need.
    pub(crate) fn registers(&self) -> Registers {
        frame::registers(self.context)
    }

    /// Returns the address of the next instruction.
    pub(super) fn pc(&self) -> usize {
        frame::pc(self.context)
    }

    /// Returns `true` if the next instruction belongs to the C library, the loader or the allocator. Their
    /// code may hold a lock that every thread needs.
    pub(crate) fn in_library(&self) -> bool {
        text::in_library(self.pc())
    }

    /// Returns `true` if the next instruction is this crate's, where that is no part of the main program.
    pub(crate) fn in_own_library(&self) -> bool {
        text::in_own_library(self.pc())
    }

    /// Returns `true` if the next instruction, or the last, is a system call. For code [in the
    /// library](Self::in_library) only.
    pub(crate) fn is_by_call(&self) -> bool {
        let length = frame::SYSTEM_CALL.len();
        let before = ptr::with_exposed_provenance::<u8>(self.pc() - length);
        // SAFETY: as in `is_at_call`. An object does not begin with its code.
        self.is_at_call() || unsafe { slice::from_raw_parts(before, length) == frame::SYSTEM_CALL }
    }

    /// Returns `true` if the next instruction is a system call that is about to begin again. For code [in the
    /// library](Self::in_library) only, which is readable.
    pub(crate) fn is_at_call(&self) -> bool {
        let at = ptr::with_exposed_provenance::<u8>(self.pc());
        // SAFETY: code that was about to be executed, in an object that is loaded as readable, too.
        unsafe { slice::from_raw_parts(at, frame::SYSTEM_CALL.len()) == frame::SYSTEM_CALL }
    }

    /// Ends the system call that is about to begin again, as a handler without `SA_RESTART` would have ended
    /// it (`EINTR`). `sp` and `pc` are those of a call in which the kernel has said that the code sleeps.
    /// Does nothing if the code stands elsewhere, or if Linux lets no handler end this call.
    pub(crate) fn end_call(&mut self, sp: usize, pc: usize) {
        let is_there = self.sp() == sp && self.pc() + frame::SYSTEM_CALL.len() == pc;
        if is_there && ends(frame::call(self.context)) {
            frame::set_result(self.context, -i64::from(libc::EINTR));
            frame::go_on_at(self.context, sp, pc);
        }
    }

    /// Returns the state on which saving depends besides, in the form that `arch::inject` wants.
    pub(crate) fn machine_state(&self) -> u64 {
        frame::machine_state(self.context)
    }

    /// Returns the signals that were blocked. If they are not those that the kernel thread usually blocks, it
    /// was in another signal handler. Or it was in a function that must not be disturbed.
    pub(crate) fn mask(&self) -> Mask {
        // SAFETY: the kernel writes eight bytes, however long the C library's type is.
        Mask(unsafe { (&raw const self.context.uc_sigmask).cast::<u64>().read() })
    }

    /// Makes the interrupted code go on with all signals blocked, except those that faults raise.
    pub(crate) fn block_all(&mut self) {
        let Mask(before) = self.mask();
        // SAFETY: the kernel reads eight bytes, however long the C library's type is.
        unsafe { (&raw mut self.context.uc_sigmask).cast::<u64>().write(before | ASYNCHRONOUS) };
    }

    /// Returns `true` if the interrupted code ran on the alternate stack: it is another signal handler.
    pub(super) fn on_alternate_stack(&self) -> bool {
        let stack = &self.context.uc_stack;
        // The pointer of an empty stack is its end.
        let above = self.sp().wrapping_sub(stack.ss_sp.addr());
        stack.ss_flags & libc::SS_DISABLE == 0 && above > 0 && above <= stack.ss_size
    }

    /// Returns `true` if a function of 64-bit code can be called here, and the code is not single-stepped.
    pub(super) fn is_ordinary(&self) -> bool {
        frame::is_ordinary(self.context)
    }

    /// Returns `true` if a signal frame may lie between the stack pointer and `end`. Then the code is a
    /// handler's, even if it blocks no signal (SA_NODEFER), and must return on this kernel thread. What an
    /// earlier frame has left behind looks the same.
    pub(super) fn is_above_frame(&self, end: usize) -> bool {
        /// The most that is searched: it takes some 20 us.
        const MOST: usize = 1 << 20;
        let (mark, offset, align) = frame::mark(self.context);
        let first = (self.sp() & !(align - 1)) + offset;
        let mut words = (first..end.saturating_sub(size_of::<u32>())).step_by(align);
        // SAFETY: the caller's stack, from its stack pointer to its end.
        end - self.sp() > MOST
            || words.any(|at| unsafe { ptr::with_exposed_provenance::<u32>(at).read() } == mark)
    }

    /// Returns `true` if the kernel's frame and this handler are on the alternate stack, and that is no part
    /// of `stack`. A handler that was installed later without SA_ONSTACK may call ours. A library may have
    /// taken the alternate stack away.
    pub(super) fn is_apart_from(&self, stack: &Range<usize>) -> bool {
        let alternate = &self.context.uc_stack;
        let here = (&raw const alternate).addr();
        let frame = ptr::from_ref(&*self.context).addr();
        let on_it = |at: usize| at.wrapping_sub(alternate.ss_sp.addr()) < alternate.ss_size;
        alternate.ss_flags & libc::SS_DISABLE == 0
            && [here, frame].into_iter().all(|at| on_it(at) && !stack.contains(&at))
    }

    /// Returns `true` if a call can be inserted here. The thread must run its usual code, with this mask and
    /// this stack, and its stack pointer must be in `enough`.
    pub(crate) fn takes_call(
        &self,
        mask: Option<Mask>,
        stack: &Range<usize>,
        enough: RangeInclusive<usize>,
    ) -> bool {
        mask == Some(self.mask()) && self.takes_call_under_any_mask(stack, enough)
    }

    /// Does what [`takes_call`](Self::takes_call) does, for code that may have changed the mask.
    pub(crate) fn takes_call_under_any_mask(
        &self,
        stack: &Range<usize>,
        enough: RangeInclusive<usize>,
    ) -> bool {
        // The search for a signal frame of the program comes last, because it takes longest.
        !self.on_alternate_stack()
            && self.is_apart_from(stack)
            && enough.contains(&self.sp())
            && self.is_ordinary()
            && !self.is_above_frame(*enough.end())
    }

    /// Makes the interrupted code go on elsewhere: `change` gets its stack pointer, its program counter, and
    /// [`machine_state`](Self::machine_state).
    ///
    /// # Safety
    /// That of `change`. Execution must be able to go on from the values that it leaves.
    pub(crate) unsafe fn redirect(&mut self, change: unsafe fn(&mut usize, &mut usize, u64)) {
        let (mut sp, mut pc) = (self.sp(), self.pc());
        // SAFETY: the caller's contract.
        unsafe { change(&mut sp, &mut pc, self.machine_state()) };
        frame::go_on_at(self.context, sp, pc);
    }
}

/// Returns `true` if a handler without `SA_RESTART` ends a system call, and one with that does not
/// (`signal(7)`). It has this number and this second argument. Calls of other kinds either never begin again,
/// or always (`clone`).
fn ends((number, second): (i64, usize)) -> bool {
    match number {
        // Not calls that take a lock in the name of the kernel thread.
        libc::SYS_futex => {
            matches!(second as libc::c_int & libc::FUTEX_CMD_MASK, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open | libc::SYS_creat => true,
        libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_preadv2
        | libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwritev2
        | libc::SYS_sendfile
        | libc::SYS_splice
        | libc::SYS_tee
        | libc::SYS_vmsplice
        | libc::SYS_ioctl
        | libc::SYS_flock
        | libc::SYS_fcntl
        | libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_connect
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_mq_timedreceive
        | libc::SYS_mq_timedsend
        | libc::SYS_getrandom => true,
        _ => false,
    }
}
