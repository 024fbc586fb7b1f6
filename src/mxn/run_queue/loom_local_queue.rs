//! The ring: its owner against thieves. Every thread is taken once, by an LWP that sees what it was pushed
//! with.

use std::ptr::NonNull;
use std::sync::Arc;

use super::{CAPACITY, LocalQueue};
use crate::park::tests::loom_model::{Letter, model, spawn_with};
use crate::shim::atomic::Ordering;

/// A thread: how often it has run. Loom sees whether a run was ordered after the push, and after another run.
type Item = Letter;

struct Model {
    ring: LocalQueue<Item>,
    items: Vec<Item>,
}

impl Model {
    fn new(items: usize) -> Arc<Self> {
        Arc::new(Self { ring: ring(), items: (0..items).map(|_| Item::default()).collect() })
    }

    fn item(&self, n: usize) -> NonNull<Item> {
        self.items[n].add_one();
        NonNull::from(&self.items[n])
    }

    /// Checks that each was pushed and run once.
    fn check(&self) {
        for item in &self.items {
            assert_eq!(item.read(), 2, "run twice, or never");
        }
    }
}

/// A ring that all of the model's threads may see. Its atomics come into being here, not at their first use.
fn ring() -> LocalQueue<Item> {
    let ring = LocalQueue::new();
    ring.touch();
    ring
}

impl<T> LocalQueue<T> {
    /// Touches its atomics, so that they exist in the model.
    pub(crate) fn touch(&self) {
        assert!(self.is_empty() && self.cells.iter().all(|cell| cell.load(Ordering::Relaxed).is_null()));
    }
}

fn run(item: NonNull<Item>) {
    // SAFETY: the model keeps the items.
    unsafe { item.as_ref() }.add_one();
}

type Push = fn(&LocalQueue<Item>, NonNull<Item>) -> Result<(), NonNull<Item>>;
type Pop = fn(&LocalQueue<Item>) -> Option<NonNull<Item>>;
type Steal = fn(&LocalQueue<Item>, &LocalQueue<Item>) -> Option<NonNull<Item>>;

/// Models an owner that fills its ring, past its end if thieves have made room, and empties it. Thieves steal
/// meanwhile.
fn owner_and_thieves(thieves: usize, items: usize, push: Push, pop: Pop, steal: Steal) {
    model(move || {
        let model = Model::new(items);
        let thieves: Vec<_> = (0..thieves)
            .map(|_| {
                let model = model.clone();
                loom::thread::spawn(move || {
                    let mine = LocalQueue::new();
                    if let Some(item) = steal(&model.ring, &mine) {
                        run(item);
                    }
                    while let Some(item) = mine.pop() {
                        run(item);
                    }
                })
            })
            .collect();
        for n in 0..items {
            if let Err(item) = push(&model.ring, model.item(n)) {
                run(item);
            }
        }
        while let Some(item) = pop(&model.ring) {
            run(item);
        }
        thieves.into_iter().for_each(|thief| thief.join().unwrap());
        model.check();
    });
}

/// Checks that what its owner sees first is what it pops next, unless a thief is faster.
#[test]
fn the_first_is_popped_or_has_been_stolen() {
    model(|| {
        let model = Model::new(2);
        let theirs = model.clone();
        let thief = loom::thread::spawn(move || {
            if let Some(item) = theirs.ring.steal_into(&LocalQueue::new()) {
                run(item);
            }
        });
        for n in 0..2 {
            assert!(model.ring.push(model.item(n)).is_ok());
        }
        loop {
            let first = model.ring.first();
            let Some(popped) = model.ring.pop() else { break };
            let first = first.expect("popped from an empty ring");
            assert!(popped == first || popped == NonNull::from(&model.items[1]), "out of order");
            run(popped);
        }
        assert!(model.ring.first().is_none());
        thief.join().unwrap();
        model.check();
    });
}

const PUSH: Push = LocalQueue::push;
const POP: Pop = LocalQueue::pop;
const STEAL: Steal = LocalQueue::steal_into;

