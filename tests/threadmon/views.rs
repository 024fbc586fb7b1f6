//! What a client sees.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use selvedge::LwpState;
use selvedge::sync::{Barrier, Mutex, stats};
use selvedge::thread::{self, WaitReason};
use selvedge::threadmon::{Client, HistoryView, ThreadView, serve};
use selvedge::trace::{EventKind, Level, Recording, State, set_level};
use selvedge::{Mxn, OneToOne, Runtime};

use super::{ErrorFile, run};

fn thread_named(client: &mut Client, runtime: u32, name: &str) -> Option<ThreadView> {
    let page = client.threads(runtime, 1_000, true).unwrap();
    page.threads.into_iter().find(|thread| thread.name.as_deref() == Some(name))
}

/// Waits until a thread is as `is` says.
fn until(client: &mut Client, runtime: u32, name: &str, is: impl Fn(&ThreadView) -> bool) -> ThreadView {
    loop {
        if let Some(thread) = thread_named(client, runtime, name).filter(&is) {
            return thread;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn views() {
    static LOCK: Mutex<()> = Mutex::new(());
    static STOP: AtomicBool = AtomicBool::new(false);
    serve().unwrap();
    let mut client = Client::connect(std::process::id()).unwrap();
    client.count_locks(true).unwrap();
    client.set_level(Level::Times).unwrap();
    selvedge::sync::stats::name(&LOCK, "the lock");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let other = OneToOne::new().unwrap();
    let spawn = |name: &str, f: fn()| rt.spawn_with(thread::Builder::new().name(name.into()), f).unwrap();
    let owner = spawn("owner", || {
        let _held = LOCK.lock();
        thread::park();
    });
    let overview = client.overview().unwrap();
    assert!(
        overview.program.starts_with("threadmon") && overview.cpus >= 1 && overview.level == Level::Times
    );
    let [mxn, onetoone] = &overview.runtimes[..] else { panic!("{overview:?}") };
    assert_eq!((mxn.model.as_str(), onetoone.model.as_str(), mxn.concurrency), ("mxn", "onetoone", 1));
    let (mxn, onetoone) = (mxn.number, onetoone.number);
    until(&mut client, mxn, "owner", |it| it.reason == Some(WaitReason::Park));
    let waiter = spawn("waiter", || drop(LOCK.lock()));
    let seen = until(&mut client, mxn, "waiter", |it| it.reason == Some(WaitReason::Mutex));
    assert_eq!((seen.state, seen.object.as_deref()), (State::Blocked, Some("the lock")));
    let (id, name) = seen.owner.clone().expect("owners are recorded");
    assert_eq!((id, name.as_deref()), (thread_named(&mut client, mxn, "owner").unwrap().id, Some("owner")));
    let times = seen.times.expect("times are counted");
    assert!(times.states.iter().sum::<Duration>().abs_diff(times.life) < Duration::from_micros(1));
    let hog = spawn("hog", || {
        while !STOP.load(Relaxed) {
            std::hint::spin_loop();
        }
    });
    // The mapping, both ways.
    let seen = until(&mut client, mxn, "hog", |it| it.state == State::Running && it.tid.is_some());
    let overview = client.overview().unwrap();
    let lwp = overview.runtimes[0].lwps.iter().find(|lwp| Some(lwp.number) == seen.lwp).unwrap();
    assert_eq!((lwp.thread, Some(lwp.tid), lwp.state), (Some(seen.id), seen.tid, LwpState::Running));
    assert!(lwp.cpu_time.is_some());
    // What an LWP does is charged to it: the hog now, and nothing after its end.
    let lwp_is_long = |client: &mut Client, state: usize| {
        let long = Duration::from_millis(20);
        let is_long = |times: [Duration; 4]| times[state] >= long;
        while !client.overview().unwrap().runtimes[0].lwps.iter().any(|lwp| lwp.times.is_some_and(is_long)) {
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    lwp_is_long(&mut client, 0);
    STOP.store(true, Relaxed);
    lwp_is_long(&mut client, 2);
    let bound = other.spawn_with(thread::Builder::new().name("kernel".into()), thread::park).unwrap();
    let seen = until(&mut client, onetoone, "kernel", |it| it.reason == Some(WaitReason::Park));
    assert!(seen.bound && seen.state == State::Blocked);
    let dump = client.dump().unwrap();
    for word in ["\"waiter\"", "the lock", "held by", "\"kernel\"", "onetoone"] {
        assert!(dump.contains(word), "no {word} in\n{dump}");
    }
    assert_eq!(client.deadlocks().unwrap(), "");
    bound.thread().unpark();
    owner.thread().unpark();
    [owner, waiter, hog, bound].into_iter().for_each(|thread| thread.join().unwrap());
    let locks = client.locks().unwrap();
    let lock = locks.iter().find(|lock| lock.name.as_deref() == Some("the lock")).expect("it was waited for");
    assert!(lock.contended == 1 && lock.waited > Duration::ZERO, "{lock:?}");
    assert_eq!(lock.owner, None);
    let holder = spawn("holder", || {
        let _held = LOCK.lock();
        thread::park();
    });
    until(&mut client, mxn, "holder", |it| it.reason == Some(WaitReason::Park));
    let locks = client.locks().unwrap();
    let lock = locks.iter().find(|lock| lock.name.as_deref() == Some("the lock")).unwrap();
    assert_eq!(lock.owner.clone().and_then(|(_, name)| name).as_deref(), Some("holder"));
    holder.thread().unpark();
    holder.join().unwrap();
    selvedge::sync::stats::unname(&LOCK);
}

#[test]
fn a_client_sees_threads_lwps_and_locks() {
    run("views");
}

/// An LWP has no times from before its begin: neither the session's, nor those of an LWP that has ended.
pub(super) fn young() {
    serve().unwrap();
    let mut client = Client::connect(std::process::id()).unwrap();
    client.set_level(Level::Times).unwrap();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(100));
        let begin = Instant::now();
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        let times = loop {
            rt.run(thread::yield_now);
            let lwps = client.overview().unwrap().runtimes.remove(0).lwps;
            let times: Vec<[Duration; 4]> = lwps.iter().filter_map(|lwp| lwp.times).collect();
            if times.iter().any(|it| !it[0].is_zero()) {
                break times;
            }
        };
        // The clocks of the program and of the test differ by their scale.
        let age = begin.elapsed() * 101 / 100;
        assert!(times.iter().all(|it| it.iter().sum::<Duration>() <= age), "{times:?} in {age:?}");
    }
}

#[test]
fn an_lwp_has_no_times_from_before_its_begin() {
    run("young");
}

/// A walk in pages finds each of many threads once.
pub(super) fn walk() {
    serve().unwrap();
    let mut client = Client::connect(std::process::id()).unwrap();
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    let threads: Vec<_> = (0..20_000).map(|_| rt.spawn(thread::park)).collect();
    let number = client.overview().unwrap().runtimes[0].number;
    let mut seen = HashSet::new();
    let mut anew = true;
    loop {
        let page = client.threads(number, 1_024, anew).unwrap();
        assert!(page.threads.len() <= 1_024);
        page.threads.iter().for_each(|thread| assert!(seen.insert(thread.id), "twice: {thread:?}"));
        if page.last {
            break;
        }
        anew = false;
    }
    assert_eq!(seen.len(), 20_000);
    // A walk that begins anew begins where the last one began.
    let mut first = |anew| client.threads(number, 10, anew).unwrap().threads.into_iter().map(|it| it.id);
    let begin: Vec<_> = first(true).collect();
    assert!(first(false).all(|id| !begin.contains(&id)));
    assert!(first(true).eq(begin));
    let error = client.threads(number + 1, 1, true).unwrap_err();
    assert!(error.to_string().contains("there is no runtime"), "{error}");
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_walk_in_pages_finds_each_thread_once() {
    run("walk");
}

/// Events come in parts, and no event comes twice.
pub(super) fn events() {
    serve().unwrap();
    let mut client = Client::connect(std::process::id()).unwrap();
    client.set_level(Level::Events).unwrap();
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let mut exits = 0;
    for round in 0..50 {
        rt.spawn(thread::yield_now).join().unwrap();
        let part = client.events(false).unwrap();
        exits += part.events().iter().filter(|event| event.kind == EventKind::Exit).count();
        assert!(exits >= round, "{exits} of {round}: the last may be on its way");
    }
    drop(rt);
    exits += client.events(false).unwrap().events().iter().filter(|it| it.kind == EventKind::Exit).count();
    assert_eq!(exits, 50);
    let all = client.events(true).unwrap();
    assert_eq!(all.events().iter().filter(|event| event.kind == EventKind::Exit).count(), 50);
    // More than the 16 MiB of one answer: 4 events of 32 bytes for each of these threads.
    const MANY: usize = 140_000;
    selvedge::trace::set_ring_events(1_000_000).unwrap();
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    rt.run(|| (0..MANY).for_each(|_| thread::spawn(|| ()).join().unwrap()));
    let all = client.events(true).unwrap();
    assert!(all.events().len() * 32 > 16 << 20, "{}", all.events().len());
    assert!(all.events().iter().filter(|event| event.kind == EventKind::Exit).count() >= MANY);
    client.set_level(Level::Off).unwrap();
}

#[test]
fn events_come_in_parts() {
    run("events");
}

/// A client follows one thread: its events come once, with what it waited for and which thread woke it. What
/// the rings have lost is told.
pub(super) fn history() {
    static LOCK: Mutex<()> = Mutex::new(());
    serve().unwrap();
    let mut client = Client::connect(std::process::id()).unwrap();
    selvedge::sync::stats::name(&LOCK, "the lock");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    client.set_level(Level::Events).unwrap();
    let held = rt.spawn_with(thread::Builder::new().name("owner".into()), || {
        let held = LOCK.lock();
        thread::park();
        drop(held);
        thread::current().id()
    });
    let held = held.unwrap();
    let number = client.overview().unwrap().runtimes[0].number;
    until(&mut client, number, "owner", |it| it.reason == Some(WaitReason::Park));
    let waiter = thread::Builder::new().name("waiter".into());
    let waiter = rt.spawn_with(waiter, || drop((LOCK.lock(), thread::park()))).unwrap();
    let seen = until(&mut client, number, "waiter", |it| it.reason == Some(WaitReason::Mutex));
    let first = client.history(seen.id, false).unwrap();
    let address = &raw const LOCK as u64;
    let kinds = |view: &HistoryView| view.events.iter().map(|event| event.kind).collect::<Vec<_>>();
    let blocked = EventKind::Block { reason: WaitReason::Mutex, at: Some(address as usize) };
    assert!(matches!(kinds(&first)[..], [EventKind::Spawn { .. }, .., last] if last == blocked), "{first:?}");
    assert_eq!(
        (first.whole_since, &first.objects[..]),
        (Duration::ZERO, &[(address, "the lock".into())][..])
    );
    let at = client.overview().unwrap().at;
    assert!(first.events.iter().all(|event| event.at <= first.at) && first.at < at, "{first:?}");
    assert!(first.at - first.events[0].at < Duration::from_secs(60), "{first:?}");
    // Only what is new, and which thread it was.
    held.thread().unpark();
    let owner = held.join().unwrap();
    until(&mut client, number, "waiter", |it| it.reason == Some(WaitReason::Park));
    let second = client.history(seen.id, false).unwrap();
    let woken = |kind: &EventKind| matches!(kind, EventKind::Ready { by, .. } if *by == Some(owner));
    assert!(kinds(&second).iter().any(woken) && !kinds(&second).contains(&blocked), "{second:?}");
    assert!(second.events[0].at >= first.events.last().unwrap().at, "{second:?}");
    assert!(client.history(seen.id, false).unwrap().events.is_empty());
    let all = client.history(seen.id, true).unwrap();
    assert_eq!(all.events.len(), first.events.len() + second.events.len());
    // Another thread's events push them out.
    let churn = |yields: u32| {
        let both = Arc::new(Barrier::new(2));
        let two = [(); 2].map(|()| {
            let both = Arc::clone(&both);
            rt.spawn(move || {
                // A thread that is alone has nothing to yield to.
                both.wait();
                (0..yields).for_each(|_| thread::yield_now());
                thread::current().id().as_u64().get()
            })
        });
        two.map(|thread| thread.join().unwrap())
    };
    // On a busy machine, the slot may have moved to an LWP with another ring.
    let lost = loop {
        churn(20_000);
        let view = client.history(seen.id, false).unwrap();
        if view.whole_since > second.at {
            break view;
        }
    };
    assert!(lost.whole_since <= lost.at, "{lost:?}");
    waiter.thread().unpark();
    waiter.join().unwrap();
    // A busy one: the last events only. The same may come in between here.
    let view = loop {
        let [busy, _] = churn(2_000);
        let view = client.history(busy, true).unwrap();
        if view.events.len() >= 1_000 {
            break view;
        }
    };
    assert_eq!(view.events.len(), 1_000);
    assert!(view.whole_since >= view.events[0].at, "{view:?}");
    assert!(view.events.is_sorted_by_key(|event| event.at), "{view:?}");
    selvedge::sync::stats::unname(&LOCK);
}

#[test]
fn a_client_follows_one_thread() {
    run("history");
}

/// At `SIGQUIT`, a process prints what its threads do, and goes on. Its children do not print.
pub(super) fn quit() {
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let parked = rt.spawn_with(thread::Builder::new().name("idler".into()), thread::park).unwrap();
    while !rt.threads().iter().any(|thread| thread.to_string().contains("park")) {}
    // SAFETY: the child sends itself a signal, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGQUIT) };
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: it waits for the child, and writes its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    let printed = ErrorFile::begin();
    for _ in 0..2 {
        // SAFETY: the handler of the crate is there, or the process ends.
        unsafe { libc::raise(libc::SIGQUIT) };
    }
    let text = printed.until(|text| text.matches("\"idler\"").count() == 2);
    parked.thread().unpark();
    parked.join().unwrap();
    println!("{text}after the last");
}

#[test]
fn a_quit_signal_prints_what_threads_do() {
    let ended = super::child::run("quit", &[("SELVEDGE_DUMP", "on")]);
    ended.expect_success();
    let line = "\"idler\": waiting for its permit (park)";
    assert_eq!(ended.said.matches(line).count(), 2, "{}", ended.said);
    assert!(ended.said.contains("after the last"), "{}", ended.said);
    let ended = super::child::run("quit", &[("SELVEDGE_DUMP", "perhaps")]);
    assert!(ended.said.contains("invalid value `perhaps` in SELVEDGE_DUMP"), "{}", ended.said);
}

/// What clients want holds until they go, beside what the program wants itself.
pub(super) fn wants() {
    serve().unwrap();
    let connect = || Client::connect(std::process::id()).unwrap();
    // Clients that have gone were seen to go when the next one is answered.
    let level = || connect().overview().unwrap().level;
    let [mut first, mut second, mut third] = [(); 3].map(|()| connect());
    first.set_level(Level::Times).unwrap();
    second.set_level(Level::Events).unwrap();
    drop(first);
    assert_eq!(level(), Level::Events);
    third.set_level(Level::Times).unwrap();
    assert_eq!(level(), Level::Events);
    drop(second);
    assert_eq!(level(), Level::Times);
    drop(third);
    assert_eq!(level(), Level::Off);
    // The program, too, gets what it wants.
    let mut client = connect();
    set_level(Level::Times);
    client.set_level(Level::Events).unwrap();
    client.set_level(Level::Off).unwrap();
    assert_eq!(level(), Level::Times);
    client.set_level(Level::Events).unwrap();
    set_level(Level::Off);
    assert_eq!(level(), Level::Events);
    // The same for locks, and for samples.
    let mut other = connect();
    client.count_locks(true).unwrap();
    other.count_locks(true).unwrap();
    client.count_locks(false).unwrap();
    assert!(stats::is_enabled());
    stats::enable();
    client.set_sample(NonZeroU32::new(16).unwrap()).unwrap();
    drop([client, other]);
    assert_eq!(level(), Level::Off);
    assert!(stats::is_enabled());
    stats::disable();
    assert!(!stats::is_enabled());
    set_level(Level::Events);
    assert_eq!(Recording::take().sampled(), NonZeroU32::MIN);
    set_level(Level::Off);
}

#[test]
fn what_clients_want_ends_with_them() {
    run("wants");
}
