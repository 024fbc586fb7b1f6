//! Signals as values: raised by threads of every kind, sent from outside, under load; several waiters,
//! others' handlers, and what is refused.

#[path = "support/child.rs"]
mod child;
#[path = "signal/children.rs"]
mod children;
#[path = "support/waiting.rs"]
mod waiting;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::time::{Duration, Instant};

use selvedge::signal::{SIGALRM, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, Signals};
use selvedge::sync::Barrier;
use selvedge::thread::{self, Builder};
use selvedge::{Mxn, OneToOne, Runtime, Wait, WaitError};

use waiting::until_waits;
use watchdog::Watchdog;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(100);

fn raise(signal: i32) {
    // SAFETY: the signal is one that a test waits for.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

fn send(signal: i32) {
    // SAFETY: no memory is involved.
    let me = unsafe { libc::getpid() };
    // SAFETY: the signal is one that a test waits for.
    assert_eq!(unsafe { libc::kill(me, signal) }, 0);
}

/// Waits and raises on every kind of thread; the wait blocks only its thread.
fn on<R: Runtime>(rt: &R) {
    // So that one too many does not end the process.
    let _spare = Signals::new([SIGUSR1, SIGUSR2, SIGTERM]).expect("signals");
    for bound in [false, true] {
        let signals = Signals::new([SIGUSR1, SIGUSR2, SIGTERM]).expect("signals");
        let waiter =
            rt.spawn_with(Builder::new().bound(bound), move || (0..3).map(|_| signals.wait()).collect());
        let waiter = waiter.expect("a thread");
        until_waits(rt, &waiter);
        // Others run meanwhile, on as few slots as there are.
        rt.run(|| raise(SIGUSR1));
        while !waiter.is_finished() {
            // Until it has been seen, a second one may be the same; so they come one by one, in any order.
            rt.run(|| thread::sleep(Duration::from_millis(1)));
            send(SIGUSR2);
            std::thread::spawn(|| raise(SIGTERM)).join().expect("a foreign thread");
        }
        let seen: Vec<i32> = waiter.join().expect("the waiter");
        let known = BTreeSet::from([SIGUSR1, SIGUSR2, SIGTERM]);
        assert!(seen.len() == 3 && seen.iter().all(|signal| known.contains(signal)), "{seen:?}");
        assert!(seen.contains(&SIGUSR1), "{seen:?}");
    }
}

fn each_value_gets_it() {
    let one = Signals::new([SIGUSR1, SIGWINCH]).expect("signals");
    let other = Signals::new([SIGUSR1]).expect("signals");
    assert_eq!(one.try_recv(), None);
    raise(SIGUSR1);
    assert_eq!((one.wait(), other.wait()), (SIGUSR1, SIGUSR1));
    assert_eq!((one.try_recv(), other.try_recv()), (None, None));
    drop(other);
    // The one that is left still gets it.
    raise(SIGUSR1);
    assert_eq!(one.wait_timeout(LONG), Some(SIGUSR1));
    // Several at once: the least first.
    raise(SIGWINCH);
    raise(SIGUSR1);
    let mut seen: BTreeSet<i32> = BTreeSet::new();
    while seen.len() < 2 {
        seen.insert(one.wait());
    }
    assert_eq!(one.pending().next(), None);
    let start = Instant::now();
    assert_eq!(one.wait_timeout(Duration::from_millis(20)), None);
    assert!(start.elapsed() >= Duration::from_millis(20));
}

fn waits_are_interrupted() {
    let rt = Mxn::builder().concurrency(1).build().expect("the runtime starts");
    let signals = Signals::new([SIGUSR1]).expect("signals");
    let wait = Wait::forever().interruptible();
    let waiter = rt.spawn(move || (signals.wait_with(wait).is_err(), signals.wait_with(wait).ok()));
    waiter.thread().interrupt();
    while waiter.thread().is_interrupted() {
        std::thread::yield_now();
    }
    raise(SIGUSR1);
    assert_eq!(waiter.join().expect("the waiter"), (true, Some(SIGUSR1)));
}

/// An interrupt that came before is reported first, as by all waits that can be interrupted.
fn an_interrupt_goes_before_a_signal_that_has_come() {
    let signals = Signals::new([SIGUSR1]).expect("signals");
    let last = Signals::new([SIGUSR1]).expect("signals");
    raise(SIGUSR1);
    assert_eq!(last.wait(), SIGUSR1);
    thread::current().interrupt();
    let wait = Wait::forever().interruptible();
    assert_eq!(signals.wait_with(wait), Err(WaitError::Interrupted));
    assert_eq!(signals.wait_with(wait), Ok(SIGUSR1));
}

static HANDLED: AtomicI32 = AtomicI32::new(0);

extern "C" fn handler(signal: libc::c_int) {
    HANDLED.fetch_add(signal, SeqCst);
}

fn install(signal: i32, handler: libc::sighandler_t) {
    install_with(signal, handler, None, 0);
}

fn install_with(signal: i32, handler: libc::sighandler_t, blocks: Option<i32>, flags: libc::c_int) {
    // SAFETY: plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    if let Some(blocked) = blocks {
        // SAFETY: an empty set, as zero is, and a signal that there is.
        unsafe { libc::sigaddset(&mut action.sa_mask, blocked) };
    }
    // SAFETY: a complete action; its handler is async-signal-safe.
    assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
}

