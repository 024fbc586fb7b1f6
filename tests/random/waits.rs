//! Waits without a lock of their own: condition variables, semaphores, and the token of `park`.

use std::mem::forget;

use proptest::prelude::*;
use selvedge::sync::{Condvar, Mutex, Semaphore};
use selvedge::thread::{self, Thread};

use crate::CASES;
use crate::crew::{WORKERS, check, manners};
use crate::engine::{ENDLESS, Length, Manner, Move, Ret, Spec, View, unless_expired};

/// A condition variable and its mutex.
#[derive(Clone, Copy, Debug)]
struct Monitor;

#[derive(Clone, Copy, Debug, PartialEq)]
enum MonitorOp {
    Lock,
    Unlock,
    Wait(Manner),
    NotifyOne,
    NotifyAll,
}

/// The phase of a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    None,
    Waits,
    /// The thread waits for the mutex, and then returns this.
    Back(Ret),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MonitorState {
    owner: Option<usize>,
    phases: [Phase; WORKERS],
}

impl Spec for Monitor {
    type Op = MonitorOp;
    type State = MonitorState;
    type World = (Mutex<()>, Condvar);

    fn world(&self) -> Self::World {
        (Mutex::new(()), Condvar::new())
    }

    fn state(&self) -> MonitorState {
        MonitorState { owner: None, phases: [Phase::None; WORKERS] }
    }

    fn run((mutex, condvar): &Self::World, _crew: &[Thread], _me: usize, op: &MonitorOp) -> Ret {
        // SAFETY: called only if the reference says that this thread owns the mutex.
        let guard = || unsafe { mutex.make_guard_unchecked() };
        match *op {
            MonitorOp::Lock => forget(mutex.lock()),
            MonitorOp::Unlock => drop(guard()),
            MonitorOp::Wait(manner) => {
                let mut guard = guard();
                let ended = match (manner.interruptible, manner.time()) {
                    (false, None) => {
                        condvar.wait(&mut guard);
                        Ok(false)
                    }
                    (false, Some(time)) => Ok(condvar.wait_for(&mut guard, time).timed_out()),
                    (true, _) => unless_expired(condvar.wait_with(&mut guard, manner.limits()))
                        .map(|notified| notified.is_none()),
                };
                forget(guard);
                return match ended {
                    Ok(false) => Ret::Done,
                    Ok(true) => Ret::No,
                    Err(_) => Ret::Interrupted,
                };
            }
            MonitorOp::NotifyOne => return Ret::Value(u32::from(condvar.notify_one())),
            MonitorOp::NotifyAll => return Ret::Value(condvar.notify_all() as u32),
        }
        Ret::Done
    }

    fn is_legal(view: &View<'_, Self>, op: &MonitorOp) -> bool {
        let mine = view.state.owner == Some(view.me);
        match op {
            MonitorOp::Lock => !mine,
            MonitorOp::Unlock | MonitorOp::Wait(_) => mine,
            MonitorOp::NotifyOne | MonitorOp::NotifyAll => true,
        }
    }

