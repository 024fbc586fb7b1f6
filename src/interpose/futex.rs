//! `syscall(SYS_futex, ..)`: how std's locks, parking and channels wait, and parking_lot's.
//!
//! Private futexes only. Shared ones, and those that pass on priorities, go to the kernel, and a green thread
//! that may block there says so.

use std::ffi::{c_int, c_long};
use std::ptr;

use super::caller::{announced, duration, green};
use super::cancel::{self, Ends};
use super::user_memory;
use crate::park::futex::{self, ANY, NotWoken};
use crate::park::wait::Wait;
use crate::sys::next::{self, fail};

const PRIVATE: c_int = libc::FUTEX_PRIVATE_FLAG;
const REALTIME: c_int = libc::FUTEX_CLOCK_REALTIME;

/// See the header of this file, and `syscall(2)`. C declares this function with any number of arguments,
/// and passes them as to a function of seven. If there are fewer, the rest is what happens to be there.
///
/// # Safety
/// As the system call's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: the caller's promise.
    let kernel = || unsafe { next::syscall(number, a, b, c, d, e, f) };
    if number != libc::SYS_futex {
        return kernel();
    }
    let operation = b as c_int & !(PRIVATE | REALTIME);
    if b as c_int & PRIVATE == 0 && wakes(operation) {
        return kernel();
    }
    if b as c_int & PRIVATE == 0 {
        return announced(kernel);
    }
    let call = Call {
        word: ptr::with_exposed_provenance(a as usize),
        operation,
        realtime: b as c_int & REALTIME != 0,
        value: c as u32,
        fourth: d,
        other: ptr::with_exposed_provenance(e as usize),
        sixth: f as u32,
    };
    match call.operation {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if green().is_some() => call.wait(),
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET | libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE
            if futex::may_have_waiters() =>
        {
            call.wake_or_move()
        }
        libc::FUTEX_WAKE_OP => {
            // It changes the second word, so it comes first.
            let woken = kernel();
            if woken < 0 || !futex::may_have_waiters() {
                return woken;
            }
            // What the operation has found there, only the kernel knows. A wake-up for nothing is allowed.
            let all = |word: *const u32| futex::wake(word.addr(), ANY, usize::MAX, |_| 0) as c_long;
            woken + all(call.word) + all(call.other)
        }
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => kernel(),
        _ => announced(kernel),
    }
}

/// Returns `true` if an operation does not wait.
fn wakes(operation: c_int) -> bool {
    matches!(
        operation,
        libc::FUTEX_WAKE
            | libc::FUTEX_WAKE_BITSET
            | libc::FUTEX_WAKE_OP
            | libc::FUTEX_REQUEUE
            | libc::FUTEX_CMP_REQUEUE
            | libc::FUTEX_CMP_REQUEUE_PI
            | libc::FUTEX_UNLOCK_PI
            | libc::FUTEX_TRYLOCK_PI
    )
}

/// The arguments of `futex(2)`, by the names that most operations have for them.
struct Call {
    word: *const u32,
    operation: c_int,
    realtime: bool,
    value: u32,
    /// The address of a timeout, or a second number.
    fourth: c_long,
    other: *const u32,
    sixth: u32,
}

impl Call {
    /// Returns the mask of an operation that has one.
    fn mask(&self) -> Option<u32> {
        let masked = matches!(self.operation, libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAKE_BITSET);
        let mask = if masked { self.sixth } else { ANY };
        (mask != 0).then_some(mask)
    }

