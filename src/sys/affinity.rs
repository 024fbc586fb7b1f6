//! Which processors this process may use, and how many it has the time of.
//!
//! [`available`] is what a program may keep busy. That is the processors of its affinity mask, but no more
//! than its control group's CPU quota pays for, rounded up and at least one. A container with a quota of 1.5
//! CPUs on a machine of 64 gets 2. Std's function of that name rounds down, which leaves half a processor
//! unused.

use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::Tid;
use super::short_file::read_text;

/// The bits of a word of a mask.
const BITS: usize = u64::BITS as usize;
/// Room for a mask of Linux's largest number of processors.
const MASK_WORDS: usize = 8192 / BITS;

/// A set of processors, as the kernel's calls take it.
type Mask = [u64; MASK_WORDS];

/// Returns how many threads this process can run at once: at least one.
pub(crate) fn available() -> usize {
    at_once(Grant::find().processors(None))
}

/// Returns how many threads can run at once on `cpus`, if all of these may be used: at least one.
pub(crate) fn available_of(cpus: &[usize]) -> usize {
    at_once(Grant::find().paid(cpus.len()))
}

/// Returns how many threads run at once on so many processors' time: at least one.
pub(crate) fn at_once(processors: f64) -> usize {
    (processors.ceil() as usize).max(1)
}

/// Returns the processors that this process may use, in ascending order: those of its first thread, and those
/// of the calling kernel thread. Either may have been given fewer.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    let (first, mine) = (mask_of(std::process::id().cast_signed())?, mask()?);
    let is_allowed = |&cpu: &usize| has(&first, cpu) || has(&mine, cpu);
    Ok((0..MASK_WORDS * BITS).filter(is_allowed).collect())
}

/// What the process may have of the processors, to be asked again and again.
///
/// It keeps the folders of the process's control groups open. It does not notice that the process moves to
/// another group.
#[derive(Debug)]
pub(crate) struct Grant {
    groups: Vec<Group>,
}

impl Grant {
    /// Finds the control groups of this process. Allocates, and opens files.
    pub(crate) fn find() -> Self {
        Self::find_in(Path::new("/"))
    }

    /// Does what `find` does, with `root` as the root of the file system. Tests replace it.
    fn find_in(root: &Path) -> Self {
        let read = |file| fs::read_to_string(root.join(file)).unwrap_or_default();
        let (memberships, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        let mut groups = Vec::new();
        for (version, path) in memberships.lines().filter_map(cpu_controller) {
            for mount in mounts.lines().filter_map(|line| mount_of(line, version)) {
                let open = |folder| Some(Group { version, folder: File::open(folder).ok()? });
                groups.extend(folders(root, &mount, path).into_iter().filter_map(open));
            }
        }
        Self { groups }
    }

    /// Returns the processors' time that the process can have. That is as many as the affinity mask of the
    /// calling kernel thread has, or a quota that is less. If the mask has some of `cpus`, only those count.
    /// Allocates nothing.
    pub(crate) fn processors(&self, cpus: Option<&[usize]>) -> f64 {
        let count = mask().map_or(1, |mask| match shared(&mask, cpus.unwrap_or_default()).count() {
            0 => count(&mask),
            shared => shared,
        });
        self.paid(count)
    }

    /// Returns how much time of so many processors the quota pays for.
    fn paid(&self, processors: usize) -> f64 {
        let processors = processors as f64;
        self.quota().map_or(processors, |quota| quota.min(processors))
    }

    /// Returns how many processors' time the control groups grant, or `None` if they set no limit.
    fn quota(&self) -> Option<f64> {
        self.groups.iter().filter_map(Group::limit).reduce(f64::min)
    }
}

/// Returns `true` if the calling kernel thread, and those that it starts, have one processor between them.
pub(crate) fn is_single() -> bool {
    mask().is_ok_and(|mask| count(&mask) == 1)
}

/// Lets the calling kernel thread run on these processors only. A new kernel thread inherits them.
///
/// # Errors
/// `InvalidInput` if this process may use none of them. If it may use one, the others that it may not use, or
/// that do not exist, are ignored, as the kernel does.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut mask: Mask = [0; MASK_WORDS];
    for &cpu in cpus.iter().filter(|&&cpu| cpu < MASK_WORDS * BITS) {
        mask[cpu / BITS] |= 1 << (cpu % BITS);
    }
    if set_mask_of(0, &mask) {
        return Ok(());
    }
    Err(super::last_error(format_args!(
        "cannot run on processors {cpus:?}: this process has none of them, or may not use them"
    )))
}

