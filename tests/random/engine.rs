//! Plays a random script on real threads, and checks whether a sequential reference could have given the same
//! answers.
//!
//! The coordinator gives one call at a time to a worker. It keeps every *way* in which the calls may have
//! taken effect so far. A way is a state of the reference, and the results of the pending calls that have
//! taken effect in it. When a call returns, only the ways with that result remain. If none remains, no order
//! of the calls explains what the primitive did. (This is the algorithm of Wing and Gong, run along with the
//! history.)
//!
//! A step that *settles* waits until some way is *quiet*, that is, until every pending call must block in it.
//! If no way becomes quiet in time, a thread was not woken. A step that does not settle lets calls overlap
//! freely.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use selvedge::thread::Thread;
use selvedge::{Wait, WaitError};

use crate::crew::{Crew, PLAYERS, WORKERS};

/// The time for which a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Length {
    Try,
    /// Its deadline passes soon.
    Brief,
    /// Its deadline never passes while the test runs.
    Long,
    Endless,
}

/// The way in which a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Manner {
    pub(crate) wait: Length,
    pub(crate) interruptible: bool,
}

pub(crate) const ENDLESS: Manner = Manner { wait: Length::Endless, interruptible: false };

impl Manner {
    /// Returns the time for which it waits, if that is limited.
    pub(crate) fn time(self) -> Option<Duration> {
        match self.wait {
            Length::Try => Some(Duration::ZERO),
            Length::Brief => Some(Duration::from_micros(700)),
            Length::Long => Some(Duration::from_secs(100_000)),
            Length::Endless => None,
        }
    }

    /// Returns the same as an argument of the crate's methods.
    pub(crate) fn limits(self) -> Wait {
        let wait = self.time().map_or(Wait::forever(), Wait::timeout);
        if self.interruptible { wait.interruptible() } else { wait }
    }
}

