// Every function and method of `std::thread`, with its signature.

use std::cell::{Cell, RefCell};
use std::io;
use std::num::NonZero;
use std::thread;
use std::thread::{AccessError, Builder, JoinHandle, LocalKey, Scope, ScopedJoinHandle, Thread, ThreadId};
use std::time::Duration;

type Job = fn() -> u8;

fn functions() {
    let _: fn() -> io::Result<NonZero<usize>> = thread::available_parallelism;
    let _: fn() -> Thread = thread::current;
    let _: fn() -> bool = thread::panicking;
    let _: fn() = thread::park;
    let _: fn(Duration) = thread::park_timeout;
    let _: fn(u32) = thread::park_timeout_ms;
    let _: fn(Duration) = thread::sleep;
    let _: fn(u32) = thread::sleep_ms;
    let _: fn(Job) -> JoinHandle<u8> = thread::spawn;
    let _: fn() = thread::yield_now;
    let _ = thread::scope::<'static, fn(&Scope<'_, 'static>) -> u8, u8>;
}

fn builder() {
    let _: fn() -> Builder = Builder::new;
    let _: fn(Builder, String) -> Builder = Builder::name;
    let _: fn(Builder, usize) -> Builder = Builder::stack_size;
    let _: fn(Builder, Job) -> io::Result<JoinHandle<u8>> = Builder::spawn;
    let _: unsafe fn(Builder, Job) -> io::Result<JoinHandle<u8>> = Builder::spawn_unchecked;
    let _: for<'s> fn(Builder, &'s Scope<'s, '_>, Job) -> io::Result<ScopedJoinHandle<'s, u8>> =
        |builder, scope, job| Builder::spawn_scoped(builder, scope, job);
}

fn handles() {
    let _: fn(&JoinHandle<u8>) -> &Thread = JoinHandle::thread;
    let _: fn(JoinHandle<u8>) -> thread::Result<u8> = JoinHandle::join;
    let _: fn(&JoinHandle<u8>) -> bool = JoinHandle::is_finished;
    let _: for<'s> fn(&'s Scope<'s, '_>, Job) -> ScopedJoinHandle<'s, u8> =
        |scope, job| Scope::spawn(scope, job);
    let _: for<'a> fn(&'a ScopedJoinHandle<'_, u8>) -> &'a Thread = |handle| ScopedJoinHandle::thread(handle);
    let _: fn(ScopedJoinHandle<'_, u8>) -> thread::Result<u8> = |handle| ScopedJoinHandle::join(handle);
    let _: fn(&ScopedJoinHandle<'_, u8>) -> bool = |handle| ScopedJoinHandle::is_finished(handle);
    let _: fn(&Thread) = Thread::unpark;
    let _: fn(&Thread) -> ThreadId = Thread::id;
    let _: fn(&Thread) -> Option<&str> = Thread::name;
}

thread_local! {
    static CELL: Cell<u8> = const { Cell::new(1) };
    static LIST: RefCell<Vec<u8>> = RefCell::default();
}

fn keys() {
    let _: fn(&'static LocalKey<Cell<u8>>, fn(&Cell<u8>) -> u8) -> u8 = LocalKey::with;
    let _: fn(&'static LocalKey<Cell<u8>>, fn(&Cell<u8>) -> u8) -> Result<u8, AccessError> =
        LocalKey::try_with;
    let _: fn(&'static LocalKey<Cell<u8>>, u8) = LocalKey::<Cell<u8>>::set;
    let _: fn(&'static LocalKey<Cell<u8>>) -> u8 = LocalKey::<Cell<u8>>::get;
    let _: fn(&'static LocalKey<Cell<u8>>) -> u8 = LocalKey::<Cell<u8>>::take;
    let _: fn(&'static LocalKey<Cell<u8>>, u8) -> u8 = LocalKey::<Cell<u8>>::replace;
    type List = RefCell<Vec<u8>>;
    let _: fn(&'static LocalKey<List>, fn(&Vec<u8>) -> u8) -> u8 = LocalKey::<List>::with_borrow;
    let _: fn(&'static LocalKey<List>, fn(&mut Vec<u8>) -> u8) -> u8 = LocalKey::<List>::with_borrow_mut;
    let _: fn(&'static LocalKey<List>, Vec<u8>) = LocalKey::<List>::set;
    let _: fn(&'static LocalKey<List>) -> Vec<u8> = LocalKey::<List>::take;
    let _: fn(&'static LocalKey<List>, Vec<u8>) -> Vec<u8> = LocalKey::<List>::replace;
    CELL.set(CELL.get() + 1);
    LIST.with_borrow_mut(|list| list.push(CELL.get()));
    println!("{:?}", LIST.take());
}

fn main() {
    functions();
    builder();
    handles();
    keys();
}
