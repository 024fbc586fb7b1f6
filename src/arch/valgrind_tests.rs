//! valgrind understands switches: the test runs itself again under it, if it is installed.

use std::cell::Cell;
use std::hint::black_box;
use std::ops::Range;

use super::*;

/// Two contexts on neighbouring stacks, each of which goes deep, leaves for the other there, and looks at
/// what it left.
fn neighbours(announce: bool) {
    const WORDS: usize = 4096;
    type Saved = [Cell<SavedSp>; 3];
    fn hop(saved: &Saved, from: usize, to: usize) {
        // SAFETY: made below, or saved by an earlier hop, and taken up here alone.
        unsafe { switch(saved[from].as_ptr(), saved[to].get(), to) };
    }
    fn dig(saved: &Saved, me: usize, depth: usize) -> usize {
        let local = black_box([depth; 8]);
        let below = if depth > 0 { dig(saved, me, depth - 1) } else { 0 };
        if depth == 0 {
            hop(saved, me, 3 - me);
        }
        below + black_box(&local).iter().sum::<usize>()
    }
    unsafe extern "C" fn enter(me: usize, data: *mut ()) -> ! {
        // SAFETY: `data` is the array below, which outlives the contexts.
        let saved = unsafe { &*data.cast::<Saved>() };
        assert_eq!(dig(saved, me, 20), 8 * 210);
        hop(saved, me, if me == 1 { 2 } else { 0 });
        unreachable!()
    }
    let mut stacks = vec![0_u128; 2 * WORDS];
    let saved: Saved = [const { Cell::new(SavedSp::NONE) }; 3];
    for (stack_pointer, stack) in saved[1..].iter().zip(stacks.chunks_exact_mut(WORDS)) {
        let Range { start, end } = stack.as_mut_ptr_range();
        if announce {
            valgrind::announce(start.cast()..end.cast());
        }
        // SAFETY: the stack is the context's alone, and outlives it; `enter` never returns.
        stack_pointer.set(unsafe { init(end.cast(), enter, (&raw const saved).cast_mut().cast()) });
    }
    hop(&saved, 0, 1);
}

#[test]
fn valgrind_follows_switches_between_stacks_that_were_announced() {
    const INNER: &str = "SELVEDGE_TEST_UNDER_VALGRIND";
    if let Some(announce) = std::env::var_os(INNER) {
        assert!(valgrind::is_running());
        return neighbours(announce == "announced");
    }
    neighbours(true);
    let under_valgrind = |what: &str| {
        std::process::Command::new("valgrind")
            .args(["--quiet", "--error-exitcode=99"])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "arch::valgrind_tests::valgrind_follows_switches_between_stacks_that_were_announced",
            ])
            .env(INNER, what)
            .output()
    };
    if valgrind::is_running() || under_valgrind("announced").is_err() {
        println!("skipped: no valgrind, or inside it already");
        return;
    }
    let good = under_valgrind("announced").unwrap();
    assert_eq!(good.status.code(), Some(0), "{}", String::from_utf8_lossy(&good.stderr));
    let bad = under_valgrind("not announced").unwrap();
    assert_eq!(
        bad.status.code(),
        Some(99),
        "valgrind needs no announcement: {}",
        String::from_utf8_lossy(&bad.stderr)
    );
}