fn installed(signal: i32) -> libc::sighandler_t {
    // SAFETY: a structure of numbers, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a query.
    assert_eq!(unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) }, 0);
    action.sa_sigaction
}

fn handlers_of_others_are_called_and_put_back() {
    let theirs = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    install(SIGUSR1, theirs);
    for round in 1..=3 {
        let one = Signals::new([SIGUSR1, SIGALRM]).expect("signals");
        let other = Signals::new([SIGUSR1]).expect("signals");
        assert_ne!(installed(SIGUSR1), theirs);
        raise(SIGUSR1);
        assert_eq!(HANDLED.load(SeqCst), round * SIGUSR1);
        assert_eq!((one.wait(), other.wait()), (SIGUSR1, SIGUSR1));
        drop(one);
        assert_ne!(installed(SIGUSR1), theirs, "a value still waits for it");
        assert_eq!(installed(SIGALRM), libc::SIG_DFL);
        drop(other);
        assert_eq!(installed(SIGUSR1), theirs);
    }
    // A handler that came later, and does not know what it passes signals on to, stays.
    let signals = Signals::new([SIGUSR1]).expect("signals");
    BEFORE.store(installed(SIGUSR1), SeqCst);
    let later = passes_on as extern "C" fn(libc::c_int) as libc::sighandler_t;
    install(SIGUSR1, later);
    raise(SIGUSR1);
    assert_eq!(signals.wait(), SIGUSR1);
    drop(signals);
    assert_eq!(installed(SIGUSR1), later);
    // In front of the one that still calls ours: no call goes round in circles.
    let handled = HANDLED.load(SeqCst);
    let signals = Signals::new([SIGUSR1]).expect("signals");
    raise(SIGUSR1);
    assert_eq!(signals.wait(), SIGUSR1);
    assert!(HANDLED.load(SeqCst) >= handled);
}

/// Which of SIGUSR1, SIGUSR2 and SIGALRM were blocked in [`looks_at_its_mask`], a bit each; then one more
/// bit.
static MASK: AtomicUsize = AtomicUsize::new(0);
const ASKED: [i32; 3] = [SIGUSR1, SIGUSR2, SIGALRM];

extern "C" fn looks_at_its_mask(_: libc::c_int) {
    // SAFETY: plain data, filled in below.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a query into a valid place.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask) };
    // SAFETY: an initialized set.
    let blocked = |signal| unsafe { libc::sigismember(&mask, signal) } == 1;
    let bits = (0..ASKED.len()).filter(|&n| blocked(ASKED[n])).map(|n| 1 << n).sum::<usize>();
    MASK.store(bits | 1 << ASKED.len(), SeqCst);
}

/// A handler runs with the signals blocked that it has asked for, with and without the `Signals` in front
/// of it.
fn handlers_of_others_run_with_their_masks() {
    let theirs = looks_at_its_mask as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for (blocks, flags) in
        [(None, 0), (Some(SIGUSR2), 0), (Some(SIGALRM), libc::SA_NODEFER), (None, libc::SA_NODEFER)]
    {
        install_with(SIGUSR1, theirs, blocks, flags);
        let seen = || {
            raise(SIGUSR1);
            MASK.swap(0, SeqCst)
        };
        let alone = seen();
        let bit = |signal| 1 << ASKED.iter().position(|&asked| asked == signal).expect("one of them");
        let itself = if flags == 0 { bit(SIGUSR1) } else { 0 };
        assert_eq!(alone, 1 << ASKED.len() | itself | blocks.map_or(0, bit), "{blocks:?}, {flags:#x}");
        let signals = Signals::new([SIGUSR1]).expect("signals");
        assert_ne!(installed(SIGUSR1), theirs);
        assert_eq!(seen(), alone, "{blocks:?}, {flags:#x}");
        assert_eq!(signals.wait(), SIGUSR1);
        drop(signals);
        assert_eq!((installed(SIGUSR1), seen()), (theirs, alone));
    }
}

