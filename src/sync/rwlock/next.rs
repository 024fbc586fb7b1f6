//! The policy of a read-write lock: which waiter's turn it is after a thread has given up a share. A
//! function of what is seen.
//!
//! **Problem.**
//!
//! - Writers must not wait for as long as readers keep coming, nor readers for as long as writers do.
//! - All waiters that can read together should.
//! - Priorities count, and no thread may starve by them.
//!
//! **Rejected.**
//!
//! - One queue for all. If it is near-LIFO, new readers would go before the writer that made them wait.
//!   If it is FIFO, each writer between two readers would cost a phase of its own.
//! - Writers always first (std). Readers starve.
//!
//! **Rule.** Phases alternate. After a writer it is the readers' turn, all of them together. After the
//! readers it is a writer's, and no new reader comes in while one waits. The higher priority goes first
//! out of turn, at most [`MAX_BYPASS`] times in a row. A waiter that has been passed over for too long is
//! handed the lock, and so is one that a fair unlock lets in. All others are woken to try.

use crate::park::word_queues::First;

use super::word::{Bits, Queue, Share};

/// How often one kind is let in out of turn, for its priority, before it is the other's turn. As in the
/// queues themselves.
const MAX_BYPASS: u8 = 16;

/// The waiters of the lock: the first of each queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) readers: Option<First>,
    pub(super) upgradables: Option<First>,
    pub(super) writers: Option<First>,
    pub(super) upgrader: bool,
}

/// What lets waiting readers come in beside those that read already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admit {
    /// The door is as it was before.
    None,
    /// The door may have been opened.
    UnlessWritersWait,
    /// A phase of readers begins.
    All,
}

/// The event that may begin a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// A writer has left; otherwise a reader.
    pub(super) wrote: bool,
    pub(super) admit: Admit,
    /// The next waiter is handed the lock.
    pub(super) fair: bool,
}

/// The choice: which waiters come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    None,
    /// The first of this queue is woken, and tries.
    Tries(Queue),
    /// The first writer is handed the lock.
    Writer,
    /// All waiting readers are handed shares, and so is one upgradable one, if no thread has that share.
    Readers,
    /// The thread that upgrades is handed the lock.
    Upgrader,
}

impl Next {
    /// Returns the word after this choice, if `readers` threads wait to read; `None` if there is no room
    /// for so many.
    pub(super) fn word(self, after: Bits, waiting: &Waiting, readers: usize) -> Option<Bits> {
        let more = |first: Option<First>| first.is_some_and(|first| first.more);
        // A waiter that has given up may have left a bit behind. If the lock is not free, that waiter has
        // yet to look for it.
        let after = if after.is_free() {
            after
                .with_queue(Queue::Readers, waiting.readers.is_some())
                .with_queue(Queue::Upgradables, waiting.upgradables.is_some())
                .with_queue(Queue::Writers, waiting.writers.is_some())
        } else {
            after
        };
        Some(match self {
            Self::None => after,
            Self::Tries(queue) => {
                let first = match queue {
                    Queue::Readers => waiting.readers,
                    Queue::Upgradables => waiting.upgradables,
                    Queue::Writers => waiting.writers,
                    Queue::Upgrader => None,
                };
                after.with_woken().with_queue(queue, more(first))
            }
            Self::Writer => after.plus(Share::WRITE)?.with_queue(Queue::Writers, more(waiting.writers)),
            Self::Readers => {
                let with_readers = after.plus_readers(readers)?.with_queue(Queue::Readers, false);
                if waiting.upgradables.is_none() || after.has_upgradable() {
                    with_readers
                } else {
                    with_readers
                        .plus(Share::UPGRADABLE)?
                        .with_queue(Queue::Upgradables, more(waiting.upgradables))
                }
            }
            Self::Upgrader => after.upgraded(),
        })
    }
}

