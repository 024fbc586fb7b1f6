//! What keeps a process from having more threads.
//!
//! The kernel refuses a thread by `EAGAIN` or `ENOMEM`, whatever the reason. So what it counts is
//! compared with what it allows, at the moment of the refusal. There may be no memory left then, so next to
//! none is taken here: see [`process`](super::process).

use std::fmt;
use std::fs::File;
use std::io::Read;

use super::process::{Bytes, Controller, MEMORY, PIDS, Text, groups, kilobytes, meminfo, number_in, usage};

/// Something that is counted and limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// What an administrator calls it.
    pub(crate) name: &'static str,
    pub(crate) used: u64,
    pub(crate) allowed: u64,
    /// How much may be asked for at once, or is kept for others: a refusal leaves up to this.
    pub(crate) step: u64,
    pub(crate) counts: Counts,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Kernel threads, not of this process alone.
    Threads,
    /// Bytes of memory, of which other processes take their part.
    Memory,
    /// Something of this process alone.
    Own,
    /// The same in bytes.
    OwnBytes,
}

/// The C library maps so many bytes of addresses for a new heap, of which it then keeps half. (Selvedge
/// leaves it 16 MiB beside a new stack.)
const HEAP: u64 = 128 << 20;

impl Limit {
    /// Returns `true` if next to nothing is left. What is counted may have changed since the refusal, and a
    /// thread needs several of some.
    pub(crate) fn is_reached(&self) -> bool {
        self.used >= self.allowed.saturating_sub(self.step.max(self.allowed / 64))
    }

    /// Returns how much is left.
    pub(crate) fn left(&self) -> u64 {
        self.allowed.saturating_sub(self.used)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, used, allowed, counts, .. } = *self;
        match counts {
            Counts::Threads | Counts::Own => write!(f, "{name}: {used} of {allowed} are used"),
            Counts::Memory | Counts::OwnBytes => {
                write!(f, "{name}: {} of {} are used", Bytes(used), Bytes(allowed))
            }
        }
    }
}

/// The limits that are reached now.
pub(crate) fn reached() -> impl Iterator<Item = Limit> {
    all().filter(Limit::is_reached)
}

/// The limits that this process can see.
pub(crate) fn all() -> impl Iterator<Item = Limit> {
    let own = [
        limit("vm.max_map_count", Counts::Own, mappings(), number_in("/proc/sys/vm/max_map_count")),
        limit("ulimit -v", Counts::OwnBytes, Some(usage().address_space), resource(libc::RLIMIT_AS as _))
            .map(|limit| Limit { step: HEAP, ..limit }),
    ];
    own.into_iter().flatten().chain(shared())
}

/// Those that hold for this process and others together.
pub(crate) fn shared() -> impl Iterator<Item = Limit> {
    let threads = kernel_threads();
    let machine = meminfo();
    let [total, free] = ["MemTotal", "MemAvailable"].map(|name| kilobytes(machine.as_str(), name));
    let limits = [
        limit("kernel.threads-max", Counts::Threads, threads, number_in("/proc/sys/kernel/threads-max")),
        limit("kernel.pid_max", Counts::Threads, threads, number_in("/proc/sys/kernel/pid_max")),
        of_groups("pids.max of the control group", Counts::Threads, &PIDS),
        limit("ulimit -u", Counts::Threads, own_threads(), resource(libc::RLIMIT_NPROC as _)),
        limit("memory", Counts::Memory, Some(total - free), Some(total).filter(|&total| total > 0)),
        of_groups("memory of the control group", Counts::Memory, &MEMORY),
    ];
    limits.into_iter().flatten()
}

/// How much memory the process could take now without harm to others: what the machine has, or what a
/// control group allows, whichever is less. `None`: there is no `/proc`.
pub(crate) fn room() -> Option<Limit> {
    shared().filter(|limit| limit.counts == Counts::Memory).min_by_key(Limit::left)
}

/// A limit of which both sides are known.
fn limit(name: &'static str, counts: Counts, used: Option<u64>, allowed: Option<u64>) -> Option<Limit> {
    Some(Limit { name, used: used?, allowed: allowed?, step: 1, counts })
}

/// Of the control groups that bound the process, the one that leaves the least.
fn of_groups(name: &'static str, counts: Counts, controller: &Controller) -> Option<Limit> {
    let memberships = Text::<4096>::of("/proc/self/cgroup");
    let files = groups(memberships.as_str(), controller).into_iter();
    let limits = files.filter_map(|(allowed, used)| limit(name, counts, number_in(used), number_in(allowed)));
    limits.min_by_key(Limit::left)
}

/// Of the whole machine: after the slash of the fourth word.
fn kernel_threads() -> Option<u64> {
    Text::<128>::of("/proc/loadavg").words().nth(3)?.split('/').nth(1)?.parse().ok()
}

/// Of this process, which is one of its user's. The kernel does not hold root to a number.
fn own_threads() -> Option<u64> {
    // SAFETY: no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let text = Text::<8192>::of("/proc/self/status");
    let mut words = text.words().skip_while(|&word| word != "Threads:").skip(1);
    words.next().and_then(|number| number.parse().ok()).filter(|_| !root)
}

fn resource(which: u32) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit to write.
    let failed = unsafe { libc::getrlimit(which as _, &mut limit) };
    (failed == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Of this process: the lines of their list.
fn mappings() -> Option<u64> {
    let mut file = File::open("/proc/self/maps").ok()?;
    let (mut piece, mut count) = ([0; 4096], 0);
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(count),
            bytes => count += piece[..bytes].iter().filter(|&&byte| byte == b'\n').count() as u64,
        }
    }
}
