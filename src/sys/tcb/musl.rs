//! musl's blocks: each was a real thread's, whose kernel thread has ended without the library's knowledge.
//!
//! **The problem.** musl exports none of the functions that make a thread's block, and no table of offsets.
//! Its functions walk the ring of all threads: `dlopen` writes each thread's vector of modules,
//! `pthread_key_delete` each thread's values, and `pthread_create` puts a new thread beside its creator. So a
//! block must stand in the ring. The lock of the ring and the one that holds `pthread_create` off during
//! `dlopen` are hidden, too.
//!
//! **Rejected.**
//!
//! - To link hidden functions. That works only in static programs.
//! - A block outside the ring. `__tls_get_addr` checks no bounds, so thread-locals of a module that was
//!   loaded later would be read past the end of the vector. A kernel thread that a green thread starts would
//!   be missing in the ring, too.
//!
//! **The way.** `pthread_create` makes the block and links it. The new thread takes its end out of the
//! library's hands (`set_tid_address`), and ends by the system call (`cradle.rs`). What stays is a complete
//! block without a kernel thread. It works alike in static and in dynamic programs. The library counts it as
//! a thread, so its locks stay on.
//!
//! **A block's life.** Blocks are never freed, since only the end of a kernel thread unlinks one. Those that
//! no stack has wait in a list. `renew` writes the first values of thread-locals again (`modules.rs`). `exit`
//! has the library itself run the destructors of pthread keys, and with them those of Rust's thread-locals
//! (`keys.rs`). The library keeps nothing else in thread-locals: its allocator has no caches, and `errno`
//! lies in `struct pthread`.
//!
//! **Few fields are known** (`shape.rs`): the id, the values of keys, the vector of modules, and what a
//! thread may leave of requests to end, of detachment and of robust mutexes. They are found in two real
//! blocks and checked there. If anything does not fit, there is no rung.
//!
//! **Limits** besides those of the parent module: `docs/musl.md`.

mod cradle;
mod keys;
mod modules;
mod shape;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::fork::Generation;
use super::super::once::Mutex;
use super::common::LC_GLOBAL_LOCALE;
pub(crate) use super::common::{check_library, hwcap2};
use super::unfit::Unfit;
use super::{Aside, Renewed};
use keys::Keys;
use modules::Modules;
use shape::{Shape, poke};

/// `true` if this target has a C library and an instruction set for which blocks can be made.
pub(crate) const SUPPORTED: bool = true;

/// No kernel thread has an id like these: they are above `PID_MAX_LIMIT`. They fit the 30 bits of an id in a
/// lock.
const TIDS: std::ops::Range<u32> = 1 << 22 | 1..1 << 30;

/// Everything that a block's life needs.
#[derive(Debug)]
pub(crate) struct Library {
    shape: Shape,
    keys: Keys,
    modules: Modules,
    next_tid: AtomicU32,
    /// The thread registers of blocks that no stack has.
    free: Mutex<Vec<usize>>,
}

impl Library {
    pub(super) fn find() -> Result<Self, Unfit> {
        let keys = Keys::make()?;
        let modules = Modules::find();
        let (shape, blocks) = Shape::find(keys.own(), &modules).inspect_err(|_| keys.unmake())?;
        let library =
            Self { shape, keys, modules, next_tid: AtomicU32::new(TIDS.start), free: Mutex::new(Vec::new()) };
        for tp in blocks {
            library.adopt(tp).map_err(|_| Unfit::Unexpected("the thread id"))?;
            // SAFETY: no thread has it.
            unsafe { library.destroy(tp) };
        }
        Ok(library)
    }

    /// Does nothing. musl installs its handler anew for each `setuid`, so none of ours can come before it.
    pub(crate) fn relay_setxid(&self, _write: unsafe fn(usize)) -> Result<(), Unfit> {
        Ok(())
    }

    /// Returns 0: a block lies in a mapping of its own.
    pub(crate) fn reserve(&self) -> usize {
        0
    }

