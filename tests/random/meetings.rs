//! Waits for other threads: barriers, groups, and the ends of threads.

use std::sync::Mutex as StdMutex;

use proptest::prelude::*;
use selvedge::WaitError;
use selvedge::sync::{Barrier, WaitGroup};
use selvedge::thread::{self, JoinHandle, Thread};

use crate::CASES;
use crate::crew::{WORKERS, check, manners};
use crate::engine::{ENDLESS, Length, Manner, Move, Ret, Spec, View, unless_expired};

/// Returns the manners of calls that always wait.
fn patient() -> impl Strategy<Value = Manner> {
    manners().prop_map(|manner| match manner.wait {
        Length::Try => Manner { wait: Length::Brief, ..manner },
        _ => manner,
    })
}

/// A barrier for this number of parties.
#[derive(Clone, Copy, Debug)]
struct Parties(usize);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Meet(Manner);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Away,
    There,
    Released,
}

const LEADS: Ret = Ret::Value(1);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Meeting {
    parties: usize,
    phases: [Phase; WORKERS],
}

impl Spec for Parties {
    type Op = Meet;
    type State = Meeting;
    type World = Barrier;

    fn world(&self) -> Barrier {
        Barrier::new(self.0)
    }

    fn state(&self) -> Meeting {
        Meeting { parties: self.0, phases: [Phase::Away; WORKERS] }
    }

    fn run(barrier: &Barrier, _crew: &[Thread], _me: usize, Meet(manner): &Meet) -> Ret {
        let met = match (manner.interruptible, manner.time()) {
            (false, None) => Ok(Some(barrier.wait())),
            (false, Some(time)) => Ok(barrier.wait_timeout(time)),
            (true, _) => unless_expired(barrier.wait_with(manner.limits())),
        };
        match met {
            Ok(Some(met)) => Ret::Value(u32::from(met.is_leader())),
            Ok(None) => Ret::No,
            Err(_) => Ret::Interrupted,
        }
    }

    fn moves(view: &View<'_, Self>, Meet(manner): &Meet) -> Vec<Move<Meeting>> {
        let in_phase = |phase| {
            let mut state = view.state.clone();
            state.phases[view.me] = phase;
            state
        };
        match view.state.phases[view.me] {
            Phase::Away => {
                let mut moves = view.is_interrupted(*manner);
                let mut state = in_phase(Phase::There);
                let there = |state: &Meeting| state.phases.iter().filter(|&&one| one == Phase::There).count();
                if there(&state) == state.parties {
                    for phase in state.phases.iter_mut().filter(|phase| **phase == Phase::There) {
                        *phase = Phase::Released;
                    }
                    state.phases[view.me] = Phase::Away;
                    moves.extend(view.does(state, LEADS));
                } else {
                    moves.push(view.goes_on(state));
                }
                moves
            }
            Phase::There => {
                let mut moves = view.gives_up(*manner);
                // The barrier does not count it any more.
                moves.iter_mut().for_each(|step| step.state = in_phase(Phase::Away));
                moves
            }
            Phase::Released => view.does(in_phase(Phase::Away), Ret::Value(0)),
        }
    }

    fn release(_state: &Meeting, idle: &[usize]) -> Option<(usize, Meet)> {
        idle.first().map(|&one| (one, Meet(ENDLESS)))
    }
}

#[test]
fn a_barrier_lets_all_go_when_all_are_there() {
    // With three parties, two can wait while three threads are idle.
    check(2 * CASES, (1..=3_usize).prop_map(Parties), patient().prop_map(Meet));
}

/// A group; at first each worker is a member.
#[derive(Clone, Copy, Debug)]
struct Group;

#[derive(Clone, Copy, Debug, PartialEq)]
enum GroupOp {
    Leave,
    Wait(Manner),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Members {
    is_in: [bool; WORKERS],
    /// The workers that have left and wait for the others.
    waits: [bool; WORKERS],
}

impl Spec for Group {
    type Op = GroupOp;
    type State = Members;
    type World = [StdMutex<Option<WaitGroup>>; WORKERS];

