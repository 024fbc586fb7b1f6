//! Sockets under faults: halves that end, resets, slow readers, writes of one byte, interrupts and time
//! limits in the middle. Peers vanish, and processes fork, start programs or have no descriptors left.
//!
//! Each byte is counted: what a call said that it wrote is read in order, or the connection was reset. The
//! faults come for a second or two, and for ten minutes with `SELVEDGE_STRESS=full`.

#[path = "net_faults/alone.rs"]
mod alone;
#[allow(dead_code, reason = "shared")]
#[path = "support/child.rs"]
mod child;
#[allow(dead_code, reason = "shared")]
#[path = "support/random.rs"]
mod random;
#[path = "support/rungs.rs"]
mod rungs;
#[path = "net_faults/talk.rs"]
mod talk;
#[path = "support/watchdog.rs"]
mod watchdog;
#[path = "net_faults/wire.rs"]
mod wire;

use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::net::{TcpListener, TcpStream};
use selvedge::os::unix::net::UnixStream;
use selvedge::{Runtime, thread};

use random::{Numbers, full};
use talk::{Seen, talk};
use watchdog::Watchdog;
use wire::{Dice, End, Habits, Side, reads, writes};

/// Plays a scenario on both runtimes, on each rung that this machine has, and with one slot.
macro_rules! on_each {
    (|$rt:ident| $scenario:block) => {{
        {
            let $rt = &selvedge::OneToOne::new().expect("a 1:1 runtime");
            $scenario
        }
        $crate::rungs::on_rungs(&selvedge::Mxn::builder().concurrency(2), |$rt| $scenario);
        $crate::rungs::on_rungs(&selvedge::Mxn::builder().concurrency(1), |$rt| $scenario);
    }};
}
pub(crate) use on_each;

/// How many connections there are at a time.
const AT_ONCE: usize = 6;

/// Lets connections meet faults for this long.
fn faults<R: Runtime>(rt: &R, time: Duration, dice: &mut Dice, seen: &Arc<Seen>) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        let talks: Vec<_> = (0..AT_ONCE)
            .map(|n| {
                let (seed, seen) = (dice.below(u64::MAX), Arc::clone(seen));
                rt.spawn(move || {
                    if n % 3 == 2 { talk::<UnixStream>(seed, &seen) } else { talk::<TcpStream>(seed, &seen) }
                })
            })
            .collect();
        talks.into_iter().for_each(|talk| talk.join().expect("it says why"));
    }
}

#[test]
fn each_byte_is_counted() {
    let _watchdog = Watchdog::start("each byte is counted");
    // On up to five runtimes.
    let time = Duration::from_millis(if full() { 110_000 } else { 350 });
    let mut dice = Dice::new(Numbers::new().next());
    let seen = Arc::<Seen>::default();
    let all = [&seen.connections, &seen.bytes, &seen.whole, &seen.resets, &seen.broken, &seen.cut];
    let mut all_come = || {
        on_each!(|rt| {
            faults(rt, time, &mut dice, &seen);
            println!("{seen:?}");
        });
        all.iter().all(|seen| seen.load(SeqCst) > 0)
    };
    // A slow machine comes to few in the time.
    assert!((0..10).any(|_| all_come()), "not all faults came: {seen:?}");
}

/// The kernel closes the sockets of a peer that is killed. Threads that wait for it, or write to it, are
/// told.
fn a_peer_vanishes<R: Runtime>(rt: &R, dice: &mut Dice) {
    let listener = rt.run(|| TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut peer = child::command("peer", &[(alone::PORT, &port)]).stdout(Stdio::null()).spawn().unwrap();
    let mut movers: Vec<thread::JoinHandle<Side>> = Vec::new();
    for _ in 0..alone::PEERS {
        let stream = Arc::new(rt.run(|| listener.accept()).unwrap().0);
        let mut flow = [0];
        (&*stream).read_exact(&mut flow).unwrap();
        let mut habits = |flow| {
            let slow = dice.below(2) == 0;
            Habits { flow, dice: Dice::new(dice.below(u64::MAX)), slow, stoppable: false }
        };
        let (reads_by, writes_by) = (habits(flow[0].into()), habits(100));
        let theirs = Arc::clone(&stream);
        movers.push(rt.spawn(move || reads(&*theirs, &AtomicBool::new(false), reads_by)));
        movers.push(rt.spawn(move || writes(&*stream, u64::MAX, &AtomicBool::new(false), writes_by)));
    }
    let end = Instant::now() + Duration::from_millis(dice.below(60));
    while Instant::now() < end {
        movers[dice.below(2 * alone::PEERS as u64) as usize].thread().interrupt();
        std::thread::sleep(Duration::from_micros(dice.below(500)));
    }
    peer.kill().unwrap();
    peer.wait().unwrap();
    // Without an interrupt any more.
    for (n, mover) in movers.into_iter().enumerate() {
        let side = mover.join().expect("it says why");
        let told = if n % 2 == 0 {
            matches!(side.end, End::Eof | End::Failed(std::io::ErrorKind::ConnectionReset))
        } else {
            matches!(side.end, End::Failed(_))
        };
        assert!(told, "{side:?}");
    }
}

#[test]
fn peers_that_vanish_end_all_waits() {
    let _watchdog = Watchdog::start("peers that vanish");
    let mut dice = Dice::new(Numbers::new().next());
    let rounds = if full() { 40 } else { 2 };
    on_each!(|rt| {
        (0..rounds).for_each(|_| a_peer_vanishes(rt, &mut dice));
    });
}

/// Makes a test of each function that needs a process of its own.
macro_rules! alone {
    ($($test:ident: $role:ident;)*) => {
        $(#[test]
        fn $test() {
            let _watchdog = Watchdog::start(stringify!($test));
            child::run(stringify!($role), &[]).expect_success();
        })*

        /// Not a test: what the tests run in processes of their own.
        #[test]
        #[ignore = "run by the other tests"]
        fn child() {
            child::play(&[$((stringify!($role), alone::$role),)* ("peer", alone::peer)]);
        }
    };
}

alone! {
    an_accept_without_descriptors_backs_off: short_of_descriptors;
    a_wait_without_a_set_does_not_hang: no_set;
    a_forked_child_does_not_disturb_the_set: forks;
    a_call_that_forks_waits_in_the_child: forks_in_a_call;
    programs_inherit_no_sockets: starts_programs;
    a_write_to_a_peer_that_has_gone_is_an_error_and_no_signal: broken_pipe;
}
