//! One event: what happened to which thread, and when. Four words, so that a ring is an array of words.

use super::rings::{NO_LWP, Owner};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A thread was started. Object: the thread that started it, 0 for none. Detail: its priority. Number:
    /// its runtime, if it is a green thread; otherwise 0.
    Spawn = 1,
    /// A thread became runnable. Object: the thread that woke it, 0 for none. Detail: 1 if an LWP was chosen.
    /// Number: as for `Spawn`.
    Ready,
    /// A thread began to run, on the LWP that has the ring. Number: the CPU ([`Event::on_cpu`]).
    Dispatch,
    /// A thread stopped running, because it waits. Detail: the reason. Object: the address of that.
    Block,
    /// A thread stopped running, and is runnable.
    Yield,
    /// A thread stopped running because its slice was over.
    Preempt,
    /// A thread ended.
    Exit,
    /// A thread announced that it may block in the kernel.
    EnterKernel,
    /// That is over. Number: the CPU.
    LeaveKernel,
    /// The LWP took threads from another. Number: that LWP.
    Steal,
    /// The LWP looks for work.
    Search,
    /// The LWP sleeps, and has a slot.
    Idle,
    /// The LWP sleeps, and has no slot.
    Spare,
    /// A part of a thread's name: twelve bytes in the object and the number. Detail: which part.
    Name,
    /// A slot moved to another LWP. Number: the LWP that got it, or [`NO_LWP`] if it is one less. Object: the
    /// number of the runtime, and above 32 bits that of the LWP that lost it, or [`NO_LWP`] if it is one
    /// more. Detail: why ([`SlotCause`]).
    SlotMove,
    /// An LWP begins. Number: the kernel's number of its kernel thread.
    LwpStart,
    /// An LWP ends.
    LwpEnd,
    /// The monitor found that a thread sleeps in the kernel, and has not announced it. Object: the number of
    /// the runtime, and above 32 bits that of the LWP.
    FoundAsleep,
    /// The monitor found that the thread runs again. Object: as before. Number: the CPU.
    FoundRunning,
    /// The ring has another owner from here on. Object: the owner before. Thread: the next one.
    Taken,
}

/// Why a slot moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SlotCause {
    /// The thread of the LWP that had it keeps its CPU.
    Computes,
    /// That LWP sleeps in the kernel, and has not announced it.
    InKernel,
    /// That LWP has announced that it may block, or has slept for long.
    Open,
    /// Threads wait that may run on the other LWP only.
    Home,
    /// There are to be more slots, or fewer.
    Concurrency,
}

/// Returns a CPU as events and accounts have it: its number plus one, or 0 if it is not known.
#[inline]
pub(super) fn cpu_to_word(cpu: Option<u32>) -> u32 {
    // The kernel's number of a CPU that it does not know is -1.
    cpu.map_or(0, |cpu| cpu.wrapping_add(1))
}

/// Returns the CPU of such a word.
pub(super) fn cpu_of_word(word: u32) -> Option<u32> {
    word.checked_sub(1)
}

impl Kind {
    const ALL: [Self; 20] = [
        Self::Spawn,
        Self::Ready,
        Self::Dispatch,
        Self::Block,
        Self::Yield,
        Self::Preempt,
        Self::Exit,
        Self::EnterKernel,
        Self::LeaveKernel,
        Self::Steal,
        Self::Search,
        Self::Idle,
        Self::Spare,
        Self::Name,
        Self::SlotMove,
        Self::LwpStart,
        Self::LwpEnd,
        Self::FoundAsleep,
        Self::FoundRunning,
        Self::Taken,
    ];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// The words of an event.
pub(crate) const WORDS: usize = 4;

/// An event of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// When it happened, by `recorder::clock`.
    pub(crate) count: u64,
    /// The thread to which it happened; 0 for none.
    pub(crate) thread: u64,
    /// What else took part; see [`Kind`].
    pub(crate) object: u64,
    pub(crate) kind: Kind,
    pub(crate) detail: u8,
    pub(crate) number: u32,
}

