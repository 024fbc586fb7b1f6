//! The unwinder, over copies of stacks; and the names of what it finds.

mod tables;

use std::collections::HashMap;
use std::ffi::c_void;

use self::tables::{Cfa, Rule, Saved, Tables};
use super::{Backtrace, Function, MOST, TRIES};
use crate::sys::memory;
use crate::sys::once::Mutex;
use crate::sys::registers::Registers;
use crate::sys::task_state::Tasks;

/// The most frames of a backtrace.
const MOST_FRAMES: usize = 256;

const WORD: usize = size_of::<usize>();

/// Unwinds copies of stacks. It has the copy, and the rules of all code that it has met.
pub(crate) struct Unwinder {
    tables: Tables,
    stack: StackCopy,
    again: Vec<u8>,
}

/// A copy of a part of a stack.
#[derive(Default)]
struct StackCopy {
    /// The address of the first byte.
    from: usize,
    bytes: Vec<u8>,
}

impl StackCopy {
    /// Returns `true` if there may be more above it.
    fn is_cut(&self) -> bool {
        self.bytes.len() == MOST
    }

    /// Returns a word of the stack.
    fn word(&self, at: usize) -> Option<usize> {
        let offset = at.checked_sub(self.from)?;
        let word = self.bytes.get(offset..offset.checked_add(WORD)?)?;
        Some(usize::from_ne_bytes(word.try_into().ok()?))
    }
}

impl Unwinder {
    /// Finds the objects that are loaded now.
    pub(crate) fn new() -> Result<Self, &'static str> {
        Ok(Self { tables: Tables::of_process(), stack: StackCopy::default(), again: Vec::new() })
    }

    /// Copies the stack from `from` to `end`, but at most [`MOST`] bytes, and as far as it is mapped.
    ///
    /// # Errors
    ///
    /// Nothing is mapped there, or the process may not read its own memory in this way.
    pub(crate) fn copy(&mut self, from: usize, end: usize) -> Result<(), &'static str> {
        self.stack.from = from;
        copy(from, end.saturating_sub(from).min(MOST), &mut self.stack.bytes)
    }

    /// Copies the same again. Returns `true` if it is as it was.
    pub(crate) fn copy_again(&mut self) -> bool {
        let len = self.stack.bytes.len();
        copy(self.stack.from, len, &mut self.again).is_ok() && self.again == self.stack.bytes
    }

    /// Takes over a copy that the thread itself has made.
    pub(crate) fn adopt(&mut self, from: usize, bytes: &[u8]) {
        self.stack.from = from;
        self.stack.bytes.clear();
        self.stack.bytes.extend_from_slice(bytes);
    }

    /// Returns a word of the copy.
    pub(crate) fn word(&self, at: usize) -> Option<usize> {
        self.stack.word(at)
    }

    /// Returns the frames of a thread whose stack was copied, and that stands at `registers`.
    pub(crate) fn unwind(&mut self, mut registers: Registers) -> Backtrace {
        let mut frames = Vec::new();
        // The thread stopped before the instruction at its program counter. A caller is in the call before
        // it.
        let mut is_exact = true;
        let note = loop {
            let at = if is_exact { registers.pc } else { registers.pc.wrapping_sub(1) };
            let Some(rule) = self.tables.rule(at) else {
                if self.tables.is_code(at) {
                    frames.push(at);
                }
                break Some("the callers are not known: there is no unwind table for that code");
            };
            frames.push(at);
            if rule.ends {
                break None;
            }
            if frames.len() == MOST_FRAMES {
                break Some("there are more frames");
            }
            is_exact = rule.is_signal_frame;
            match step(rule, &registers, &self.stack) {
                Some(caller) if caller.pc == 0 => break None,
                Some(caller) => registers = caller,
                None if self.stack.is_cut() => break Some("there are more frames"),
                None => break Some("the callers are not known: that takes a register that is not known"),
            }
        };
        Backtrace { frames, note }
    }

    /// Returns the functions at addresses of frames, innermost first: the last one is no inlined one.
    ///
    /// What was read of the program's debug information is kept for the next time, unless other objects are
    /// loaded by then.
    pub(crate) fn resolve(&self, addresses: impl Iterator<Item = usize>) -> HashMap<usize, Vec<Function>> {
        /// The objects of the last time; `None`: the names cannot be had any more.
        static LOADED: Mutex<Option<Vec<usize>>> = Mutex::new(Some(Vec::new()));
        // If a thread was in here when this process was forked, it has kept a lock of that library.
        let mut loaded = LOADED.lock(|loaded| *loaded = None);
        let Some(loaded) = &mut *loaded else { return HashMap::new() };
        let now = self.tables.loaded();
        if *loaded != now {
            ::backtrace::clear_symbol_cache();
            *loaded = now;
        }
        let mut found = HashMap::new();
        for address in addresses {
            found.entry(address).or_insert_with(|| resolve(address));
        }
        found
    }
}

fn copy(from: usize, len: usize, into: &mut Vec<u8>) -> Result<(), &'static str> {
    into.resize(len, 0);
    match memory::read(from, into) {
        Ok(copied) => {
            into.truncate(copied);
            Ok(())
        }
        Err(error) if memory::is_unmapped(&error) => Err("its stack is not mapped"),
        Err(_) => Err("the system does not let the process copy its own memory (process_vm_readv)"),
    }
}

