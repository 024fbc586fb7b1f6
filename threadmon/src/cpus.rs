//! What the CPUs of the machine do, as the kernel counts it in `/proc/stat`.

use std::fs;

/// The ticks of a CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    pub(crate) number: u32,
    pub(crate) busy: u64,
    pub(crate) idle: u64,
}

impl CpuTimes {
    /// Returns the share of time in which the CPU was busy since `before`, or `None` if no tick has passed.
    pub(crate) fn busy_since(&self, before: &Self) -> Option<f64> {
        let busy = self.busy.saturating_sub(before.busy);
        let all = busy + self.idle.saturating_sub(before.idle);
        (all > 0).then(|| busy as f64 / all as f64)
    }
}

/// Returns the times of all CPUs; none where there is no `/proc/stat`.
pub(crate) fn read() -> Vec<CpuTimes> {
    fs::read_to_string("/proc/stat").map(|text| parse(&text)).unwrap_or_default()
}

fn parse(text: &str) -> Vec<CpuTimes> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let number = words.next()?;
        // The first line is the sum, and has a space where the others have a number.
        if !line[3..].starts_with(number) {
            return None;
        }
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guests are in user and nice.
        let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
        let all: u64 = ticks.iter().take(8).sum();
        Some(CpuTimes { number: number.parse().ok()?, busy: all - idle, idle })
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_cpus_are_read() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 40 5 6 7 8 1 0\ncpu12 1 0 0 2\nintr 5 6\nctxt 1\n";
        let expected =
            [CpuTimes { number: 0, busy: 27, idle: 45 }, CpuTimes { number: 12, busy: 1, idle: 2 }];
        assert_eq!(parse(text), expected);
        assert_eq!(parse("cpu\ncpu1\ncpux 1 2 3 4\n\n"), []);
    }

    #[test]
    fn shares_are_of_ticks_that_have_passed() {
        let before = CpuTimes { number: 0, busy: 10, idle: 10 };
        assert_eq!(CpuTimes { busy: 13, idle: 11, ..before }.busy_since(&before), Some(0.75));
        assert_eq!(before.busy_since(&before), None);
    }
}
