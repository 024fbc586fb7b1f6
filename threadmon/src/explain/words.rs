//! Figures and names in sentences.

use std::time::Duration;

/// Returns a share as a percentage: `41 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Returns a time with two or three digits: `41 ms`.
pub(super) fn time(time: Duration) -> String {
    let nanos = time.as_nanos() as f64;
    let (value, unit) = match time.as_nanos() {
        0..1_000 => (nanos, "ns"),
        1_000..1_000_000 => (nanos / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    if value < 10.0 && unit != "ns" { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Returns a number of things: `1 thread`, `2 threads`.
pub(super) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Returns a list as text: `a, b and c`, or `a, b, c and 4 more`.
pub(super) fn list(all: &[String]) -> String {
    const MOST: usize = 4;
    match all {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if all.len() <= MOST => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} more", all[..MOST - 1].join(", "), all.len() - (MOST - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        let shares = [0.0, 0.004, 0.41, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "0.4 %", "41 %", "100 %"]);
        let times = [7, 1_500, 41_000_000, 2_340_000_000].map(|nanos| time(Duration::from_nanos(nanos)));
        assert_eq!(times, ["7 ns", "1.5 us", "41 ms", "2.3 s"]);
        assert_eq!([0, 1, 2].map(|n| count(n, "slot")), ["0 slots", "1 slot", "2 slots"]);
    }

    #[test]
    fn long_lists_are_short() {
        let all: Vec<String> = "abcdef".chars().map(String::from).collect();
        assert_eq!([list(&all[..1]), list(&all[..2]), list(&all[..4])], ["a", "a and b", "a, b, c and d"]);
        assert_eq!(list(&all), "a, b, c and 3 more");
    }
}