/// Returns `true` if some waiter's turn may have come, as far as the word `after` tells.
#[inline]
pub(super) fn may_have_come(after: Bits, event: Event) -> bool {
    if after.is_free() {
        after.is_waited_for() && (event.fair || !after.is_woken())
    } else if after.is_upgrading() {
        after.readers() == 1
    } else {
        after.could_admit()
            && match event.admit {
                Admit::None => false,
                Admit::UnlessWritersWait => !after.waits(Queue::Writers),
                Admit::All => true,
            }
    }
}

/// Returns the next turn, and how often by then one kind has been let in out of turn.
pub(super) fn of(after: Bits, event: Event, waiting: &Waiting, passed: u8) -> (Next, u8) {
    if after.is_free() {
        return of_free(event, waiting, passed);
    }
    let next = if after.is_upgrading() {
        if waiting.upgrader && after.readers() == 1 { Next::Upgrader } else { Next::None }
    } else {
        let open = match event.admit {
            Admit::None => false,
            Admit::UnlessWritersWait => waiting.writers.is_none(),
            Admit::All => true,
        };
        let some = waiting.readers.is_some() || waiting.upgradables.is_some() && !after.has_upgradable();
        if open && some { Next::Readers } else { Next::None }
    };
    (next, passed)
}

fn of_free(event: Event, waiting: &Waiting, passed: u8) -> (Next, u8) {
    // A thread that wants the upgradable share comes in with the readers.
    let reads = [waiting.readers, waiting.upgradables].into_iter().flatten();
    let reader_priority = reads.clone().map(|first| first.priority).max();
    let writer_priority = waiting.writers.map(|first| first.priority);
    let (readers, passed) = match (reader_priority, writer_priority) {
        (None, None) => return (Next::None, passed),
        (Some(_), None) => (true, passed),
        (None, Some(_)) => (false, passed),
        (Some(reader), Some(writer)) => {
            let (in_turn, out_of_turn) = if event.wrote { (reader, writer) } else { (writer, reader) };
            if out_of_turn <= in_turn {
                (event.wrote, passed)
            } else if passed < MAX_BYPASS {
                (!event.wrote, passed + 1)
            } else {
                (event.wrote, 0)
            }
        }
    };
    let next = if readers {
        if event.fair || reads.clone().any(|first| first.urgent) {
            Next::Readers
        } else if waiting.readers.is_some() {
            Next::Tries(Queue::Readers)
        } else {
            Next::Tries(Queue::Upgradables)
        }
    } else if event.fair || waiting.writers.is_some_and(|first| first.urgent) {
        Next::Writer
    } else {
        Next::Tries(Queue::Writers)
    };
    (next, passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::rwlock::word::RwLockWord;

    const READER_LEFT: Event = Event { wrote: false, admit: Admit::None, fair: false };
    const WRITER_LEFT: Event = Event { wrote: true, admit: Admit::None, fair: false };

    fn some(priority: u8) -> Option<First> {
        Some(First { priority, more: false, urgent: false })
    }

    fn free() -> Bits {
        RwLockWord::new().look()
    }

    fn read_by(readers: usize) -> Bits {
        free().plus_readers(readers).unwrap()
    }

    #[test]
    fn phases_alternate() {
        let both = Waiting { readers: some(1), writers: some(1), ..Waiting::default() };
        assert_eq!(of(free(), WRITER_LEFT, &both, 0), (Next::Tries(Queue::Readers), 0));
        assert_eq!(of(free(), READER_LEFT, &both, 0), (Next::Tries(Queue::Writers), 0));
        let upgradable = Waiting { upgradables: some(1), writers: some(1), ..Waiting::default() };
        assert_eq!(of(free(), WRITER_LEFT, &upgradable, 0), (Next::Tries(Queue::Upgradables), 0));
        assert_eq!(of(free(), READER_LEFT, &upgradable, 0), (Next::Tries(Queue::Writers), 0));
    }

    #[test]
    fn a_lone_waiter_goes() {
        for event in [READER_LEFT, WRITER_LEFT] {
            assert_eq!(of(free(), event, &Waiting::default(), 0).0, Next::None);
            let readers = Waiting { readers: some(1), ..Waiting::default() };
            assert_eq!(of(free(), event, &readers, 0).0, Next::Tries(Queue::Readers));
            let writers = Waiting { writers: some(1), ..Waiting::default() };
            assert_eq!(of(free(), event, &writers, 0).0, Next::Tries(Queue::Writers));
        }
    }

    #[test]
    fn the_higher_priority_goes_first_but_not_for_ever() {
        for (event, waiting, high, low) in [
            (
                WRITER_LEFT,
                Waiting { readers: some(1), writers: some(2), ..Waiting::default() },
                Queue::Writers,
                Queue::Readers,
            ),
            (
                READER_LEFT,
                Waiting { readers: some(2), writers: some(1), ..Waiting::default() },
                Queue::Readers,
                Queue::Writers,
            ),
        ] {
            let mut passed = 0;
            for _ in 0..MAX_BYPASS {
                let (next, now) = of(free(), event, &waiting, passed);
                assert_eq!(next, Next::Tries(high));
                passed = now;
            }
            assert_eq!(of(free(), event, &waiting, passed), (Next::Tries(low), 0));
        }
    }

    #[test]
    fn the_fair_and_the_urgent_are_handed_the_lock() {
        let urgent = Some(First { priority: 1, more: false, urgent: true });
        for (waiting, next) in [
            (Waiting { readers: urgent, ..Waiting::default() }, Next::Readers),
            (Waiting { readers: some(1), upgradables: urgent, ..Waiting::default() }, Next::Readers),
            (Waiting { writers: urgent, ..Waiting::default() }, Next::Writer),
        ] {
            assert_eq!(of(free(), READER_LEFT, &waiting, 0).0, next);
        }
        let fair = Event { fair: true, ..WRITER_LEFT };
        let both = Waiting { readers: some(1), writers: some(1), ..Waiting::default() };
        assert_eq!(of(free(), fair, &both, 0).0, Next::Readers);
        assert_eq!(of(free(), Event { wrote: false, ..fair }, &both, 0).0, Next::Writer);
    }

    #[test]
    fn the_door_keeps_readers_out_while_a_writer_waits() {
        let both = Waiting { readers: some(1), writers: some(1), ..Waiting::default() };
        let readers = Waiting { readers: some(1), ..Waiting::default() };
        for (admit, waiting, next) in [
            (Admit::None, &readers, Next::None),
            (Admit::UnlessWritersWait, &readers, Next::Readers),
            (Admit::UnlessWritersWait, &both, Next::None),
            (Admit::All, &both, Next::Readers),
        ] {
            let event = Event { admit, ..READER_LEFT };
            assert_eq!(of(read_by(1), event, waiting, 0).0, next, "{admit:?}");
            // Without the queue lock, the word says the same.
            let bits = read_by(1)
                .with_queue(Queue::Readers, true)
                .with_queue(Queue::Writers, waiting.writers.is_some());
            assert_eq!(may_have_come(bits, event), next == Next::Readers);
        }
    }

    #[test]
    fn one_upgradable_at_a_time() {
        let waiting = Waiting { upgradables: some(1), ..Waiting::default() };
        let event = Event { admit: Admit::All, ..WRITER_LEFT };
        assert_eq!(of(read_by(1), event, &waiting, 0).0, Next::Readers);
        let taken = free().plus(Share::UPGRADABLE).unwrap();
        assert_eq!(of(taken, event, &waiting, 0).0, Next::None);
        assert!(!may_have_come(taken.with_queue(Queue::Upgradables, true), event));
    }

    #[test]
    fn no_waiter_is_woken_while_one_is_on_its_way() {
        let bits = free().with_queue(Queue::Writers, true);
        assert!(may_have_come(bits, READER_LEFT));
        assert!(!may_have_come(bits.with_woken(), READER_LEFT));
        assert!(may_have_come(bits.with_woken(), Event { fair: true, ..READER_LEFT }));
    }
}