impl Event {
    /// Returns an event of a thread.
    #[inline]
    pub(crate) fn new(count: u64, kind: Kind, thread: u64) -> Self {
        Self { count, thread, object: 0, kind, detail: 0, number: 0 }
    }

    /// Adds what else took part.
    #[inline]
    pub(crate) fn with(mut self, object: u64, detail: u8) -> Self {
        (self.object, self.detail) = (object, detail);
        self
    }

    /// Returns the event of a slot that moves in this runtime, from one LWP (`None`: it is one more) to
    /// another (`None`: it is one less).
    pub(crate) fn slot_move(
        count: u64,
        runtime: u32,
        from: Option<u32>,
        to: Option<u32>,
        cause: SlotCause,
    ) -> Self {
        let to = to.unwrap_or(NO_LWP);
        Self::new(count, Kind::SlotMove, 0)
            .at_lwp(runtime, from.unwrap_or(NO_LWP))
            .detailed(cause as u8)
            .numbered(to)
    }

    /// Returns the mark between the events of two owners of a ring.
    pub(super) fn taken(before: Owner, next: Owner) -> Self {
        Self::new(0, Kind::Taken, next.to_word()).with(before.to_word(), 0)
    }

    /// Returns the owners before and after a mark; `None` for any other event.
    pub(crate) fn owners(self) -> Option<(Owner, Owner)> {
        (self.kind == Kind::Taken).then(|| (Owner::of_word(self.object), Owner::of_word(self.thread)))
    }

    /// Adds the LWP that the event is about, if it is not the one that has the ring.
    pub(crate) fn at_lwp(mut self, runtime: u32, lwp: u32) -> Self {
        self.object = u64::from(runtime) | u64::from(lwp) << 32;
        self
    }

    /// Returns the numbers of the runtime and of the LWP of such an event.
    pub(crate) fn lwp(self) -> (u32, u32) {
        (self.object as u32, (self.object >> 32) as u32)
    }

    /// Adds a detail.
    fn detailed(mut self, detail: u8) -> Self {
        self.detail = detail;
        self
    }

    /// Adds a number.
    #[inline]
    pub(crate) fn numbered(mut self, number: u32) -> Self {
        self.number = number;
        self
    }

    /// Adds the CPU: its number plus one, or 0 if it is not known.
    #[inline]
    pub(crate) fn on_cpu(self, cpu: Option<u32>) -> Self {
        self.numbered(cpu_to_word(cpu))
    }

    /// Returns the CPU of an event that has one.
    pub(crate) fn cpu(self) -> Option<u32> {
        cpu_of_word(self.number)
    }

    #[inline]
    pub(crate) fn to_words(self) -> [u64; WORDS] {
        let kind = self.kind as u64 | u64::from(self.detail) << 8 | u64::from(self.number) << 32;
        [self.count, self.thread, self.object, kind]
    }

    /// Returns the event of these words, or `None` if they are none.
    pub(crate) fn from_words([count, thread, object, kind]: [u64; WORDS]) -> Option<Self> {
        let [number, detail] = [kind as u8, (kind >> 8) as u8];
        let kind_of = Kind::from_number(number)?;
        Some(Self { count, thread, object, kind: kind_of, detail, number: (kind >> 32) as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_events() {
        for kind in Kind::ALL {
            let event = Event::new(u64::MAX, kind, 7).with(u64::MAX - 1, 255).numbered(u32::MAX);
            assert_eq!(Event::from_words(event.to_words()), Some(event));
        }
        assert_eq!(Event::from_words([1, 2, 3, 0]), None);
        assert_eq!(Event::from_words([1, 2, 3, 21]), None);
    }

    #[test]
    fn a_cpu_may_be_unknown() {
        let of = |cpu| Event::new(1, Kind::Dispatch, 1).on_cpu(cpu).cpu();
        assert_eq!([Some(0), Some(7), None].map(of), [Some(0), Some(7), None]);
        assert_eq!(of(Some(u32::MAX)), None, "it was not registered");
        assert_eq!(Event::new(1, Kind::Dispatch, 1).cpu(), None);
    }
}