/// How often [`counts_itself`] was called.
static CALLS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn counts_itself(_: libc::c_int) {
    CALLS.fetch_add(1, SeqCst);
}

/// SA_RESETHAND: one signal is for the handler, whatever passes it on, and then there is the default.
fn handlers_for_one_signal_get_one() {
    let theirs = counts_itself as extern "C" fn(libc::c_int) as libc::sighandler_t;
    let calls = || CALLS.swap(0, SeqCst);
    install_with(SIGUSR1, theirs, None, libc::SA_RESETHAND);
    for round in 0..2 {
        let signals = Signals::new([SIGUSR1]).expect("signals");
        for _ in 0..3 {
            raise(SIGUSR1);
            assert_eq!(signals.wait(), SIGUSR1);
        }
        assert_eq!(calls(), usize::from(round == 0));
        drop(signals);
        assert_eq!(installed(SIGUSR1), libc::SIG_DFL, "it has had its signal");
    }
    // None has come: the kernel gives it to the handler.
    install_with(SIGUSR1, theirs, None, libc::SA_RESETHAND);
    for _ in 0..2 {
        drop(Signals::new([SIGUSR1]).expect("signals"));
        assert_eq!((installed(SIGUSR1), calls()), (theirs, 0));
    }
    raise(SIGUSR1);
    assert_eq!((installed(SIGUSR1), calls()), (libc::SIG_DFL, 1));
    // Threads that raise it at once: one of them is the first.
    install_with(SIGUSR1, theirs, None, libc::SA_RESETHAND);
    let _signals = Signals::new([SIGUSR1]).expect("signals");
    let threads = [(); 4].map(|()| std::thread::spawn(|| (0..100).for_each(|_| raise(SIGUSR1))));
    threads.into_iter().for_each(|thread| thread.join().expect("it only raises"));
    assert_eq!(calls(), 1);
}

static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn passes_on(signal: libc::c_int) {
    // SAFETY: what was installed before, of three arguments, of which the handlers here look at none.
    let before: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
        unsafe { std::mem::transmute(BEFORE.load(SeqCst)) };
    before(signal, std::ptr::null_mut(), std::ptr::null_mut());
}

/// Signals from another process, at any moment, while green threads do all kinds of things; each
/// thread keeps its errno.
fn a_storm_from_outside() {
    let rt = Mxn::builder().concurrency(2).build().expect("the runtime starts");
    let signals = Signals::new([SIGUSR1, SIGUSR2, SIGWINCH]).expect("signals");
    let over = Arc::new(AtomicBool::new(false));
    let at_work = Arc::new(Barrier::new(8 + 1));
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let (over, at_work) = (Arc::clone(&over), Arc::clone(&at_work));
            rt.spawn(move || {
                at_work.wait();
                while !over.load(SeqCst) {
                    // SAFETY: closing a descriptor that cannot be is an error, and nothing else.
                    assert_eq!(unsafe { libc::close(-1) }, -1);
                    for _ in 0..n {
                        thread::yield_now();
                    }
                    let errno = std::io::Error::last_os_error().raw_os_error();
                    assert!(errno == Some(libc::EBADF) || n > 0, "{errno:?}");
                    drop(vec![0_u8; 1000 + n]);
                    thread::sleep(Duration::from_micros(30));
                }
            })
        })
        .collect();
    // The kernel may give each signal to another thread. So the last one that was sent may come first.
    let watcher = rt.spawn(move || {
        let mut seen = BTreeMap::new();
        while seen.len() < 3 {
            *seen.entry(signals.wait()).or_insert(0) += 1;
        }
        seen
    });
    at_work.wait();
    let pid = std::process::id();
    let script =
        format!("for n in $(seq 400); do kill -USR1 {pid}; kill -USR2 {pid}; done; kill -WINCH {pid}");
    let sent = thread::blocking(|| Command::new("/bin/sh").args(["-c", &script]).status()).expect("a shell");
    let seen = watcher.join().expect("the watcher");
    // Before anything can fail: the runtime waits for its threads when it is dropped.
    over.store(true, SeqCst);
    assert!(sent.success());
    assert!(seen[&SIGUSR1] <= 400 && seen[&SIGUSR2] <= 400 && seen[&SIGWINCH] == 1, "{seen:?}");
    for worker in workers {
        worker.join().expect("a worker");
    }
}

