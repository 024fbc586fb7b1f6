//! What a debugger must know to find threads in a process, or in its core file: `gdb/selvedge.py`.
//!
//! **Problem.** A debugger sees memory only, and perhaps not even types: `debug = 1` has lines alone, and an
//! optimized program has few variables.
//!
//! **Rejected.** Types from debug information: they are missing just where a program hangs in production.
//! Symbols without mangling: two versions of this crate in one program would clash.
//!
//! **The way.** Each file with something to find has a static table of *facts*: names with offsets, sizes and
//! addresses. A table names other tables, so one is enough to find all. The script finds that one by its
//! path, and asks for facts by name. It refuses to guess: if a fact is missing, it says so.
//!
//! No code reads a table, so a linker that drops what is not used would drop it. [`Facts::keep`] is called in
//! the function that first makes something to be found.

/// A name, and what it stands for.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Fact {
    name: [u8; NAME],
    value: *const (),
}

// SAFETY: the pointer is only shown.
unsafe impl Sync for Fact {}

/// The longest name, in bytes.
const NAME: usize = 24;
/// What every table begins with. The script looks at it before it believes the rest.
const MAGIC: [u8; 8] = *b"selvedg1";

/// A table of facts.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Facts<const N: usize> {
    magic: [u8; 8],
    count: usize,
    facts: [Fact; N],
}

impl Fact {
    /// Says that `name` is a number: an offset or a size.
    pub(crate) const fn number(name: &str, number: usize) -> Self {
        Self::address(name, std::ptr::without_provenance::<()>(number))
    }

    /// Says where `name` is.
    pub(crate) const fn address<T>(name: &str, at: *const T) -> Self {
        let (from, mut to) = (name.as_bytes(), [0; NAME]);
        let mut i = 0;
        while i < from.len() {
            to[i] = from[i];
            i += 1;
        }
        Self { name: to, value: at.cast() }
    }
}

impl<const N: usize> Facts<N> {
    pub(crate) const fn new(facts: [Fact; N]) -> Self {
        Self { magic: MAGIC, count: N, facts }
    }

    /// Keeps the table in every program that calls this.
    pub(crate) fn keep(&'static self) {
        std::hint::black_box(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::reason::WaitReason;

    const SCRIPT: &str = include_str!("../gdb/selvedge.py");

    #[test]
    fn the_script_knows_every_reason() {
        let mut rest = SCRIPT;
        for number in 1..=u8::MAX {
            let Some(reason) = WaitReason::from_number(number) else { break };
            let line = format!("    {number}: \"{reason}\",\n");
            rest = rest.split_once(&line).unwrap_or_else(|| panic!("{line:?} is not in the script")).1;
        }
    }

    #[test]
    fn the_script_knows_the_magic() {
        let magic = str::from_utf8(&MAGIC).unwrap();
        assert!(SCRIPT.contains(&format!("MAGIC = b\"{magic}\"\n")));
    }

    /// No rule of the language says so. The script relies on it.
    #[test]
    fn wide_pointers_begin_with_the_address() {
        let text = "four";
        // SAFETY: two words, the size of a reference to a slice.
        let words: [usize; 2] = unsafe { std::mem::transmute(text.as_bytes()) };
        assert_eq!(words, [text.as_ptr().addr(), 4]);
        // SAFETY: the same for a box in an option.
        let none: [usize; 2] = unsafe { std::mem::transmute(None::<Box<str>>) };
        assert_eq!(none[0], 0);
    }
}
