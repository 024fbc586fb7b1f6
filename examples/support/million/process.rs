//! What this process takes, and what the system would let it take, read from `/proc` and the control groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What the process takes, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Memory that it has touched.
    pub(crate) resident: u64,
    /// The kernel's tables that say where that is.
    pub(crate) page_tables: u64,
    pub(crate) address_space: u64,
    /// Stacks in the kernel, of all threads of the machine.
    pub(crate) kernel_stacks: u64,
}

impl Usage {
    /// What has come since.
    pub(crate) fn beyond(self, before: Self) -> Self {
        Self {
            resident: self.resident.saturating_sub(before.resident),
            page_tables: self.page_tables.saturating_sub(before.page_tables),
            address_space: self.address_space.saturating_sub(before.address_space),
            kernel_stacks: self.kernel_stacks.saturating_sub(before.kernel_stacks),
        }
    }

    /// All that is memory; the kernel's stacks only where they are of the process's threads.
    pub(crate) fn memory(self, kernel: bool) -> u64 {
        self.resident + self.page_tables + if kernel { self.kernel_stacks } else { 0 }
    }
}

/// Reads it.
///
/// # Errors
/// There is no `/proc`.
pub(crate) fn usage() -> io::Result<Usage> {
    let status = fs::read_to_string("/proc/self/status")?;
    let machine = fs::read_to_string("/proc/meminfo")?;
    Ok(Usage {
        resident: kilobytes(&status, "VmRSS"),
        page_tables: kilobytes(&status, "VmPTE"),
        address_space: kilobytes(&status, "VmSize"),
        kernel_stacks: kilobytes(&machine, "KernelStack"),
    })
}

/// A line such as `VmRSS:    1744 kB`, in bytes; zero if there is none.
pub(crate) fn kilobytes(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

/// Memory that is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    /// What says so.
    pub(crate) by: String,
}

/// How much memory the process could take now without harm to others: what the machine has, or what a
/// control group allows, whichever is less.
///
/// # Errors
/// There is no `/proc`.
pub(crate) fn room() -> io::Result<Room> {
    let machine = fs::read_to_string("/proc/meminfo")?;
    let mut least = Room { bytes: kilobytes(&machine, "MemAvailable"), by: "of the machine".into() };
    for (limit, used) in groups(&fs::read_to_string("/proc/self/cgroup")?) {
        let (Some(limit_is), Some(used_is)) = (number_in(&limit), number_in(&used)) else { continue };
        let bytes = limit_is.saturating_sub(used_is);
        if bytes < least.bytes {
            least = Room { bytes, by: format!("by {}", limit.display()) };
        }
    }
    Ok(least)
}

/// The files of each memory control group that the process is in: limit and usage.
pub(crate) fn groups(memberships: &str) -> Vec<(PathBuf, PathBuf)> {
    const ROOT: &str = "/sys/fs/cgroup";
    let mut files = Vec::new();
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit, used) = match controllers {
            "" => (ROOT.to_owned(), "memory.max", "memory.current"),
            "memory" => (format!("{ROOT}/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
            _ => continue,
        };
        // Each group is bound by those that it is in.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = Path::new(&root).join(group);
            files.push((folder.join(limit), folder.join(used)));
        }
    }
    files
}

/// The number that a file holds; `None` if it holds another word (`max`), or is not there.
fn number_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
