// Every function and method of `std::sync::mpsc`, with its signature.

use std::sync::mpsc;
use std::sync::mpsc::{
    IntoIter, Iter, Receiver, RecvError, RecvTimeoutError, SendError, Sender, SyncSender, TryIter,
    TryRecvError, TrySendError,
};
use std::time::Duration;

// These are two types, so a trait can be implemented for each.
trait Sends {
    fn give(&self, message: u8) -> Result<(), SendError<u8>>;
}

impl Sends for Sender<u8> {
    fn give(&self, message: u8) -> Result<(), SendError<u8>> {
        self.send(message)
    }
}

impl Sends for SyncSender<u8> {
    fn give(&self, message: u8) -> Result<(), SendError<u8>> {
        self.send(message)
    }
}

// No method of the type shadows this one.
trait Length {
    fn len(&self) -> usize;
}

impl<T> Length for Receiver<T> {
    fn len(&self) -> usize {
        self.try_iter().count()
    }
}

fn main() {
    let _: fn() -> (Sender<u8>, Receiver<u8>) = mpsc::channel;
    let _: fn(usize) -> (SyncSender<u8>, Receiver<u8>) = mpsc::sync_channel;

    let _: fn(&Sender<u8>, u8) -> Result<(), SendError<u8>> = Sender::send;
    let _: fn(&SyncSender<u8>, u8) -> Result<(), SendError<u8>> = SyncSender::send;
    let _: fn(&SyncSender<u8>, u8) -> Result<(), TrySendError<u8>> = SyncSender::try_send;

    let _: fn(&Receiver<u8>) -> Result<u8, TryRecvError> = Receiver::try_recv;
    let _: fn(&Receiver<u8>) -> Result<u8, RecvError> = Receiver::recv;
    let _: fn(&Receiver<u8>, Duration) -> Result<u8, RecvTimeoutError> = Receiver::recv_timeout;
    let _: fn(&Receiver<u8>) -> Iter<'_, u8> = Receiver::iter;
    let _: fn(&Receiver<u8>) -> TryIter<'_, u8> = Receiver::try_iter;
    let _: fn(Receiver<u8>) -> IntoIter<u8> = Receiver::into_iter;

    println!("{:?}", [TryRecvError::Empty, TryRecvError::Disconnected]);
    println!("{:?}", [RecvTimeoutError::Timeout, RecvTimeoutError::Disconnected]);
    println!("{:?}", [TrySendError::Full(1), TrySendError::Disconnected(1)]);

    let (tx, rx) = mpsc::channel();
    tx.give(1).unwrap();
    tx.give(2).unwrap();
    println!("{}", rx.len());
    let (tx, rx) = mpsc::sync_channel(2);
    tx.give(1).unwrap();
    println!("{} {:?}", rx.len(), rx);
}
