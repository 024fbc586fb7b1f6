//! `Once` and `OnceLock`, with closures that may be slow, fail or panic.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use proptest::prelude::*;
use selvedge::sync::{Once, OnceLock};
use selvedge::thread::{self, Thread};

use crate::CASES;
use crate::crew::{check, manners};
use crate::engine::{Length, Manner, Move, Ret, Spec, View, unless_expired};

/// The way in which a closure ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Well,
    SlowlyAndWell,
    InVain,
    Panics,
}

impl End {
    fn run(self) {
        match self {
            Self::Well | Self::InVain => {}
            Self::SlowlyAndWell => thread::sleep(Duration::from_millis(2)),
            Self::Panics => resume_unwind(Box::new(())),
        }
    }
}

fn caught(f: impl FnOnce() -> Ret) -> Ret {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(Ret::Panicked)
}

fn ends() -> impl Strategy<Value = End> {
    prop::sample::select(vec![End::Well, End::SlowlyAndWell, End::InVain, End::Panics])
}

#[derive(Clone, Copy, Debug)]
struct Cell;

#[derive(Clone, Copy, Debug, PartialEq)]
enum CellOp {
    Get,
    Set(u32),
    Init(u32, End, Manner),
    Wait(Manner),
}

impl Spec for Cell {
    type Op = CellOp;
    type State = Option<u32>;
    type World = OnceLock<u32>;

    fn world(&self) -> OnceLock<u32> {
        OnceLock::new()
    }

    fn state(&self) -> Option<u32> {
        None
    }

    fn run(cell: &OnceLock<u32>, _crew: &[Thread], _me: usize, op: &CellOp) -> Ret {
        match *op {
            CellOp::Get => cell.get().map_or(Ret::No, |value| Ret::Value(*value)),
            CellOp::Set(value) => cell.set(value).map_or(Ret::Refused("full"), |()| Ret::Done),
            CellOp::Wait(manner) => {
                let found = match (manner.interruptible, manner.time()) {
                    (false, None) => Ok(Some(cell.wait())),
                    (false, Some(time)) => Ok(cell.wait_for(time)),
                    (true, _) => unless_expired(cell.wait_with(manner.limits())),
                };
                found.map_or(Ret::Interrupted, |found| found.map_or(Ret::No, |value| Ret::Value(*value)))
            }
            CellOp::Init(value, end, manner) => caught(|| {
                let make = || {
                    end.run();
                    if end == End::InVain { Err(()) } else { Ok(value) }
                };
                let made = match (manner.interruptible, manner.time()) {
                    (false, None) => Ok(cell.get_or_try_init(make).map(Some)),
                    (false, Some(time)) => Ok(cell.get_or_try_init_for(make, time)),
                    (true, _) => unless_expired(cell.get_or_try_init_with(manner.limits(), make))
                        .map(Option::transpose),
                };
                match made {
                    Ok(Ok(Some(value))) => Ret::Value(*value),
                    Ok(Ok(None)) => Ret::No,
                    Ok(Err(())) => Ret::Refused("in vain"),
                    Err(_) => Ret::Interrupted,
                }
            }),
        }
    }

    fn moves(view: &View<'_, Self>, op: &CellOp) -> Vec<Move<Option<u32>>> {
        let state = *view.state;
        match (*op, state) {
            (CellOp::Get, value) => view.does(state, value.map_or(Ret::No, Ret::Value)),
            (CellOp::Set(_), Some(_)) => view.does(state, Ret::Refused("full")),
            (CellOp::Set(value), None) => view.does(Some(value), Ret::Done),
            (CellOp::Wait(manner), Some(value)) => {
                let mut moves = view.is_interrupted(manner);
                moves.extend(view.does(state, Ret::Value(value)));
                moves
            }
            (CellOp::Wait(manner), None) => view.gives_up(manner),
            (CellOp::Init(value, end, manner), _) => {
                // The call waits if the closure of another thread is running.
                let others = |op: &CellOp| matches!(op, CellOp::Init(..) | CellOp::Set(_));
                let mut moves = if view.others().any(others) {
                    view.gives_up(manner)
                } else {
                    view.is_interrupted(manner)
                };
                moves.extend(match (state, end) {
                    (Some(value), _) => view.does(state, Ret::Value(value)),
                    (None, End::Well | End::SlowlyAndWell) => view.does(Some(value), Ret::Value(value)),
                    (None, End::InVain) => view.does(None, Ret::Refused("in vain")),
                    (None, End::Panics) => view.does(None, Ret::Panicked),
                });
                moves
            }
        }
    }

