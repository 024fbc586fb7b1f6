//! The futex calls themselves: a random program gets the same answers from the kernel and from green threads.

use std::collections::BTreeSet;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, sample};
use selvedge::thread::{self, ThreadState, WaitReason};
use selvedge::{Mxn, Runtime};

use crate::random;
use crate::watchdog::Watchdog;

const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;

/// Calls `futex(2)` on a private futex. Returns the result, or the error as a negative number.
fn futex(word: *const AtomicU32, operation: i32, value: u32, more: (usize, *const AtomicU32, u32)) -> i64 {
    let (fourth, other, sixth) = more;
    // SAFETY: the kernel checks all addresses.
    let rc = unsafe {
        libc::syscall(libc::SYS_futex, word, i64::from(operation | PRIVATE), value, fourth, other, sixth)
    };
    if rc < 0 { -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { rc }
}

/// Waits with a mask, until a moment of the monotonic clock if there is one.
fn wait(word: &AtomicU32, value: u32, mask: u32) -> i64 {
    futex(word, libc::FUTEX_WAIT_BITSET, value, (0, ptr::null(), mask))
}

fn wake(word: &AtomicU32, most: i32, mask: u32) -> i64 {
    futex(word, libc::FUTEX_WAKE_BITSET, most as u32, (0, ptr::null(), mask))
}

/// A step of a random program with two futexes.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A new thread waits. With `same`, the word has the value that it names.
    Wait {
        at: usize,
        same: bool,
        mask: u32,
    },
    Wake {
        at: usize,
        most: i32,
        mask: u32,
    },
    /// Some waiters of one word are woken, and others go to the other word.
    Move {
        from: usize,
        wake: i32,
        moved: i32,
        same: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let mask = sample::select(vec![u32::MAX, 1, 2, 3, 0x8000_0000]);
    let at = 0..2_usize;
    prop_oneof![
        4 => (at.clone(), prop_oneof![9 => Just(true), 1 => Just(false)], mask.clone())
            .prop_map(|(at, same, mask)| Step::Wait { at, same, mask }),
        2 => (at.clone(), 0..4, mask).prop_map(|(at, most, mask)| Step::Wake { at, most, mask }),
        1 => (at, 0..3, 0..3, any::<bool>())
            .prop_map(|(from, wake, moved, same)| Step::Move { from, wake, moved, same }),
    ]
}

/// What waits: kernel threads, green threads, or both in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kernel,
    Green,
    Both,
}

/// A thread that waits, or has.
struct Waiter {
    green: bool,
    /// The number of its kernel thread.
    tid: Arc<AtomicI64>,
    returned: bool,
}

struct Stage {
    kind: Kind,
    rt: Mxn,
    words: Arc<[AtomicU32; 2]>,
    waiters: Vec<Waiter>,
    /// How many wait for each word.
    queued: [i64; 2],
    ends: (mpsc::Sender<End>, mpsc::Receiver<End>),
}

/// A waiter's number, and what its call returned.
type End = (usize, i64);

/// What a step gave: the result of its call, and which waiters returned, with what.
type Given = (i64, BTreeSet<End>);

impl Stage {
    fn new(kind: Kind) -> Self {
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        Self { kind, rt, words: Arc::default(), waiters: Vec::new(), queued: [0; 2], ends: mpsc::channel() }
    }

    fn play(&mut self, step: Step) -> Given {
        match step {
            Step::Wait { at, same, mask } => {
                let number = self.waiters.len();
                let green = self.kind == Kind::Green || self.kind == Kind::Both && number.is_multiple_of(2);
                let (tid, words, end) = (Arc::default(), self.words.clone(), self.ends.0.clone());
                self.waiters.push(Waiter { green, tid: Arc::clone(&tid), returned: false });
                let body = move || {
                    // SAFETY: no memory is involved.
                    tid.store(unsafe { libc::gettid() }.into(), SeqCst);
                    let _ = end.send((number, wait(&words[at], u32::from(!same), mask)));
                };
                if green {
                    drop(thread::Builder::new().spawn_on(&self.rt, body).unwrap());
                } else {
                    drop(std::thread::spawn(body));
                }
                if same {
                    self.queued[at] += 1;
                    self.until_asleep();
                    (0, BTreeSet::new())
                } else {
                    (0, self.returned(1))
                }
            }
            Step::Wake { at, most, mask } => {
                let woken = wake(&self.words[at], most, mask);
                self.queued[at] -= woken;
                (woken, self.returned(woken))
            }
            Step::Move { from, wake, moved, same } => {
                let [first, second] = [from, 1 - from].map(|at| ptr::from_ref(&self.words[at]));
                let more = (moved as usize, second, u32::from(!same));
                let both = futex(first, libc::FUTEX_CMP_REQUEUE, wake as u32, more);
                if both < 0 {
                    return (both, BTreeSet::new());
                }
                let woken = self.queued[from].min(wake.into());
                self.queued[from] -= both;
                self.queued[1 - from] += both - woken;
                (both, self.returned(woken))
            }
        }
    }

