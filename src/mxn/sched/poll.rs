//! Descriptors that have become ready: which kernel thread looks at them, and where their threads go.
//!
//! The first idle LWP sleeps in the set. LWPs without work look at the set before they sleep, and busy ones
//! at their fair ticks. If all LWPs compute, the reserve's thread looks, because the monitor cannot
//! (`sys/poll_set.rs`): it asks in its rounds. If all LWPs are idle or at rest, the monitor does not sleep
//! before one is in the set.
//!
//! The threads of one look go into the ring of the LWP that looked, in the order of the events. The sleeper
//! that watches finds them there by their age (rule 6 of `wake`). If none watches, an LWP that was idle wakes
//! one (`found` in `search`).

use super::Scheduler;
use crate::fatal;
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::park::wait_queue::Grants;
use crate::reactor::entries::{self, Entry};
use crate::reactor::poller::{LOOK, RING};
use crate::shim::atomic::{Ordering, fence};
use crate::shim::poll_set::{Events, PollSet, Unrung};
use crate::sys::kthread::ExactTimers;
use crate::sys::preempt;

/// If no LWP has looked at the descriptors for so long, in ns, another thread does.
const NEGLECTED: u64 = 10_000_000;

/// So many events ahead, the memory that they lead to is fetched. The threads of a thousand connections have
/// left it to the second cache, or to another CPU's.
const AHEAD: usize = 4;

/// What the monitor knows of looks at the descriptors.
#[derive(Default)]
pub(in crate::mxn) struct LastLook {
    looks: u32,
    seen_at: u64,
}

impl Scheduler {
    /// Looks at the descriptors, without waiting. Returns `true` if threads went into the ring of `lwp`.
    /// Called by its dispatcher.
    #[inline]
    pub(super) fn poll_descriptors(&'static self, lwp: &'static Lwp) -> bool {
        self.poller.set().is_some_and(|set| self.poll_set(set, Some(lwp)))
    }

    /// Has the descriptors looked at if no LWP has done so for long. Monitor only.
    pub(in crate::mxn) fn see_to_descriptors(&self, last: &mut LastLook, now: u64) {
        let looks = self.poller.looks();
        if last.looks != looks || self.poller.is_slept_in() {
            *last = LastLook { looks, seen_at: now };
        } else if now - last.seen_at >= NEGLECTED {
            last.seen_at = now;
            self.ask_reserve(LOOK);
        }
    }

    /// Returns `true` if an event of a descriptor will wake an LWP, or if there are no descriptors.
    pub(in crate::mxn) fn sees_descriptors(&self) -> bool {
        self.poller.is_slept_in()
    }

    /// Has the reserve's thread do something with the set. Monitor only.
    fn ask_reserve(&self, what: u32) {
        self.poller.ask(what);
        self.reserve_state.ask();
    }

    /// Does what the monitor has asked for. Called by the reserve's thread.
    pub(in crate::mxn) fn answer_monitor(&'static self) {
        let asked = self.poller.take_asked();
        let Some(set) = self.poller.set().filter(|_| asked != 0) else { return };
        if asked & RING != 0 {
            self.ring();
        }
        if asked & LOOK != 0 {
            self.poll_set(set, None);
        }
    }

    /// Wakes an LWP that the caller took off its list.
    #[inline]
    pub(in crate::mxn) fn wake_lwp(&self, lwp: &Lwp) {
        if lwp.sleep.wake() {
            self.ring();
        }
    }

    /// Wakes the LWP that sleeps in the set.
    #[cold]
    pub(in crate::mxn) fn ring(&self) {
        match self.poller.set().map(PollSet::ring) {
            Some(Err(Unrung::OtherTable)) => self.ask_reserve(RING),
            // The sleeper is in the kernel's copy of the set, or finds that this is closed.
            None | Some(Err(Unrung::Closed)) => self.signal_sleeper(),
            Some(Ok(())) => {}
        }
    }

