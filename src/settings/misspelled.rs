//! A word for the user that sets `SELVEDGE_CONCURENCY`: nothing reads it, so nothing else would say so.
//!
//! Only names that are nearly one that is known are reported. Programs may use all others as they like.

use std::ffi::OsString;
use std::io::{self, Write as _};

use super::{
    CONCURRENCY, CPUS, DEADLOCK, DUMP, LOCK_STATS, MAX_LWPS, MONITOR, RUNTIME, STACK_SIZE, STD_THREADS,
    THREAD_REGISTER, TIME_SLICE, TRACE, TRACE_EVENTS,
};
use crate::sys;
use crate::sys::once::OnceLock;

/// How all names begin.
const PREFIX: &str = "SELVEDGE_";

/// All variables that are read.
const KNOWN: [&str; 14] = [
    RUNTIME,
    CONCURRENCY,
    CPUS,
    MAX_LWPS,
    STACK_SIZE,
    TIME_SLICE,
    THREAD_REGISTER,
    STD_THREADS,
    DEADLOCK,
    LOCK_STATS,
    MONITOR,
    DUMP,
    TRACE,
    TRACE_EVENTS,
];

/// What follows the prefix is short if it has fewer bytes. Two edits would turn many a short word into it.
const SHORT: usize = 6;

/// Reports variables of the environment that look misspelled, on standard error, once in a process. Where the
/// environment is not to be trusted, nothing would be read anyway.
pub(crate) fn report() {
    static REPORTED: OnceLock<()> = OnceLock::new();
    REPORTED.get_or_init(|| {
        if !sys::is_privileged() {
            std::env::vars_os().filter_map(|(name, _)| complaint(&name)).for_each(|complaint| {
                // `eprintln` panics if it cannot write.
                let _ = writeln!(io::stderr(), "selvedge: {complaint}");
            });
        }
    });
}

/// Says what is wrong with the name of a variable. `None`: nothing is.
fn complaint(name: &OsString) -> Option<String> {
    let bytes = name.as_encoded_bytes();
    if !bytes.get(..PREFIX.len())?.eq_ignore_ascii_case(PREFIX.as_bytes()) {
        return None;
    }
    // Windows does not tell them apart by case.
    let is = |known: &str| *name == *known || cfg!(windows) && name.eq_ignore_ascii_case(known);
    if KNOWN.into_iter().any(is) {
        return None;
    }
    let meant = (0..=2).find_map(|edits| {
        let short = PREFIX.len() + SHORT;
        let is_near =
            |known: &&str| (edits < 2 || known.len() >= short) && is_within(edits, bytes, known.as_bytes());
        KNOWN.into_iter().find(is_near)
    })?;
    Some(format!("{} is not read: {meant} may be meant", name.display()))
}

/// Returns whether so many edits turn one name into the other, whatever the case of its letters. To put a
/// byte in, to leave one out, to replace one, and to swap two neighbors is an edit each.
fn is_within(edits: usize, one: &[u8], other: &[u8]) -> bool {
    let same = one.iter().zip(other).take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count();
    let (one, other) = (&one[same..], &other[same..]);
    let Some(edits) = edits.checked_sub(1) else { return one.is_empty() && other.is_empty() };
    let is_swap = matches!((one, other), ([a, b, ..], [c, d, ..]) if [a, b] == [d, c]);
    is_within(edits, one, after(1, other))
        || is_within(edits, after(1, one), other)
        || is_within(edits, after(1, one), after(1, other))
        || is_swap && is_within(edits, after(2, one), after(2, other))
}

/// Returns what is left after so many bytes.
fn after(bytes: usize, name: &[u8]) -> &[u8] {
    name.get(bytes..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(name: &str) -> Option<String> {
        complaint(&OsString::from(name))
    }

    #[test]
    fn what_is_nearly_a_known_name_is_reported() {
        for (name, known) in [
            ("SELVEDGE_CONCURENCY", CONCURRENCY),
            ("SELVEDGE_CONCURRENCYS", CONCURRENCY),
            ("SELVEDGE_COCNURRENCY", CONCURRENCY),
            ("SELVEDGE_CONCURENCI", CONCURRENCY),
            ("SELVEDGE_CPU", CPUS),
            ("SELVEDGE_MAXLWPS", MAX_LWPS),
            ("SELVEDGE_MAX_LWP", MAX_LWPS),
            ("SELVEDGE_STACKSIZE", STACK_SIZE),
            ("SELVEDGE_TRCAE", TRACE),
            ("SELVEDGE_TRACE_EVENT", TRACE_EVENTS),
            ("SELVEDGE_STD_THREAD", STD_THREADS),
            ("SELVEDGE_RUNTIM", RUNTIME),
            ("SELVEDGE__DUMP", DUMP),
        ] {
            let said = meant(name).unwrap_or_else(|| panic!("nothing is said of {name}"));
            assert_eq!(said, format!("{name} is not read: {known} may be meant"));
        }
    }

    #[cfg(not(windows))]
    #[test]
    fn a_name_that_differs_in_case_is_reported() {
        for name in ["selvedge_concurrency", "Selvedge_Concurrency", "SELVEDGE_concurrency"] {
            assert_eq!(meant(name), Some(format!("{name} is not read: {CONCURRENCY} may be meant")));
        }
    }

    #[test]
    fn other_names_are_for_programs() {
        let names = [
            "",
            "SELVEDGE",
            "SELVEDGE_",
            "SELVEDGE_LOG",
            "SELVEDGE_RUN",
            "SELVEDGE_FOO",
            "SELVEDGE_SEED",
            "SELVEDGE_STRESS",
            "SELVEDGE_TEST_ROLE",
            "SELVEDGE_COLOR",
            "SELVEDGE_STD",
            "SELVEDGES_CPUS",
            "PATH",
            "CONCURENCY",
            "SELVEDGE_THREADS",
            "SELVEDGE_É",
            "SELVEDGE_PLACE",
        ];
        for name in names.into_iter().chain(KNOWN) {
            assert_eq!(meant(name), None, "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_name_need_not_be_text() {
        use std::os::unix::ffi::OsStringExt;
        let name = |tail: &[u8]| OsString::from_vec([PREFIX.as_bytes(), tail].concat());
        assert_eq!(complaint(&name(b"\xff\xfe\xfd\xfc")), None);
        assert!(complaint(&name(b"RUNTIME\xff")).is_some());
    }

    /// The guide has a table of all.
    #[test]
    fn all_variables_of_the_guide_are_known() {
        let guide = include_str!("../guide/choosing.rs");
        let rows = guide.lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
        let mut listed: Vec<_> = rows.filter(|name| name.starts_with(PREFIX)).collect();
        let mut known = KNOWN.to_vec();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
    }
}
