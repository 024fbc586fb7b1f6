//! Locks with one owner: plain, reentrant, checked and robust.

use std::mem::{ManuallyDrop, forget};
use std::sync::Mutex as StdMutex;

use proptest::prelude::*;
use selvedge::WaitError;
use selvedge::sync::{
    Acquired, LockError, LockWith, Mutex, RawCheckedMutex, ReentrantMutex, RobustError, RobustMutex,
    RobustMutexGuard, UnlockError,
};
use selvedge::thread::Thread;

use crate::CASES;
use crate::crew::{WORKERS, check, manners};
use crate::engine::{Length, Manner, Move, Ret, Spec, View, unless_expired};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Reentrant,
    Checked,
    Robust,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Lock(Manner),
    Unlock {
        fair: bool,
    },
    /// If the lock is free, another thread acquires it and ends.
    Die,
}

/// The guard of a worker; only the worker that has locked the mutex uses it.
struct Held(Option<ManuallyDrop<RobustMutexGuard<'static, ()>>>);

// SAFETY: each worker uses only its own guard.
unsafe impl Send for Held {}

enum World {
    Plain(Mutex<()>),
    Reentrant(ReentrantMutex<()>),
    Checked(RawCheckedMutex),
    Robust(&'static RobustMutex<()>, [StdMutex<Held>; WORKERS]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    owner: Option<usize>,
    count: u32,
    /// `true` if an owner has ended with the lock held.
    is_orphan: bool,
    kind: u8,
}

const INHERITED: Ret = Ret::Value(1);

fn locked<G>(got: Result<Option<G>, WaitError>) -> Ret {
    match got {
        Ok(Some(guard)) => {
            forget(guard);
            Ret::Done
        }
        Ok(None) => Ret::No,
        Err(_) => Ret::Interrupted,
    }
}

fn lock_plain(mutex: &Mutex<()>, manner: Manner) -> Ret {
    locked(match (manner.wait, manner.interruptible, manner.time()) {
        (Length::Try, ..) => Ok(mutex.try_lock()),
        (_, true, _) => unless_expired(mutex.lock_with(manner.limits())),
        (_, false, None) => Ok(Some(mutex.lock())),
        (_, false, Some(time)) => Ok(mutex.try_lock_for(time)),
    })
}

fn lock_reentrant(mutex: &ReentrantMutex<()>, manner: Manner) -> Ret {
    locked(match (manner.wait, manner.interruptible, manner.time()) {
        (Length::Try, ..) => Ok(mutex.try_lock()),
        (_, true, _) => unless_expired(mutex.lock_with(manner.limits())),
        (_, false, None) => Ok(Some(mutex.lock())),
        (_, false, Some(time)) => Ok(mutex.try_lock_for(time)),
    })
}

fn lock_checked(raw: &RawCheckedMutex, manner: Manner) -> Ret {
    let got = match (manner.wait, manner.interruptible, manner.time()) {
        (Length::Try, ..) => raw.try_lock(),
        (_, true, _) => raw.lock_with(manner.limits()).map(|()| true),
        (_, false, None) => raw.lock().map(|()| true),
        (_, false, Some(time)) => raw.try_lock_for(time),
    };
    match got {
        Ok(true) => Ret::Done,
        Ok(false) | Err(LockError::TimedOut) => Ret::No,
        Err(LockError::Interrupted) => Ret::Interrupted,
        Err(_) => Ret::Refused("deadlock"),
    }
}

fn lock_robust(mutex: &'static RobustMutex<()>, held: &StdMutex<Held>, manner: Manner) -> Ret {
    let got = match (manner.wait, manner.interruptible, manner.time()) {
        (Length::Try, ..) => mutex.try_lock(),
        (_, true, _) => mutex.lock_with(manner.limits()).map(Some),
        (_, false, None) => mutex.lock().map(Some),
        (_, false, Some(time)) => mutex.try_lock_for(time),
    };
    let (guard, ret) = match got {
        Ok(Some(Acquired::Consistent(guard))) => (guard, Ret::Done),
        Ok(Some(Acquired::OwnerDied(orphan))) => {
            // SAFETY: the guard of the thread that has ended is forgotten.
            let mut guard = unsafe { orphan.adopt() };
            assert!(guard.mark_consistent());
            (guard, INHERITED)
        }
        Ok(Some(_)) => return Ret::Refused("another condition"),
        Ok(None) | Err(RobustError::TimedOut) => return Ret::No,
        Err(RobustError::Interrupted) => return Ret::Interrupted,
        Err(RobustError::Deadlock) => return Ret::Refused("deadlock"),
        Err(_) => return Ret::Refused("lost"),
    };
    held.lock().unwrap().0 = Some(ManuallyDrop::new(guard));
    ret
}

impl Spec for Kind {
    type Op = Op;
    type State = State;
    type World = World;

    fn world(&self) -> World {
        match self {
            Self::Plain => World::Plain(Mutex::new(())),
            Self::Reentrant => World::Reentrant(ReentrantMutex::new(())),
            Self::Checked => World::Checked(RawCheckedMutex::new()),
            // Leaked, because its guards are kept.
            Self::Robust => World::Robust(
                Box::leak(Box::new(RobustMutex::new(()))),
                [const { StdMutex::new(Held(None)) }; WORKERS],
            ),
        }
    }

    fn state(&self) -> State {
        State { owner: None, count: 0, is_orphan: false, kind: *self as u8 }
    }

    fn run(world: &World, _crew: &[Thread], me: usize, op: &Op) -> Ret {
        match (world, *op) {
            (World::Plain(mutex), Op::Lock(manner)) => lock_plain(mutex, manner),
            (World::Reentrant(mutex), Op::Lock(manner)) => lock_reentrant(mutex, manner),
            (World::Checked(raw), Op::Lock(manner)) => lock_checked(raw, manner),
            (World::Robust(mutex, held), Op::Lock(manner)) => lock_robust(mutex, &held[me], manner),
            (World::Plain(mutex), Op::Unlock { fair }) => {
                if fair {
                    // SAFETY: the reference says that this thread owns it, and its guard is forgotten.
                    unsafe { mutex.force_unlock_fair() };
                } else {
                    // SAFETY: the reference says that this thread owns it, and its guard is forgotten.
                    unsafe { mutex.force_unlock() };
                }
                Ret::Done
            }
            (World::Reentrant(mutex), Op::Unlock { fair }) => {
                if fair {
                    // SAFETY: the reference says that this thread owns it, and its guard is forgotten.
                    unsafe { mutex.force_unlock_fair() };
                } else {
                    // SAFETY: the reference says that this thread owns it, and its guard is forgotten.
                    unsafe { mutex.force_unlock() };
                }
                Ret::Done
            }
            (World::Checked(raw), Op::Unlock { fair }) => {
                match if fair { raw.unlock_fair() } else { raw.unlock() } {
                    Ok(()) => Ret::Done,
                    Err(UnlockError::NotLocked) => Ret::Refused("not locked"),
                    Err(_) => Ret::Refused("not the owner"),
                }
            }
            (World::Robust(_, held), Op::Unlock { .. }) => {
                let guard = held[me].lock().unwrap().0.take().expect("it is locked by this thread");
                drop(ManuallyDrop::into_inner(guard));
                Ret::Done
            }
            (World::Robust(mutex, _), Op::Die) => {
                let mutex: &'static RobustMutex<()> = mutex;
                let takes = move || match mutex.try_lock() {
                    Ok(Some(acquired)) => {
                        forget(acquired);
                        Ret::Done
                    }
                    Ok(None) => Ret::No,
                    Err(_) => Ret::Refused("an error"),
                };
                selvedge::thread::spawn(takes).join().unwrap()
            }
            (_, Op::Die) => unreachable!("the others have no such call"),
        }
    }

    fn is_legal(view: &View<'_, Self>, op: &Op) -> bool {
        let (kind, mine) = (view.state.kind, view.state.owner == Some(view.me));
        match op {
            Op::Lock(_) => !mine || kind != Self::Plain as u8,
            Op::Unlock { .. } => mine || kind == Self::Checked as u8,
            Op::Die => kind == Self::Robust as u8,
        }
    }

    fn moves(view: &View<'_, Self>, op: &Op) -> Vec<Move<State>> {
        let (state, kind, me) = (*view.state, view.state.kind, view.me);
        let mine = state.owner == Some(me);
        // A thread that dies has the lock for a moment, which is no step of its own here.
        let is_dying = || view.others().any(|other| *other == Op::Die);
        match *op {
            Op::Lock(manner) => {
                let mut moves = view.is_interrupted(manner);
                if state.owner.is_none() && is_dying() {
                    moves.extend(view.gives_up(manner));
                }
                let taken = State { owner: Some(me), count: state.count + 1, is_orphan: false, ..state };
                moves.extend(if state.owner.is_none() {
                    view.does(taken, if state.is_orphan { INHERITED } else { Ret::Done })
                } else if mine && kind == Self::Reentrant as u8 {
                    view.does(taken, Ret::Done)
                } else if mine {
                    let mut moves = view.does(state, Ret::Refused("deadlock"));
                    if manner.wait == Length::Try {
                        moves.extend(view.does(state, Ret::No));
                    }
                    moves
                } else {
                    view.gives_up(manner)
                });
                moves
            }
            Op::Unlock { .. } if mine => {
                let owner = state.owner.filter(|_| state.count > 1);
                view.does(State { owner, count: state.count - 1, ..state }, Ret::Done)
            }
            Op::Unlock { .. } if state.owner.is_none() => view.does(state, Ret::Refused("not locked")),
            Op::Unlock { .. } => view.does(state, Ret::Refused("not the owner")),
            Op::Die if state.owner.is_none() => {
                let mut moves = view.does(State { is_orphan: true, ..state }, Ret::Done);
                if is_dying() {
                    moves.extend(view.does(state, Ret::No));
                }
                moves
            }
            Op::Die => view.does(state, Ret::No),
        }
    }

    fn release(state: &State, idle: &[usize]) -> Option<(usize, Op)> {
        let owner = state.owner.filter(|owner| idle.contains(owner))?;
        Some((owner, Op::Unlock { fair: false }))
    }
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => manners().prop_map(Op::Lock),
        5 => any::<bool>().prop_map(|fair| Op::Unlock { fair }),
        1 => Just(Op::Die),
    ]
}

#[test]
fn a_mutex_has_one_owner() {
    check(CASES, Just(Kind::Plain), ops());
}

#[test]
fn a_reentrant_mutex_has_one_owner_as_often_as_it_likes() {
    check(CASES, Just(Kind::Reentrant), ops());
}

#[test]
fn a_checked_mutex_has_one_owner_and_knows_it() {
    check(CASES, Just(Kind::Checked), ops());
}

#[test]
fn a_robust_mutex_outlives_its_owners() {
    check(CASES, Just(Kind::Robust), ops());
}
