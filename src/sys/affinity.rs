//! Which processors this process may use, and how many it has the time of.
//!
//! [`available`] is what a program may keep busy: the processors of its affinity mask, but no more than its control
//! group's CPU quota pays for, rounded up and at least one. A container with a quota of 1.5 CPUs on a machine of 64 gets
//! 2. std's function of that name rounds down, which leaves half a processor unused.

use std::fs;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

/// More processors than any kernel knows (Linux has at most 8,192): larger numbers mean none.
const MOST_CPUS: usize = 1 << 16;

/// How many threads this process can run at once: at least one.
pub(crate) fn available() -> usize {
    (granted().ceil() as usize).max(1)
}

/// The processors' time that it can have: as many as its affinity mask has, or a quota that is less.
pub(crate) fn granted() -> f64 {
    let allowed = allowed().map_or(1, |cpus| cpus.len()) as f64;
    quota(Path::new("/")).map_or(allowed, |quota| quota.min(allowed))
}

/// Whether the calling kernel thread, and those that it starts, have one processor between them.
pub(crate) fn is_single() -> bool {
    allowed().is_ok_and(|cpus| cpus.len() == 1)
}

/// The processors that the calling kernel thread may run on.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    // The kernel refuses a mask smaller than its own, whose size it does not tell.
    let mut words = 16;
    loop {
        let mut mask = vec![0_u64; words];
        match get_mask(&mut mask) {
            Ok(()) => return Ok(numbers(&mask)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && words < 1 << 14 => words *= 2,
            Err(error) => return Err(super::explain(&error, "cannot read the affinity mask")),
        }
    }
}

/// Lets the calling kernel thread run on these processors only. A new kernel thread inherits them.
///
/// # Errors
/// `InvalidInput` if this process may use none of them. Those that it may not use, or that there are not, are passed over
/// beside one that it may, as the kernel does.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    const BITS: usize = u64::BITS as usize;
    let known = || cpus.iter().copied().filter(|&cpu| cpu < MOST_CPUS);
    let mut mask = vec![0_u64; known().max().map_or(1, |highest| highest / BITS + 1)];
    for cpu in known() {
        mask[cpu / BITS] |= 1 << (cpu % BITS);
    }
    // SAFETY: `mask` is read for exactly its length.
    let rc = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&mask[..]), mask.as_ptr().cast()) };
    if rc != 0 {
        return Err(super::last_error(format_args!(
            "cannot run on processors {cpus:?}: this process has none of them, or may not use them"
        )));
    }
    Ok(())
}

fn get_mask(mask: &mut [u64]) -> io::Result<()> {
    // SAFETY: `mask` is written for at most its length.
    let rc = unsafe { libc::sched_getaffinity(0, mem::size_of_val(mask), mask.as_mut_ptr().cast()) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn numbers(mask: &[u64]) -> Vec<usize> {
    (0..mask.len() * 64).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1).collect()
}

/// How many processors' time the control groups of this process grant; `None` without a limit. `root` is
/// the root of the file system, which tests replace.
fn quota(root: &Path) -> Option<f64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mut least: Option<f64> = None;
    for line in groups.lines() {
        let Some((version, path)) = cpu_controller(line) else { continue };
        for mount in mounts.lines().filter_map(|line| mount_of(line, version)) {
            for folder in folders(root, &mount, path) {
                least = [least, version.limit(&folder)].into_iter().flatten().reduce(f64::min);
            }
        }
    }
    least
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// The limit that one group sets.
    fn limit(self, folder: &Path) -> Option<f64> {
        let read = |file| fs::read_to_string(folder.join(file)).ok();
        let (quota, period) = match self {
            Self::V1 => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
            Self::V2 => {
                let both = read("cpu.max")?;
                let (quota, period) = both.trim().split_once(' ')?;
                (quota.to_owned(), period.to_owned())
            }
        };
        // No limit is "max" in version 2 and -1 in version 1: neither is a number of this type.
        let quota: u64 = quota.trim().parse().ok()?;
        let period: u64 = period.trim().parse().ok().filter(|&period| period > 0)?;
        Some(quota as f64 / period as f64)
    }
}

/// The path in a line `id:controllers:path` of `/proc/self/cgroup`, if the line is about processors.
fn cpu_controller(line: &str) -> Option<(Version, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if controllers.is_empty() {
        return Some((Version::V2, path));
    }
    controllers.split(',').any(|name| name == "cpu").then_some((Version::V1, path))
}

/// A mounted control group hierarchy: which group is at which folder.
struct Mount {
    group: String,
    folder: String,
}

/// The hierarchy in a line of `mountinfo`: `id parent dev root point options [tags] - type source super-options`.
fn mount_of(line: &str, version: Version) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let kind = after.next()?;
    let fits = match version {
        Version::V2 => kind == "cgroup2",
        Version::V1 => kind == "cgroup" && after.nth(1)?.split(',').any(|option| option == "cpu"),
    };
    let mut before = before.split(' ').skip(3);
    let mount = Mount { group: before.next()?.to_owned(), folder: before.next()?.to_owned() };
    fits.then_some(mount)
}

/// The folder of the group at `path` and of every group around it, as far out as the mount shows.
fn folders(root: &Path, mount: &Mount, path: &str) -> Vec<PathBuf> {
    let top = root.join(mount.folder.trim_start_matches('/'));
    // In a container the mount may show a group below the real root; a path outside of it is not visible.
    let below = Path::new(path).strip_prefix(&mount.group).unwrap_or(Path::new(""));
    below.ancestors().map(|group| top.join(group)).collect()
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
