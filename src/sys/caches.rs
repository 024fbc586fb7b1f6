//! Which processors are near each other: they share the last cache before the memory.
//!
//! A line that another processor has written comes from there in 60 ns, and from beyond in 100 to 300. Linux
//! tells the caches of each processor in files under `/sys`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::once::OnceLock;

/// More groups than this are counted round: processors of two groups are then taken for near.
const MOST: usize = 64;

/// The groups of processors that share a cache.
#[derive(Debug)]
pub(crate) struct Caches {
    /// By the number of the processor.
    groups: Box<[u8]>,
    count: usize,
}

impl Caches {
    /// Returns the groups of this machine; `None` if all processors share one cache, or the system does not
    /// say. The first call opens some files for each processor.
    pub(crate) fn of_this_machine() -> Option<&'static Self> {
        static CACHES: OnceLock<Option<Caches>> = OnceLock::new();
        CACHES.get_or_init(|| Self::find_in(Path::new("/sys/devices/system/cpu"))).as_ref()
    }

    /// Does what `of_this_machine` does, for processors that have their files in `folder`.
    fn find_in(folder: &Path) -> Option<Self> {
        let number = |name: &str| name.strip_prefix("cpu")?.parse::<usize>().ok();
        let entries = fs::read_dir(folder).ok()?;
        let mut lists = BTreeMap::new();
        for entry in entries.filter_map(Result::ok) {
            if let Some(cpu) = entry.file_name().to_str().and_then(number)
                && let Some(list) = last_cache(&entry.path().join("cache"))
            {
                lists.insert(cpu, list);
            }
        }
        // In the order of the first processor of each.
        let mut known = Vec::new();
        let mut groups = vec![0; lists.last_key_value()?.0 + 1].into_boxed_slice();
        for (cpu, list) in lists {
            let group = known.iter().position(|it| *it == list).unwrap_or_else(|| {
                known.push(list);
                known.len() - 1
            });
            groups[cpu] = (group % MOST) as u8;
        }
        (known.len() > 1).then(|| Self { groups, count: known.len().min(MOST) })
    }

    /// Makes the groups that a test wants: by the number of the processor.
    #[cfg(test)]
    pub(crate) fn of(groups: &[u8]) -> Self {
        Self { groups: groups.into(), count: groups.iter().max().map_or(0, |&most| usize::from(most) + 1) }
    }

    /// Returns how many groups there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the group of a processor: a number below [`count`](Self::count).
    #[inline]
    pub(crate) fn group(&self, cpu: u32) -> u8 {
        self.groups.get(cpu as usize).copied().unwrap_or(0)
    }
}

/// Returns which processors share the last cache of one, as the system writes it down.
fn last_cache(folder: &Path) -> Option<String> {
    let level = |index: &Path| fs::read_to_string(index.join("level")).ok()?.trim().parse::<u32>().ok();
    let caches = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let (_, last) = caches.filter_map(|index| Some((level(&index)?, index))).max()?;
    fs::read_to_string(last.join("shared_cpu_list")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down one cache of one processor, as Linux does.
    fn write(folder: &Path, cpu: usize, index: usize, level: u32, shared: &str) {
        let cache = folder.join(format!("cpu{cpu}/cache/index{index}"));
        fs::create_dir_all(&cache).unwrap();
        fs::write(cache.join("level"), format!("{level}\n")).unwrap();
        fs::write(cache.join("shared_cpu_list"), format!("{shared}\n")).unwrap();
    }

    #[test]
    fn processors_are_near_that_share_the_last_cache() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(Caches::find_in(folder).is_none() && Caches::find_in(&folder.join("none")).is_none());
        for (cpu, own, shared) in [(0, "0,4", "0-1,4"), (1, "1", "0-1,4"), (4, "0,4", "0-1,4")] {
            write(folder, cpu, 0, 1, own);
            write(folder, cpu, 3, 3, shared);
        }
        fs::create_dir_all(folder.join("cpufreq")).unwrap();
        assert!(Caches::find_in(folder).is_none(), "all share one");
        for cpu in [2, 10] {
            write(folder, cpu, 3, 3, "2,10");
            write(folder, cpu, 4, 2, &cpu.to_string());
        }
        let found = Caches::find_in(folder).unwrap();
        assert_eq!((found.count(), [0, 1, 4, 2, 10].map(|cpu| found.group(cpu))), (2, [0, 0, 0, 1, 1]));
        assert_eq!((found.group(3), found.group(5000)), (0, 0), "not known");
    }

    #[test]
    fn very_many_groups_are_counted_round() {
        let folder = tempfile::tempdir().unwrap();
        (0..70).for_each(|cpu| write(folder.path(), cpu, 0, 2, &cpu.to_string()));
        let found = Caches::find_in(folder.path()).unwrap();
        assert_eq!((found.count(), found.group(63), found.group(64), found.group(69)), (64, 63, 0, 5));
    }

    #[test]
    fn this_machine_is_asked_once() {
        let found = Caches::of_this_machine();
        assert!(found.is_none_or(|caches| (2..=MOST).contains(&caches.count())));
        assert_eq!(found.map(std::ptr::from_ref), Caches::of_this_machine().map(std::ptr::from_ref));
    }
}
