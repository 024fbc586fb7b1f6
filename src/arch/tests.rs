//! Contexts by themselves: no scheduler, no thread-local blocks.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::*;

/// A stack and the two slots of a pair that switches to and fro.
struct Pair {
    stack: Vec<u128>,
    outside: Cell<SavedSp>,
    inside: Cell<SavedSp>,
}

impl Pair {
    /// A context that will run `body(pair, first arg)`, and then switch out for good with what that returned.
    fn new<F: FnOnce(&Pair, usize) -> usize>(body: F) -> (Box<Self>, Box<(*const Pair, Option<F>)>) {
        let mut pair = Box::new(Pair {
            stack: vec![0; 256 * 1024 / 16],
            outside: Cell::new(SavedSp::NONE),
            inside: Cell::new(SavedSp::NONE),
        });
        let mut data = Box::new((&raw const *pair, Some(body)));
        let top = pair.stack.as_mut_ptr_range().end.cast::<u8>();
        // SAFETY: the stack is ours, aligned as u128, and outlives the context; `enter` never returns.
        let sp = unsafe { init(top, enter::<F>, (&raw mut *data).cast()) };
        pair.inside.set(sp);
        (pair, data)
    }

    /// From outside: let the context run until it calls [`Pair::go_out`].
    fn go_in(&self, arg: usize) -> usize {
        // SAFETY: `inside` was saved by `new` or `go_out`, and this is the one place that takes it up.
        unsafe { switch(self.outside.as_ptr(), self.inside.get(), arg) }
    }

    /// From inside: back to whoever called [`Pair::go_in`].
    fn go_out(&self, arg: usize) -> usize {
        // SAFETY: `outside` was saved by the `go_in` that brought us here.
        unsafe { switch(self.inside.as_ptr(), self.outside.get(), arg) }
    }
}

unsafe extern "C" fn enter<F: FnOnce(&Pair, usize) -> usize>(arg: usize, data: *mut ()) -> ! {
    // SAFETY: `data` is the box that `Pair::new` returned beside the pair, which the test keeps.
    let (pair, body) = unsafe { &mut *data.cast::<(*const Pair, Option<F>)>() };
    // SAFETY: as above.
    let pair = unsafe { &**pair };
    let end = body.take().unwrap()(pair, arg);
    pair.go_out(end);
    unreachable!("a context that has ended was taken up again")
}

#[test]
fn arguments_go_both_ways_a_million_times() {
    let (pair, _data) = Pair::new(|pair, first| {
        let mut got = first;
        while got != 0 {
            got = pair.go_out(got + 1);
        }
        7
    });
    for i in 1..=1_000_000 {
        assert_eq!(pair.go_in(i), i + 1);
    }
    assert_eq!(pair.go_in(0), 7);
}