    fn release(_state: &Option<u32>, idle: &[usize]) -> Option<(usize, CellOp)> {
        idle.first().map(|&one| (one, CellOp::Set(0)))
    }
}

#[test]
fn a_cell_is_filled_once() {
    let manners = || {
        manners().prop_map(|manner| match manner.wait {
            Length::Try => Manner { wait: Length::Brief, ..manner },
            _ => manner,
        })
    };
    let ops = prop_oneof![
        2 => Just(CellOp::Get),
        1 => (0..9_u32).prop_map(CellOp::Set),
        4 => (0..9_u32, ends(), manners()).prop_map(|(value, end, manner)| CellOp::Init(value, end, manner)),
        3 => manners().prop_map(CellOp::Wait),
    ];
    check(2 * CASES, Just(Cell), ops);
}

#[derive(Clone, Copy, Debug)]
struct Deed;

#[derive(Clone, Copy, Debug, PartialEq)]
enum DeedOp {
    /// The `bool` is `true` if the closure runs even if an earlier one has panicked.
    Call(End, bool, Manner),
    IsCompleted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DeedState {
    New,
    Poisoned,
    Done,
}

impl Spec for Deed {
    type Op = DeedOp;
    type State = DeedState;
    type World = Once;

    fn world(&self) -> Once {
        Once::new()
    }

    fn state(&self) -> DeedState {
        DeedState::New
    }

    fn run(once: &Once, _crew: &[Thread], _me: usize, op: &DeedOp) -> Ret {
        let DeedOp::Call(end, force, manner) = *op else { return Ret::Value(u32::from(once.is_completed())) };
        caught(|| {
            let deed = || end.run();
            let forced = |_: &_| end.run();
            let called = match (force, manner.interruptible, manner.time()) {
                (false, false, None) => {
                    once.call_once(deed);
                    Ok(true)
                }
                (false, false, Some(time)) => Ok(once.call_once_for(deed, time)),
                (false, true, _) => {
                    unless_expired(once.call_once_with(manner.limits(), deed)).map(|done| done.is_some())
                }
                (true, false, None) => {
                    once.call_once_force(forced);
                    Ok(true)
                }
                (true, false, Some(time)) => Ok(once.call_once_force_for(forced, time)),
                (true, true, _) => unless_expired(once.call_once_force_with(manner.limits(), forced))
                    .map(|done| done.is_some()),
            };
            match called {
                Ok(true) => Ret::Done,
                Ok(false) => Ret::No,
                Err(_) => Ret::Interrupted,
            }
        })
    }

    fn moves(view: &View<'_, Self>, op: &DeedOp) -> Vec<Move<DeedState>> {
        let state = *view.state;
        let DeedOp::Call(end, force, manner) = *op else {
            return view.does(state, Ret::Value(u32::from(state == DeedState::Done)));
        };
        let others = |op: &DeedOp| matches!(op, DeedOp::Call(..));
        let mut moves =
            if view.others().any(others) { view.gives_up(manner) } else { view.is_interrupted(manner) };
        moves.extend(match state {
            DeedState::Done => view.does(state, Ret::Done),
            DeedState::Poisoned if !force => view.does(state, Ret::Panicked),
            _ if end == End::Panics => view.does(DeedState::Poisoned, Ret::Panicked),
            _ => view.does(DeedState::Done, Ret::Done),
        });
        moves
    }

    fn release(_state: &DeedState, _idle: &[usize]) -> Option<(usize, DeedOp)> {
        None
    }
}

#[test]
fn a_deed_is_done_once() {
    let ops = prop_oneof![
        4 => (ends(), any::<bool>(), manners()).prop_map(|(end, force, manner)| DeedOp::Call(end, force, manner)),
        1 => Just(DeedOp::IsCompleted),
    ];
    check(2 * CASES, Just(Deed), ops);
}