    /// Ends a sleep in a set that the program has closed.
    #[cold]
    fn signal_sleeper(&self) {
        // Acquire: pairs with `wait_in`, whose change of the word the caller has seen.
        fence(Ordering::Acquire);
        let sleeper = self.poller.sleeper();
        let signalled = || self.signals && preempt::send(sleeper.cast_signed()).is_ok();
        if sleeper != 0 && !signalled() {
            fatal::abort("the program has closed descriptors of the runtime, whose LWP cannot be woken");
        }
    }

    fn poll_set(&'static self, set: &PollSet, lwp: Option<&'static Lwp>) -> bool {
        let mut events = Events::new();
        let there = set.look(&mut events);
        self.poller.looked();
        let found = self.descriptors_are_ready(&events, lwp);
        (if there { found } else { found + self.set_is_lost(set, lwp) }) > 0
    }

    /// Has the threads that wait for descriptors of a set that the program has closed wait anew. Returns how
    /// many have been woken.
    #[cold]
    fn set_is_lost(&'static self, set: &PollSet, lwp: Option<&'static Lwp>) -> usize {
        let mut count = 0;
        if self.poller.lose(set) {
            self.signal_sleeper();
            entries::all_are_ready(|grants| count += self.wake_granted(grants, lwp));
        }
        count
    }

    /// Sleeps as an idle LWP does: until woken (`true`), until shortly before its next deadline
    /// (`lwp::lead`), until the end of a nap, or until there are events.
    pub(super) fn sleep_ahead(&'static self, lwp: &Lwp, nap_until: u64, events: &mut Events) -> bool {
        let until = lwp.lead.ahead_of(lwp.timers.next(), self.clock.now());
        if nap_until <= until {
            _ = lwp.lead.take();
            return self.sleep_in_set(lwp, nap_until, events);
        }
        let _exact = ExactTimers::begin();
        let woken = self.sleep_in_set(lwp, until, events);
        if !woken {
            lwp.lead.woke(until, self.clock.now());
        }
        woken
    }

    /// Sleeps as an idle LWP does, in the set of descriptors if there is one and no other LWP is in it.
    pub(in crate::mxn) fn sleep_in_set(&'static self, lwp: &Lwp, deadline: u64, events: &mut Events) -> bool {
        let deadline = self.clock.moment(deadline);
        match self.poller.enter(lwp.life.tid()) {
            Some(set) => {
                let (woken, there) = lwp.wait_in(set, deadline, events);
                self.poller.leave();
                if there {
                    return woken;
                }
                self.set_is_lost(set, None);
                woken || lwp.wait(deadline)
            }
            None => lwp.wait(deadline),
        }
    }

    /// Makes the threads runnable that wait for these descriptors. Those of this runtime go into the ring of
    /// `lwp`, if it has a slot. Returns how many threads there were. Called by the dispatcher of `lwp`, or by
    /// the reserve's thread.
    pub(super) fn descriptors_are_ready(&'static self, events: &Events, lwp: Option<&'static Lwp>) -> usize {
        let mut count = 0;
        let mut ahead = events.iter();
        let mut fetch = || ahead.next().map(Entry::fetch);
        (0..AHEAD).for_each(|_| _ = fetch());
        for event in events.iter() {
            fetch();
            Entry::event(event, |grants| count += self.wake_granted(grants, lwp));
        }
        count
    }