    fn moves(view: &View<'_, Self>, op: &MonitorOp) -> Vec<Move<MonitorState>> {
        let (state, me) = (view.state, view.me);
        let owned = |owner| MonitorState { owner, ..state.clone() };
        let in_phase = |phase| {
            let mut state = state.clone();
            state.phases[me] = phase;
            state
        };
        let waiting: Vec<usize> = (0..WORKERS).filter(|&one| state.phases[one] == Phase::Waits).collect();
        match *op {
            MonitorOp::Lock if state.owner.is_none() => view.does(owned(Some(me)), Ret::Done),
            MonitorOp::Lock => Vec::new(),
            MonitorOp::Unlock => view.does(owned(None), Ret::Done),
            MonitorOp::Wait(manner) => match state.phases[me] {
                Phase::None => {
                    let mut moves = view.is_interrupted(manner);
                    moves.push(view.goes_on(MonitorState { owner: None, ..in_phase(Phase::Waits) }));
                    moves
                }
                Phase::Waits => {
                    let mut moves = view.gives_up(manner);
                    for step in &mut moves {
                        // The waiter gives up, and then waits for the mutex.
                        step.state.phases[me] =
                            Phase::Back(step.ret.take().expect("it gives up with a result"));
                        step.takes_flag = false;
                    }
                    moves
                }
                Phase::Back(ret) if state.owner.is_none() => {
                    let mut moves = view.does(MonitorState { owner: Some(me), ..in_phase(Phase::None) }, ret);
                    // Interrupts that come before the wait returns are one.
                    moves.iter_mut().for_each(|step| step.takes_flag = ret == Ret::Interrupted);
                    moves
                }
                Phase::Back(_) => Vec::new(),
            },
            MonitorOp::NotifyOne if waiting.is_empty() => view.does(state.clone(), Ret::Value(0)),
            MonitorOp::NotifyOne => {
                let wakes = |one: usize| {
                    let mut state = state.clone();
                    state.phases[one] = Phase::Back(Ret::Done);
                    view.does(state, Ret::Value(1))
                };
                waiting.into_iter().flat_map(wakes).collect()
            }
            MonitorOp::NotifyAll => {
                let mut state = state.clone();
                waiting.iter().for_each(|&one| state.phases[one] = Phase::Back(Ret::Done));
                view.does(state, Ret::Value(waiting.len() as u32))
            }
        }
    }

    fn release(state: &MonitorState, idle: &[usize]) -> Option<(usize, MonitorOp)> {
        match state.owner {
            Some(owner) => Some((owner, MonitorOp::Unlock)).filter(|_| idle.contains(&owner)),
            None => idle.first().map(|&one| (one, MonitorOp::NotifyAll)),
        }
    }
}

#[test]
fn a_condition_variable_wakes_those_that_wait() {
    let manners = manners().prop_map(|manner| match manner.wait {
        Length::Try => Manner { wait: Length::Brief, ..manner },
        _ => manner,
    });
    let ops = prop_oneof![
        4 => Just(MonitorOp::Lock),
        3 => Just(MonitorOp::Unlock),
        6 => manners.prop_map(MonitorOp::Wait),
        2 => Just(MonitorOp::NotifyOne),
        1 => Just(MonitorOp::NotifyAll),
    ];
    check(2 * CASES, Just(Monitor), ops);
}

/// A semaphore with this number of permits.
#[derive(Clone, Copy, Debug)]
struct Seats(usize);

#[derive(Clone, Copy, Debug, PartialEq)]
enum SeatsOp {
    Acquire(usize, Manner),
    Add(usize),
}

const MOST: usize = 4;

impl Spec for Seats {
    type Op = SeatsOp;
    type State = usize;
    type World = Semaphore;

    fn world(&self) -> Semaphore {
        Semaphore::new(self.0)
    }

    fn state(&self) -> usize {
        self.0
    }

    fn run(semaphore: &Semaphore, _crew: &[Thread], _me: usize, op: &SeatsOp) -> Ret {
        let (n, manner) = match *op {
            SeatsOp::Acquire(n, manner) => (n, manner),
            SeatsOp::Add(n) => {
                semaphore.add_permits(n);
                return Ret::Done;
            }
        };
        let permit = match (manner.wait, manner.interruptible, manner.time()) {
            (Length::Try, ..) => Ok(semaphore.try_acquire_many(n)),
            (_, true, _) => unless_expired(semaphore.acquire_many_with(n, manner.limits())),
            (_, false, None) => Ok(Some(semaphore.acquire_many(n))),
            (_, false, Some(time)) => Ok(semaphore.try_acquire_many_for(n, time)),
        };
        match permit {
            Ok(Some(permit)) => {
                permit.forget();
                Ret::Done
            }
            Ok(None) => Ret::No,
            Err(_) => Ret::Interrupted,
        }
    }

    fn moves(view: &View<'_, Self>, op: &SeatsOp) -> Vec<Move<usize>> {
        let permits = *view.state;
        let (n, manner) = match *op {
            SeatsOp::Acquire(n, manner) => (n, manner),
            SeatsOp::Add(n) => return view.does(permits + n, Ret::Done),
        };
        // If there are too few permits for the first waiter, no waiter behind it gets any. The reference does
        // not know which waiter is the first.
        let most = view.others().map(|op| if let SeatsOp::Acquire(n, _) = op { *n } else { 0 }).max();
        let waits_behind = most.is_some_and(|most| most > 0);
        let mut moves = view.is_interrupted(manner);
        if permits >= n {
            moves.extend(view.does(permits - n, Ret::Done));
            if most.is_some_and(|most| most > permits) {
                moves.iter_mut().for_each(|step| step.must &= step.takes_flag);
            }
        }
        if permits < n || waits_behind {
            moves.extend(view.gives_up(manner));
        }
        moves
    }

