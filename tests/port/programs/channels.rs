// Channels: order, bounds, rendezvous, ends, iterators, errors.

use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{
    self, Receiver, RecvError, RecvTimeoutError, Sender, SyncSender, TryRecvError, TrySendError,
};
use std::thread;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(5);

fn order() {
    let (tx, rx) = mpsc::channel();
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let tx = tx.clone();
            thread::spawn(move || (0..100).for_each(|i| tx.send((n, i)).unwrap()))
        })
        .collect();
    drop(tx);
    let mut next = [0; 4];
    for (n, i) in &rx {
        assert_eq!(next[n], i, "each sender's come in order");
        next[n] += 1;
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{next:?} {:?} {:?}", rx.recv(), rx.try_recv());
}

fn bounds() {
    let (tx, rx): (SyncSender<u8>, Receiver<u8>) = mpsc::sync_channel(2);
    println!("{:?} {:?} {:?}", tx.try_send(1), tx.send(2), tx.try_send(3));
    let sender = thread::spawn({
        let tx = tx.clone();
        move || tx.send(3)
    });
    println!("{:?} {:?} {:?}", rx.recv(), rx.recv(), rx.recv());
    println!("{:?}", sender.join().unwrap());
    drop(rx);
    println!("{:?} {:?}", tx.send(4), tx.try_send(5));
    let error: TrySendError<u8> = tx.send(6).unwrap_err().into();
    println!("{error:?} {error}");
}

fn rendezvous() {
    let (tx, rx) = mpsc::sync_channel(0);
    println!("{:?} {:?}", tx.try_send(1), rx.try_recv());
    thread::scope(|s| {
        s.spawn(|| (0..3).for_each(|n| tx.send(n).unwrap()));
        println!("{:?}", [rx.recv(), rx.recv(), rx.recv()]);
    });
    // Once a receiver waits, a send succeeds.
    let receiver = thread::spawn(move || rx.recv());
    while let Err(error) = tx.try_send(9) {
        assert_eq!(error, TrySendError::Full(9));
        thread::yield_now();
    }
    println!("{:?}", receiver.join().unwrap());
    println!("{:?}", tx.send(1));
}

fn ends() {
    // The messages in a channel outlive its senders, and are dropped with its receiver.
    let (tx, rx) = mpsc::channel();
    tx.send(1).unwrap();
    drop(tx);
    println!("{:?} {:?} {:?}", rx.recv(), rx.recv(), rx.recv_timeout(SHORT));
    let (tx, rx) = mpsc::channel();
    let shared = Arc::new(());
    tx.send(shared.clone()).unwrap();
    drop(rx);
    println!("{} {}", Arc::strong_count(&shared), tx.send(shared.clone()).is_err());
    // The end of the other side wakes a receiver that waits, and a sender.
    let (tx, rx) = mpsc::channel::<u8>();
    let receiver = thread::spawn(move || rx.recv());
    drop(tx);
    println!("{:?}", receiver.join().unwrap());
    let (tx, rx) = mpsc::sync_channel::<u8>(0);
    let sender = thread::spawn(move || tx.send(1));
    drop(rx);
    println!("{:?}", sender.join().unwrap());
}

fn timeouts() {
    let (tx, rx) = mpsc::channel::<u8>();
    let start = Instant::now();
    println!("{:?} {}", rx.recv_timeout(SHORT), start.elapsed() >= SHORT);
    thread::scope(|s| {
        s.spawn(|| tx.send(1));
        println!("{:?}", rx.recv_timeout(Duration::MAX));
    });
}

fn iterators() {
    let (tx, rx) = mpsc::channel();
    (0..3).for_each(|n| tx.send(n).unwrap());
    println!("{:?} {:?}", rx.try_iter().collect::<Vec<_>>(), rx.try_iter().next());
    (0..3).for_each(|n| tx.send(n).unwrap());
    println!("{:?}", rx.iter().take(2).collect::<Vec<_>>());
    println!("{:?} {:?}", rx.iter(), rx.try_iter());
    drop(tx);
    let mut all = rx.into_iter();
    println!("{all:?} {:?} {:?} {:?}", all.next(), all.next(), all.next());
}

fn texts() {
    fn say(error: &dyn Error) {
        println!("{error} {error:?} {}", error.source().is_none());
    }
    say(&mpsc::SendError(1));
    say(&TrySendError::Full(1));
    say(&TrySendError::Disconnected(1));
    say(&RecvError);
    say(&TryRecvError::Empty);
    say(&TryRecvError::Disconnected);
    say(&TryRecvError::from(RecvError));
    say(&RecvTimeoutError::Timeout);
    say(&RecvTimeoutError::Disconnected);
    say(&RecvTimeoutError::from(RecvError));
    let ((tx, rx), (stx, _)) = (mpsc::channel::<u8>(), mpsc::sync_channel::<u8>(1));
    println!("{tx:?} {rx:?} {stx:?} {tx:#?}");
}

// A sender can be shared.
fn share(tx: &Sender<u8>) {
    thread::scope(|s| {
        for n in 0..4 {
            s.spawn(move || tx.send(n));
        }
    });
}

fn main() {
    order();
    bounds();
    rendezvous();
    ends();
    timeouts();
    iterators();
    texts();
    let (tx, rx) = mpsc::channel();
    share(&tx);
    let mut all: Vec<_> = rx.try_iter().collect();
    all.sort_unstable();
    println!("{all:?}");
}
