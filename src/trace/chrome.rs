//! A recording in the format of Chrome's trace viewer (`chrome://tracing`, Perfetto, Speedscope): JSON, with
//! one track for each kernel thread, each thread and each CPU, arrows from wakers to the threads that they
//! woke, and counters: of runnable threads, and of threads that have no tracks of their own.
//!
//! The format is that of "Trace Event Format" (Google, 2016). Times are in us.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use super::drawing::{Chart, Drawing, Heading, Line};
use super::json::Text;
use super::recording::Recording;

impl Recording {
    /// Writes the recording as JSON for Chrome's trace viewer, <https://ui.perfetto.dev> and Speedscope.
    ///
    /// There are tracks for kernel threads, threads and [CPUs](super::CpuLine), and a counter of the runnable
    /// threads of each runtime.
    ///
    /// What happened before [`whole_since`](Self::whole_since) is not drawn: it would look as if a thread had
    /// gone on with what it did before the missing events.
    ///
    /// Viewers hang with very many tracks. If there are more than 1,000 threads, only the 1,000 with the most
    /// spans get tracks of their own. The others are groups by their names without the last number
    /// (`worker-*`), or by the thread that started them. A counter for each group tells how many threads are
    /// in each state. All are on the tracks of the kernel threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::trace::Recording;
    ///
    /// let mut json = Vec::new();
    /// Recording::take().write_chrome(&mut json)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `to` returns.
    pub fn write_chrome(&self, to: impl Write) -> io::Result<()> {
        let drawing = Drawing::of(self);
        let mut out = Out { to, first: true };
        write!(out.to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        for (heading, name) in &drawing.headings {
            out.group(pid(*heading), name)?;
        }
        for line in &drawing.lines {
            out.line(line)?;
        }
        for (number, arrow) in drawing.arrows.iter().enumerate() {
            out.arrow(number, 's', arrow.from, arrow.from_line, &drawing)?;
            out.arrow(number, 'f', arrow.to, arrow.to_line, &drawing)?;
        }
        for chart in &drawing.charts {
            out.chart(chart)?;
        }
        out.to.write_all(b"\n]}\n")?;
        out.to.flush()
    }
}

/// The list of events.
struct Out<W> {
    to: W,
    first: bool,
}

impl<W: Write> Out<W> {
    fn event(&mut self, event: fmt::Arguments<'_>) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.to, "{comma}\n{{{event}}}")
    }

    fn group(&mut self, pid: u32, name: &str) -> io::Result<()> {
        self.event(format_args!(
            "\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"args\":{{\"name\":\"{name}\"}}"
        ))
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let (pid, tid, name) = (pid(line.heading), line.number, Text(&line.name));
        self.event(format_args!(
            "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{name}}}"
        ))?;
        for bar in &line.bars {
            let (from, length, name) = (Micros(bar.from), Micros(bar.to - bar.from), Text(&bar.name));
            self.event(format_args!(
                "\"ph\":\"X\",\"name\":{name},\"pid\":{pid},\"tid\":{tid},\"ts\":{from},\"dur\":{length}"
            ))?;
        }
        for (at, text) in &line.marks {
            let (at, text) = (Micros(*at), Text(text));
            self.event(format_args!(
                "\"ph\":\"i\",\"s\":\"t\",\"name\":{text},\"pid\":{pid},\"tid\":{tid},\"ts\":{at}"
            ))?;
        }
        Ok(())
    }

    /// Writes a counter. Each event has the values of all its curves.
    fn chart(&mut self, chart: &Chart) -> io::Result<()> {
        let (pid, name) = (pid(chart.heading), Text(&chart.name));
        let mut changes: Vec<(Duration, usize, u64)> = Vec::new();
        for (of, (_, curve)) in chart.curves.iter().enumerate() {
            changes.extend(curve.iter().map(|&(at, value)| (at, of, value)));
        }
        changes.sort();
        let mut values = vec![0; chart.curves.len()];
        for same in changes.chunk_by(|one, next| one.0 == next.0) {
            same.iter().for_each(|&(_, of, value)| values[of] = value);
            let texts =
                chart.curves.iter().zip(&values).map(|((what, _), value)| format!("\"{what}\":{value}"));
            let (at, texts) = (Micros(same[0].0), texts.collect::<Vec<_>>().join(","));
            self.event(format_args!(
                "\"ph\":\"C\",\"name\":{name},\"pid\":{pid},\"ts\":{at},\"args\":{{{texts}}}"
            ))?;
        }
        Ok(())
    }

    fn arrow(
        &mut self,
        number: usize,
        end: char,
        at: Duration,
        line: usize,
        drawing: &Drawing,
    ) -> io::Result<()> {
        let line = &drawing.lines[line];
        let (pid, tid, at) = (pid(line.heading), line.number, Micros(at));
        // The end of an arrow belongs to the bar that begins there.
        let binding = if end == 'f' { ",\"bp\":\"e\"" } else { "" };
        self.event(format_args!(
            "\"ph\":\"{end}\",\"cat\":\"wake\",\"name\":\"wake\",\"id\":{number},\"pid\":{pid},\"tid\":{tid},\"ts\":{at}{binding}"
        ))
    }
}

/// Returns the heading as a process of the format.
fn pid(heading: Heading) -> u32 {
    match heading {
        Heading::KernelThreads => 1,
        Heading::Threads => 2,
        Heading::Cpus => 3,
        Heading::Groups => 4,
    }
}

/// A time in us, exact to the ns.
struct Micros(Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:03}", nanos / 1_000, nanos % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        assert_eq!(Micros(Duration::from_nanos(1_234_567)).to_string(), "1234.567");
        assert_eq!(Micros(Duration::from_nanos(7)).to_string(), "0.007");
    }
}