    // Its hot caller is the first; the other one is cold.
    #[inline(always)]
    fn wake_granted(&'static self, mut grants: Grants, lwp: Option<&'static Lwp>) -> usize {
        let mut count = 0;
        while let Some(thread) = grants.pop_of(self) {
            // SAFETY: a scheduler's threads are green.
            let green = unsafe { Green::of(thread) };
            Self::trace_woken(lwp, green);
            match lwp {
                Some(lwp) if lwp.slot.is_held() => {
                    green.fiber.fetch();
                    self.queue_behind(lwp, green);
                }
                _ => self.ready_elsewhere(green),
            }
            count += 1;
        }
        // Threads of other runtimes.
        count + grants.wake_all()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;

    use super::Scheduler;
    use crate::mxn::Mxn;
    use crate::park::current::current;
    use crate::runtime::Runtime;
    use crate::sys::child_tests as child;

    fn open() -> usize {
        fs::read_dir("/proc/self/fd").unwrap().count()
    }

    /// The first runtimes are for what a process opens once.
    #[test]
    fn a_runtime_that_ends_closes_its_set() {
        child::isolated(concat!(module_path!(), "::a_runtime_that_ends_closes_its_set"), || {
            let (reader, _writer) = std::io::pipe().unwrap();
            let reader = reader.as_raw_fd();
            let watch = move || current().backend().watch_anew(reader, 0).unwrap();
            let mut before = 0;
            for round in 0..4 {
                let rt = Mxn::new().unwrap();
                rt.run(watch);
                drop(rt);
                if round == 0 {
                    before = open();
                }
            }
            assert_eq!(open(), before, "dropped from outside");
            for _ in 0..10 {
                let rt = Mxn::new().unwrap();
                let (give, given) = mpsc::channel::<Mxn>();
                rt.spawn(move || {
                    watch();
                    drop(given.recv());
                });
                give.send(rt).unwrap();
            }
            // Dropped by its own thread, it ends a moment later. A child that waits here forever is ended.
            while open() > before {
                std::thread::yield_now();
            }
        });
    }

    /// Closes this process's descriptors that lead to this.
    fn close_all(kind: &str) {
        for at in fs::read_dir("/proc/self/fd").unwrap() {
            let at = at.unwrap();
            if fs::read_link(at.path()).is_ok_and(|leads_to| leads_to.to_string_lossy().contains(kind)) {
                let number = at.file_name().into_string().unwrap().parse().unwrap();
                // SAFETY: what the program does, however wrong.
                assert_eq!(unsafe { libc::close(number) }, 0);
            }
        }
    }

    /// As `closefrom` does. The LWP sleeps in the set at that moment.
    #[cfg(feature = "net")]
    #[test]
    fn a_set_that_the_program_closes_is_replaced() {
        use crate::os::unix::net::UnixStream;
        use std::io::{Read, Write};
        child::isolated(concat!(module_path!(), "::a_set_that_the_program_closes_is_replaced"), || {
            let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut one = UnixStream::from(one);
            let rt = crate::mxn::Builder::default().concurrency(1).build().unwrap();
            let scheduler = rt.run(|| Scheduler::of(current()));
            if !scheduler.signals {
                return println!("skipped: no LWP can be sent signals");
            }
            let (tell, told) = mpsc::channel();
            rt.spawn(move || {
                let mut byte = [0];
                while one.read(&mut byte).unwrap() > 0 {
                    tell.send(byte[0]).unwrap();
                }
            });
            for kinds in [["[eventpoll]", "[eventfd]"], ["[eventfd]", "none"], ["[eventpoll]", "none"]] {
                while scheduler.poller.set().is_none() || !scheduler.poller.is_slept_in() {
                    std::thread::yield_now();
                }
                kinds.into_iter().for_each(close_all);
                for byte in 0..3 {
                    rt.run(|| ());
                    other.write_all(&[byte]).unwrap();
                    assert_eq!(told.recv(), Ok(byte));
                }
            }
            drop(other);
            told.recv().unwrap_err();
        });
    }

    /// Without signals, the LWP that sleeps in the set cannot be woken any more.
    #[test]
    fn a_closed_set_that_an_lwp_cannot_leave_ends_the_process() {
        let name = "::a_closed_set_that_an_lwp_cannot_leave_ends_the_process";
        let ended = child::run(&[module_path!(), name].concat(), || {
            let (reader, _writer) = std::io::pipe().unwrap();
            let reader = reader.as_raw_fd();
            let rt = crate::mxn::Builder::default().concurrency(1).preemption_signal(None).build().unwrap();
            let scheduler = rt.run(move || {
                current().backend().watch_anew(reader, 0).unwrap();
                Scheduler::of(current())
            });
            while !scheduler.poller.is_slept_in() {
                std::thread::yield_now();
            }
            ["[eventpoll]", "[eventfd]"].into_iter().for_each(close_all);
            rt.run(|| ());
        });
        if let Some(ended) = ended {
            ended.expect_abort();
        }
    }
}
