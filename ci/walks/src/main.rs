//! One operation at a time, between `walk_begin` and `walk_end`: `ci/walks.sh` steps through it.
//!
//! `selvedge-walks OPERATION TIMES` does it a number of times, on one slot. Without arguments, it lists the
//! operations. A walk that switches begins in one thread and ends in another.

use std::arch::asm;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::sync::{Condvar, Mutex};
use selvedge::{Mxn, Runtime, channel, thread};

/// An operation, and the function that does it so many times. The function gets the name, too.
const OPERATIONS: [(&str, fn(&str, u32)); 13] = [
    // Through a channel that has room; of which a message is taken.
    ("send", send_and_receive),
    ("recv", send_and_receive),
    // Until the call returns.
    ("spawn", spawn),
    // From the call until the new thread runs its closure.
    ("join", join),
    // From the end of a closure until the thread that joins has the result.
    ("end", end),
    // From the call, of a mutex that another thread has, until that thread runs.
    ("lock", lock),
    // Of a mutex that a thread waits for.
    ("unlock", lock),
    // From the yield of the thread that has unlocked until the waiter has the mutex.
    ("resume", lock),
    // From the call until the thread runs that was notified before, with the mutex.
    ("wait", wait),
    ("notify", wait),
    ("park", park),
    ("unpark", park),
    // From the handler of the signal until the other thread runs on, which was preempted before.
    ("preempt", preempt),
];

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_begin() {
    // SAFETY: it does nothing.
    unsafe { asm!("nop") }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_end() {
    // SAFETY: it does nothing.
    unsafe { asm!("nop", "nop") }
}

fn begin_if(it_begins: bool) {
    if it_begins {
        walk_begin();
    }
}

fn end_if(it_ends: bool) {
    if it_ends {
        walk_end();
    }
}

/// Does something that is the operation, if it `is`.
fn whole<R>(is: bool, operation: impl FnOnce() -> R) -> R {
    begin_if(is);
    let done = operation();
    end_if(is);
    done
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [name, times] = &arguments[..] else {
        OPERATIONS.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let (_, run) = OPERATIONS.iter().find(|(known, _)| known == name).expect("an operation");
    let times = times.parse().expect("a number");
    let builder = Mxn::builder().concurrency(1);
    let builder = if name == "preempt" {
        builder.time_slice(Some(Duration::from_millis(5)))
    } else {
        builder.time_slice(None).preemption_signal(None)
    };
    let rt = builder.build().expect("a runtime with one slot");
    rt.run(|| {
        // The caches of the LWP are full, and the table of the thread-locals' first values is made.
        (0..300).for_each(|_| thread::spawn(|| ()).join().unwrap());
        run(name, times);
    });
}

fn send_and_receive(name: &str, times: u32) {
    let (to, from) = channel::bounded(64);
    for message in 0..times {
        whole(name == "send", || to.send(black_box(message))).unwrap();
        black_box(whole(name == "recv", || from.recv())).unwrap();
    }
}

fn spawn(_: &str, times: u32) {
    for _ in 0..times {
        whole(true, || thread::spawn(|| ())).join().unwrap();
    }
}

fn join(_: &str, times: u32) {
    for _ in 0..times {
        let thread = thread::spawn(|| walk_end());
        walk_begin();
        thread.join().unwrap();
    }
}

fn end(_: &str, times: u32) {
    for _ in 0..times {
        thread::spawn(|| walk_begin()).join().unwrap();
        walk_end();
    }
}

fn lock(name: &str, times: u32) {
    let [locks, unlocks, resumes] = ["lock", "unlock", "resume"].map(|operation| operation == name);
    let mutex = Arc::new(Mutex::new(()));
    let mut guard = mutex.lock();
    let other = thread::spawn({
        let mutex = mutex.clone();
        move || {
            for _ in 0..times {
                begin_if(locks);
                let guard = mutex.lock();
                end_if(resumes);
                drop(guard);
                thread::yield_now();
            }
        }
    });
    for _ in 0..times {
        thread::yield_now();
        end_if(locks);
        whole(unlocks, || drop(guard));
        begin_if(resumes);
        thread::yield_now();
        guard = mutex.lock();
    }
    drop(guard);
    other.join().unwrap();
}

/// Runs `body` in two threads, with a number for each.
fn both(body: impl Fn(usize) + Clone + Send + 'static) {
    let threads = [0, 1].map(|me| {
        let body = body.clone();
        thread::spawn(move || body(me))
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn wait(name: &str, times: u32) {
    let [waits, notifies] = ["wait", "notify"].map(|operation| operation == name);
    let table = Arc::new((Mutex::new(0), Condvar::new()));
    both(move |me| {
        let (turn, changed) = &*table;
        let mut turn = turn.lock();
        for _ in 0..times {
            while *turn != me {
                begin_if(waits && me == 1);
                changed.wait(&mut turn);
                end_if(waits && me == 0);
            }
            *turn = 1 - me;
            whole(notifies && me == 1, || changed.notify_one());
        }
    });
}

fn park(name: &str, times: u32) {
    let [parks, unparks] = ["park", "unpark"].map(|operation| operation == name);
    let main = thread::current();
    let other = thread::spawn(move || {
        for _ in 0..times {
            begin_if(parks);
            thread::park();
            main.unpark();
        }
    });
    for _ in 0..times {
        whole(unparks, || other.thread().unpark());
        thread::park();
        end_if(parks);
    }
    other.join().unwrap();
}

fn preempt(_: &str, times: u32) {
    let turn = Arc::new(AtomicUsize::new(0));
    both(move |me| {
        for _ in 0..times {
            while turn.load(Ordering::Relaxed) != me {
                std::hint::spin_loop();
            }
            walk_end();
            turn.store(1 - me, Ordering::Relaxed);
        }
    });
}