    fn release(_state: &usize, idle: &[usize]) -> Option<(usize, SeatsOp)> {
        idle.first().map(|&one| (one, SeatsOp::Add(MOST)))
    }

    fn agrees(semaphore: &Semaphore, permits: &usize) -> bool {
        semaphore.available_permits() == *permits
    }
}

#[test]
fn a_semaphore_gives_the_permits_that_it_has() {
    let ops = prop_oneof![
        2 => (1..MOST, manners()).prop_map(|(n, manner)| SeatsOp::Acquire(n, manner)),
        1 => (0..MOST).prop_map(SeatsOp::Add),
    ];
    check(2 * CASES, (0..MOST).prop_map(Seats), ops);
}

/// The threads' own tokens.
#[derive(Clone, Copy, Debug)]
struct Tokens;

#[derive(Clone, Copy, Debug, PartialEq)]
enum TokensOp {
    Park(Manner),
    Unpark(usize),
    /// Takes the interrupt.
    Interrupted,
}

impl Spec for Tokens {
    type Op = TokensOp;
    type State = [bool; WORKERS];
    type World = ();

    fn world(&self) {}

    fn state(&self) -> Self::State {
        [false; WORKERS]
    }

    fn run((): &(), crew: &[Thread], _me: usize, op: &TokensOp) -> Ret {
        let manner = match *op {
            TokensOp::Park(manner) => manner,
            TokensOp::Unpark(thread) => {
                crew[thread].unpark();
                return Ret::Done;
            }
            TokensOp::Interrupted => return Ret::Value(u32::from(thread::take_interrupt())),
        };
        let parked = match (manner.interruptible, manner.time()) {
            (true, _) => unless_expired(thread::park_with(manner.limits())).map(drop),
            (false, None) => {
                thread::park();
                Ok(())
            }
            (false, Some(time)) => {
                thread::park_timeout(time);
                Ok(())
            }
        };
        if parked.is_ok() { Ret::Done } else { Ret::Interrupted }
    }

    fn moves(view: &View<'_, Self>, op: &TokensOp) -> Vec<Move<Self::State>> {
        let with = |thread: usize, token| {
            let mut tokens = *view.state;
            tokens[thread] = token;
            tokens
        };
        match *op {
            TokensOp::Unpark(thread) => view.does(with(thread, true), Ret::Done),
            TokensOp::Interrupted => {
                let mut moves = view.does(*view.state, Ret::Value(u32::from(view.flagged)));
                moves[0].takes_flag = true;
                moves
            }
            TokensOp::Park(manner) => {
                let mut moves = view.is_interrupted(manner);
                if view.state[view.me] {
                    moves.extend(view.does(with(view.me, false), Ret::Done));
                } else {
                    moves.extend(view.gives_up(manner));
                    // The result does not say whether the time was over.
                    moves.iter_mut().for_each(|step| {
                        step.ret = step.ret.map(|ret| if ret == Ret::No { Ret::Done } else { ret });
                    });
                }
                moves
            }
        }
    }

    fn release(state: &Self::State, idle: &[usize]) -> Option<(usize, TokensOp)> {
        let blocked = (0..WORKERS).find(|thread| !idle.contains(thread) && !state[*thread])?;
        idle.first().map(|&one| (one, TokensOp::Unpark(blocked)))
    }
}

#[test]
fn a_token_ends_one_park() {
    let ops = prop_oneof![
        4 => manners().prop_map(TokensOp::Park),
        4 => (0..WORKERS).prop_map(TokensOp::Unpark),
        1 => Just(TokensOp::Interrupted),
    ];
    // Nothing else wakes a thread that parks without a time limit.
    assert_eq!(ENDLESS.time(), None);
    check(2 * CASES, Just(Tokens), ops);
}
