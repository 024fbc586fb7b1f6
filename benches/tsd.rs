//! What does it cost to look at a thread's own value?
//!
//! Under a key of ours (one of the first, and a later one), as a copy and in place; in `thread_local!` with a constant start, which
//! is about the least that there can be; and under a key of the C library. All read a number through what they are given.
//! Figures are for a hundred looks, since one takes less than a nanosecond.

mod support;

use std::cell::Cell;
use std::hint::black_box;
use std::process::ExitCode;
use std::ptr;
use std::time::{Duration, Instant};

use selvedge::tsd::Key;
use selvedge::{Mxn, OneToOne, Runtime};

use support::harness::{Case, Effort, Question, Run, Side, Unit, answer};

fn main() -> ExitCode {
    let unit = || Unit::NanosEach("for 100");
    answer(vec![
        Question::new("get", unit(), everybody(get)),
        Question::new("get, a later key", unit(), everybody(get_later)),
        Question::new("get in place", unit(), everybody(get_in_place)),
        Question::new("set", unit(), everybody(set)),
    ])
}

/// How ours, `thread_local!`'s and the C library's are looked at, a number of times.
type Looks = fn() -> [fn(u64) -> Duration; 3];

fn everybody(looks: Looks) -> Vec<Case> {
    let [ours, native, pthread] = looks();
    vec![
        Case::new("mxn", Side::Ours, move |effort| Mxn::new().unwrap().run(move || spend(effort, ours))),
        Case::new("onetoone", Side::Ours, move |effort| {
            OneToOne::new().unwrap().run(move || spend(effort, ours))
        }),
        Case::new("foreign", Side::Ours, move |effort| beside_main(effort, ours)),
        Case::new("thread_local!", Side::Peer, move |effort| beside_main(effort, native)),
        Case::new("thread_local!, mxn", Side::Peer, move |effort| {
            Mxn::new().unwrap().run(move || spend(effort, native))
        }),
        Case::new("pthread_getspecific", Side::Peer, move |effort| beside_main(effort, pthread)),
    ]
}

fn beside_main(effort: Effort, looks: fn(u64) -> Duration) -> Run {
    std::thread::scope(|scope| scope.spawn(move || spend(effort, looks)).join().unwrap())
}

fn spend(effort: Effort, looks: fn(u64) -> Duration) -> Run {
    effort.spend(|hundreds| looks(hundreds * 100))
}

/// Times `look`, again and again.
#[inline(always)]
fn time<T>(times: u64, look: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        black_box(look());
    }
    start.elapsed()
}

static KEY: Key<u64> = Key::new();
static CELL: Key<Cell<u64>> = Key::new();

thread_local! {
    static NATIVE: Cell<u64> = const { Cell::new(1) };
}

/// A key of the C library's, with a value for this thread.
fn pthread_key() -> libc::pthread_key_t {
    let mut key = 0;
    // SAFETY: a valid place, and no destructor.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, None) }, 0);
    pthread_set(key, Box::leak(Box::new(1)));
    key
}

fn pthread_set(key: libc::pthread_key_t, value: &'static u64) {
    // SAFETY: the key is there.
    assert_eq!(unsafe { libc::pthread_setspecific(key, ptr::from_ref(value).cast()) }, 0);
}

#[inline(always)]
fn pthread_get(key: libc::pthread_key_t) -> u64 {
    // SAFETY: the key is there.
    let value = unsafe { libc::pthread_getspecific(key) }.cast::<u64>();
    // SAFETY: this thread has set it.
    unsafe { *value }
}

fn native(times: u64) -> Duration {
    time(times, || NATIVE.with(Cell::get))
}

fn pthread(times: u64) -> Duration {
    let key = pthread_key();
    time(times, || pthread_get(key))
}

fn get() -> [fn(u64) -> Duration; 3] {
    let ours = |times| {
        KEY.set(1);
        time(times, || KEY.get().unwrap())
    };
    [ours, native, pthread]
}

fn get_later() -> [fn(u64) -> Duration; 3] {
    let ours = |times| {
        let others: Vec<Key<u64>> = (0..30).map(|_| Key::try_new().unwrap()).collect();
        let key = Key::new();
        key.set(1);
        let took = time(times, || key.get().unwrap());
        drop(others);
        took
    };
    [ours, native, pthread]
}

fn get_in_place() -> [fn(u64) -> Duration; 3] {
    let ours = |times| {
        CELL.set(Cell::new(1));
        time(times, || CELL.with(|cell| cell.unwrap().get()))
    };
    [ours, native, pthread]
}

fn set() -> [fn(u64) -> Duration; 3] {
    let ours = |times| {
        KEY.set(1);
        time(times, || KEY.set(2))
    };
    let native = |times| time(times, || NATIVE.with(|cell| cell.set(black_box(2))));
    let pthread = |times| {
        let (key, value) = (pthread_key(), &*Box::leak(Box::new(2)));
        time(times, || pthread_set(key, value))
    };
    [ours, native, pthread]
}
