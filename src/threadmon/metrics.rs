//! Figures of all runtimes as text for Prometheus, with names by its conventions.

use std::fmt::{Display, Write};

use crate::runtime::registry;
use crate::runtime::stats::{LwpState, LwpStats, RuntimeStats};

/// Returns the figures of all runtimes in the text format of Prometheus: what
/// [`stats`](crate::Runtime::stats) says. A program's own exporter appends it to its text.
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
    let runtimes: Vec<(u32, RuntimeStats)> =
        registry::all().iter().map(|runtime| (runtime.number(), runtime.stats())).collect();
    let mut text = Text { runtimes: &runtimes, out: String::new() };
    text.each("threads", "gauge", "Threads that live.", |stats| stats.threads);
    text.each("bound_threads", "gauge", "Threads that own a kernel thread.", |stats| stats.bound);
    text.each("concurrency", "gauge", "Threads that can run at once.", |stats| stats.concurrency);
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
    text.lwps("lwp_dispatches_total", "Looks of an LWP for the thread to run next.", |lwp| lwp.dispatches);
    text.lwps("lwp_steals_total", "Times that an LWP took threads from another.", |lwp| lwp.steals);
    text.lwps("lwp_wakes_total", "Times that an LWP woke another.", |lwp| lwp.wakes);
    text.lwps("threads_started_total", "Threads that were started on an LWP.", |lwp| lwp.spawned);
    text.lwps("threads_ended_total", "Threads that ended on an LWP.", |lwp| lwp.ended);
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

    /// Writes a counter of each LWP.
    fn lwps(&mut self, name: &str, help: &str, of: impl Fn(&LwpStats) -> u64) {
        self.head(name, "counter", help);
        for runtime in self.runtimes {
            for lwp in &runtime.1.lwps {
                self.line(name, runtime, &format!(",lwp=\"{}\"", lwp.number), of(lwp));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Mxn, OneToOne, Runtime};

    /// Each name has its help and its type once, before its figures, and each line has a number.
    #[test]
    fn it_is_text_for_prometheus() {
        let (mxn, kernel) = (Mxn::builder().concurrency(1).build(), OneToOne::new().unwrap());
        let Ok(mxn) = mxn else { return };
        mxn.run(|| ());
        kernel.run(|| ());
        let text = metrics();
        let (mut typed, mut lines) = (HashSet::new(), HashSet::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(typed.insert(name.to_owned()) && ["gauge", "counter"].contains(&kind), "{line}");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(value.parse::<u64>().is_ok() && lines.insert(series.to_owned()), "{line}");
                let (name, labels) = series.split_once('{').unwrap();
                assert!(typed.contains(name) && labels.ends_with("\"}"), "{line}");
            }
        }
        assert!(lines.iter().any(|line| line.contains("model=\"mxn\",lwp=\"0\"")), "{text}");
        assert!(lines.iter().any(|line| line.contains("selvedge_threads{") && line.contains("onetoone")));
    }
}
