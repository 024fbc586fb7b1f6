//! Settings: which values are valid, how those of the environment are read, and the errors for invalid ones.
//!
//! A variable replaces the default of a setting, never what the program set: the caller has looked there
//! first.

pub(crate) mod cpu_list;
pub(crate) mod misspelled;

use std::ffi::OsString;
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::sys;
use crate::sys::bytes::Bytes;

/// The bytes that any stack needs besides the program's own frames. Smaller requests are rounded up.
const MIN_STACK: usize = 4 << 10;

/// The largest stack. Rounding up and adding guards cannot overflow below it.
pub(crate) const MAX_STACK: usize = 1 << 40;

/// The shortest time slice. A shorter one would be spent on its own preemptions (some 10 us each).
pub(crate) const MIN_TIME_SLICE: Duration = Duration::from_micros(50);

/// Looks a variable up: in the environment of the process, or in a test's table.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Looks in the environment of this process. Returns `None` if the process runs with rights that its user
/// does not have. The user that starts a set-user-id program must not choose its stacks, or what it prints.
pub(crate) fn process(name: &str) -> Option<OsString> {
    if sys::is_privileged() { None } else { std::env::var_os(name) }
}

/// The runtime of a program that does not choose one.
pub(crate) const RUNTIME: &str = "SELVEDGE_RUNTIME";
/// The number of slots.
pub(crate) const CONCURRENCY: &str = "SELVEDGE_CONCURRENCY";
/// The CPUs that an M:N runtime runs on.
pub(crate) const CPUS: &str = "SELVEDGE_CPUS";
/// The largest number of LWPs.
pub(crate) const MAX_LWPS: &str = "SELVEDGE_MAX_LWPS";
/// The size of stacks.
pub(crate) const STACK_SIZE: &str = "SELVEDGE_STACK_SIZE";
/// The time slice.
pub(crate) const TIME_SLICE: &str = "SELVEDGE_TIME_SLICE";
/// The way in which green threads keep their thread register.
pub(crate) const THREAD_REGISTER: &str = "SELVEDGE_THREAD_REGISTER";

/// What becomes of threads that are started by std or the C library.
pub(crate) const STD_THREADS: &str = "SELVEDGE_STD_THREADS";

/// Returns whether `SELVEDGE_STD_THREADS` says that they are green.
pub(crate) fn green_std_threads(lookup: Lookup<'_>) -> io::Result<Option<bool>> {
    read(lookup, STD_THREADS, "green or kernel", |value| match value {
        "green" => Some(true),
        "kernel" => Some(false),
        _ => None,
    })
}

/// What a runtime does about deadlocks.
pub(crate) const DEADLOCK: &str = "SELVEDGE_DEADLOCK";
/// The switch for lock statistics.
pub(crate) const LOCK_STATS: &str = "SELVEDGE_LOCK_STATS";

/// The file that the trace is written to.
pub(crate) const TRACE: &str = "SELVEDGE_TRACE";
/// How many events the trace keeps of an LWP.
pub(crate) const TRACE_EVENTS: &str = "SELVEDGE_TRACE_EVENTS";

/// How many events may be kept of an LWP. A ring has at most 512 MiB then, and less than a section of a
/// recording may have.
const RING_EVENTS: RangeInclusive<usize> = 1_000..=10_000_000;

/// Returns the value of `SELVEDGE_TRACE_EVENTS`.
pub(crate) fn trace_events(lookup: Lookup<'_>) -> io::Result<Option<usize>> {
    number(lookup, TRACE_EVENTS, RING_EVENTS)
}

/// Checks how many events a program wants to be kept of an LWP.
pub(crate) fn check_ring_events(events: usize) -> io::Result<usize> {
    if RING_EVENTS.contains(&events) {
        return Ok(events);
    }
    Err(invalid(format!("invalid number of events {events}: expected {}", whole_number(&RING_EVENTS))))
}

/// The switch for the socket of `threadmon`.
pub(crate) const MONITOR: &str = "SELVEDGE_MON";

