//! Recordings that are made up: written as bytes, as `src/recorder/format.rs` says, and read.

use std::collections::BTreeMap;

use selvedge::thread::WaitReason;
use selvedge::trace::Recording;

/// The kinds of events, by their numbers in `src/recorder/event.rs`.
const SPAWN: u64 = 1;
const READY: u64 = 2;
const DISPATCH: u64 = 3;
const BLOCK: u64 = 4;
const YIELD: u64 = 5;
const EXIT: u64 = 7;
const ENTER_KERNEL: u64 = 8;
const LEAVE_KERNEL: u64 = 9;
const SEARCH: u64 = 11;
const IDLE: u64 = 12;
const SPARE: u64 = 13;
const NAME: u64 = 14;
const SLOT_MOVE: u64 = 15;
const LWP_END: u64 = 17;

pub(crate) const LOW: u64 = 64;
pub(crate) const NORMAL: u64 = 128;
pub(crate) const HIGH: u64 = 192;

/// The runtime of all made-up events.
const RUNTIME: u64 = 1;

/// A recording that is written down. Times are in us. Events of an LWP come in the order of time.
#[derive(Default)]
pub(crate) struct Script {
    lwps: BTreeMap<u64, Vec<u64>>,
    facts: Vec<u64>,
    cpus: u64,
    why: &'static str,
    one_of: Option<u64>,
    lost: Option<u64>,
}

impl Script {
    /// Begins a recording of a runtime with `slots` slots on `cpus` CPUs, without time slices.
    pub(crate) fn new(slots: u64, cpus: u64) -> Self {
        Self { facts: vec![RUNTIME, 1, slots, 0, slots, 0, u64::MAX, 0, 0], cpus, ..Self::default() }
    }

    /// Begins a recording as a crash leaves it behind, of a runtime with one slot on one CPU.
    pub(crate) fn of_crash(why: &'static str) -> Self {
        Self { why, ..Self::new(1, 1) }
    }

    /// Leaves out what is known of the runtime, as in a file that ends too early.
    pub(crate) fn without_facts(mut self) -> Self {
        self.facts.clear();
        self
    }

    /// Sets how many LWPs there may be, and how often one was missing.
    pub(crate) fn bound(mut self, max: u64, reached: u64) -> Self {
        (self.facts[3], self.facts[5]) = (max, reached);
        self
    }

    /// Says that one thread of so many was recorded.
    pub(crate) fn sample(mut self, one_of: u64) -> Self {
        self.one_of = Some(one_of);
        self
    }

    /// Says that events before this moment are missing; `None`: that none is.
    pub(crate) fn lost_until(mut self, us: Option<u64>) -> Self {
        self.lost = Some(us.map_or(0, count));
        self
    }

    /// Sets the time slice, in us.
    pub(crate) fn slice(mut self, us: u64) -> Self {
        self.facts[6] = us * 1_000;
        self
    }

    /// Gives the runtime so many CPUs of its own.
    pub(crate) fn own_cpus(mut self, cpus: u64) -> Self {
        self.facts[8] = cpus;
        self
    }

    /// Says that a slot moves from this LWP to the next one.
    pub(crate) fn loses_slot(&mut self, us: u64, lwp: u64) {
        self.event(us, lwp, 0, RUNTIME | lwp << 32, SLOT_MOVE | (lwp + 1) << 32, 0);
    }

    fn event(&mut self, us: u64, lwp: u64, thread: u64, object: u64, kind: u64, detail: u64) {
        self.lwps.entry(lwp).or_default().extend([count(us), thread, object, kind | detail << 8]);
    }

    pub(crate) fn spawn(&mut self, us: u64, lwp: u64, thread: u64, name: &str, priority: u64) {
        self.spawn_on(RUNTIME, us, lwp, thread, name, priority);
    }

    /// Spawns a thread on this runtime.
    pub(crate) fn spawn_on(&mut self, rt: u64, us: u64, lwp: u64, thread: u64, name: &str, priority: u64) {
        assert!(name.len() <= 12, "one event has room for twelve bytes");
        self.event(us, lwp, thread, 0, SPAWN | rt << 32, priority);
        let mut room = [0; 16];
        room[..name.len()].copy_from_slice(name.as_bytes());
        let (first, second) = room.split_at(8);
        let [first, second] = [first, second].map(|it| u64::from_le_bytes(it.try_into().expect("eight")));
        self.event(us, lwp, thread, first, NAME | second << 32, 0);
    }

    /// Spawns a thread of each name, with the numbers from 1 on, at the start.
    pub(crate) fn cast(&mut self, names: &[&str]) {
        (1..).zip(names).for_each(|(thread, name)| self.spawn(0, 0, thread, name, NORMAL));
    }

    pub(crate) fn ready(&mut self, us: u64, lwp: u64, thread: u64, by: u64) {
        self.event(us, lwp, thread, by, READY, 0);
    }

    pub(crate) fn dispatch(&mut self, us: u64, lwp: u64, thread: u64) {
        self.event(us, lwp, thread, 0, DISPATCH, 0);
    }

    pub(crate) fn block(&mut self, us: u64, lwp: u64, thread: u64, reason: WaitReason, at: u64) {
        self.event(us, lwp, thread, at, BLOCK, reason as u64);
    }

    pub(crate) fn yields(&mut self, us: u64, lwp: u64, thread: u64) {
        self.event(us, lwp, thread, 0, YIELD, 0);
    }

    pub(crate) fn exit(&mut self, us: u64, lwp: u64, thread: u64) {
        self.event(us, lwp, thread, 0, EXIT, 0);
    }

    pub(crate) fn enter_kernel(&mut self, us: u64, lwp: u64, thread: u64) {
        self.event(us, lwp, thread, 0, ENTER_KERNEL, 0);
    }

    pub(crate) fn leave_kernel(&mut self, us: u64, lwp: u64, thread: u64) {
        self.event(us, lwp, thread, 0, LEAVE_KERNEL, 0);
    }

    pub(crate) fn idle(&mut self, us: u64, lwp: u64) {
        self.event(us, lwp, 0, 0, IDLE, 0);
    }

    /// A spare LWP is woken to end. If `says` so, its end is recorded.
    pub(crate) fn retires(&mut self, us: u64, lwp: u64, says: bool) {
        self.event(us, lwp, 0, 0, SPARE, 0);
        self.event(us + 1, lwp, 0, 0, SEARCH, 0);
        if says {
            self.event(us + 2, lwp, 0, 0, LWP_END, 0);
        }
    }

    /// Writes the recording, and reads it.
    pub(crate) fn read(&self) -> Recording {
        let mut bytes = b"selvedge trace 1".to_vec();
        let mut section = |tag: &[u8; 4], payload: &[u8]| {
            bytes.extend(tag);
            bytes.extend([0; 4]);
            bytes.extend((payload.len() as u64).to_le_bytes());
            bytes.extend(payload);
        };
        section(b"RTIM", &words(&self.facts));
        section(b"CPUS", &words(&[self.cpus]));
        section(b"WHY ", self.why.as_bytes());
        if let Some(one_of) = self.one_of {
            section(b"SMPL", &words(&[one_of]));
        }
        if let Some(lost) = self.lost {
            section(b"LOST", &words(&[lost]));
        }
        for (&lwp, events) in &self.lwps {
            section(b"RING", &[words(&[RUNTIME, lwp]), words(events)].concat());
        }
        Recording::read(&*bytes).expect("a recording")
    }
}

/// Returns the count at this time. None is 0, so that the first event is not special.
fn count(us: u64) -> u64 {
    1 + us * 1_000
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