/// Turns an expired wait into `None`. An interrupted one stays an error.
pub(crate) fn unless_expired<T>(outcome: Result<T, WaitError>) -> Result<Option<T>, WaitError> {
    match outcome {
        Err(WaitError::TimedOut) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ret {
    Done,
    Value(u32),
    /// The call would block, or its deadline has passed.
    No,
    Interrupted,
    /// The other side has gone.
    Gone,
    Refused(&'static str),
    Panicked,
}

/// A step of the reference.
#[derive(Debug)]
pub(crate) struct Move<State> {
    pub(crate) state: State,
    /// `None` if the call goes on.
    pub(crate) ret: Option<Ret>,
    /// `true` if the thread makes this step eventually, unless something else happens.
    pub(crate) must: bool,
    /// `true` if the call reports an interrupt.
    pub(crate) takes_flag: bool,
}

/// What a move can depend on.
pub(crate) struct View<'a, S: Spec> {
    pub(crate) state: &'a S::State,
    /// `true` if the thread was interrupted and has not reported it.
    pub(crate) flagged: bool,
    /// All pending calls.
    pub(crate) pending: &'a [Option<S::Op>; WORKERS],
    pub(crate) me: usize,
}

impl<S: Spec> View<'_, S> {
    /// Returns the pending calls of other threads.
    pub(crate) fn others(&self) -> impl Iterator<Item = &S::Op> {
        self.pending
            .iter()
            .enumerate()
            .filter(|(thread, _)| *thread != self.me)
            .filter_map(|(_, op)| op.as_ref())
    }

    /// The call returns at once, and the state changes.
    pub(crate) fn does(&self, state: S::State, ret: Ret) -> Vec<Move<S::State>> {
        vec![Move { state, ret: Some(ret), must: true, takes_flag: false }]
    }

    /// The call goes on, and the state changes.
    pub(crate) fn goes_on(&self, state: S::State) -> Move<S::State> {
        Move { state, ret: None, must: true, takes_flag: false }
    }

    /// Returns the ways in which a call that cannot take effect now may end, in the same state.
    pub(crate) fn gives_up(&self, manner: Manner) -> Vec<Move<S::State>> {
        let mut moves = self.is_interrupted(manner);
        if matches!(manner.wait, Length::Try | Length::Brief) {
            moves.extend(self.does(self.state.clone(), Ret::No));
        }
        moves
    }

    pub(crate) fn is_interrupted(&self, manner: Manner) -> Vec<Move<S::State>> {
        let mut moves = Vec::new();
        if manner.interruptible && self.flagged {
            let state = self.state.clone();
            moves.push(Move { state, ret: Some(Ret::Interrupted), must: true, takes_flag: true });
        }
        moves
    }
}

/// A primitive and its reference.
pub(crate) trait Spec: Clone + Debug + 'static {
    type Op: Clone + Debug + Send + PartialEq + 'static;
    type State: Clone + Debug + Eq + Hash;
    type World: Send + Sync + 'static;

    fn world(&self) -> Self::World;

    fn state(&self) -> Self::State;

    /// Calls the primitive on worker `me`.
    fn run(world: &Self::World, crew: &[Thread], me: usize, op: &Self::Op) -> Ret;

    /// Returns `true` if the idle worker `me` may make this call. (Otherwise another player makes it.)
    fn is_legal(_view: &View<'_, Self>, _op: &Self::Op) -> bool {
        true
    }

    /// Returns what can happen next to a call that has not taken effect. If nothing can, it blocks.
    fn moves(view: &View<'_, Self>, op: &Self::Op) -> Vec<Move<Self::State>>;

    /// Returns a call that lets blocked threads go on, and the one of the `idle` threads that makes it.
    fn release(state: &Self::State, idle: &[usize]) -> Option<(usize, Self::Op)>;

    /// Returns `true` if the primitive agrees with the reference when all calls have returned.
    fn agrees(_world: &Self::World, _state: &Self::State) -> bool {
        true
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Call<Op> {
    Op(usize, Op),
    Interrupt(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Step<Op> {
    pub(crate) call: Call<Op>,
    pub(crate) settles: bool,
    /// Gives the threads time to fall asleep. Later steps do not rely on it.
    pub(crate) pauses: bool,
}

/// One way in which everything that was seen can have come about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Way<State> {
    state: State,
    flags: [bool; WORKERS],
    /// The results of pending calls that have taken effect.
    returns: [Option<Ret>; WORKERS],
}

struct Play<'a, S: Spec> {
    crew: &'a Crew,
    world: Arc<S::World>,
    ways: HashSet<Way<S::State>>,
    pending: [Option<S::Op>; WORKERS],
    patience: Duration,
}

/// Plays `steps`. An error names the result that no order of the calls explains, or the calls that hang.
pub(crate) fn play<S: Spec>(
    crew: &Crew,
    spec: &S,
    steps: &[Step<S::Op>],
    patience: Duration,
) -> Result<(), String> {
    let way = Way { state: spec.state(), flags: [false; WORKERS], returns: [None; WORKERS] };
    let mut play = Play::<S> {
        crew,
        world: Arc::new(spec.world()),
        ways: HashSet::from([way]),
        pending: [const { None }; WORKERS],
        patience,
    };
    for step in steps {
        match &step.call {
            Call::Interrupt(thread) => play.interrupt(play.one_that_waits(*thread)),
            Call::Op(thread, op) => {
                if let Some(thread) = play.one_that_may(*thread, op) {
                    play.call(thread, op);
                }
            }
        }
        while let Some((thread, ret)) = crew.report(Duration::ZERO) {
            play.returned(thread, ret)?;
        }
        if step.settles {
            play.settle()?;
        }
        if step.pauses {
            std::thread::sleep(Duration::from_micros(300));
        }
    }
    play.end()
}

impl<S: Spec> Play<'_, S> {
    /// Returns the first idle player, from `thread` on, that may make this call.
    fn one_that_may(&self, thread: usize, op: &S::Op) -> Option<usize> {
        // An idle thread may make the same calls in all ways, because its calls have returned.
        let way = self.ways.iter().next().expect("some way remains");
        let may = |&me: &usize| {
            let view = View { state: &way.state, flagged: way.flags[me], pending: &self.pending, me };
            self.pending[me].is_none() && S::is_legal(&view, op)
        };
        (0..PLAYERS).map(|n| (thread + n) % PLAYERS).find(may)
    }

    /// Returns the first player, from `thread` on, that is in a call, or `thread` if none is.
    fn one_that_waits(&self, thread: usize) -> usize {
        let waits = |&one: &usize| self.pending[one].is_some();
        (0..PLAYERS).map(|n| (thread + n) % PLAYERS).find(waits).unwrap_or(thread)
    }

    fn call(&mut self, thread: usize, op: &S::Op) {
        self.pending[thread] = Some(op.clone());
        let (world, op, threads) = (Arc::clone(&self.world), op.clone(), self.crew.threads());
        self.crew.call(thread, Box::new(move || S::run(&world, &threads, thread, &op)));
    }

    fn interrupt(&mut self, thread: usize) {
        self.ways = self.all_ways();
        self.crew.threads()[thread].interrupt();
        self.ways = self
            .ways
            .drain()
            .map(|mut way| {
                way.flags[thread] = true;
                way
            })
            .collect();
    }

    /// Returns all ways in which the calls may have taken effect by now.
    fn all_ways(&self) -> HashSet<Way<S::State>> {
        let mut all = self.ways.clone();
        let mut new: Vec<_> = all.iter().cloned().collect();
        while let Some(way) = new.pop() {
            for (thread, moves) in self.moves(&way) {
                for step in moves {
                    let mut next = Way { state: step.state, ..way.clone() };
                    next.returns[thread] = step.ret;
                    next.flags[thread] &= !step.takes_flag;
                    if all.insert(next.clone()) {
                        new.push(next);
                    }
                }
            }
            assert!(all.len() < 200_000, "too many ways");
        }
        all
    }

    /// Returns the moves of each call that has not taken effect.
    fn moves(&self, way: &Way<S::State>) -> Vec<(usize, Vec<Move<S::State>>)> {
        let open = |(thread, op): (usize, &Option<S::Op>)| {
            let op = op.as_ref().filter(|_| way.returns[thread].is_none())?;
            let flagged = way.flags[thread];
            let view = View { state: &way.state, flagged, pending: &self.pending, me: thread };
            Some((thread, S::moves(&view, op)))
        };
        self.pending.iter().enumerate().filter_map(open).collect()
    }

    fn returned(&mut self, thread: usize, ret: Ret) -> Result<(), String> {
        let mut all = self.all_ways();
        all.retain(|way| way.returns[thread] == Some(ret));
        let op = self.pending[thread].take().expect("a call returns once");
        if all.is_empty() {
            let others: Vec<_> = self.pending.iter().flatten().collect();
            return Err(format!(
                "no order explains that thread {thread} got {ret:?} from {op:?}, \
                 beside {others:?}, after {:?}",
                self.ways.iter().take(3).map(|way| &way.state).collect::<Vec<_>>()
            ));
        }
        self.ways = all
            .into_iter()
            .map(|mut way| {
                way.returns[thread] = None;
                way
            })
            .collect();
        Ok(())
    }

    /// Returns a way in which every pending call must block.
    fn quiet(&self) -> Option<Way<S::State>> {
        let is_quiet = |way: &Way<S::State>| {
            way.returns.iter().all(Option::is_none)
                && self.moves(way).iter().all(|(_, moves)| moves.iter().all(|step| !step.must))
        };
        self.all_ways().into_iter().find(is_quiet)
    }

    fn settle(&mut self) -> Result<Way<S::State>, String> {
        loop {
            while let Some((thread, ret)) = self.crew.report(Duration::ZERO) {
                self.returned(thread, ret)?;
            }
            if let Some(way) = self.quiet() {
                return Ok(way);
            }
            let Some((thread, ret)) = self.crew.report(self.patience) else {
                let waits: Vec<_> = self.pending.iter().enumerate().filter(|(_, op)| op.is_some()).collect();
                let states: Vec<_> = self.ways.iter().take(3).map(|way| &way.state).collect();
                return Err(format!("not woken: {waits:?}, in {states:?}"));
            };
            self.returned(thread, ret)?;
        }
    }

    fn end(&mut self) -> Result<(), String> {
        for _ in 0..200 {
            let way = self.settle()?;
            let idle: Vec<usize> = (0..WORKERS).filter(|&thread| self.pending[thread].is_none()).collect();
            if idle.len() == WORKERS {
                self.crew.reset();
                let agrees = self.ways.iter().any(|way| S::agrees(&self.world, &way.state));
                return if agrees { Ok(()) } else { Err(format!("at the end not as in {:?}", self.ways)) };
            }
            let Some((thread, op)) = S::release(&way.state, &idle) else {
                return Err(format!("the reference cannot release {:?} in {:?}", self.pending, way.state));
            };
            self.call(thread, &op);
        }
        Err(format!("not released: {:?}, in {:?}", self.pending, self.ways))
    }
}
