//! How the code of the loaded objects keeps its callers' registers: their unwind tables (`.eh_frame`).
//!
//! Tables are copied before they are read, each object's at its first use. So a library that is unloaded
//! meanwhile is an error, not a fault. What was found for an address is kept for the next thread that stands
//! there.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection, Vendor,
};

use crate::sys::{memory, objects};

/// The most bytes of one object's tables. Those of the largest programs take a third of that.
const MOST_TABLES: usize = 256 << 20;

/// The tables of all objects.
pub(super) struct Tables {
    objects: Vec<Object>,
    /// By address. `None`: there is no rule.
    rules: HashMap<usize, Option<Rule>>,
    context: UnwindContext<usize>,
}

/// An object: the main program, or a library.
struct Object {
    code: Vec<Range<usize>>,
    /// The index of its tables, and what of the object is in memory around it.
    index: Option<(Range<usize>, Range<usize>)>,
    copy: Option<Option<TableCopy>>,
}

/// A copy of an object's tables.
struct TableCopy {
    index: Vec<u8>,
    frames: Vec<u8>,
    bases: BaseAddresses,
}

/// How a function's caller is found from an address in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Where the frame ends: the stack pointer of the caller, after the return.
    pub(super) cfa: Cfa,
    /// Where registers of the caller are. The others are as they were.
    pub(super) saved: Vec<(u16, Saved)>,
    pub(super) return_register: u16,
    /// Where the return address is; `None`: still in the register.
    pub(super) return_address: Option<Saved>,
    /// The function has no caller.
    pub(super) ends: bool,
    /// The caller was interrupted, and has called nothing.
    pub(super) is_signal_frame: bool,
}

/// A register, and what to add to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cfa {
    pub(super) register: u16,
    pub(super) offset: isize,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// At this distance from the end of the frame.
    At(isize),
    /// It is the end of the frame, plus this.
    Is(isize),
    /// In another register.
    In(u16),
    /// It is lost, or in a place that only an expression tells.
    Nowhere,
}

impl Rule {
    /// Returns `true` if the function may have no frame at all: its return address is in a register.
    pub(super) fn is_leaf(&self) -> bool {
        self.return_address.is_none()
    }
}

impl Tables {
    /// Finds the objects. Copies nothing yet.
    pub(super) fn of_process() -> Self {
        let mut found = Vec::new();
        objects::each(|object| {
            found.push(Object { code: object.code().collect(), index: object.unwind_tables(), copy: None });
        });
        Self { objects: found, rules: HashMap::new(), context: UnwindContext::new() }
    }

    /// Returns where the code of each object is.
    pub(super) fn loaded(&self) -> Vec<usize> {
        self.objects.iter().flat_map(|object| &object.code).map(|code| code.start).collect()
    }

    /// Returns `true` for an address in the code of an object.
    pub(super) fn is_code(&self, at: usize) -> bool {
        self.objects.iter().any(|object| object.has(at))
    }

    /// Returns the rule for an address.
    pub(super) fn rule(&mut self, at: usize) -> Option<&Rule> {
        let Self { objects, rules, context } = self;
        let rule = rules.entry(at).or_insert_with(|| {
            let object = objects.iter_mut().find(|object| object.has(at))?;
            let Object { index, copy, .. } = object;
            copy.get_or_insert_with(|| TableCopy::of(index.as_ref()?)).as_ref()?.rule(at, context).ok()?
        });
        rule.as_ref()
    }
}

impl Object {
    fn has(&self, at: usize) -> bool {
        self.code.iter().any(|code| code.contains(&at))
    }
}

impl TableCopy {
    fn of((index, within): &(Range<usize>, Range<usize>)) -> Option<Self> {
        let index_at = index.start;
        let index = bytes(index)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(index_at as u64);
        let header = EhFrameHdr::new(&index, LittleEndian).parse(&bases, size_of::<usize>() as u8).ok()?;
        let frames_at = usize::try_from(header.eh_frame_ptr().direct().ok()?).ok()?;
        // Its length is not in memory. A zero ends it.
        let frames = bytes(&(frames_at..within.contains(&frames_at).then_some(within.end)?))?;
        Some(Self { index, frames, bases: bases.set_eh_frame(frames_at as u64) })
    }

