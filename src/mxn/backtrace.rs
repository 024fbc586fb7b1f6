//! Backtraces of green threads (`backtrace.rs` says what they are for).
//!
//! **A thread that does not run** has its registers in its last frame, and its stack is still. The looker
//! copies both, and then finds out if the thread ran meanwhile:
//!
//! - An LWP that mounts the thread sets a flag, and stores another owner hint. The number of each wait is
//!   another, too. If one of these has changed, the copy is thrown away.
//! - A hint has few bits, so it may be the same by chance. So the stack is copied twice. If the thread ran,
//!   and both copies are equal, they are of the same place in its code.
//!
//! No LWP waits for that, and nothing is added to what a switch does. On aarch64 and riscv64, the stores of
//! an LWP may be seen in another order. But none is late by as long as two copies take.
//!
//! **A thread on an LWP** may be in a system call. If this begins again by itself, or the thread computes, it
//! is asked by the preemption signal, which is the crate's already. Otherwise the kernel says where the call
//! was made, and the stack is still as long as the call lasts.

use std::time::{Duration, Instant};

use super::green::Green;
use super::lwp::Lwp;
use crate::arch;
use crate::backtrace::slot::{Answer, Slot};
use crate::backtrace::{Backtrace, MOST, TRIES, Unwinder};
use crate::fiber::stack::Bounds;
use crate::park::owner::OwnerHint;
use crate::park::reason::WaitReason;
use crate::sys::once::Mutex;
use crate::sys::preempt::{self, Interrupted};
use crate::sys::registers::Registers;
use crate::sys::task_state::{InKernel, Tasks};

/// How long a thread has to answer. It may have to wait for a CPU.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long the looker sleeps between two looks at the answer.
const NAP: Duration = Duration::from_micros(20);

/// What a handler copies of its thread.
struct StackPart {
    registers: Registers,
    /// Where the copy begins; its length is 0 if the thread did not stand on its own stack.
    from: usize,
    len: usize,
    bytes: [u8; MOST],
}

static SLOT: Slot<StackPart> =
    Slot::new(StackPart { registers: Registers::new(0, 0), from: 0, len: 0, bytes: [0; MOST] });

/// Copies registers and stack of the interrupted thread `green`, if it is asked for that. Called by the
/// handler of the preemption signal. Returns `true` if it was asked.
pub(super) fn answer(green: &'static Green, at: &Interrupted<'_>) -> bool {
    SLOT.answer(green.core.address(), |part| {
        let registers = at.registers();
        let bounds = green.fiber.stack().map(Bounds::of);
        let end = bounds.filter(|it| it.contain(registers.sp)).map_or(registers.sp, |it| it.start);
        (part.registers, part.from, part.len) = (registers, registers.sp, (end - registers.sp).min(MOST));
        let from = std::ptr::with_exposed_provenance::<u8>(part.from);
        // SAFETY: the thread's own stack, from its stack pointer on. The handler runs on another stack.
        unsafe { from.copy_to_nonoverlapping(part.bytes.as_mut_ptr(), part.len) };
    })
}

/// Returns the backtrace of a green thread. `on` finds the LWP that it is on. `signals`: its runtime preempts
/// by signal. Any thread may have the core by now: the caller finds out.
pub(super) fn of_green(
    green: &'static Green,
    on: impl Fn() -> Option<&'static Lwp>,
    signals: bool,
    unwinder: &mut Unwinder,
) -> Backtrace {
    for _ in 0..TRIES {
        let found = if green.fiber.mounted.is_saved() {
            of_saved(green, unwinder)
        } else {
            on().and_then(|lwp| of_mounted(green, lwp, &on, signals, unwinder))
        };
        if let Some(found) = found {
            return found;
        }
        std::thread::yield_now();
    }
    Backtrace::none("it runs too often")
}

/// What changes when a thread runs.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sign {
    is_saved: bool,
    hint: OwnerHint,
    wait: Option<(u32, WaitReason)>,
}

impl Sign {
    fn of(green: &Green) -> Self {
        // First: if the thread is saved, its context is seen.
        let is_saved = green.fiber.mounted.is_saved();
        let wait = green.core.wait_state.wait().map(|(serial, reason, ..)| (serial, reason));
        Self { is_saved, hint: green.core.owner_hint.get(), wait }
    }
}