    /// Makes a block for a stack from `lowest` to `top`, and returns its thread register. Allocates, and may
    /// start a kernel thread that ends at once.
    ///
    /// # Safety
    /// The stack is the caller's until [`destroy`](Self::destroy).
    pub(crate) unsafe fn create(&self, top: *mut u8, lowest: *mut u8) -> io::Result<usize> {
        // In a forked child, the list is the parent's, and may be half changed.
        let used = self.free.lock(|free| std::mem::forget(std::mem::take(free))).pop();
        let tp = match used {
            // SAFETY: the block is free, so this thread alone uses it.
            Some(tp) if unsafe { self.renew(tp) }.is_ok() => tp,
            _ => {
                let tp = cradle::make(None).map_err(io::Error::from_raw_os_error)?.tp;
                self.adopt(tp)?;
                tp
            }
        };
        if let Some(stack) = self.shape.stack {
            // SAFETY: a field of the block, which the caller alone uses.
            unsafe { poke(tp + stack, top.addr()) };
            // SAFETY: a field of the block.
            unsafe { poke(tp + stack + 8, top.addr() - lowest.addr()) };
        }
        Ok(tp)
    }

    /// Gives a new block an id of its own.
    fn adopt(&self, tp: usize) -> io::Result<()> {
        // Relaxed: only the number matters.
        let tid = self.next_tid.fetch_add(1, Ordering::Relaxed);
        if !TIDS.contains(&tid) {
            // Far from overflow: nothing past the range is given out.
            self.next_tid.store(TIDS.end, Ordering::Relaxed);
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        // SAFETY: a field of the block, which has no thread.
        unsafe { poke(tp + self.shape.tid, tid) };
        // Its first thread has detached itself.
        // SAFETY: fields of the block, which has no thread.
        unsafe { self.shape.clear(tp) };
        self.mark(tp);
        Ok(())
    }

    /// Notes in a block without a thread which process it belongs to. A child of a fork has its own ring, in
    /// which the parent's blocks are not.
    fn mark(&self, tp: usize) {
        let mark = keys::mark(Generation::now().number());
        // SAFETY: the block has no thread, or is the caller's at its end. This value of it is ours.
        unsafe { self.shape.set_value(tp, self.keys.own(), mark) };
    }

    /// Gives every thread-local of block `tp` its first value again.
    ///
    /// # Errors
    /// The block is a parent's. The slot can be given to [`create`](Self::create).
    ///
    /// # Safety
    /// `tp` came from [`create`](Self::create). Its last thread has done [`exit`](Self::exit) and left it
    /// (I8), and the caller alone uses it.
    pub(crate) unsafe fn renew(&self, tp: usize) -> io::Result<Renewed> {
        // SAFETY: the block has no thread.
        if unsafe { self.shape.value(tp, self.keys.own()) } != keys::mark(Generation::now().number()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { self.modules.reset(tp, &self.shape) })
    }

    /// Enters the block: the first thing a thread does on its register, before any code that is not this
    /// crate's.
    ///
    /// # Safety
    /// The thread register is that of a block that was just made or renewed.
    pub(crate) unsafe fn enter(&self) {
        self.keys.arm();
    }

    /// Leaves the block: the last thing a thread does on its register. Runs the destructors of thread-locals
    /// and of pthread keys, and takes back what the C library would let the next thread see.
    ///
    /// # Safety
    /// The thread register is that of a block. Its thread has nothing left to run, and nothing borrowed from
    /// a thread-local. It may use 16 KiB more of its stack.
    pub(crate) unsafe fn exit(&self, aside: &'static Aside) {
        let tp = cradle::own();
        // SAFETY: the caller's promise.
        unsafe { self.keys.run_destructors(tp, &self.shape, aside) };
        // The next thread was not asked to end, may detach itself, and must not write through a robust mutex
        // that this one's owner frees.
        // SAFETY: the block is the calling thread's own.
        unsafe { self.shape.clear(tp) };
        cradle::be_cancellable();
        // The next thread must not read through a locale that this one's owner may free.
        // SAFETY: changes the calling thread's locale, to one that always exists.
        unsafe { libc::uselocale(LC_GLOBAL_LOCALE) };
        // SAFETY: takes nothing. Returns null, or a text that stays until the next call.
        while !unsafe { libc::dlerror() }.is_null() {}
        // SAFETY: takes nothing.
        let errno = unsafe { libc::__errno_location() };
        for error in [errno, __h_errno_location()] {
            // SAFETY: the calling thread's own.
            unsafe { error.write(0) };
        }
        self.mark(tp);
    }

    /// Ends block `tp`, which stays for another stack.
    ///
    /// # Safety
    /// As [`renew`](Self::renew), or no thread ever entered the block.
    pub(crate) unsafe fn destroy(&self, tp: usize) {
        self.free.lock(|free| std::mem::forget(std::mem::take(free))).push(tp);
    }
}

unsafe extern "C" {
    safe fn __h_errno_location() -> *mut std::ffi::c_int;
}