/// Returns the value of `SELVEDGE_MON`.
pub(crate) fn monitor(lookup: Lookup<'_>) -> io::Result<bool> {
    on_or_off(lookup, MONITOR)
}

/// The switch for dumps at `SIGQUIT`.
pub(crate) const DUMP: &str = "SELVEDGE_DUMP";

/// Returns the value of `SELVEDGE_DUMP`.
#[cfg(target_os = "linux")]
pub(crate) fn dump(lookup: Lookup<'_>) -> io::Result<bool> {
    on_or_off(lookup, DUMP)
}

/// Returns the value of `SELVEDGE_LOCK_STATS`.
pub(crate) fn lock_stats(lookup: Lookup<'_>) -> io::Result<bool> {
    on_or_off(lookup, LOCK_STATS)
}

/// Reads a switch, which is off by default.
fn on_or_off(lookup: Lookup<'_>, name: &str) -> io::Result<bool> {
    let on = read(lookup, name, "on or off", |value| match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    })?;
    Ok(on.unwrap_or(false))
}

/// Returns the value of `name`, read by `parse`, or `None` if it is not set. `expected` says which values are
/// valid.
pub(crate) fn read<T>(
    lookup: Lookup<'_>,
    name: &str,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> io::Result<Option<T>> {
    let Some(value) = lookup(name) else { return Ok(None) };
    match value.to_str().and_then(|value| parse(value.trim())) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(invalid(format!("invalid value `{}` in {name}: expected {expected}", value.display()))),
    }
}

/// Checks a time slice that a program sets; `None`: no preemption.
pub(crate) fn check_time_slice(slice: Option<Duration>) -> io::Result<Option<Duration>> {
    if let Some(slice) = slice.filter(|&slice| slice < MIN_TIME_SLICE) {
        return Err(invalid(format!("invalid time slice {slice:?}: expected at least {MIN_TIME_SLICE:?}")));
    }
    Ok(slice)
}

/// Returns a time slice in ns; `u64::MAX`: there is none.
pub(crate) fn nanoseconds(slice: Option<Duration>) -> u64 {
    slice.map_or(u64::MAX, |slice| u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX))
}

/// Reads a whole number in this range.
pub(crate) fn number(
    lookup: Lookup<'_>,
    name: &str,
    range: RangeInclusive<usize>,
) -> io::Result<Option<usize>> {
    read(lookup, name, &whole_number(&range), |value| value.parse().ok().filter(|it| range.contains(it)))
}

