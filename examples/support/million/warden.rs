//! Sees to it that threads stop coming before they do harm.
//!
//! A process that takes all memory is killed, and not always it alone. A kernel thread needs memory at its
//! start; std's needs an alternate stack. If there is no room for that, its library ends the process. A
//! machine without a free thread number cannot even start a shell. So the warden asks before each batch if
//! there is room for another.

use std::io;

use super::workers::{BATCH, Watch};
use crate::support::command_line::Text;
use crate::support::nt_solaris::workers::limits::{self, Limit};
use crate::support::nt_solaris::workers::process::{Bytes, Usage, usage};
use crate::support::progress::Bar;

/// What part of the memory that there was is left to others.
const LEFT_TO_OTHERS: u64 = 8;

/// Watches what a crowd of threads takes.
pub(crate) struct Warden<'a, 'b> {
    text: &'a mut Text<'b>,
    wanted: u32,
    /// `true` if each thread owns a kernel thread.
    kernel: bool,
    /// Before the first of them.
    before: Usage,
    limits_before: Vec<Limit>,
    room_before: u64,
    /// When all had parked.
    parked: Option<Usage>,
    bar: Bar,
    shown: u32,
}

impl<'a, 'b> Warden<'a, 'b> {
    /// Takes the measure of the process as it is, and says on `text` how much room there is.
    ///
    /// # Errors
    /// There is no `/proc`, or no process to tell.
    pub(crate) fn new(wanted: u32, kernel: bool, text: &'a mut Text<'b>) -> io::Result<Self> {
        let before = usage();
        let room = limits::room().ok_or_else(|| io::Error::other("there is no /proc/meminfo"))?;
        let room_before = room.left();
        writeln!(text, "{} are to be had, by the {}", Bytes(room_before), room.name)?;
        let limits_before = limits::all().collect();
        let bar = Bar::new("threads", 2 * u64::from(wanted));
        Ok(Self { text, wanted, kernel, before, limits_before, room_before, parked: None, bar, shown: 0 })
    }

    /// What the threads took when all had parked.
    pub(crate) fn taken(&self) -> Usage {
        self.parked.map_or(Usage::default(), |parked| parked.beyond(self.before))
    }

    fn show(&mut self, threads: u32) {
        self.bar.advance(u64::from(threads - self.shown));
        self.shown = threads;
    }

    /// What the first of them let expect.
    fn forecast(&mut self, threads: u32, taken: Usage) {
        let each = taken.memory(self.kernel) / u64::from(threads);
        let (wanted, room) = (u64::from(self.wanted), self.room_before);
        let lines =
            format!("the first {threads} take {each} bytes each; all would take {}", Bytes(each * wanted));
        let bound = (room - room / LEFT_TO_OTHERS) / each.max(1);
        // The reader is not needed for the experiment.
        let _ = self.bar.aside(|| match bound < wanted {
            true => writeln!(self.text, "{lines}: there is room for about {bound}"),
            false => writeln!(self.text, "{lines}"),
        });
    }

    /// What there would be too many of, or too little, after one batch more.
    fn short_of(&self, threads: u32, taken: Usage) -> Option<String> {
        let of_a_batch = |all: u64| all * u64::from(BATCH) / u64::from(threads);
        let room = limits::room()?;
        if room.left() < self.room_before / LEFT_TO_OTHERS + of_a_batch(taken.memory(self.kernel)) {
            return Some(room.to_string());
        }
        let near = |limit: &Limit| {
            let before = self.limits_before.iter().find(|before| before.name == limit.name);
            let each_batch = before.map_or(0, |before| of_a_batch(limit.used.saturating_sub(before.used)));
            // Others want some, and so does the thread that wakes and joins these.
            limit.used + 2 * each_batch + limit.allowed / 128 > limit.allowed
        };
        let limit = limits::all().find(near)?;
        Some(limit.to_string())
    }
}

impl Watch for Warden<'_, '_> {
    fn started(&mut self, threads: u32) -> Option<String> {
        self.show(threads);
        let taken = usage().beyond(self.before);
        if threads == BATCH {
            self.forecast(threads, taken);
        }
        self.short_of(threads, taken)
    }

    fn refused(&mut self, error: &io::Error) -> String {
        // The kernel's word is the same whatever the limit.
        limits::reached().fold(error.to_string(), |all, limit| format!("{all}; {limit}"))
    }

    fn parked(&mut self, threads: u32) {
        self.parked = Some(usage());
        self.show(threads);
        self.shown = 0;
    }

    fn woken(&mut self, threads: u32) {
        self.show(threads);
    }
}
