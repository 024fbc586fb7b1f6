//! Figures of all runtimes as text for Prometheus, with names by its conventions.

use std::fmt::{Display, Write};
use std::ops::RangeInclusive;

use crate::runtime::latency::LatencyHistogram;
use crate::runtime::registry;
use crate::runtime::stats::{LwpState, LwpStats, RuntimeStats};

/// Returns the figures of all runtimes in the text format of Prometheus: what
/// [`stats`](crate::Runtime::stats) says. A program's own exporter appends it to its text.
///
/// Each name begins with `selvedge_`. The labels `runtime` and `model` tell runtimes apart.
///
/// | name | what it has |
/// |---|---|
/// | `threads`, `bound_threads`, `concurrency` | as the fields of [`RuntimeStats`] |
/// | `run_queue_length` | threads in run queues, by `state`: `dispatchable` and `queued`; for `mxn` |
/// | `run_queue_latency_seconds` | a histogram of waits until threads ran; while times are counted |
/// | `preemptions_total` | ends of time slices |
/// | `lwps_missing_total` | LWPs that were wanted beyond the bound |
/// | `slots_moved_total` | slots that went to another LWP, by `reason`: `blocked` and `handed_off` |
/// | `lwps` | LWPs, by `state` |
/// | `lwp_run_queue_length` | threads in the run queue of an LWP, by `lwp`, as all that follow |
/// | `lwp_{dispatches,steals,wakes}_total` | as the fields of [`LwpStats`] |
/// | `threads_started_total`, `threads_ended_total` | threads that started and ended there |
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, threadmon};
///
/// let rt = Mxn::builder().concurrency(2).build()?;
/// assert!(threadmon::metrics().contains("selvedge_concurrency{runtime=\"1\",model=\"mxn\"} 2\n"));
/// # drop(rt);
/// # std::io::Result::Ok(())
/// ```
///
/// # Blocks
///
/// Nothing. It reads a file of `/proc` for some LWPs.
#[must_use]
pub fn metrics() -> String {
    let all = registry::all();
    text(&all.iter().map(|runtime| (runtime.number(), runtime.stats())).collect::<Vec<_>>())
}

/// Returns the figures of these runtimes, each with its number.
fn text(runtimes: &[(u32, RuntimeStats)]) -> String {
    let mut text = Text { runtimes, out: String::new() };
    text.each("threads", "gauge", "Threads that live.", |stats| stats.threads);
    text.each("bound_threads", "gauge", "Threads that own a kernel thread.", |stats| stats.bound);
    text.each("concurrency", "gauge", "Threads that can run at once.", |stats| stats.concurrency);
    text.labelled("run_queue_length", "gauge", "Threads that wait in run queues.", "state", |stats| {
        let length = stats.run_queue.map(|it| [("dispatchable", it.dispatchable), ("queued", it.queued)]);
        length.into_iter().flatten().map(|(state, threads)| (state, threads as u64)).collect()
    });
    text.latency();
    text.each("preemptions_total", "counter", "Ends of time slices.", |stats| stats.preempted);
    text.each("lwps_missing_total", "counter", "LWPs that were wanted beyond the bound.", |stats| {
        stats.bound_reached
    });
    text.labelled("slots_moved_total", "counter", "Slots that went to another LWP.", "reason", |stats| {
        vec![("blocked", stats.compensated), ("handed_off", stats.handed_off)]
    });
    text.labelled("lwps", "gauge", "LWPs by what they do.", "state", |stats| {
        STATES.iter().map(|&(name, state)| (name, stats.count(state) as u64)).collect()
    });
    text.lwps("lwp_run_queue_length", "gauge", "Threads that wait in the run queue of an LWP.", |lwp| {
        lwp.queued as u64
    });
    text.lwps("lwp_dispatches_total", "counter", "Looks of an LWP for the thread to run next.", |lwp| {
        lwp.dispatches
    });
    text.lwps("lwp_steals_total", "counter", "Times that an LWP took threads from another.", |lwp| {
        lwp.steals
    });
    text.lwps("lwp_wakes_total", "counter", "Times that an LWP woke another.", |lwp| lwp.wakes);
    text.lwps("threads_started_total", "counter", "Threads that were started on an LWP.", |lwp| lwp.spawned);
    text.lwps("threads_ended_total", "counter", "Threads that ended on an LWP.", |lwp| lwp.ended);
    text.out
}

const STATES: [(&str, LwpState); 8] = [
    ("starting", LwpState::Starting),
    ("running", LwpState::Running),
    ("searching", LwpState::Searching),
    ("idle", LwpState::Idle),
    ("spare", LwpState::Spare),
    ("blocking", LwpState::Blocking),
    ("in_kernel", LwpState::InKernel),
    ("without_slot", LwpState::WithoutSlot),
];

/// The buckets that have a line of their own: from 128 ns to 17 s.
const SHOWN: RangeInclusive<usize> = 7..=34;

struct Text<'a> {
    runtimes: &'a [(u32, RuntimeStats)],
    out: String,
}