/// Returns the registers of the caller; `None` if something is missing.
fn step(rule: &Rule, registers: &Registers, stack: &StackCopy) -> Option<Registers> {
    let Cfa { register, offset } = rule.cfa;
    let cfa = registers.get(register)?.checked_add_signed(offset)?;
    // A caller's frame lies above: otherwise it would go round in circles.
    if cfa < registers.sp || cfa == registers.sp && !rule.is_leaf() {
        return None;
    }
    let value = |saved| match saved {
        Saved::At(offset) => stack.word(cfa.checked_add_signed(offset)?),
        Saved::Is(offset) => cfa.checked_add_signed(offset),
        Saved::In(register) => registers.get(register),
        Saved::Nowhere => None,
    };
    let pc = match rule.return_address {
        Some(saved) => value(saved)?,
        None => registers.get(rule.return_register)?,
    };
    let mut caller = *registers;
    for &(register, saved) in &rule.saved {
        caller.set(register, value(saved));
    }
    // The call has changed the register. So no second function follows that has its return address there.
    caller.set(rule.return_register, None);
    (caller.pc, caller.sp) = (without_signature(pc), cfa);
    Some(caller)
}

/// Takes the signature out of a return address, which aarch64 code may have put in.
fn without_signature(pc: usize) -> usize {
    if cfg!(target_arch = "aarch64") { pc & ((1 << 48) - 1) } else { pc }
}

/// Returns the backtrace of a kernel thread that is in a system call. Others are left alone.
pub(crate) fn of_kernel_thread(tid: Option<u32>, unwinder: &mut Unwinder) -> Backtrace {
    let Some(tid) = tid.map(u32::cast_signed) else { return Backtrace::none("it has not run yet") };
    for _ in 0..TRIES {
        let Some(call) = Tasks::SHARED.in_kernel(tid) else {
            return Backtrace::none("it runs on a CPU, and is not interrupted for this");
        };
        if let Err(why) = unwinder.copy(call.sp, usize::MAX) {
            return Backtrace::none(why);
        }
        // Threads call from where they have called before, so the stack must be the same, too.
        if unwinder.copy_again() && Tasks::SHARED.in_kernel(tid) == Some(call) {
            return unwinder.unwind(Registers::new(call.pc, call.sp));
        }
    }
    Backtrace::none("it runs too often")
}

fn resolve(address: usize) -> Vec<Function> {
    let mut found = Vec::new();
    // It takes return addresses, and looks before them.
    let after: *mut c_void = std::ptr::without_provenance_mut(address.wrapping_add(1));
    ::backtrace::resolve(after, |symbol| {
        let name = symbol.name().map(|name| format!("{name:#}"));
        let place = symbol.filename().zip(symbol.lineno());
        let place = place.map(|(file, line)| (file.to_string_lossy().into_owned(), line));
        found.push(Function { name, place });
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_has_changed_is_noticed() {
        let mut unwinder = Unwinder::new().unwrap();
        let mut words = Box::new([1_usize, 2, 3, 4]);
        let at = (&raw const *words).addr();
        unwinder.copy(at, at + 4 * WORD).unwrap();
        assert!(unwinder.copy_again());
        let read = |unwinder: &Unwinder| [0, 1, 3, 4].map(|index| unwinder.word(at + index * WORD));
        assert_eq!(read(&unwinder), [Some(1), Some(2), Some(4), None]);
        assert_eq!((unwinder.word(at - 1), unwinder.word(usize::MAX)), (None, None));
        words[3] = 5;
        std::hint::black_box(&mut words);
        assert!(!unwinder.copy_again());
        assert_eq!(read(&unwinder), [Some(1), Some(2), Some(4), None], "the copy is the first one");
        assert!(unwinder.copy(WORD, 2 * WORD).unwrap_err().contains("not mapped"));
    }

    const AT: usize = 0x1000;
    /// The numbers of the return address and of the stack pointer.
    const RETURNS: u16 = if cfg!(target_arch = "x86_64") {
        16
    } else if cfg!(target_arch = "riscv64") {
        1
    } else {
        30
    };
    const SP: u16 = if cfg!(target_arch = "x86_64") {
        7
    } else if cfg!(target_arch = "riscv64") {
        2
    } else {
        31
    };

    /// A function that has saved register 3 and its return address at the end of its frame of six words.
    fn rule(register: u16) -> Rule {
        Rule {
            cfa: Cfa { register, offset: 6 * WORD as isize },
            saved: vec![(3, Saved::At(-2 * WORD as isize)), (19, Saved::Nowhere)],
            return_register: RETURNS,
            return_address: Some(Saved::At(-(WORD as isize))),
            ends: false,
            is_signal_frame: false,
        }
    }

    fn stack() -> StackCopy {
        StackCopy { from: AT, bytes: (0..8_usize).flat_map(|index| (100 + index).to_ne_bytes()).collect() }
    }

    #[test]
    fn a_caller_has_what_was_saved_for_it() {
        let here = Registers::new(1, AT).with(3, 9).with(12, 8).with(19, 7);
        let caller = step(&rule(SP), &here, &stack()).unwrap();
        assert_eq!((caller.pc, caller.sp), (105, AT + 6 * WORD));
        assert_eq!([3, 12, 19].map(|it| caller.get(it)), [Some(104), Some(8), None]);
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let here = Registers::new(1, AT);
        assert_eq!(step(&rule(6), &here, &stack()), None, "the register is not known");
        assert_eq!(step(&rule(6), &here.with(6, AT + 8 * WORD), &stack()), None, "it is not in the copy");
        assert_eq!(step(&rule(6), &here.with(6, AT - 6 * WORD), &stack()), None, "it goes round in circles");
        assert_eq!(step(&rule(6), &here.with(6, AT - 7 * WORD), &stack()), None, "it goes down");
        assert!(step(&rule(6), &here.with(6, AT), &stack()).is_some());
    }
}