    /// Waits in the queue, for the running thread, which is green.
    fn wait(&self) -> c_long {
        let wait = match self.limit() {
            Ok(wait) => wait,
            Err(error) => return fail(error),
        };
        let (Some(mask), true) = (self.mask(), self.word.is_aligned()) else { return fail(libc::EINVAL) };
        let mut readable = true;
        let mut is_same = || {
            let found = user_memory::word(self.word);
            readable = found.is_some();
            found == Some(self.value)
        };
        let waits = |wait| futex::wait(self.word.addr(), mask, wait, &mut is_same);
        let is_interrupted = |waited: &Result<(), NotWoken>| *waited == Err(NotWoken::Interrupted);
        // With a timeout, the kernel does not go on with it.
        let ends = if self.fourth == 0 { Ends::AsAsked } else { Ends::Always };
        match cancel::wait_outside(ends, wait, waits, is_interrupted) {
            Ok(()) => 0,
            Err(NotWoken::TimedOut) => fail(libc::ETIMEDOUT),
            Err(NotWoken::Interrupted) => fail(libc::EINTR),
            Err(NotWoken::Differs) => fail(if readable { libc::EAGAIN } else { libc::EFAULT }),
        }
    }

    /// Returns how long to wait.
    fn limit(&self) -> Result<Wait, c_int> {
        if self.fourth == 0 {
            return Ok(Wait::forever());
        }
        let time =
            user_memory::time(ptr::with_exposed_provenance(self.fourth as usize)).ok_or(libc::EFAULT)?;
        let time = duration(time).ok_or(libc::EINVAL)?;
        if self.operation == libc::FUTEX_WAIT {
            return Ok(Wait::timeout(time));
        }
        let clock = if self.realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
        Ok(Wait::by(super::clocks::moment(clock, time)))
    }

    /// Wakes, or moves, waiters in the queue and in the kernel.
    fn wake_or_move(&self) -> c_long {
        if !self.word.is_aligned() {
            return fail(libc::EINVAL);
        }
        // The kernel wakes one if it is told to wake none.
        let most = usize::try_from(self.value as i32).unwrap_or(0).max(1);
        match self.operation {
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
                let Some(mask) = self.mask() else { return fail(libc::EINVAL) };
                let kernel = |most| self.in_kernel(most, 0).max(0) as usize;
                futex::wake(self.word.addr(), mask, most, kernel) as c_long
            }
            _ => self.requeue(),
        }
    }

    fn requeue(&self) -> c_long {
        let counts = (usize::try_from(self.value as i32), usize::try_from(self.fourth as i32));
        let ((Ok(wake), Ok(moved)), true) = (counts, self.other.is_aligned()) else {
            return fail(libc::EINVAL);
        };
        if self.word == self.other {
            // Waiters that are moved to where they are stay there. The kernel compares.
            let kernel = self.in_kernel(wake, moved);
            let left = wake.saturating_sub(usize::try_from(kernel).unwrap_or(wake));
            return if left == 0 {
                kernel
            } else {
                kernel + futex::wake(self.word.addr(), ANY, left, |_| 0) as c_long
            };
        }
        let mut readable = true;
        let is_same = || {
            let found = user_memory::word(self.word);
            readable = found.is_some();
            self.operation == libc::FUTEX_REQUEUE || found == Some(self.sixth)
        };
        let there = futex::requeue((self.word.addr(), wake), (self.other.addr(), moved), is_same);
        let Some((woken, gone)) = there else {
            return fail(if readable { libc::EAGAIN } else { libc::EFAULT });
        };
        let both = (woken + gone) as c_long;
        if woken == wake && gone == moved {
            return both;
        }
        match self.in_kernel(wake - woken, moved - gone) {
            // The word has changed since, but some were woken or moved before.
            error @ ..0 => {
                if both > 0 {
                    both
                } else {
                    error
                }
            }
            more => both + more,
        }
    }

    /// Asks the kernel to wake at most so many threads, and to move others if the operation does.
    fn in_kernel(&self, most: usize, moved: usize) -> c_long {
        let operation = self.operation | PRIVATE;
        let most = c_int::try_from(most).unwrap_or(c_int::MAX);
        let moved = c_int::try_from(moved).unwrap_or(c_int::MAX);
        let (word, other) =
            (self.word.expose_provenance() as c_long, self.other.expose_provenance() as c_long);
        // SAFETY: the kernel takes any addresses, and writes to none of them.
        unsafe {
            next::syscall(
                libc::SYS_futex,
                word,
                operation.into(),
                most.into(),
                moved.into(),
                other,
                self.sixth.into(),
            )
        }
    }
}
