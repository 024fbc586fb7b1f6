//! The readers-writer lock, with upgrades and downgrades.

use std::sync::Mutex as StdMutex;
use std::time::Duration;

use proptest::prelude::*;
use selvedge::WaitError;
use selvedge::sync::{
    RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWith, RwLockWriteGuard, UpgradeWith,
};
use selvedge::thread::Thread;

use crate::CASES;
use crate::crew::{WORKERS, check, manners};
use crate::engine::{Length, Manner, Move, Ret, Spec, View, unless_expired};

#[derive(Clone, Copy, Debug)]
struct Lock;

/// A thread's share of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Share {
    Read,
    Upgradable,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Take(Share, Manner),
    Leave,
    Upgrade(Manner),
    /// Changes to this weaker share.
    Downgrade(Share),
}

enum Guard {
    #[expect(dead_code, reason = "only its end matters")]
    Read(RwLockReadGuard<'static, ()>),
    Upgradable(RwLockUpgradableReadGuard<'static, ()>),
    Write(RwLockWriteGuard<'static, ()>),
}

/// The guard of a worker; only the worker that has the share uses it.
struct Held(Option<Guard>);

// SAFETY: each worker uses only its own guard.
unsafe impl Send for Held {}

struct World {
    lock: &'static RwLock<()>,
    held: [StdMutex<Held>; WORKERS],
}

type State = [Option<Share>; WORKERS];

fn take(lock: &'static RwLock<()>, share: Share, manner: Manner) -> Result<Option<Guard>, WaitError> {
    macro_rules! any_way {
        ($guard:path, $try:ident, $plain:ident, $for:ident, $with:ident) => {
            match (manner.wait, manner.interruptible, manner.time()) {
                (Length::Try, ..) => Ok(lock.$try().map($guard)),
                (_, true, _) => unless_expired(lock.$with(manner.limits()).map($guard)),
                (_, false, None) => Ok(Some($guard(lock.$plain()))),
                (_, false, Some(time)) => Ok(lock.$for(time).map($guard)),
            }
        };
    }
    match share {
        Share::Read => {
            any_way!(Guard::Read, try_read, read, try_read_for, read_with)
        }
        Share::Write => any_way!(Guard::Write, try_write, write, try_write_for, write_with),
        Share::Upgradable => any_way!(
            Guard::Upgradable,
            try_upgradable_read,
            upgradable_read,
            try_upgradable_read_for,
            upgradable_read_with
        ),
    }
}

fn upgrade(guard: RwLockUpgradableReadGuard<'static, ()>, manner: Manner) -> (Guard, Ret) {
    type Read = RwLockUpgradableReadGuard<'static, ()>;
    let upgraded = match (manner.wait, manner.interruptible, manner.time()) {
        (Length::Try, ..) => Read::try_upgrade(guard).map_err(|guard| (guard, Ret::No)),
        (_, true, _) => Read::upgrade_with(guard, manner.limits()).map_err(|(guard, error)| match error {
            WaitError::TimedOut => (guard, Ret::No),
            WaitError::Interrupted => (guard, Ret::Interrupted),
        }),
        (_, false, None) => Ok(Read::upgrade(guard)),
        (_, false, Some(time)) => Read::try_upgrade_for(guard, time).map_err(|guard| (guard, Ret::No)),
    };
    match upgraded {
        Ok(guard) => (Guard::Write(guard), Ret::Done),
        Err((guard, ret)) => (Guard::Upgradable(guard), ret),
    }
}

impl Spec for Lock {
    type Op = Op;
    type State = State;
    type World = World;

    fn world(&self) -> World {
        // Leaked, because its guards are kept.
        World {
            lock: Box::leak(Box::new(RwLock::new(()))),
            held: [const { StdMutex::new(Held(None)) }; WORKERS],
        }
    }

    fn state(&self) -> State {
        [None; WORKERS]
    }

    fn run(world: &World, _crew: &[Thread], me: usize, op: &Op) -> Ret {
        // Only this worker uses this lock of std, so it is free.
        let take_mine = || world.held[me].lock().unwrap().0.take();
        let keep = |guard| world.held[me].lock().unwrap().0 = Some(guard);
        match *op {
            Op::Take(share, manner) => match take(world.lock, share, manner) {
                Ok(Some(guard)) => keep(guard),
                Ok(None) => return Ret::No,
                Err(_) => return Ret::Interrupted,
            },
            Op::Leave => drop(take_mine()),
            Op::Upgrade(manner) => {
                let Some(Guard::Upgradable(guard)) = take_mine() else { return Ret::Refused("no share") };
                let (guard, ret) = upgrade(guard, manner);
                keep(guard);
                return ret;
            }
            Op::Downgrade(to) => keep(match (take_mine(), to) {
                (Some(Guard::Write(guard)), Share::Read) => Guard::Read(RwLockWriteGuard::downgrade(guard)),
                (Some(Guard::Write(guard)), _) => {
                    Guard::Upgradable(RwLockWriteGuard::downgrade_to_upgradable(guard))
                }
                (Some(Guard::Upgradable(guard)), _) => {
                    Guard::Read(RwLockUpgradableReadGuard::downgrade(guard))
                }
                _ => return Ret::Refused("no share"),
            }),
        }
        Ret::Done
    }

    fn is_legal(view: &View<'_, Self>, op: &Op) -> bool {
        let mine = view.state[view.me];
        match op {
            Op::Take(..) => mine.is_none(),
            Op::Leave => mine.is_some(),
            Op::Upgrade(_) => mine == Some(Share::Upgradable),
            Op::Downgrade(Share::Read) => matches!(mine, Some(Share::Write | Share::Upgradable)),
            Op::Downgrade(_) => mine == Some(Share::Write),
        }
    }

    fn moves(view: &View<'_, Self>, op: &Op) -> Vec<Move<State>> {
        let (state, me) = (view.state, view.me);
        let with = |share| {
            let mut state = *state;
            state[me] = share;
            state
        };
        let is_there = |share| state.iter().enumerate().any(|(one, its)| one != me && *its == Some(share));
        // Readers may have to wait behind a waiting writer.
        let writer_waits = view.others().any(|op| matches!(op, Op::Take(Share::Write, _) | Op::Upgrade(_)));
        let (share, manner) = match *op {
            Op::Take(share, manner) => (share, manner),
            Op::Upgrade(manner) => (Share::Write, manner),
            Op::Leave => return view.does(with(None), Ret::Done),
            Op::Downgrade(to) => return view.does(with(Some(to)), Ret::Done),
        };
        let fits = !is_there(Share::Write)
            && match share {
                Share::Read => true,
                Share::Upgradable => !is_there(Share::Upgradable),
                Share::Write => !is_there(Share::Upgradable) && !is_there(Share::Read),
            };
        let mut moves = view.is_interrupted(manner);
        if fits {
            moves.extend(view.does(with(Some(share)), Ret::Done));
        }
        if fits && writer_waits && share != Share::Write {
            moves.iter_mut().for_each(|step| step.must &= step.takes_flag);
        }
        if !fits || (writer_waits && share != Share::Write) {
            moves.extend(view.gives_up(manner));
        }
        moves
    }

    fn release(state: &State, idle: &[usize]) -> Option<(usize, Op)> {
        let one = idle.iter().find(|&&thread| state[thread].is_some())?;
        Some((*one, Op::Leave))
    }

    fn agrees(world: &World, state: &State) -> bool {
        let is_free = world.lock.try_write_for(Duration::ZERO).is_some();
        is_free == state.iter().all(Option::is_none)
    }
}

#[test]
fn a_readers_writer_lock_has_readers_or_one_writer() {
    let share = || prop::sample::select(vec![Share::Read, Share::Upgradable, Share::Write]);
    let weaker = prop::sample::select(vec![Share::Read, Share::Upgradable]);
    let ops = prop_oneof![
        6 => (share(), manners()).prop_map(|(share, manner)| Op::Take(share, manner)),
        5 => Just(Op::Leave),
        3 => manners().prop_map(Op::Upgrade),
        1 => weaker.prop_map(Op::Downgrade),
    ];
    check(2 * CASES, Just(Lock), ops);
}
