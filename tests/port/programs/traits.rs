// The traits of each type, for messages and values of several kinds, because bounds pass through.

use std::cell::Cell;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::mpsc::{self, SyncSender, TryIter};
use std::sync::{
    Barrier, BarrierWaitResult, Condvar, LazyLock, Mutex, MutexGuard, Once, OnceLock, OnceState, RwLock,
    RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId};

/// Prints whether a type has a trait. If so, the inherent constant applies, otherwise that of the trait.
macro_rules! says {
    ($name:expr, $type:ty: $($trait:ident $(<$of:ty>)?),*) => {
        $({
            struct Probe<T: ?Sized>(PhantomData<T>);
            trait No {
                const ANSWER: &'static str = "no";
            }
            impl<T: ?Sized> No for T {}
            impl<T: ?Sized + $trait $(<$of>)?> Probe<T> {
                const ANSWER: &'static str = "yes";
            }
            println!("{}: {} {}", $name, stringify!($trait $(<$of>)?), Probe::<$type>::ANSWER);
        })*
    };
}

/// The traits that any type may have.
macro_rules! all {
    ($($type:ty),* $(,)?) => {
        $(says! {
            stringify!($type), $type:
            Send, Sync, Unpin, UnwindSafe, RefUnwindSafe, Debug, Display, Error, Default, Clone, Copy, PartialEq, Eq,
            PartialOrd, Ord, Hash, Iterator, FusedIterator, IntoIterator, Deref, DerefMut
        })*
    };
}

/// The same for each kind of parameter of a generic type. It may be shareable between threads, be for one
/// thread at a time, be for a single thread, or be a pointer. It may have no `Debug`, `Clone` or `PartialEq`.
macro_rules! of_each {
    ($($type:ident $(<$($lifetime:lifetime),*>)?),* $(,)?) => {
        $(
            all!($type<$($($lifetime,)*)? u8>);
            all!($type<$($($lifetime,)*)? Cell<u8>>);
            all!($type<$($($lifetime,)*)? Shared>);
            all!($type<$($($lifetime,)*)? *mut u8>);
            all!($type<$($($lifetime,)*)? &'static mut u8>);
            all!($type<$($($lifetime,)*)? Opaque>);
        )*
    };
}

struct Opaque;

/// `Sync` and not `Send`.
#[derive(Debug)]
struct Shared(*const u8);

// SAFETY: nothing reads it.
unsafe impl Sync for Shared {}

type Make = fn() -> u8;

fn main() {
    all!(Builder, Thread, ThreadId, Scope<'static, 'static>);
    of_each!(JoinHandle, ScopedJoinHandle<'static>);
    all!(Barrier, BarrierWaitResult, Condvar, Once, OnceState, WaitTimeoutResult);
    of_each!(
        Mutex,
        MutexGuard<'static>,
        RwLock,
        RwLockReadGuard<'static>,
        RwLockWriteGuard<'static>,
        OnceLock
    );
    all!(Mutex<[u8]>, Mutex<dyn Debug>, RwLock<[u8]>, RwLock<dyn Debug + Send>, MutexGuard<'static, str>);
    all!(LazyLock<u8>, LazyLock<Cell<u8>>, LazyLock<*mut u8>, LazyLock<Opaque>, LazyLock<&'static mut u8>);
    all!(LazyLock<u8, Make>, LazyLock<u8, Cell<Make>>, LazyLock<u8, *mut u8>, LazyLock<u8, &'static mut u8>);
    says!("Mutex<u8>", Mutex<u8>: From<u8>);
    says!("RwLock<u8>", RwLock<u8>: From<u8>);
    says!("OnceLock<u8>", OnceLock<u8>: From<u8>);
    // Names that another module also has.
    use mpsc::{IntoIter, Iter, Receiver, Sender};
    of_each!(Sender, SyncSender, Receiver, Iter<'static>, TryIter<'static>, IntoIter);
    says!("&Receiver<u8>", &'static Receiver<u8>: IntoIterator);
}
