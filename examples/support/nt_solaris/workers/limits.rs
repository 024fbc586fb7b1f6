//! What keeps a process from having more threads.
//!
//! The kernel refuses a thread by `EAGAIN` or `ENOMEM`, whatever the reason. So what it counts is
//! compared with what it allows, at the moment of the refusal. Nothing here takes memory, of which there
//! may be none left: files are read by pieces.

use std::fmt;
use std::fs::File;
use std::io::Read;

/// Something that is counted and limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// What an administrator calls it.
    pub(crate) name: &'static str,
    pub(crate) used: u64,
    pub(crate) allowed: u64,
    /// How much may be asked for at once, or is kept for others: a refusal leaves up to this.
    pub(crate) step: u64,
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
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {} are used", self.name, self.used, self.allowed)
    }
}

/// The limits that are reached now.
pub(crate) fn reached() -> impl Iterator<Item = Limit> {
    all().filter(Limit::is_reached)
}

/// The limits that this process can see.
pub(crate) fn all() -> impl Iterator<Item = Limit> {
    let (threads, cgroup) = (kernel_threads(), cgroup());
    let limits = [
        limit("vm.max_map_count", lines("/proc/self/maps"), number("/proc/sys/vm/max_map_count")),
        limit("kernel.threads-max", threads, number("/proc/sys/kernel/threads-max")),
        limit("kernel.pid_max", threads, number("/proc/sys/kernel/pid_max")),
        limit("pids.max of the control group", cgroup.0, cgroup.1),
        limit("ulimit -u", own_threads(), resource(libc::RLIMIT_NPROC)),
        limit("ulimit -v", Some(memory().addresses), resource(libc::RLIMIT_AS))
            .map(|limit| Limit { step: HEAP, ..limit }),
        limit("memory", memory_of_machine().0, memory_of_machine().1),
    ];
    limits.into_iter().flatten()
}

/// A limit of which both sides are known.
fn limit(name: &'static str, used: Option<u64>, allowed: Option<u64>) -> Option<Limit> {
    Some(Limit { name, used: used?, allowed: allowed?, step: 1 })
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) addresses: u64,
}

impl Memory {
    /// What has come since.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            resident: self.resident.saturating_sub(before.resident),
            addresses: self.addresses.saturating_sub(before.addresses),
        }
    }
}

/// What this process has now; nothing where there is no `/proc`.
pub(crate) fn memory() -> Memory {
    let text = Text::<512>::of("/proc/self/statm");
    let mut pages = text.words().map(|word| word.parse::<u64>().unwrap_or(0));
    // SAFETY: no memory is involved.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let (addresses, resident) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    Memory { resident: resident * page, addresses: addresses * page }
}

/// Used, and there at all.
fn memory_of_machine() -> (Option<u64>, Option<u64>) {
    let text = Text::<4096>::of("/proc/meminfo");
    let kib = |name| {
        let mut words = text.words().skip_while(|&word| word != name).skip(1);
        words.next().and_then(|number| number.parse::<u64>().ok())
    };
    let (total, free) = (kib("MemTotal:"), kib("MemAvailable:"));
    (total.zip(free).map(|(total, free)| (total - free) << 10), total.map(|total| total << 10))
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

/// Kernel threads in the control group, and how many it may have; of the group itself, not of those
/// around it.
fn cgroup() -> (Option<u64>, Option<u64>) {
    let text = Text::<4096>::of("/proc/self/cgroup");
    let Some(group) = text.words().find_map(|line| line.strip_prefix("0::")) else { return (None, None) };
    let file = |name| number(&format!("/sys/fs/cgroup{group}/{name}"));
    (file("pids.current"), file("pids.max"))
}

fn resource(which: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit to write.
    let failed = unsafe { libc::getrlimit(which, &mut limit) };
    (failed == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

fn number(file: &str) -> Option<u64> {
    Text::<64>::of(file).words().next()?.parse().ok()
}

fn lines(file: &str) -> Option<u64> {
    let mut file = File::open(file).ok()?;
    let (mut piece, mut count) = ([0; 4096], 0);
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(count),
            bytes => count += piece[..bytes].iter().filter(|&&byte| byte == b'\n').count() as u64,
        }
    }
}

/// The beginning of a file.
struct Text<const SIZE: usize> {
    bytes: [u8; SIZE],
    length: usize,
}

impl<const SIZE: usize> Text<SIZE> {
    /// Empty if it cannot be read.
    fn of(file: &str) -> Self {
        let (mut bytes, mut length) = ([0; SIZE], 0);
        if let Ok(mut file) = File::open(file) {
            while let Ok(more @ 1..) = file.read(&mut bytes[length..]) {
                length += more;
            }
        }
        Self { bytes, length }
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default().split_ascii_whitespace()
    }
}
