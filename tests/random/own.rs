//! Values of threads under keys.

use std::sync::{Arc, Mutex as StdMutex};

use proptest::prelude::*;
use selvedge::thread::Thread;
use selvedge::tsd::Key;

use crate::CASES;
use crate::crew::{WORKERS, check};
use crate::engine::{Move, Ret, Spec, View};

const KEYS: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Keys;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Set(usize, u32),
    Replace(usize, u32),
    Get(usize),
    GetOrInit(usize, u32),
    Take(usize),
    /// Drops the key and puts another in its place.
    Renew(usize),
}

type Values = [[Option<u32>; KEYS]; WORKERS];

fn found(value: Option<u32>) -> Ret {
    value.map_or(Ret::No, Ret::Value)
}

impl Spec for Keys {
    type Op = Op;
    type State = Values;
    type World = [StdMutex<Arc<Key<u32>>>; KEYS];

    fn world(&self) -> Self::World {
        std::array::from_fn(|_| StdMutex::new(Arc::new(Key::new())))
    }

    fn state(&self) -> Values {
        [[None; KEYS]; WORKERS]
    }

    fn run(world: &Self::World, _crew: &[Thread], _me: usize, op: &Op) -> Ret {
        let key = |key: usize| Arc::clone(&world[key].lock().unwrap());
        match *op {
            Op::Set(which, value) => key(which).set(value),
            Op::Replace(which, value) => return found(key(which).replace(value)),
            Op::Get(which) => return found(key(which).get()),
            Op::GetOrInit(which, value) => {
                return Ret::Value(key(which).with_or_init(|| value, |found| *found));
            }
            Op::Take(which) => return found(key(which).take()),
            Op::Renew(which) => {
                drop(std::mem::replace(&mut *world[which].lock().unwrap(), Arc::new(Key::new())))
            }
        }
        Ret::Done
    }

    /// While a key is renewed, no thread uses it, because it could see the old one or the new one.
    fn is_legal(view: &View<'_, Self>, op: &Op) -> bool {
        let mut others = view.others();
        if matches!(op, Op::Renew(_)) {
            others.next().is_none()
        } else {
            !others.any(|op| matches!(op, Op::Renew(_)))
        }
    }

    fn moves(view: &View<'_, Self>, op: &Op) -> Vec<Move<Values>> {
        let mine = |key: usize| view.state[view.me][key];
        let with = |key: usize, value| {
            let mut values = *view.state;
            values[view.me][key] = value;
            values
        };
        match *op {
            Op::Set(key, value) => view.does(with(key, Some(value)), Ret::Done),
            Op::Replace(key, value) => view.does(with(key, Some(value)), found(mine(key))),
            Op::Get(key) => view.does(*view.state, found(mine(key))),
            Op::GetOrInit(key, value) => {
                let value = mine(key).unwrap_or(value);
                view.does(with(key, Some(value)), Ret::Value(value))
            }
            Op::Take(key) => view.does(with(key, None), found(mine(key))),
            Op::Renew(key) => {
                let mut values = *view.state;
                values.iter_mut().for_each(|of_one| of_one[key] = None);
                view.does(values, Ret::Done)
            }
        }
    }

    fn release(_state: &Values, _idle: &[usize]) -> Option<(usize, Op)> {
        None
    }
}

#[test]
fn a_thread_finds_its_own_values() {
    let (key, value) = (|| 0..KEYS, || 0..100_u32);
    let ops = prop_oneof![
        3 => (key(), value()).prop_map(|(key, value)| Op::Set(key, value)),
        2 => (key(), value()).prop_map(|(key, value)| Op::Replace(key, value)),
        3 => key().prop_map(Op::Get),
        2 => (key(), value()).prop_map(|(key, value)| Op::GetOrInit(key, value)),
        2 => key().prop_map(Op::Take),
        1 => key().prop_map(Op::Renew),
    ];
    check(2 * CASES, Just(Keys), ops);
}