    /// Waits for so many waiters that have been woken.
    fn returned(&mut self, count: i64) -> BTreeSet<End> {
        let given: BTreeSet<_> = (0..count).map(|_| self.ends.1.recv().unwrap()).collect();
        given.iter().for_each(|&(number, _)| self.waiters[number].returned = true);
        given
    }

    /// Waits until all waiters sleep.
    fn until_asleep(&self) {
        let asleep = |it: &&Waiter| it.returned || it.green || sleeps(it.tid.load(SeqCst));
        let green = self.waiters.iter().filter(|it| it.green && !it.returned).count();
        let waits = |state| matches!(state, ThreadState::Waiting { reason: WaitReason::Futex, .. });
        let queued = || self.rt.threads().iter().filter(|it| waits(it.state())).count();
        while !self.waiters.iter().all(|it| asleep(&it)) || queued() < green {
            std::thread::yield_now();
        }
    }
}

/// Plays all steps, wakes those that wait at the end, and returns what was given.
fn play(kind: Kind, steps: &[Step]) -> Vec<Given> {
    let mut stage = Stage::new(kind);
    let mut given: Vec<_> = steps.iter().map(|&step| stage.play(step)).collect();
    for at in 0..2 {
        given.push(stage.play(Step::Wake { at, most: i32::MAX, mask: u32::MAX }));
    }
    assert_eq!(stage.queued, [0; 2], "{kind:?}");
    assert!(stage.waiters.iter().all(|it| it.returned), "{kind:?}");
    given
}

#[test]
fn green_threads_get_the_kernels_answers() {
    let _watchdog = Watchdog::start("green threads get the kernel's answers");
    random::check(60, &collection::vec(step(), 1..24), |steps| {
        assert_eq!(play(Kind::Green, &steps), play(Kind::Kernel, &steps));
    });
}

/// Of threads of both kinds, only the number is the same: green ones may be woken before those in the kernel.
#[test]
fn threads_of_both_kinds_get_the_kernels_answers() {
    let _watchdog = Watchdog::start("threads of both kinds get the kernel's answers");
    let unmasked = step().prop_map(|step| match step {
        Step::Wait { at, same, .. } => Step::Wait { at, same, mask: u32::MAX },
        Step::Wake { at, most, .. } => Step::Wake { at, most, mask: u32::MAX },
        other => other,
    });
    random::check(60, &collection::vec(unmasked, 1..24), |steps| {
        let counts = |kind| {
            let given = play(kind, &steps);
            given.into_iter().map(|(result, returned)| (result, returned.len())).collect::<Vec<_>>()
        };
        assert_eq!(counts(Kind::Both), counts(Kind::Kernel));
    });
}