    fn world(&self) -> Self::World {
        let group = WaitGroup::new();
        std::array::from_fn(|_| StdMutex::new(Some(group.clone())))
    }

    fn state(&self) -> Members {
        Members { is_in: [true; WORKERS], waits: [false; WORKERS] }
    }

    fn run(world: &Self::World, _crew: &[Thread], me: usize, op: &GroupOp) -> Ret {
        let group = world[me].lock().unwrap().take().expect("legal");
        let GroupOp::Wait(manner) = *op else {
            drop(group);
            return Ret::Done;
        };
        let (ret, back) = match (manner.interruptible, manner.time()) {
            (false, None) => {
                group.wait();
                (Ret::Done, None)
            }
            (false, Some(time)) => match group.wait_for(time) {
                Ok(()) => (Ret::Done, None),
                Err(group) => (Ret::No, Some(group)),
            },
            (true, _) => match group.wait_with(manner.limits()) {
                Ok(()) => (Ret::Done, None),
                Err((group, WaitError::TimedOut)) => (Ret::No, Some(group)),
                Err((group, WaitError::Interrupted)) => (Ret::Interrupted, Some(group)),
            },
        };
        *world[me].lock().unwrap() = back;
        ret
    }

    fn is_legal(view: &View<'_, Self>, _op: &GroupOp) -> bool {
        view.state.is_in[view.me]
    }

    fn moves(view: &View<'_, Self>, op: &GroupOp) -> Vec<Move<Members>> {
        let (state, me) = (*view.state, view.me);
        let with = |is_in, waits| {
            let mut state = state;
            (state.is_in[me], state.waits[me]) = (is_in, waits);
            state
        };
        match *op {
            GroupOp::Leave => view.does(with(false, false), Ret::Done),
            GroupOp::Wait(manner) if !state.waits[me] => {
                let mut moves = view.is_interrupted(manner);
                moves.push(view.goes_on(with(false, true)));
                moves
            }
            GroupOp::Wait(manner) => {
                let mut moves = view.is_interrupted(manner);
                if state.is_in.iter().any(|&is_in| is_in) {
                    moves.extend(view.gives_up(manner));
                } else {
                    moves.extend(view.does(with(false, false), Ret::Done));
                }
                for step in moves.iter_mut().filter(|step| step.ret != Some(Ret::Done)) {
                    // The worker is a member again.
                    step.state = with(true, false);
                }
                moves
            }
        }
    }

