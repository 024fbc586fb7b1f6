//! Numbers and words that make no sense, from the program and from the environment.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::thread::Builder;
use selvedge::{Mxn, OneToOne, Runtime};

use super::{BOTH, child, mxn, onetoone};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("run_by_name", || {
        let n = selvedge::run(|| {
            println!("main has run");
            7
        });
        assert_eq!(n, 7);
    }),
    ("try_run_by_name", || {
        let error = selvedge::try_run(|| println!("main has run")).expect_err("the name is not known");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        println!("error: {error}");
    }),
    ("start_mxn", || match Mxn::new() {
        Ok(runtime) => println!("started: {:?}", runtime.info()),
        Err(error) => println!("error: {:?}: {error}", error.kind()),
    }),
    ("start_onetoone", || match OneToOne::new() {
        Ok(runtime) => println!("started: {:?}", runtime.info()),
        Err(error) => println!("error: {:?}: {error}", error.kind()),
    }),
    ("start_both", || {
        drop((mxn(), onetoone()));
        drop((mxn(), onetoone()));
    }),
];

#[track_caller]
fn assert_refused<T>(result: io::Result<T>, word: &str) {
    let Err(error) = result else { panic!("accepted") };
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains(word), "no {word:?} in: {error}");
}

/// What a thread that was refused must not have done, and must have dropped.
fn refuse_threads<R: Runtime>(runtime: &R) {
    let closure = Arc::new(());
    let ran = Arc::new(AtomicUsize::new(0));
    let spawn = |builder: Builder| {
        let (captured, ran) = (closure.clone(), ran.clone());
        runtime.spawn_with(builder, move || {
            let _captured = captured;
            ran.fetch_add(1, Ordering::Relaxed);
        })
    };
    for bytes in [0, (1 << 40) + 1, 1 << 60, usize::MAX] {
        assert_refused(spawn(Builder::new().stack_size(bytes)), "stack");
        assert_refused(spawn(Builder::new().bound(true).stack_size(bytes)), "stack");
    }
    assert_refused(spawn(Builder::new().name("zero\0byte".into())), "name");
    assert_eq!(Arc::strong_count(&closure), 1, "a closure was kept");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    // Less than a page is rounded up, and is enough for a thread that does little.
    spawn(Builder::new().stack_size(1)).expect("a small stack").join().expect("a small stack is enough");
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn threads_with_absurd_stacks_and_names() {
    refuse_threads(&mxn());
    refuse_threads(&onetoone());
}

#[test]
fn runtimes_with_absurd_settings() {
    assert_refused(Mxn::builder().stack_size(0).build(), "stack");
    assert_refused(Mxn::builder().stack_size(usize::MAX).build(), "stack");
    assert_refused(Mxn::builder().concurrency(0).build(), "concurrency");
    assert_refused(Mxn::builder().concurrency(usize::MAX).build(), "concurrency");
    assert_refused(Mxn::builder().max_lwps(0).build(), "max_lwps");
    assert_refused(Mxn::builder().concurrency(8).max_lwps(3).build(), "max_lwps");
    assert_refused(Mxn::builder().time_slice(Some(Duration::ZERO)).build(), "slice");
    assert_refused(OneToOne::builder().stack_size(0).build(), "stack");
    assert_refused(OneToOne::builder().stack_size(usize::MAX).build(), "stack");
}

/// Whatever the runtime would use it for: without slices it uses none, and pinned threads are not stopped
/// by signals.
#[test]
fn signals_that_cannot_preempt() {
    // SAFETY: no thread runs in it: it is refused.
    let pinned = || unsafe { Mxn::builder().pinned() };
    let nonsense = [
        0,
        -1,
        65,
        i32::MAX,
        i32::MIN,
        // The C library's own.
        32,
        33,
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGABRT,
        libc::SIGCHLD,
        libc::SIGTSTP,
    ];
    for signal in nonsense {
        for builder in [Mxn::builder(), pinned(), Mxn::builder().time_slice(None), pinned().time_slice(None)]
        {
            let refused = builder.concurrency(1).preemption_signal(Some(signal)).build();
            let error = refused.map(drop).expect_err("no signal to preempt by");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            let said = error.to_string();
            for word in [format!("signal {signal} "), "expected ".into(), libc::SIGURG.to_string()] {
                assert!(said.contains(&word), "no {word:?} in: {said}");
            }
        }
    }
    // One that makes sense, where it is used and where it is not. In another order they would be two
    // signals of one process.
    for builder in [Mxn::builder(), pinned(), Mxn::builder().time_slice(None)] {
        builder.preemption_signal(Some(libc::SIGURG)).concurrency(1).build().expect("the default");
    }
    pinned().preemption_signal(Some(libc::SIGRTMAX())).concurrency(1).build().expect("it is not used");
}

#[test]
fn an_unknown_runtime_ends_the_program_with_2() {
    for name in ["green", "", "MXN", "mxn,onetoone"] {
        let ended = child::run("run_by_name", &[("SELVEDGE_RUNTIME", name)]);
        assert_eq!(ended.status.code(), Some(2), "{name:?}: {ended:?}");
        for word in ["SELVEDGE_RUNTIME", "mxn", "onetoone"] {
            assert!(ended.said.contains(word), "{name:?}: no {word:?} in {ended:?}");
        }
        assert!(!ended.said.contains("main has run"));
        let ended = child::run("try_run_by_name", &[("SELVEDGE_RUNTIME", name)]);
        ended.expect_success();
        assert!(ended.said.contains("error: ") && ended.said.contains("SELVEDGE_RUNTIME"), "{ended:?}");
        assert!(!ended.said.contains("main has run"));
    }
    for name in BOTH {
        let ended = child::run("run_by_name", &[("SELVEDGE_RUNTIME", name)]);
        ended.expect_success();
        assert!(ended.said.contains("main has run"), "{ended:?}");
    }
    child::run("run_by_name", &[]).expect_success();
}

#[test]
fn variables_that_make_no_sense_are_named() {
    let nonsense: &[(&str, &[&str])] = &[
        ("SELVEDGE_CONCURRENCY", &["0", "-1", "many", "", "1.5", "99999999999999999999"]),
        ("SELVEDGE_CPUS", &["", "all", "1-0", "-1", "0,", "8191", "0-8191", "0-99999999999999999999"]),
        ("SELVEDGE_MAX_LWPS", &["0", "lots"]),
        ("SELVEDGE_STACK_SIZE", &["0", "12Q", "K", "-4K", "65G", "9999999G", "99999999999999999999"]),
        ("SELVEDGE_TIME_SLICE", &["10", "0ms", "soon", "-1ms"]),
        ("SELVEDGE_THREAD_REGISTER", &["pinned", "none", ""]),
    ];
    for (name, values) in nonsense {
        for value in *values {
            let ended = child::run("start_mxn", &[(name, value)]);
            ended.expect_success();
            assert!(
                ended.said.contains("error: InvalidInput") && ended.said.contains(name),
                "{name}={value}: {ended:?}"
            );
        }
    }
    let ended = child::run("start_onetoone", &[("SELVEDGE_STACK_SIZE", "0")]);
    assert!(
        ended.said.contains("error: InvalidInput") && ended.said.contains("SELVEDGE_STACK_SIZE"),
        "{ended:?}"
    );
}

#[test]
fn variables_that_make_sense_are_obeyed() {
    let sense = [
        ("SELVEDGE_CONCURRENCY", "3", "concurrency: 3"),
        ("SELVEDGE_STACK_SIZE", "64K", "started"),
        ("SELVEDGE_TIME_SLICE", "off", "started"),
        ("SELVEDGE_TIME_SLICE", "500us", "started"),
        ("SELVEDGE_MAX_LWPS", "64", "started"),
        ("SELVEDGE_THREAD_REGISTER", "syscall", "Syscall"),
        ("SELVEDGE_THREAD_REGISTER", "auto", "started"),
    ];
    for (name, value, answer) in sense {
        let ended = child::run("start_mxn", &[(name, value)]);
        ended.expect_success();
        assert!(ended.said.contains(answer), "{name}={value}: {ended:?}");
    }
}

#[test]
fn a_misspelled_variable_is_reported_once() {
    for role in ["start_mxn", "start_onetoone", "start_both"] {
        let variables = [("SELVEDGE_CONCURENCY", "2"), ("SELVEDGE_LOG", "all"), ("SELVEDGE_DEADLOCK", "off")];
        let ended = child::run(role, &variables);
        ended.expect_success();
        let said: Vec<_> = ended.said.lines().filter(|line| line.contains("selvedge: ")).collect();
        assert_eq!(said, ["selvedge: SELVEDGE_CONCURENCY is not read: SELVEDGE_CONCURRENCY may be meant"]);
    }
}