    fn rule(&self, at: usize, context: &mut UnwindContext<usize>) -> gimli::Result<Option<Rule>> {
        let Self { index, frames, bases } = self;
        let (index, mut frames) = (EhFrameHdr::new(index, LittleEndian), EhFrame::new(frames, LittleEndian));
        if cfg!(target_arch = "aarch64") {
            // One instruction of these tables means there that the return address is signed from here on.
            // Without this, functions that sign it would have no rule.
            frames.set_vendor(Vendor::AArch64);
        }
        let index = index.parse(bases, size_of::<usize>() as u8)?;
        let table = index.table().ok_or(gimli::Error::NoUnwindInfoForAddress)?;
        let entry = table.fde_for_address(&frames, bases, at as u64, EhFrame::cie_from_offset)?;
        let row = entry.unwind_info_for_address(&frames, bases, context, at as u64)?;
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return Ok(None) };
        let returns = entry.cie().return_address_register();
        let return_address = row.register(returns);
        Ok(Some(Rule {
            cfa: Cfa { register: register.0, offset: offset as isize },
            saved: row.registers().filter_map(|(at, rule)| Some((at.0, saved(rule, *at)?))).collect(),
            return_register: returns.0,
            ends: return_address == Some(RegisterRule::Undefined),
            return_address: return_address.and_then(|rule| saved(&rule, returns)),
            is_signal_frame: entry.is_signal_trampoline(),
        }))
    }
}

/// Returns where a register's value is; `None` if it is in the register, still.
fn saved(rule: &RegisterRule<usize>, register: Register) -> Option<Saved> {
    Some(match *rule {
        RegisterRule::Offset(offset) => Saved::At(offset as isize),
        RegisterRule::ValOffset(offset) => Saved::Is(offset as isize),
        RegisterRule::Register(other) if other != register => Saved::In(other.0),
        RegisterRule::SameValue | RegisterRule::Register(_) => return None,
        _ => Saved::Nowhere,
    })
}

/// Copies bytes of an object.
fn bytes(at: &Range<usize>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; at.len().min(MOST_TABLES)];
    let copied = memory::read(at.start, &mut bytes).ok()?;
    bytes.truncate(copied);
    Some(bytes)
}

#[cfg(all(test, target_arch = "aarch64"))]
mod tests {
    use super::*;

    /// Compilers write such tables with `-mbranch-protection=standard`, as some distributions have it.
    #[test]
    fn a_function_that_signs_its_return_address_has_rules() {
        const INDEX: usize = 0x1000;
        const FRAMES: usize = 0x2000;
        const CODE: usize = 0x3000;
        let word = |value: usize| (value as u32).to_le_bytes();
        let mut frames = Vec::new();
        // What functions have in common. Steps are 4 and -8 bytes, and the return address is in x30.
        // Distances count from here, and the frame ends at the stack pointer.
        frames.extend(word(20));
        frames.extend(word(0));
        frames.extend([1, b'z', b'R', 0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0, 0, 0, 0, 0]);
        let function = frames.len();
        frames.extend(word(28));
        frames.extend(word(function + 4));
        frames.extend(word(CODE.wrapping_sub(FRAMES + frames.len())));
        frames.extend(word(16));
        // After the first instruction it is signed. After the second it lies in the frame, below x29.
        frames.extend([0, 0x41, 0x2d, 0x41, 0x0e, 16, 0x9d, 2, 0x9e, 1, 0, 0, 0, 0, 0, 0]);
        frames.extend(word(0));
        let mut index = vec![1, 0x1b, 0x03, 0x3b];
        index.extend(word(FRAMES - INDEX - index.len()));
        index.extend(word(1));
        index.extend(word(CODE - INDEX));
        index.extend(word(FRAMES + function - INDEX));
        let bases = BaseAddresses::default().set_eh_frame_hdr(INDEX as u64).set_eh_frame(FRAMES as u64);
        let copy = TableCopy { index, frames, bases };
        let mut context = UnwindContext::new();
        let mut rule = |at| copy.rule(at, &mut context).unwrap().unwrap();
        let first = rule(CODE);
        assert_eq!((first.return_register, first.return_address, first.cfa.offset), (30, None, 0));
        let signed = rule(CODE + 4);
        assert_eq!((signed.return_address, signed.cfa.offset), (None, 0));
        let framed = rule(CODE + 8);
        assert_eq!((framed.return_address, framed.cfa.offset), (Some(Saved::At(-8)), 16));
        assert!(framed.saved.contains(&(29, Saved::At(-16))));
    }
}