impl Text<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP selvedge_{name} {help}\n# TYPE selvedge_{name} {kind}");
    }

    fn line(&mut self, name: &str, of: &(u32, RuntimeStats), more: &str, value: impl Display) {
        let (number, model) = (of.0, of.1.model);
        let labels = format!("runtime=\"{number}\",model=\"{model}\"{more}");
        let _ = writeln!(self.out, "selvedge_{name}{{{labels}}} {value}");
    }

    /// Writes one figure for each runtime.
    fn each<V: Display>(&mut self, name: &str, kind: &str, help: &str, of: impl Fn(&RuntimeStats) -> V) {
        self.head(name, kind, help);
        self.runtimes.iter().for_each(|runtime| self.line(name, runtime, "", of(&runtime.1)));
    }

    /// Writes some figures for each runtime, told apart by a label.
    fn labelled(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        of: impl Fn(&RuntimeStats) -> Vec<(&'static str, u64)>,
    ) {
        self.head(name, kind, help);
        for runtime in self.runtimes {
            for (which, value) in of(&runtime.1) {
                self.line(name, runtime, &format!(",{label}=\"{which}\""), value);
            }
        }
    }

    /// Writes the run-queue latency of each runtime. Bounds tell series apart, so the same ones are there
    /// each time.
    fn latency(&mut self) {
        let name = "run_queue_latency_seconds";
        self.head(name, "histogram", "How long threads waited until they ran.");
        for runtime in self.runtimes {
            let Some(latency) = &runtime.1.run_queue_latency else { continue };
            let mut count = 0;
            for (bucket, more) in latency.counts().iter().enumerate() {
                count += more;
                if SHOWN.contains(&bucket) {
                    let bound = LatencyHistogram::bound(bucket).as_secs_f64();
                    self.line(&format!("{name}_bucket"), runtime, &format!(",le=\"{bound}\""), count);
                }
            }
            self.line(&format!("{name}_bucket"), runtime, ",le=\"+Inf\"", count);
            self.line(&format!("{name}_sum"), runtime, "", latency.sum().as_secs_f64());
            self.line(&format!("{name}_count"), runtime, "", count);
        }
    }

    /// Writes a figure of each LWP.
    fn lwps(&mut self, name: &str, kind: &str, help: &str, of: impl Fn(&LwpStats) -> u64) {
        self.head(name, kind, help);
        for runtime in self.runtimes {
            for lwp in &runtime.1.lwps {
                self.line(name, runtime, &format!(",lwp=\"{}\"", lwp.number), of(lwp));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{Mxn, OneToOne, RunQueueLength, Runtime};

    /// Each name has its help and its type once, before its figures, and each line has a number. Buckets only
    /// grow, to the count.
    #[test]
    fn it_is_text_for_prometheus() {
        let (mxn, kernel) = (Mxn::builder().concurrency(1).build(), OneToOne::new().unwrap());
        let Ok(mxn) = mxn else { return };
        mxn.run(|| ());
        kernel.run(|| ());
        let mut stats = mxn.stats();
        let mut latency = LatencyHistogram::default();
        let mut counts = [0; 40];
        (counts[0], counts[7], counts[8], counts[39]) = (1, 2, 3, 4);
        latency.add(&counts, 1_500_000_000);
        stats.run_queue_latency = Some(latency);
        stats.run_queue = Some(RunQueueLength { dispatchable: 5, queued: 6 });
        // Another test may count times.
        let without = RuntimeStats { run_queue_latency: None, ..kernel.stats() };
        let text = text(&[(7, stats), (8, without)]);
        let (mut typed, mut lines) = (HashMap::new(), HashMap::new());
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(typed.insert(name.to_owned(), kind).is_none(), "{line}");
                assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(lines.insert(series.to_owned(), value).is_none(), "{line}");
                let (name, labels) = series.split_once('{').unwrap();
                assert!(labels.starts_with("runtime=\"") && labels.ends_with("\"}"), "{line}");
                let parts = ["_bucket", "_sum", "_count"].map(|part| name.strip_suffix(part));
                let of_histogram = parts.iter().flatten().find(|it| typed.get(**it) == Some(&"histogram"));
                assert_eq!(typed.contains_key(name), of_histogram.is_none(), "{line}");
                if parts[1].is_some() && of_histogram.is_some() {
                    assert!(value.parse::<f64>().is_ok(), "{line}");
                } else {
                    assert!(value.parse::<u64>().is_ok(), "{line}");
                }
                if let Some((_, bound)) = labels.split_once("le=\"") {
                    let bound = bound.trim_end_matches("\"}").replace("+Inf", "inf");
                    buckets.push((bound.parse().unwrap(), value.parse().unwrap()));
                }
            }
        }
        let value = |series: &str| *lines.get(series).unwrap_or_else(|| panic!("no {series} in\n{text}"));
        assert!(lines.keys().any(|line| line.contains("model=\"mxn\",lwp=\"0\"")), "{text}");
        assert_eq!(value("selvedge_threads{runtime=\"8\",model=\"onetoone\"}"), "0");
        let of = |name: &str, more: &str| {
            value(&format!("selvedge_run_queue_{name}{{runtime=\"7\",model=\"mxn\"{more}}}"))
        };
        assert_eq!([of("length", ",state=\"dispatchable\""), of("length", ",state=\"queued\"")], ["5", "6"]);
        assert_eq!(["_sum", "_count"].map(|it| of(&format!("latency_seconds{it}"), "")), ["1.5", "10"]);
        assert!(buckets.is_sorted() && buckets.is_sorted_by_key(|it| it.1), "{buckets:?}");
        assert_eq!(buckets[..2], [(128e-9, 3), (256e-9, 6)]);
        assert_eq!(buckets[buckets.len() - 2..], [(17.179869184, 6), (f64::INFINITY, 10)]);
        assert!(!text.contains("run_queue_length{runtime=\"8\"") && !text.contains("_sum{runtime=\"8\""));
    }
}
