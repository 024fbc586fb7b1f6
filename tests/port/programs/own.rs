// Items that stay std's: with either `use` line, these names are std's own items.

use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};
use std::thread;
use std::thread::{AccessError, LocalKey};

macro_rules! own {
    ($($name:ident: $ours:ty = $theirs:ty;)*) => {
        $(
            let _: fn($ours) -> $theirs = |value| value;
            println!("std's own: {}", stringify!($name));
        )*
    };
}

fn main() {
    own! {
        Arc: Arc<u8> = ::std::sync::Arc<u8>;
        Weak: Weak<u8> = ::std::sync::Weak<u8>;
        PoisonError: PoisonError<u8> = ::std::sync::PoisonError<u8>;
        TryLockError: TryLockError<u8> = ::std::sync::TryLockError<u8>;
        LockResult: LockResult<u8> = ::std::sync::LockResult<u8>;
        TryLockResult: TryLockResult<u8> = ::std::sync::TryLockResult<u8>;
        atomic: atomic::AtomicUsize = ::std::sync::atomic::AtomicUsize;
        RecvError: RecvError = ::std::sync::mpsc::RecvError;
        RecvTimeoutError: RecvTimeoutError = ::std::sync::mpsc::RecvTimeoutError;
        SendError: SendError<u8> = ::std::sync::mpsc::SendError<u8>;
        TryRecvError: TryRecvError = ::std::sync::mpsc::TryRecvError;
        TrySendError: TrySendError<u8> = ::std::sync::mpsc::TrySendError<u8>;
        AccessError: AccessError = ::std::thread::AccessError;
        LocalKey: LocalKey<u8> = ::std::thread::LocalKey<u8>;
        Result: thread::Result<u8> = ::std::thread::Result<u8>;
    }
}
