//! What this process takes, and which control groups it is in, read from `/proc`.
//!
//! A process that has as many threads as it can have may have no memory left. So files are read into arrays,
//! and only the names of control groups take some.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the process takes, in bytes; nothing where there is no `/proc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// What it takes now.
pub(crate) fn usage() -> Usage {
    let (status, machine) = (Text::<8192>::of("/proc/self/status"), meminfo());
    Usage {
        resident: kilobytes(status.as_str(), "VmRSS"),
        page_tables: kilobytes(status.as_str(), "VmPTE"),
        address_space: kilobytes(status.as_str(), "VmSize"),
        kernel_stacks: kilobytes(machine.as_str(), "KernelStack"),
    }
}

/// What the kernel says of the machine's memory.
pub(crate) fn meminfo() -> Text<8192> {
    Text::of("/proc/meminfo")
}

/// A line such as `VmRSS:    1744 kB`, in bytes; zero if there is none.
pub(crate) fn kilobytes(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

/// What control groups count and limit. It has a name, and files that tell how much is allowed and used. The
/// files differ between the second version of control groups and the first.
pub(crate) struct Controller {
    pub(crate) name: &'static str,
    second: [&'static str; 2],
    first: [&'static str; 2],
}

/// Bytes of memory.
pub(crate) const MEMORY: Controller = Controller {
    name: "memory",
    second: ["memory.max", "memory.current"],
    first: ["memory.limit_in_bytes", "memory.usage_in_bytes"],
};

/// Kernel threads.
pub(crate) const PIDS: Controller =
    Controller { name: "pids", second: ["pids.max", "pids.current"], first: ["pids.max", "pids.current"] };

/// The files of each control group that the process is in: limit and usage.
pub(crate) fn groups(memberships: &str, of: &Controller) -> Vec<(PathBuf, PathBuf)> {
    const ROOT: &str = "/sys/fs/cgroup";
    let mut files = Vec::new();
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, [limit, used]) = match controllers {
            "" => (PathBuf::from(ROOT), of.second),
            name if name == of.name => (Path::new(ROOT).join(name), of.first),
            _ => continue,
        };
        // Each group is bound by those that it is in.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = root.join(group);
            files.push((folder.join(limit), folder.join(used)));
        }
    }
    files
}

/// The beginning of a file.
pub(crate) struct Text<const SIZE: usize> {
    bytes: [u8; SIZE],
    length: usize,
}

impl<const SIZE: usize> Text<SIZE> {
    /// Empty if it cannot be read.
    pub(crate) fn of(file: impl AsRef<Path>) -> Self {
        let (mut bytes, mut length) = ([0; SIZE], 0);
        if let Ok(mut file) = File::open(file) {
            while let Ok(more @ 1..) = file.read(&mut bytes[length..]) {
                length += more;
            }
        }
        Self { bytes, length }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.as_str().split_ascii_whitespace()
    }
}

/// The number that a file holds; `None` if it holds another word (`max`), or is not there.
pub(crate) fn number_in(file: impl AsRef<Path>) -> Option<u64> {
    Text::<64>::of(file).words().next()?.parse().ok()
}

/// A number of bytes, for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gibibytes = self.0 as f64 / f64::from(1 << 30);
        if gibibytes < 1.0 {
            write!(f, "{:.1} MiB", 1024.0 * gibibytes)
        } else {
            write!(f, "{gibibytes:.1} GiB")
        }
    }
}
