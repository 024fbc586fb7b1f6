//! What does it cost to look at a thread's own value?
//!
//! Our values are under one of the first keys and a later one, as a copy and in place. `thread_local!` with a
//! constant start is about the least that there can be. The others are a key of the C library, and what
//! coroutines and tasks have in its place. All read a number through what they are given. Figures are for a
//! hundred looks, since one takes less than a nanosecond.

mod support;

use std::cell::Cell;
use std::hint::black_box;
use std::process::ExitCode;
use std::ptr;
use std::time::{Duration, Instant};

use selvedge::tsd::Key;

use support::contender::{Loop, OURS, called, some_threads};
use support::harness::{Case, Question, Side, Unit, answer};

fn main() -> ExitCode {
    let unit = || Unit::NanosEach("for 100");
    answer(vec![
        Question::new("get", unit(), get()),
        Question::new("get, a later key", unit(), get_later()),
        Question::new("get in place", unit(), get_in_place()),
        Question::new("set", unit(), set()),
    ])
}

/// So many hundreds of looks.
type Looks = fn(u64) -> Duration;

/// Ours on its own threads and on others, and each peer's own.
fn all(ours: Looks, native: Looks, pthread: Looks, may: Looks, tokio: Looks) -> Vec<Case> {
    let mut cases = some_threads(&OURS, Loop(ours));
    cases.extend([
        called("foreign", "std", Loop(ours)).on(Side::Ours),
        called("thread_local!", "std", Loop(native)),
        called("thread_local!, mxn", "mxn", Loop(native)).on(Side::Peer),
        called("pthread_getspecific", "pthread", Loop(pthread)),
        called("may's coroutine_local!", "may", Loop(may)),
        called("tokio's task_local!", "std", Loop(tokio)),
    ]);
    cases
}

/// Times so many hundreds of `look`.
#[inline(always)]
fn time<T>(hundreds: u64, look: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..100 * hundreds {
        black_box(look());
    }
    start.elapsed()
}

static KEY: Key<u64> = Key::new();
static CELL: Key<Cell<u64>> = Key::new();

thread_local! {
    static NATIVE: Cell<u64> = const { Cell::new(1) };
}

may::coroutine_local!(static COROUTINE: Cell<u64> = Cell::new(1));

tokio::task_local! {
    static TASK: Cell<u64>;
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

fn native(hundreds: u64) -> Duration {
    time(hundreds, || NATIVE.with(Cell::get))
}

fn pthread(hundreds: u64) -> Duration {
    let key = pthread_key();
    time(hundreds, || pthread_get(key))
}

fn may(hundreds: u64) -> Duration {
    time(hundreds, || COROUTINE.with(Cell::get))
}

/// A task's own are there while it is polled: here, all the time.
fn tokio(hundreds: u64) -> Duration {
    TASK.sync_scope(Cell::new(1), || time(hundreds, || TASK.with(Cell::get)))
}

fn get() -> Vec<Case> {
    let ours = |hundreds| {
        KEY.set(1);
        time(hundreds, || KEY.get().unwrap())
    };
    all(ours, native, pthread, may, tokio)
}

fn get_later() -> Vec<Case> {
    let ours = |hundreds| {
        let others: Vec<Key<u64>> = (0..30).map(|_| Key::try_new().unwrap()).collect();
        let key = Key::new();
        key.set(1);
        let took = time(hundreds, || key.get().unwrap());
        drop(others);
        took
    };
    all(ours, native, pthread, may, tokio)
}

fn get_in_place() -> Vec<Case> {
    let ours = |hundreds| {
        CELL.set(Cell::new(1));
        time(hundreds, || CELL.with(|cell| cell.unwrap().get()))
    };
    all(ours, native, pthread, may, tokio)
}

fn set() -> Vec<Case> {
    let ours = |hundreds| {
        KEY.set(1);
        time(hundreds, || KEY.set(2))
    };
    let native = |hundreds| time(hundreds, || NATIVE.with(|cell| cell.set(black_box(2))));
    let pthread = |hundreds| {
        let (key, value) = (pthread_key(), &*Box::leak(Box::new(2)));
        time(hundreds, || pthread_set(key, value))
    };
    let may = |hundreds| time(hundreds, || COROUTINE.with(|cell| cell.set(black_box(2))));
    let tokio = |hundreds| {
        let set = || TASK.with(|cell| cell.set(black_box(2)));
        TASK.sync_scope(Cell::new(1), || time(hundreds, set))
    };
    all(ours, native, pthread, may, tokio)
}