#[test]
fn every_thread_is_taken_once() {
    owner_and_thieves(1, CAPACITY as usize + 2, PUSH, POP, STEAL);
}

#[test]
fn two_thieves_share() {
    owner_and_thieves(2, 3, PUSH, POP, STEAL);
}

/// Models a thief that robs a thief: the cells that were stolen are published again.
#[test]
fn a_thief_may_be_robbed() {
    model(|| {
        let model = Model::new(3);
        let first = Arc::new(ring());
        let robbers = spawn_with((model.clone(), first.clone()), move |(model, first)| {
            if let Some(item) = model.ring.steal_into(&first) {
                run(item);
            }
            while let Some(item) = first.pop() {
                run(item);
            }
        });
        let second = spawn_with(first.clone(), move |first| {
            let mine = LocalQueue::new();
            if let Some(item) = first.steal_into(&mine) {
                run(item);
            }
            while let Some(item) = mine.pop() {
                run(item);
            }
        });
        for n in 0..3 {
            model.ring.push(model.item(n)).unwrap();
        }
        robbers.join().unwrap();
        second.join().unwrap();
        while let Some(item) = model.ring.pop() {
            run(item);
        }
        model.check();
    });
}

/// The thief sees that there is a thread, but the cell is still empty, and the thread is lost.
#[test]
#[should_panic(expected = "or never")]
fn negative_push_without_release() {
    let push: Push = |ring, item| {
        let tail = ring.tail.load(Ordering::Relaxed);
        ring.cell(tail).store(item.as_ptr(), Ordering::Relaxed);
        ring.tail.store(tail.wrapping_add(1), Ordering::Relaxed);
        Ok(())
    };
    owner_and_thieves(1, 2, push, POP, STEAL);
}

/// The owner overwrites a thread that was not taken.
#[test]
#[should_panic(expected = "or never")]
fn negative_push_without_a_look_at_the_head() {
    let push: Push = |ring, item| {
        let tail = ring.tail.load(Ordering::Relaxed);
        ring.cell(tail).store(item.as_ptr(), Ordering::Relaxed);
        ring.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    };
    owner_and_thieves(1, CAPACITY as usize + 1, push, POP, STEAL);
}

/// A claim that is not one step: owner and thief both have the thread.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_pop_without_compare_and_swap() {
    let pop: Pop = |ring| {
        let (head, tail) = (ring.head.load(Ordering::Acquire), ring.tail.load(Ordering::Relaxed));
        (head != tail).then(|| {
            let item = ring.cell(head).load(Ordering::Relaxed);
            ring.head.store(head.wrapping_add(1), Ordering::Release);
            NonNull::new(item).unwrap()
        })
    };
    owner_and_thieves(1, 2, PUSH, pop, STEAL);
}

/// The same on the thief's side.
#[test]
#[should_panic(expected = "or never")]
fn negative_steal_without_acquire() {
    let steal: Steal = |ring, _into| {
        let head = ring.head.load(Ordering::Relaxed);
        if ring.tail.load(Ordering::Relaxed) == head {
            return None;
        }
        let item = ring.cell(head).load(Ordering::Relaxed);
        let claim =
            ring.head.compare_exchange(head, head.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_ok() { NonNull::new(item) } else { None }
    };
    owner_and_thieves(1, 2, PUSH, POP, steal);
}

/// A claim that the owner has beaten looks at a tail that is not older than the new head.
#[test]
fn a_claim_that_was_beaten_ends_at_the_tail() {
    model(|| {
        let model = Model::new(2);
        assert!(model.ring.push(model.item(0)).is_ok());
        let theirs = model.clone();
        let claimer = loom::thread::spawn(move || {
            if let Some(item) = theirs.ring.claim() {
                run(item);
            }
        });
        if let Some(item) = model.ring.pop() {
            run(item);
        }
        assert!(model.ring.push(model.item(1)).is_ok());
        while let Some(item) = model.ring.pop() {
            run(item);
        }
        claimer.join().unwrap();
        assert!(model.ring.is_empty(), "claimed past the tail");
        model.check();
    });
}
