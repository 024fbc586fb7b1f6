//! Dumps as JSON, for programs. The fields have the names that `threadmon --json` gives them.

use std::fmt::{self, Display};
use std::io::{self, Write};

use super::{Dump, DumpedThread};
use crate::backtrace::{Backtrace, Function};
use crate::park::reason::WaitReason;
use crate::runtime::stats::RunQueueLength;
use crate::threadmon::collect::view;
use crate::threadmon::views::{LwpView, RuntimeView, ThreadView};
use crate::trace::json::Text;

impl Dump {
    /// Writes the dump as JSON: an object with these fields.
    ///
    /// | field | what it has |
    /// |---|---|
    /// | `pid` | the number of the process |
    /// | `runtimes` | the runtimes, with their LWPs |
    /// | `threads` | all threads; `backtrace` is a place in `backtraces`, or null |
    /// | `backtraces` | each once: how many `threads` have it, a `note` on missing frames, and the `frames` |
    /// | `missing` | why there are no backtraces, or null |
    ///
    /// Frames are functions, innermost first; inlined ones have the same address as their callers. The
    /// fields of runtimes, LWPs and threads have the names that `threadmon --json` gives them.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut json = Vec::new();
    /// selvedge::threadmon::Dump::take().write_json(&mut json)?;
    /// # assert!(json.starts_with(b"{\"pid\":"));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `to` returns.
    pub fn write_json(&self, mut to: impl Write) -> io::Result<()> {
        let mut counts = vec![0_usize; self.backtraces.len()];
        self.threads.iter().filter_map(|thread| thread.backtrace).for_each(|it| counts[it] += 1);
        write!(to, "{{\"pid\":{},\"missing\":{}", std::process::id(), OrNull(self.missing.map(Text)))?;
        list(&mut to, "runtimes", &self.runtimes, |runtime| Runtime(&runtime.view))?;
        list(&mut to, "threads", &self.threads, Thread)?;
        list(&mut to, "backtraces", self.backtraces.iter().zip(counts), |(backtrace, threads)| Frames {
            dump: self,
            backtrace,
            threads,
        })?;
        to.write_all(b"}\n")?;
        to.flush()
    }
}

/// Writes a field that is an array.
fn list<T, D: Display>(
    to: &mut impl Write,
    name: &str,
    items: impl IntoIterator<Item = T>,
    as_json: impl Fn(T) -> D,
) -> io::Result<()> {
    write!(to, ",\n\"{name}\":[")?;
    for (index, item) in items.into_iter().enumerate() {
        let comma = if index == 0 { "\n" } else { ",\n" };
        write!(to, "{comma}{}", as_json(item))?;
    }
    write!(to, "]")
}

/// A value that may be missing.
struct OrNull<T>(Option<T>);

impl<T: Display> Display for OrNull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// An array.
struct List<I>(I);

impl<I: Clone + IntoIterator<Item: Display>> Display for List<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.clone().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{item}")?;
        }
        f.write_str("]")
    }
}

struct Runtime<'a>(&'a RuntimeView);

impl Display for Runtime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = self.0;
        write!(f, "{{\"runtime\":{},\"model\":{}", it.number, Text(&it.model))?;
        write!(f, ",\"threads\":{},\"bound\":{}", it.threads, it.bound)?;
        write!(f, ",\"concurrency\":{},\"max_lwps\":{}", it.concurrency, OrNull(it.max_lwps))?;
        write!(f, ",\"lwps\":{}", List(it.lwps.iter().map(Lwp)))?;
        let helper = |(name, tid): &(String, u32)| format!("{{\"name\":{},\"tid\":{tid}}}", Text(name));
        write!(f, ",\"helpers\":{}", List(it.helpers.iter().map(helper)))?;
        write!(f, ",\"compensated\":{},\"handed_off\":{}", it.compensated, it.handed_off)?;
        write!(f, ",\"preempted\":{},\"bound_reached\":{}", it.preempted, it.bound_reached)?;
        let length = it.run_queue.map(|RunQueueLength { dispatchable, queued }| {
            format!("{{\"dispatchable\":{dispatchable},\"queued\":{queued}}}")
        });
        write!(f, ",\"run_queue\":{}}}", OrNull(length))
    }
}

struct Lwp<'a>(&'a LwpView);

impl Display for Lwp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = self.0;
        write!(f, "{{\"lwp\":{},\"tid\":{},\"state\":\"{}\"", it.number, it.tid, it.state)?;
        write!(f, ",\"thread\":{},\"cpu\":{}", OrNull(it.thread), OrNull(it.cpu))?;
        write!(f, ",\"dispatches\":{},\"steals\":{},\"wakes\":{}", it.dispatches, it.steals, it.wakes)?;
        write!(f, ",\"queued\":{}}}", it.queued)
    }
}

struct Thread<'a>(&'a DumpedThread);

impl Display for Thread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DumpedThread { runtime, info, backtrace } = self.0;
        let it: ThreadView = view(info.clone());
        write!(f, "{{\"id\":{},\"runtime\":{runtime},\"name\":{}", it.id, or_null(it.name.as_deref()))?;
        write!(f, ",\"state\":\"{}\"", it.state)?;
        write!(f, ",\"waits_for\":{}", or_null(it.reason.map(WaitReason::as_str)))?;
        write!(f, ",\"at\":{}", OrNull(it.at.map(|at| format!("\"{at:#x}\""))))?;
        let owner = it.owner.as_ref().map(|(id, name)| {
            let name = or_null(name.as_deref());
            format!("{{\"id\":{id},\"name\":{name}}}")
        });
        write!(f, ",\"object\":{},\"owner\":{}", or_null(it.object.as_deref()), OrNull(owner))?;
        write!(f, ",\"lwp\":{},\"cpu\":{},\"tid\":{}", OrNull(it.lwp), OrNull(it.cpu), OrNull(it.tid))?;
        write!(f, ",\"bound\":{},\"priority\":\"{}\"", it.bound, it.priority)?;
        write!(f, ",\"backtrace\":{}}}", OrNull(*backtrace))
    }
}

fn or_null(text: Option<&str>) -> OrNull<Text<'_>> {
    OrNull(text.map(Text))
}

struct Frames<'a> {
    dump: &'a Dump,
    backtrace: &'a Backtrace,
    /// How many threads have it.
    threads: usize,
}

impl Display for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dump, backtrace, threads } = self;
        write!(f, "{{\"threads\":{threads},\"note\":{},\"frames\":[", or_null(backtrace.note))?;
        let mut comma = "";
        for address in &backtrace.frames {
            let unknown = [Function::default()];
            let functions = dump.functions.get(address).filter(|it| !it.is_empty());
            for Function { name, place } in functions.map_or(&unknown[..], Vec::as_slice) {
                let (file, line) = place.as_ref().map(|(file, line)| (file.as_str(), line)).unzip();
                write!(f, "{comma}{{\"address\":\"{address:#x}\",\"function\":{}", or_null(name.as_deref()))?;
                write!(f, ",\"file\":{},\"line\":{}}}", or_null(file), OrNull(line))?;
                comma = ",";
            }
        }
        f.write_str("]}")
    }
}
