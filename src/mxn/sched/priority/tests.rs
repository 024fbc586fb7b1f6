//! The shared queues of high and of low priority, compared with two lists.

mod turns;

use std::collections::VecDeque;

use proptest::prelude::*;

use super::PriorityQueues;
use crate::mxn::backend::Greens;
use crate::mxn::green::Green;
use crate::park::current::current;
use crate::park::priority::Priority;
use crate::park::tests::random;

const THREADS: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Makes a thread runnable that waits nowhere.
    Push(usize),
    TakeHigh,
    TakeLow,
    Remove(usize),
    /// Gives a thread another priority, and moves it to the queue for that.
    Change(usize, Priority),
}

fn compare(ops: &[Op]) {
    let backend = current().backend();
    let greens: Vec<&'static Green> =
        (0..THREADS).map(|_| &*Box::leak(Box::new(Green::new(backend, &Greens)))).collect();
    let levels = PriorityQueues::new();
    let (mut high, mut low) = (VecDeque::new(), VecDeque::new());
    let number =
        |taken: Option<_>| taken.map(|taken| greens.iter().position(|green| green.ptr() == taken).unwrap());
    let push = |thread: usize, high: &mut VecDeque<usize>, low: &mut VecDeque<usize>| {
        let level = greens[thread].core.priority.get();
        assert_eq!(levels.push(greens[thread]), level != Priority::Normal);
        match level {
            Priority::High => high.push_back(thread),
            Priority::Low => low.push_back(thread),
            Priority::Normal => {}
        }
    };
    for &op in ops {
        match op {
            Op::Push(thread) if high.contains(&thread) || low.contains(&thread) => {}
            Op::Push(thread) => push(thread, &mut high, &mut low),
            Op::TakeHigh => assert_eq!(number(levels.take_high()), high.pop_front()),
            Op::TakeLow => assert_eq!(number(levels.take_low()), low.pop_front()),
            Op::Remove(thread) | Op::Change(thread, _) => {
                if let Op::Change(_, level) = op {
                    greens[thread].core.priority.set(level);
                }
                let waits = high.contains(&thread) || low.contains(&thread);
                high.retain(|&other| other != thread);
                low.retain(|&other| other != thread);
                assert_eq!(levels.remove(greens[thread]), waits);
                if waits && matches!(op, Op::Change(..)) {
                    push(thread, &mut high, &mut low);
                }
            }
        }
        assert_eq!((levels.high(), levels.len()), (high.len(), high.len() + low.len()));
        assert_eq!(levels.are_urgent(), !high.is_empty(), "the bit of the high queue");
    }
    for green in greens {
        // SAFETY: leaked above, and in no queue that is looked at again.
        drop(unsafe { Box::from_raw(green.ptr().as_ptr()) });
    }
}

#[test]
fn any_order_of_changes_of_priority_gives_what_lists_would() {
    let level = prop::sample::select(vec![Priority::High, Priority::Normal, Priority::Low]);
    let op = prop_oneof![
        4 => (0..THREADS).prop_map(Op::Push),
        1 => Just(Op::TakeHigh),
        1 => Just(Op::TakeLow),
        1 => (0..THREADS).prop_map(Op::Remove),
        4 => (0..THREADS, level).prop_map(|(thread, level)| Op::Change(thread, level)),
    ];
    random::check(300, &prop::collection::vec(op, 0..60), |ops| compare(&ops));
}