/// Calls that fail, or whose time is over at once: the same numbers.
#[test]
fn bad_calls_get_the_kernels_answers() {
    let _watchdog = Watchdog::start("bad calls get the kernel's answers");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let answers = || {
        let word = AtomicU32::new(7);
        let at = ptr::from_ref(&word);
        let none = (0, ptr::null(), u32::MAX);
        let time = |time: &libc::timespec| (ptr::from_ref(time).addr(), ptr::null(), u32::MAX);
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let negative = libc::timespec { tv_sec: -1, tv_nsec: 0 };
        let overfull = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
        let realtime = libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME;
        let nowhere: *const AtomicU32 = ptr::without_provenance(0x1000);
        let odd: *const AtomicU32 = at.cast::<u8>().wrapping_add(1).cast();
        vec![
            futex(at, libc::FUTEX_WAIT, 8, none),
            futex(at, libc::FUTEX_WAIT, 7, time(&zero)),
            futex(at, libc::FUTEX_WAIT, 7, time(&negative)),
            futex(at, libc::FUTEX_WAIT, 7, time(&overfull)),
            futex(at, libc::FUTEX_WAIT, 7, (0x1000, ptr::null(), 0)),
            futex(at, libc::FUTEX_WAIT_BITSET, 7, time(&zero)),
            futex(at, realtime, 7, time(&zero)),
            futex(at, libc::FUTEX_WAIT_BITSET, 7, (0, ptr::null(), 0)),
            futex(nowhere, libc::FUTEX_WAIT, 7, none),
            futex(ptr::null(), libc::FUTEX_WAIT, 0, none),
            futex(odd, libc::FUTEX_WAIT, 7, none),
            futex(at, libc::FUTEX_WAKE, 1, none),
            futex(at, libc::FUTEX_WAKE_BITSET, 1, (0, ptr::null(), 0)),
            futex(odd, libc::FUTEX_WAKE, 1, none),
            futex(at, libc::FUTEX_CMP_REQUEUE, 1, (1, ptr::from_ref(&word), 8)),
            futex(at, 99, 0, none),
        ]
    };
    // Green threads have waited before: the calls do not take the way past the queue.
    rt.run(|| assert_eq!(wait(&AtomicU32::new(0), 1, u32::MAX), -i64::from(libc::EAGAIN)));
    let kernel = std::thread::spawn(answers).join().unwrap();
    assert_eq!(rt.run(answers), kernel);
    assert_eq!(kernel[1], -i64::from(libc::ETIMEDOUT));
    assert_eq!((kernel[8], kernel[10]), (-i64::from(libc::EFAULT), -i64::from(libc::EINVAL)));
}

/// Waits end when their time is over, and not before: relative, and by both clocks.
#[test]
fn times_are_kept() {
    crate::green("times are kept", |_| {
        const LONG: Duration = Duration::from_millis(20);
        let word = AtomicU32::new(0);
        let at = ptr::from_ref(&word);
        let by = |clock| {
            let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `now` is written.
            unsafe { libc::clock_gettime(clock, &raw mut now) };
            let end = Duration::new(now.tv_sec as u64, now.tv_nsec as u32) + LONG;
            libc::timespec { tv_sec: end.as_secs() as i64, tv_nsec: end.subsec_nanos().into() }
        };
        let relative = libc::timespec { tv_sec: 0, tv_nsec: LONG.as_nanos() as i64 };
        let check = |operation, time: libc::timespec, start: Instant| {
            let more = (ptr::from_ref(&time).addr(), ptr::null(), u32::MAX);
            assert_eq!(futex(at, operation, 0, more), -i64::from(libc::ETIMEDOUT));
            assert!(start.elapsed() >= LONG, "{operation}");
        };
        check(libc::FUTEX_WAIT, relative, Instant::now());
        // The moment is read after the start.
        let start = Instant::now();
        check(libc::FUTEX_WAIT_BITSET, by(libc::CLOCK_MONOTONIC), start);
        let start = Instant::now();
        check(libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME, by(libc::CLOCK_REALTIME), start);
    });
}

/// Two threads, green or not, hand a word to and fro. A kernel thread is not passed over for good, though
/// green threads wait for the same word all the time.
#[test]
fn a_kernel_thread_gets_its_turn() {
    let _watchdog = Watchdog::start("a kernel thread gets its turn");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let lock = Arc::new(std::sync::Mutex::new(0_u64));
    let stop = Arc::new(AtomicBool::new(false));
    let greens: Vec<_> = (0..8)
        .map(|_| {
            let (lock, stop) = (Arc::clone(&lock), Arc::clone(&stop));
            let body = move || {
                while !stop.load(SeqCst) {
                    let mut value = lock.lock().unwrap();
                    *value += 1;
                    thread::yield_now();
                }
            };
            thread::Builder::new().spawn_on(&rt, body).unwrap()
        })
        .collect();
    for _ in 0..50 {
        drop(lock.lock().unwrap());
        std::thread::yield_now();
    }
    stop.store(true, SeqCst);
    greens.into_iter().for_each(|green| green.join().unwrap());
}

/// Returns `true` if a kernel thread sleeps in `futex`.
fn sleeps(tid: i64) -> bool {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/self/task/{tid}/{file}"));
    tid != 0
        && read("syscall").is_ok_and(|call| call.starts_with(&format!("{} ", libc::SYS_futex)))
        && read("stat").is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, it)| it.starts_with('S')))
}