/// Signals that come at the same moment to a thread of std. Its alternate stack has 8 KiB. A frame with
/// AVX-512 takes more than 3, so handlers inside one another would not fit.
fn many_at_once_fit_on_a_small_alternate_stack() {
    let many: Vec<i32> = [SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM, SIGTERM]
        .into_iter()
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
        .collect();
    let signals = Signals::new(many.iter().copied()).expect("signals");
    // SAFETY: plain data, for which zero is the empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for &signal in &many {
        // SAFETY: an initialized set and an existing signal.
        assert_eq!(unsafe { libc::sigaddset(&mut set, signal) }, 0);
    }
    // SAFETY: reads a complete set.
    let mask = |how| assert_eq!(unsafe { libc::pthread_sigmask(how, &set, std::ptr::null_mut()) }, 0);
    mask(libc::SIG_BLOCK);
    many.iter().for_each(|&signal| raise(signal));
    mask(libc::SIG_UNBLOCK);
    let seen: BTreeSet<i32> = many.iter().map(|_| signals.wait()).collect();
    assert_eq!(seen, many.into_iter().collect());
}

fn nothing_is_left_behind() {
    for bad in [0, -3, 65, libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGURG, 33] {
        let error = Signals::new([SIGQUIT, bad]).expect_err("it cannot be waited for");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("signal {bad} cannot be waited for")), "{error}");
        assert_eq!(installed(SIGQUIT), libc::SIG_DFL);
    }
    let none = Signals::new([]).expect("no signals at all");
    assert_eq!(none.wait_timeout(Duration::from_millis(1)), None);
}

/// The default action is back with the last of them.
fn the_default_comes_back() {
    let signals = Signals::new([SIGINT]).expect("signals");
    raise(SIGINT);
    assert_eq!(signals.wait(), SIGINT);
    assert_eq!(format!("{signals:?}"), format!("Signals([{SIGINT}])"));
    drop(signals);
    println!("to be ended by SIGINT");
    raise(SIGINT);
}

const ROLES: &[(&str, fn())] = &[
    ("mxn", || on(&Mxn::builder().concurrency(1).build().expect("the runtime starts"))),
    ("mxn_migrating", || {
        on(&Mxn::builder().concurrency(2).migrate_always(true).build().expect("the runtime starts"));
    }),
    ("onetoone", || on(&OneToOne::new().expect("the runtime starts"))),
    ("each_value_gets_it", each_value_gets_it),
    ("waits_are_interrupted", waits_are_interrupted),
    ("handlers_of_others_are_called_and_put_back", handlers_of_others_are_called_and_put_back),
    ("handlers_of_others_run_with_their_masks", handlers_of_others_run_with_their_masks),
    ("handlers_for_one_signal_get_one", handlers_for_one_signal_get_one),
    ("a_storm_from_outside", a_storm_from_outside),
    ("many_at_once_fit_on_a_small_alternate_stack", many_at_once_fit_on_a_small_alternate_stack),
    ("nothing_is_left_behind", nothing_is_left_behind),
    ("a_forked_child_has_its_own", children::a_forked_child_has_its_own),
    ("a_child_gets_no_signal_of_its_parent", children::a_child_gets_no_signal_of_its_parent),
    ("an_interrupt_goes_before_a_signal_that_has_come", an_interrupt_goes_before_a_signal_that_has_come),
    ("the_flags_for_children_count_on", children::the_flags_for_children_count_on),
    ("the_default", the_default_comes_back),
    ("abort", || std::process::abort()),
];

/// Not a test: what the tests run in processes of their own, since signals belong to a process.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    // The parent may ignore them: shells do so for what they run in the background.
    for signal in [libc::SIGINT, SIGQUIT] {
        // SAFETY: the default is no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    child::play(ROLES);
}

macro_rules! played {
    ($($role:ident),* $(,)?) => {
        $(#[test]
        fn $role() {
            let _watchdog = Watchdog::start(stringify!($role));
            child::run(stringify!($role), &[]).expect_success();
        })*
    };
}

mod played {
    use super::{Watchdog, child};

    played!(
        mxn,
        mxn_migrating,
        onetoone,
        each_value_gets_it,
        waits_are_interrupted,
        handlers_of_others_are_called_and_put_back,
        handlers_of_others_run_with_their_masks,
        handlers_for_one_signal_get_one,
        a_storm_from_outside,
        many_at_once_fit_on_a_small_alternate_stack,
        nothing_is_left_behind,
        a_forked_child_has_its_own,
        a_child_gets_no_signal_of_its_parent,
        an_interrupt_goes_before_a_signal_that_has_come,
        the_flags_for_children_count_on,
    );
}

#[test]
fn the_default_comes_back_with_the_last() {
    use std::os::unix::process::ExitStatusExt;
    let ended = child::run("the_default", &[]);
    assert_eq!(ended.status.signal(), Some(SIGINT), "{ended:?}");
    assert!(ended.said.contains("to be ended by SIGINT"));
    child::run("abort", &[]).expect_abort(&[]);
}