/// Returns the backtrace of a thread that does not run; `None` if it ran meanwhile.
fn of_saved(green: &Green, unwinder: &mut Unwinder) -> Option<Backtrace> {
    let (sign, look) = (Sign::of(green), green.fiber.look());
    let Some((sp, bounds)) = look.filter(|_| sign.is_saved) else {
        return sign.is_saved.then(|| Backtrace::none("it has not run yet"));
    };
    let from = sp.wrapping_sub(arch::FRAME_BELOW);
    let copied = unwinder.copy(from, bounds.start.max(from));
    let is_still = unwinder.copy_again() && green.fiber.look() == look && Sign::of(green) == sign;
    if let Err(why) = copied {
        return Some(Backtrace::none(why));
    }
    let mut frame = [0; 4];
    for (index, word) in frame.iter_mut().enumerate() {
        *word = unwinder.word(from.wrapping_add(index * size_of::<usize>()))?;
    }
    let registers = arch::suspended(frame, sp);
    is_still.then(|| match arch::is_start(registers.pc) {
        true => Backtrace::none("it has not run yet"),
        false => unwinder.unwind(registers),
    })
}

/// Returns the backtrace of a thread that is on an LWP; `None` if it has left that meanwhile.
fn of_mounted(
    green: &'static Green,
    lwp: &'static Lwp,
    on: impl Fn() -> Option<&'static Lwp>,
    signals: bool,
    unwinder: &mut Unwinder,
) -> Option<Backtrace> {
    let sign = Sign::of(green);
    let tid = lwp.life.tid().cast_signed();
    let is_there = || Sign::of(green) == sign && on().is_some_and(|it| std::ptr::eq(it, lwp));
    let call = Tasks::SHARED.in_kernel(tid);
    let found = match call {
        Some(call) if !(signals && call.begins_again) => of_call(green, tid, call, unwinder)?,
        _ if signals => return asked(green, tid, is_there, unwinder),
        _ => Backtrace::none("it runs on a CPU, and its runtime interrupts no thread by signal"),
    };
    is_there().then_some(found)
}

/// Returns the backtrace of a thread in a system call; `None` if the call has ended.
fn of_call(green: &Green, tid: i32, call: InKernel, unwinder: &mut Unwinder) -> Option<Backtrace> {
    let (_, bounds) = green.fiber.look()?;
    if !bounds.contain(call.sp) {
        return Some(Backtrace::none("it does not stand on its own stack"));
    }
    if let Err(why) = unwinder.copy(call.sp, bounds.start) {
        return Some(Backtrace::none(why));
    }
    let is_still = unwinder.copy_again() && Tasks::SHARED.in_kernel(tid) == Some(call);
    is_still.then(|| unwinder.unwind(Registers::new(call.pc, call.sp)))
}

/// Asks a thread by the preemption signal. Returns its backtrace; `None` if it has left its LWP.
fn asked(
    green: &'static Green,
    tid: i32,
    is_there: impl Fn() -> bool,
    unwinder: &mut Unwinder,
) -> Option<Backtrace> {
    static LOOKERS: Mutex<()> = Mutex::new(());
    let _one = LOOKERS.lock(|()| SLOT.survive_fork());
    let (mut sent, mut refused, start) = (false, false, Instant::now());
    let wait = || {
        if sent {
            std::thread::sleep(NAP);
        } else {
            (sent, refused) = (true, preempt::send(tid).is_err());
        }
        !refused && is_there() && start.elapsed() < PATIENCE
    };
    let answer = SLOT.ask(green.core.address(), wait, |part| {
        unwinder.adopt(part.from, &part.bytes[..part.len]);
        part.registers
    });
    match answer {
        Answer::Got(registers) if unwinder.word(registers.sp).is_some() => Some(unwinder.unwind(registers)),
        Answer::Got(_) if is_there() => Some(Backtrace::none("it does not stand on its own stack")),
        Answer::Silent if refused => Some(Backtrace::none("the system does not let it be interrupted")),
        Answer::Silent if is_there() => {
            Some(Backtrace::none("it runs, and has not answered the preemption signal in time"))
        }
        Answer::Busy => Some(Backtrace::none("a thread that was asked before has not finished its answer")),
        Answer::Got(_) | Answer::Silent => None,
    }
}
