//! How many instructions does each hot path take? The program that `ci/instructions.sh` counts them of.
//!
//! `instructions PATH TIMES` does one path a number of times. It runs on one slot, so that the order of
//! threads is always the same. It has no time slices, which would end anywhere. A system call writes the
//! thread register, since valgrind's processor does not let a program write it. The other kernel threads of
//! the runtime sleep meanwhile. Two runs differ by the price of the times that they differ by.
//! `instructions --list` says how many make a good difference.

use std::hint::black_box;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use selvedge::ThreadRegister;
use selvedge::os::unix::net::UnixStream;
use selvedge::sync::{Condvar, Mutex, RwLock, Semaphore};
use selvedge::tsd::Key;
use selvedge::{Mxn, Runtime, channel, thread};

/// One thing that is done again and again.
struct Path {
    name: &'static str,
    /// How often it is done until that is some 50 million instructions: a start of the runtime takes one
    /// million, or a tenth more.
    times: u64,
    run: fn(u64),
}

const PATHS: [Path; 13] = [
    // A yield to another thread, which yields too.
    Path { name: "switch", times: 250_000, run: switch },
    // A thread that does nothing.
    Path { name: "spawn+join", times: 40_000, run: spawn_and_join },
    // There and back, as all that are called round trips.
    Path { name: "park+unpark", times: 100_000, run: park_and_unpark },
    // Of a mutex without contention; so all that have an unlock.
    Path { name: "lock+unlock", times: 2_000_000, run: lock },
    Path { name: "read+unlock", times: 2_000_000, run: read },
    Path { name: "write+unlock", times: 2_000_000, run: write },
    // Of a semaphore that has a permit.
    Path { name: "acquire+release", times: 2_000_000, run: acquire },
    Path { name: "condvar round trip", times: 50_000, run: condvar },
    // By one thread, through a channel that has room.
    Path { name: "send+recv", times: 250_000, run: send_and_receive },
    // Through two channels without room.
    Path { name: "channel round trip", times: 40_000, run: channel },
    // A byte there and back through two sockets, of which both ends wait. Without the kernel's part.
    Path { name: "socket round trip", times: 10_000, run: |times| socket(times, None) },
    // The same, and each read has a time limit.
    Path {
        name: "socket, limited",
        times: 10_000,
        run: |times| socket(times, Some(Duration::from_secs(60))),
    },
    // Of a thread's own value.
    Path { name: "tsd get", times: 4_000_000, run: get },
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--list"] => PATHS.iter().for_each(|path| println!("{}\t{}", path.name, path.times)),
        ["--test"] => PATHS.iter().for_each(|path| run(path, 10)),
        [name, times] => {
            let path = PATHS.iter().find(|path| path.name == name);
            let (Some(path), Ok(times)) = (path, times.parse()) else {
                eprintln!("{name} {times}: there is no such path (--list names them), or that is no number");
                return ExitCode::FAILURE;
            };
            run(path, times);
        }
        _ => println!("ci/instructions.sh counts the instructions of this program"),
    }
    ExitCode::SUCCESS
}

fn run(path: &Path, times: u64) {
    let builder = Mxn::builder().concurrency(1).time_slice(None).preemption_signal(None);
    let rt = builder.thread_register(ThreadRegister::Syscall).build().expect("a runtime with one slot");
    rt.run(|| (path.run)(times));
}

/// Two threads do the same a number of times, and meet no others.
fn both(body: impl Fn(usize) + Clone + Send + 'static) {
    let threads = [0, 1].map(|me| {
        let body = body.clone();
        thread::spawn(move || body(me))
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

fn switch(times: u64) {
    both(move |_| (0..times / 2).for_each(|_| thread::yield_now()));
}

fn spawn_and_join(times: u64) {
    (0..times).for_each(|_| thread::spawn(|| ()).join().unwrap());
}

fn park_and_unpark(times: u64) {
    let main = thread::current();
    let other = thread::spawn(move || {
        for _ in 0..times {
            thread::park();
            main.unpark();
        }
    });
    for _ in 0..times {
        other.thread().unpark();
        thread::park();
    }
    other.join().unwrap();
}

fn socket(times: u64, limit: Option<Duration>) {
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let other = thread::spawn(move || {
        there.set_read_timeout(limit).unwrap();
        for _ in 0..times {
            there.read_exact(&mut [0]).unwrap();
            there.write_all(&[1]).unwrap();
        }
    });
    here.set_read_timeout(limit).unwrap();
    for _ in 0..times {
        here.write_all(&[1]).unwrap();
        here.read_exact(&mut [0]).unwrap();
    }
    other.join().unwrap();
}

fn lock(times: u64) {
    let mutex = Mutex::new(0_u64);
    (0..times).for_each(|_| *black_box(&mutex).lock() += 1);
}

fn read(times: u64) {
    let lock = RwLock::new(1_u64);
    for _ in 0..times {
        black_box(*black_box(&lock).read());
    }
}

fn write(times: u64) {
    let lock = RwLock::new(0_u64);
    (0..times).for_each(|_| *black_box(&lock).write() += 1);
}

fn acquire(times: u64) {
    let semaphore = Semaphore::new(1);
    (0..times).for_each(|_| drop(black_box(&semaphore).acquire()));
}

fn condvar(times: u64) {
    let table = Arc::new((Mutex::new(0), Condvar::new()));
    both(move |me| {
        let (turn, changed) = &*table;
        let mut turn = turn.lock();
        for _ in 0..times {
            while *turn != me {
                changed.wait(&mut turn);
            }
            *turn = 1 - me;
            changed.notify_one();
        }
    });
}

fn send_and_receive(times: u64) {
    let (to, from) = channel::bounded(64);
    for message in 0..times {
        to.send(black_box(message)).unwrap();
        black_box(from.recv().unwrap());
    }
}

fn channel(times: u64) {
    let ((to_other, from_us), (to_us, from_other)) = (channel::bounded(0), channel::bounded(0));
    let other = thread::spawn(move || {
        for message in from_us {
            to_us.send(message).unwrap();
        }
    });
    for message in 0..times {
        to_other.send(message).unwrap();
        black_box(from_other.recv().unwrap());
    }
    drop(to_other);
    other.join().unwrap();
}

fn get(times: u64) {
    static KEY: Key<u64> = Key::new();
    KEY.set(1);
    for _ in 0..times {
        black_box(KEY.get());
    }
}
