//! Lists of CPUs, as the kernel writes them: `0-3,8`.

use std::fmt;

use super::whole;

/// The largest CPU: Linux knows 8,192 at most.
pub(super) const LAST_CPU: usize = 8191;

/// Reads a list. Returns its CPUs in ascending order, each once.
pub(super) fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (whole(first)?, whole(last)?);
        if first > last || last > LAST_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Shows CPUs, which stand in ascending order, as a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuList<'a>(pub(crate) &'a [usize]);

impl fmt::Display for CpuList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, range) in self.0.chunk_by(|a, b| a.checked_add(1) == Some(*b)).enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            match range {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                alone => alone.iter().try_for_each(|cpu| write!(f, "{comma}{cpu}"))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (list, cpus) in [
            ("0", Some(vec![0])),
            ("0-3,8", Some(vec![0, 1, 2, 3, 8])),
            ("8,0-1,1-2", Some(vec![0, 1, 2, 8])),
            ("8191", Some(vec![8191])),
            ("8192", None),
            ("0-99999999999", None),
            ("3-2", None),
            ("", None),
            ("0,", None),
            ("-1", None),
            ("1-", None),
            ("1-2-3", None),
            ("0 1", None),
            ("+1", None),
            ("all", None),
        ] {
            assert_eq!(parse(list), cpus, "{list:?}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read() {
        for list in ["0", "0-1", "0-3,8", "1,3,5-6", "0-8191"] {
            assert_eq!(CpuList(&parse(list).unwrap()).to_string(), list);
        }
        assert_eq!(CpuList(&[]).to_string(), "");
        assert_eq!(CpuList(&[7, usize::MAX]).to_string(), format!("7,{}", usize::MAX));
    }
}
