//! What was on each CPU, from the CPUs of the dispatches.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::thread::id::ThreadId;
use crate::trace::event::Track;

/// Which threads began to run on one CPU. A span begins when a thread is dispatched there, or leaves the
/// kernel there. It ends when the thread stops or enters the kernel, or when the next span begins: of two
/// kernel threads that share a CPU, the one that began last is shown. The kernel may have moved the kernel
/// thread to another CPU meanwhile, of which nothing tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuLine {
    /// Which one, by the kernel's numbers.
    pub cpu: u32,
    /// From when, to when, which thread, and its kernel thread. They do not overlap.
    pub spans: Vec<(Duration, Duration, ThreadId, Track)>,
}

/// The lines of CPUs while they are built.
#[derive(Default)]
pub(super) struct Cpus {
    lines: BTreeMap<u32, CpuLine>,
    /// The open span of each CPU.
    open: HashMap<u32, (Duration, ThreadId, Track)>,
    /// The CPU on which a kernel thread has the open span.
    of: HashMap<Track, u32>,
}

impl Cpus {
    /// Notes that a thread goes on there, on this kernel thread.
    pub(super) fn begin(&mut self, cpu: Option<u32>, at: Duration, id: ThreadId, track: Track) {
        self.end(track, at);
        let Some(cpu) = cpu else { return };
        if let Some(&(_, _, other)) = self.open.get(&cpu) {
            self.end(other, at);
        }
        self.open.insert(cpu, (at, id, track));
        self.of.insert(track, cpu);
    }

    /// Notes that the thread on this kernel thread does not go on.
    pub(super) fn end(&mut self, track: Track, at: Duration) {
        let Some(cpu) = self.of.remove(&track) else { return };
        let Some((from, id, track)) = self.open.remove(&cpu) else { return };
        let line = self.lines.entry(cpu).or_insert_with(|| CpuLine { cpu, spans: Vec::new() });
        line.spans.push((from, at, id, track));
    }

    /// Returns the lines, if nothing happens until `end`.
    pub(super) fn finish(mut self, end: Duration) -> Vec<CpuLine> {
        let open: Vec<Track> = self.of.keys().copied().collect();
        open.into_iter().for_each(|track| self.end(track, end));
        self.lines.into_values().collect()
    }
}