/// Lets the calling kernel thread run where another one of this process may. If that has ended, does nothing.
pub(crate) fn pin_like(other: u32) {
    if let Ok(mask) = mask_of(other.cast_signed()) {
        set_mask_of(0, &mask);
    }
}

/// Returns `true` if the calling kernel thread may use some of `cpus`, and others too.
pub(crate) fn strays_from(cpus: &[usize]) -> bool {
    mask().is_ok_and(|mask| (1..count(&mask)).contains(&shared(&mask, cpus).count()))
}

/// Takes kernel threads of this process back to `cpus`, if the calling one [strays](strays_from) from them:
/// to those that it may use. The others may use the same.
pub(crate) fn take_back(threads: impl Iterator<Item = u32>, cpus: &[usize]) {
    let Ok(mask) = mask() else { return };
    let mut kept: Mask = [0; MASK_WORDS];
    shared(&mask, cpus).for_each(|cpu| kept[cpu / BITS] |= 1 << (cpu % BITS));
    if kept == mask || count(&kept) == 0 {
        return;
    }
    threads.for_each(|thread| {
        // One that has just ended needs no mask.
        set_mask_of(thread.cast_signed(), &kept);
    });
}

/// Returns the affinity mask of the calling kernel thread.
fn mask() -> io::Result<Mask> {
    mask_of(0)
}

/// Returns the affinity mask of a kernel thread; 0: the calling one.
fn mask_of(thread: Tid) -> io::Result<Mask> {
    let mut mask: Mask = [0; MASK_WORDS];
    // SAFETY: `mask` is written for at most its length.
    let rc = unsafe { libc::sched_getaffinity(thread, mem::size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if rc == 0 { Ok(mask) } else { Err(io::Error::last_os_error()) }
}

/// Sets the affinity mask of a kernel thread; 0: the calling one. Returns `false` if the kernel refuses.
fn set_mask_of(thread: Tid, mask: &Mask) -> bool {
    // SAFETY: `mask` is read for exactly its length.
    unsafe { libc::sched_setaffinity(thread, mem::size_of_val(mask), mask.as_ptr().cast()) == 0 }
}

fn has(mask: &Mask, cpu: usize) -> bool {
    mask.get(cpu / BITS).is_some_and(|word| word >> (cpu % BITS) & 1 == 1)
}

/// Returns those of `cpus` that the mask has.
fn shared(mask: &Mask, cpus: &[usize]) -> impl Iterator<Item = usize> {
    cpus.iter().copied().filter(|&cpu| has(mask, cpu))
}

fn count(mask: &Mask) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

/// A control group of this process, or one around it.
#[derive(Debug)]
struct Group {
    version: Version,
    folder: File,
}

impl Group {
    /// Returns the limit that this group sets at the moment. Its file may come and go with the group's
    /// controllers.
    fn limit(&self) -> Option<f64> {
        let (mut first, mut second) = ([0; 64], [0; 64]);
        let folder = self.folder.as_raw_fd();
        let (quota, period) = match self.version {
            Version::V1 => (
                read_text(folder, c"cpu.cfs_quota_us", &mut first).ok()?,
                read_text(folder, c"cpu.cfs_period_us", &mut second).ok()?,
            ),
            Version::V2 => read_text(folder, c"cpu.max", &mut first).ok()?.split_once(' ')?,
        };
        // No limit is "max" in version 2 and -1 in version 1. Neither is a number of this type.
        let quota: u64 = quota.trim().parse().ok()?;
        let period: u64 = period.trim().parse().ok().filter(|&period| period > 0)?;
        Some(quota as f64 / period as f64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Returns the path in a line `id:controllers:path` of `/proc/self/cgroup`, if the line is about processors.
fn cpu_controller(line: &str) -> Option<(Version, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if controllers.is_empty() {
        return Some((Version::V2, path));
    }
    controllers.split(',').any(|name| name == "cpu").then_some((Version::V1, path))
}

/// A mounted control group hierarchy: the group at the folder where it is mounted.
struct Mount {
    group: String,
    folder: String,
}

/// Returns the hierarchy in a line of `mountinfo`: `id parent dev root point options [tags] - type source
/// super-options`.
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

/// Returns the folders of the group at `path` and of every group around it, as far out as the mount shows.
fn folders(root: &Path, mount: &Mount, path: &str) -> Vec<PathBuf> {
    let top = root.join(mount.folder.trim_start_matches('/'));
    // In a container the mount may show a group below the real root. A path outside of it is not visible.
    let below = Path::new(path).strip_prefix(&mount.group).unwrap_or(Path::new(""));
    below.ancestors().map(|group| top.join(group)).collect()
}

#[cfg(test)]
mod tests;
