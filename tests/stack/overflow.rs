//! Overflows, each in a process of its own, on every kind of thread.

use std::hint::black_box;

use selvedge::thread::{self, Builder};
use selvedge::{Mxn, OneToOne, Runtime, ThreadRegister};

use crate::{child, dive};

/// More than any stack here has.
const TOO_DEEP: usize = 1 << 30;

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("default", || selvedge::run(|| _ = black_box(dive(TOO_DEEP)))),
    ("spawned", || selvedge::run(|| overflow_in(Builder::new().name("spawned one".into())))),
    ("unnamed", || selvedge::run(|| overflow_in(Builder::new().stack_size(64 << 10)))),
    ("bound", || selvedge::run(|| overflow_in(Builder::new().name("bound one".into()).bound(true)))),
    ("migrated", || {
        let rt = Mxn::builder().concurrency(2).migrate_always(true).build().unwrap();
        rt.run(|| {
            let wanderer = Builder::new().name("wanderer".into()).spawn(|| {
                (0..100).for_each(|_| thread::yield_now());
                black_box(dive(TOO_DEEP));
            });
            // A thread to change places with.
            while !wanderer.as_ref().unwrap().is_finished() {
                thread::yield_now();
            }
        });
    }),
    ("pinned", || {
        // SAFETY: the threads of this process keep nothing in thread-locals across a switch.
        let rt = unsafe { Mxn::builder().pinned() }.build().unwrap();
        rt.run(|| overflow_in(Builder::new().name("pinned one".into())));
    }),
    ("used_again", || {
        // The stack of a thread that has ended, with the name of the one that has it now.
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        rt.run(|| {
            for round in 0..10 {
                let name = format!("round {round}");
                Builder::new().name(name).spawn(|| _ = black_box(dive(100 << 10))).unwrap().join().unwrap();
            }
            overflow_in(Builder::new().name("last one".into()));
        });
    }),
    ("foreign", || {
        let _both = (Mxn::new().unwrap(), OneToOne::new().unwrap());
        // A thread of std, which Selvedge has not made: std's own words.
        let _ = std::thread::Builder::new()
            .name("foreign one".into())
            .spawn(|| black_box(dive(TOO_DEEP)))
            .unwrap()
            .join();
    }),
    ("wild_pointer", || {
        selvedge::run(|| {
            let nowhere = black_box(std::ptr::without_provenance_mut::<u8>(64));
            // SAFETY: none: nothing is ever mapped there, and this process is here to fault.
            unsafe { nowhere.write_volatile(1) };
        });
    }),
];

fn overflow_in(builder: Builder) {
    let _ = builder.spawn(|| black_box(dive(TOO_DEEP))).unwrap().join();
}

/// What every report must say besides.
const HELP: [&str; 3] = ["overflowed its stack of", "Builder::stack_size", "SELVEDGE_STACK_SIZE"];

#[track_caller]
fn expect(role: &str, variables: &[(&str, &str)], words: &[&str]) {
    let ended = child::run(role, variables);
    ended.expect_abort(words);
    ended.expect_abort(&HELP);
}

#[test]
fn the_first_thread() {
    expect("default", &[("SELVEDGE_RUNTIME", "mxn")], &["'main'", "256 KiB"]);
    expect("default", &[("SELVEDGE_RUNTIME", "onetoone")], &["'main'", "2 MiB"]);
}

#[test]
fn the_size_of_the_environment() {
    for runtime in ["mxn", "onetoone"] {
        let variables = [("SELVEDGE_RUNTIME", runtime), ("SELVEDGE_STACK_SIZE", "128K")];
        expect("spawned", &variables, &["'spawned one'", "128 KiB"]);
    }
}

#[test]
fn threads_with_and_without_a_name() {
    for runtime in ["mxn", "onetoone"] {
        expect("spawned", &[("SELVEDGE_RUNTIME", runtime)], &["'spawned one'"]);
        expect("unnamed", &[("SELVEDGE_RUNTIME", runtime)], &["<unnamed>", "64 KiB"]);
        // The message names 2 MiB or more, because the C library may reuse a larger stack.
        expect("bound", &[("SELVEDGE_RUNTIME", runtime)], &["'bound one'"]);
    }
}

#[test]
fn every_rung() {
    for (rung, register) in [("switched", ThreadRegister::Switched), ("syscall", ThreadRegister::Syscall)] {
        if let Err(why) = Mxn::builder().thread_register(register).build() {
            println!("skipped: {why}");
            continue;
        }
        let variables = [("SELVEDGE_RUNTIME", "mxn"), ("SELVEDGE_THREAD_REGISTER", rung)];
        expect("spawned", &variables, &["'spawned one'"]);
    }
    expect("pinned", &[], &["'pinned one'"]);
}

#[test]
fn a_thread_that_has_moved() {
    expect("migrated", &[], &["'wanderer'", "256 KiB"]);
}

#[test]
fn a_stack_that_was_used_before() {
    expect("used_again", &[], &["'last one'"]);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let ended = child::run("foreign", &[]);
    ended.expect_abort(&["foreign one", "overflowed its stack"]);
    assert!(!ended.said.contains("SELVEDGE_STACK_SIZE"), "{}", ended.said);
    for runtime in ["mxn", "onetoone"] {
        let ended = child::run("wild_pointer", &[("SELVEDGE_RUNTIME", runtime)]);
        let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
        assert_eq!(signal, Some(libc::SIGSEGV), "{}", ended.said);
        assert!(!ended.said.contains("overflowed"), "{}", ended.said);
    }
}
