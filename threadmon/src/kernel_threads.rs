//! The kernel threads that threads own: all of `onetoone`, and bound ones.
//!
//! They are no LWPs of a pool, so the program does not report them. What they do is read from the kernel,
//! here, at this process's cost.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use selvedge::LwpState;
use selvedge::threadmon::{Overview, ThreadPageView, ThreadView};
use selvedge::trace::State;
use syscalls::Sysno;

/// The most that are read in one refresh, which takes some 20 us for each.
const MOST: usize = 1024;

/// What the kernel says of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelThread {
    pub(crate) tid: u32,
    /// Its thread waits for something of Selvedge's.
    pub(crate) waits: bool,
    /// It waits in the kernel.
    pub(crate) asleep: bool,
    /// The CPU that it is on, or was on last.
    pub(crate) cpu: Option<u32>,
    /// Its CPU time, and the time that it waited for a CPU.
    pub(crate) cpu_time: Option<(Duration, Duration)>,
}

/// Reads those of the threads on these pages, by the threads' identities. If there are too many, those that
/// wait are left out.
pub(crate) fn read(pid: u32, pages: &[(u32, ThreadPageView)]) -> HashMap<u64, KernelThread> {
    let threads = || pages.iter().flat_map(|(_, page)| &page.threads).filter(|thread| thread.bound);
    let waits = |thread: &&ThreadView| matches!(thread.state, State::Blocked | State::Sleeping);
    let in_order = threads().filter(|it| !waits(it)).chain(threads().filter(waits));
    let read = |thread: &ThreadView| Some((thread.id, look(pid, thread.tid?, waits(&thread))?));
    in_order.take(MOST).filter_map(read).collect()
}

/// Reads the system calls in which kernel threads wait, by their numbers. These are LWPs that are in the
/// kernel, and the kernel threads of threads that own one. None, if this process may not look (`ptrace(2)`).
pub(crate) fn calls(pid: u32, overview: &Overview, own: &HashMap<u64, KernelThread>) -> HashMap<u32, Sysno> {
    let lwps = overview.runtimes.iter().flat_map(|runtime| &runtime.lwps);
    let in_kernel = lwps.filter(|lwp| matches!(lwp.state, LwpState::InKernel | LwpState::Blocking));
    let asleep = own.values().filter(|own| own.asleep && !own.waits);
    let tids = in_kernel.map(|lwp| lwp.tid).chain(asleep.map(|own| own.tid));
    let call = |tid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok();
    tids.take(MOST).filter_map(|tid| Some((tid, parse_call(&call(tid)?)?))).collect()
}

/// Parses `syscall`: a number and arguments, or `running`. The number is -1 outside of calls.
fn parse_call(text: &str) -> Option<Sysno> {
    Sysno::new(text.split_ascii_whitespace().next()?.parse().ok()?)
}

fn look(pid: u32, tid: u32, waits: bool) -> Option<KernelThread> {
    let file = |name| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok();
    let (asleep, cpu) = parse(&file("stat")?)?;
    Some(KernelThread {
        tid,
        waits,
        asleep,
        cpu,
        cpu_time: file("schedstat").as_deref().and_then(parse_times),
    })
}

/// Parses `stat` (`proc_pid_stat(5)`): whether it sleeps, and its CPU, which is the 39th field.
fn parse(stat: &str) -> Option<(bool, Option<u32>)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let asleep = matches!(fields.next()?, "S" | "D");
    Some((asleep, fields.nth(35).and_then(|cpu| cpu.parse().ok())))
}

/// Parses `schedstat`: how long it has run, and has waited for a CPU, in ns.
fn parse_times(text: &str) -> Option<(Duration, Duration)> {
    let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse().ok());
    Some((Duration::from_nanos(numbers.next()?), Duration::from_nanos(numbers.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = |state| format!("7 (a) b) {state} {}", fields.join(" "));
        assert_eq!(parse(&stat("S")), Some((true, Some(39))));
        assert_eq!(parse(&stat("R")), Some((false, Some(39))));
        assert_eq!((parse("7 (a) R 1"), parse("")), (Some((false, None)), None));
        assert_eq!(parse_times("5000 70 3\n"), Some((Duration::from_micros(5), Duration::from_nanos(70))));
        assert_eq!(parse_times("x"), None);
        let call = format!("{} 0x3 0x7f 0x1 0x0 0x0 0x0 0x7ffc 0x7f\n", Sysno::read.id());
        assert_eq!(parse_call(&call), Some(Sysno::read));
        assert_eq!(["running\n", "-1 0x7ffc 0x7f\n", ""].map(parse_call), [None; 3]);
    }

    #[test]
    fn the_own_thread_is_found() {
        let found = look(std::process::id(), std::process::id(), false).expect("the main thread lives");
        assert!(found.cpu.is_some() && found.tid == std::process::id());
    }
}