    fn release(state: &Members, idle: &[usize]) -> Option<(usize, GroupOp)> {
        idle.iter().find(|&&one| state.is_in[one]).map(|&one| (one, GroupOp::Leave))
    }
}

#[test]
fn a_group_is_waited_for() {
    let ops = prop_oneof![1 => Just(GroupOp::Leave), 2 => patient().prop_map(GroupOp::Wait)];
    check(CASES, Just(Group), ops);
}

const CHILDREN: usize = 3;

/// Threads that end when they are told to.
#[derive(Clone, Copy, Debug)]
struct Family {
    /// The workers that start them: a green, a bound and a 1:1 one.
    parents: [usize; CHILDREN],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FamilyOp {
    Spawn(usize),
    /// Tells the child to end.
    Dismiss(usize),
    Join(usize, Manner),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Child {
    None,
    Lives,
    Ends,
    Joined,
}

#[derive(Default)]
struct Children {
    handles: [StdMutex<Option<JoinHandle<u32>>>; CHILDREN],
    threads: [StdMutex<Option<Thread>>; CHILDREN],
}

impl Drop for Children {
    fn drop(&mut self) {
        // The threads that were never told to end.
        self.threads
            .iter_mut()
            .filter_map(|thread| thread.get_mut().unwrap().take())
            .for_each(|one| one.unpark());
    }
}

impl Family {
    fn has_joiner(pending: &[Option<FamilyOp>], child: usize) -> bool {
        pending.iter().flatten().any(|op| matches!(op, FamilyOp::Join(which, _) if *which == child))
    }
}

impl Spec for Family {
    type Op = FamilyOp;
    type State = ([Child; CHILDREN], [usize; CHILDREN]);
    type World = Children;

    fn world(&self) -> Children {
        Children::default()
    }

    fn state(&self) -> Self::State {
        ([Child::None; CHILDREN], self.parents)
    }

    fn run(world: &Self::World, _crew: &[Thread], _me: usize, op: &FamilyOp) -> Ret {
        match *op {
            FamilyOp::Spawn(child) => {
                let handle = thread::spawn(move || {
                    thread::park();
                    child as u32
                });
                *world.threads[child].lock().unwrap() = Some(handle.thread().clone());
                *world.handles[child].lock().unwrap() = Some(handle);
                Ret::Done
            }
            FamilyOp::Dismiss(child) => {
                world.threads[child].lock().unwrap().as_ref().expect("it lives").unpark();
                Ret::Done
            }
            FamilyOp::Join(child, manner) => {
                let handle = world.handles[child].lock().unwrap().take().expect("it is there");
                let joined = match (manner.interruptible, manner.time()) {
                    (false, None) => Ok(handle.join()),
                    (false, Some(time)) => handle.join_timeout(time).map_err(|handle| (handle, Ret::No)),
                    (true, _) => handle.join_with(manner.limits()).map_err(|(handle, why)| match why {
                        WaitError::TimedOut => (handle, Ret::No),
                        WaitError::Interrupted => (handle, Ret::Interrupted),
                    }),
                };
                match joined {
                    Ok(result) => Ret::Value(result.expect("it does not panic")),
                    Err((handle, ret)) => {
                        *world.handles[child].lock().unwrap() = Some(handle);
                        ret
                    }
                }
            }
        }
    }

    fn is_legal(view: &View<'_, Self>, op: &FamilyOp) -> bool {
        let (children, parents) = view.state;
        let has_joiner = |child| Self::has_joiner(view.pending, child);
        // A child may live before its parent has told where.
        let is_told = |child| !view.pending.contains(&Some(FamilyOp::Spawn(child)));
        match *op {
            FamilyOp::Spawn(child) => children[child] == Child::None && parents[child] == view.me,
            FamilyOp::Dismiss(child) => children[child] == Child::Lives && is_told(child),
            FamilyOp::Join(child, _) => {
                matches!(children[child], Child::Lives | Child::Ends) && !has_joiner(child) && is_told(child)
            }
        }
    }

    fn moves(view: &View<'_, Self>, op: &FamilyOp) -> Vec<Move<Self::State>> {
        let (children, parents) = *view.state;
        let with = |child: usize, now| {
            let mut children = children;
            children[child] = now;
            (children, parents)
        };
        match *op {
            FamilyOp::Spawn(child) => view.does(with(child, Child::Lives), Ret::Done),
            // Of two such calls, one may take effect after a join.
            FamilyOp::Dismiss(child) => {
                let now = if children[child] == Child::Lives { Child::Ends } else { children[child] };
                view.does(with(child, now), Ret::Done)
            }
            FamilyOp::Join(child, manner) => {
                let mut moves = view.is_interrupted(manner);
                if children[child] == Child::Ends {
                    moves.extend(view.does(with(child, Child::Joined), Ret::Value(child as u32)));
                }
                // A child that was told to end may still take some time.
                let gives_up = view.gives_up(manner).into_iter().map(|step| Move { must: false, ..step });
                moves.extend(gives_up);
                if children[child] != Child::Ends {
                    moves.iter_mut().for_each(|step| step.must = true);
                }
                moves
            }
        }
    }

    fn release((children, _): &Self::State, idle: &[usize]) -> Option<(usize, FamilyOp)> {
        let child = (0..CHILDREN).find(|&child| children[child] == Child::Lives)?;
        idle.first().map(|&one| (one, FamilyOp::Dismiss(child)))
    }
}

#[test]
fn a_thread_that_ends_is_joined() {
    let children = || 0..CHILDREN;
    let ops = prop_oneof![
        3 => children().prop_map(FamilyOp::Spawn),
        2 => children().prop_map(FamilyOp::Dismiss),
        3 => (children(), patient()).prop_map(|(child, manner)| FamilyOp::Join(child, manner)),
    ];
    check(CASES, prop::array::uniform(0..4_usize).prop_map(|parents| Family { parents }), ops);
}