fn whole_number(range: &RangeInclusive<usize>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

/// Returns the value of `SELVEDGE_CPUS`: CPUs in ascending order.
pub(crate) fn cpus(lookup: Lookup<'_>) -> io::Result<Option<Vec<usize>>> {
    let allowed = format!("a list of CPUs up to {}, such as 0-3,8", cpu_list::LAST_CPU);
    read(lookup, CPUS, &allowed, cpu_list::parse)
}

/// Returns the size of a stack for which `bytes` were asked, rounded up, or an error.
pub(crate) fn check_stack_size(bytes: usize) -> io::Result<usize> {
    match bytes {
        0 => Err(invalid(
            "invalid stack size 0: expected at least 1 byte (less than 4 KiB is rounded up), or none for the default"
                .into(),
        )),
        _ if bytes > MAX_STACK => {
            Err(invalid(format!("invalid stack size {bytes}: expected at most 1 TiB")))
        }
        _ => Ok(bytes.max(MIN_STACK)),
    }
}

/// Returns an error that says which input is invalid.
pub(crate) fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Returns the value of `SELVEDGE_STACK_SIZE`, which is at most `largest`.
pub(crate) fn stack_size(lookup: Lookup<'_>, largest: usize) -> io::Result<Option<usize>> {
    let expected =
        format!("a number of bytes, or a size such as 256K, 8M or 1G, from 1 byte to {}", Bytes(largest));
    read(lookup, STACK_SIZE, &expected, |value| {
        check_stack_size(parse_size(value)?).ok().filter(|&bytes| bytes <= largest)
    })
}

/// Reads `4096`, `256K`, `8M`, `1G`.
fn parse_size(value: &str) -> Option<usize> {
    let units = [(['K', 'k'], 10), (['M', 'm'], 20), (['G', 'g'], 30)];
    let unit = units.iter().find_map(|&(names, shift)| Some((value.strip_suffix(names)?, shift)));
    let (digits, shift) = unit.unwrap_or((value, 0));
    whole(digits)?.checked_mul(1 << shift)
}

/// Reads `10ms`, `500us`, `2s`.
pub(crate) fn parse_time(value: &str) -> Option<Duration> {
    type Unit = fn(u64) -> Duration;
    let units: [(&str, Unit); 3] =
        [("us", Duration::from_micros), ("ms", Duration::from_millis), ("s", Duration::from_secs)];
    let (digits, unit) = units.iter().find_map(|(name, unit)| Some((value.strip_suffix(name)?, unit)))?;
    Some(unit(whole(digits)?.try_into().ok()?))
}

/// Reads digits and nothing else: no sign, no space.
fn whole(digits: &str) -> Option<usize> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (value, size) in [
            ("1", Some(1)),
            ("4096", Some(4096)),
            ("256K", Some(256 << 10)),
            ("256k", Some(256 << 10)),
            ("8M", Some(8 << 20)),
            ("2G", Some(2 << 30)),
            ("0", Some(0)),
            ("", None),
            ("K", None),
            ("-1", None),
            ("+1", None),
            ("1.5M", None),
            ("1 M", None),
            ("8MB", None),
            ("99999999999999999999", None),
            ("99999999999999999G", None),
            ("é", None),
        ] {
            assert_eq!(parse_size(value), size, "{value:?}");
        }
    }

    #[test]
    fn times() {
        for (value, time) in [
            ("10ms", Some(Duration::from_millis(10))),
            ("500us", Some(Duration::from_micros(500))),
            ("2s", Some(Duration::from_secs(2))),
            ("0s", Some(Duration::ZERO)),
            ("10", None),
            ("ms", None),
            ("", None),
            ("-1ms", None),
            ("1 ms", None),
            ("1m", None),
        ] {
            assert_eq!(parse_time(value), time, "{value:?}");
        }
    }

    #[test]
    fn an_error_names_the_variable_its_value_and_what_is_expected() {
        let error = stack_size(&|_| Some("huge".into()), MAX_STACK).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let text = error.to_string();
        for part in ["SELVEDGE_STACK_SIZE", "`huge`", "256K"] {
            assert!(text.contains(part), "{text:?} does not say {part}");
        }
    }

    #[test]
    fn a_number_of_events_has_bounds() {
        let read = |value: &'static str| trace_events(&move |_| Some(value.into()));
        for (value, events) in [("1000", 1_000), (" 10000000 ", 10_000_000)] {
            assert_eq!(read(value).unwrap(), Some(events));
            assert_eq!(check_ring_events(events).unwrap(), events);
        }
        for value in ["", "0", "999", "10000001", "-1", "16k", "99999999999999999999"] {
            let text = read(value).unwrap_err().to_string();
            let expected = "in SELVEDGE_TRACE_EVENTS: expected a whole number from 1000 to 10000000";
            assert!(text.starts_with(&format!("invalid value `{value}` {expected}")), "{text}");
        }
        for events in [0, 999, 10_000_001, usize::MAX] {
            let error = check_ring_events(events).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let expected = "expected a whole number from 1000 to 10000000";
            assert_eq!(error.to_string(), format!("invalid number of events {events}: {expected}"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_text_is_invalid() {
        use std::os::unix::ffi::OsStringExt;
        let error = number(&|_| Some(OsString::from_vec(vec![0xff])), MAX_LWPS, 1..=9).unwrap_err();
        assert!(error.to_string().contains(MAX_LWPS));
    }

    #[test]
    fn what_is_not_set_is_not_an_error() {
        assert_eq!(stack_size(&|_| None, MAX_STACK).unwrap(), None);
        assert_eq!(number(&|_| None, CONCURRENCY, 1..=9).unwrap(), None);
    }
}
