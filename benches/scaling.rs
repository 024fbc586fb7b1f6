//! What do many threads take that only wait?
//!
//! So many threads are started; each parks. When all have parked, they are woken and joined.
//!
//! - *start*: the time until the last has parked.
//! - *at rest*: the bytes that each takes while it is parked, those of the kernel's page tables included.
//! - *left*: the bytes for each that are still resident three seconds after the last was joined.
//!
//! *memory alone* is a loop without threads. It maps as much address space for each as a green thread of the
//! default size has, and touches as many pages of it. The kernel takes that from any caller.

mod support;

use std::process::ExitCode;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use support::contender::{Contender, Scene, pick, threads};
use support::harness::{Case, Effort, Question, Run, Side, Unit, answer};
use support::nt_solaris::process::{Usage, usage};

/// Those that can have a hundred thousand. may has a mapping for each stack, and one for its guard.
const LIGHT: [&str; 2] = ["mxn", "mxn, pinned"];
/// How long memory may still be given back after the last thread has been joined.
const SETTLED: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let ask = |(crowd, figure): (u64, Figure)| {
        let scene = Parked { figure };
        let mut cases = pick(&LIGHT, threads(scene));
        cases.push(Case::new("tokio", Side::Peer, move |effort| tasks(figure, effort)));
        cases.push(Case::new("memory alone", Side::Floor, move |effort| memory_alone(figure, effort)));
        let (name, unit) = match figure {
            Figure::Start => ("start", Unit::NanosEach("a thread")),
            Figure::AtRest => ("at rest", Unit::Number("bytes a thread")),
            Figure::Left => ("left", Unit::Number("bytes a thread")),
        };
        Question::new(format!("{crowd} parked threads, {name}"), unit, cases).fixed(crowd)
    };
    let figures = [Figure::Start, Figure::AtRest, Figure::Left];
    let crowds = [1_000, 10_000, 100_000];
    answer(crowds.iter().flat_map(|&crowd| figures.map(|figure| (crowd, figure))).map(ask).collect())
}

/// What is asked of a crowd.
#[derive(Clone, Copy)]
enum Figure {
    Start,
    AtRest,
    Left,
}

/// How often the thread that waits for the others looks.
const GLANCE: Duration = Duration::from_millis(10);

/// An operation is a thread.
#[derive(Clone, Copy)]
struct Parked {
    figure: Figure,
}

/// What the threads share with the one that starts them.
struct Crowd<C: Contender> {
    members: Box<[OnceLock<C::Handle>]>,
    parked: AtomicU64,
    free: AtomicBool,
    starter: C::Handle,
}

impl Scene for Parked {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        let count = effort.operations();
        let crowd = Arc::new(Crowd::<C> {
            members: (0..count).map(|_| OnceLock::new()).collect(),
            parked: AtomicU64::new(0),
            free: AtomicBool::new(false),
            starter: C::current(),
        });
        let mut joins = Vec::with_capacity(count as usize);
        // The first makes what all share.
        C::join(C::start(|| ()));
        let (before, begin) = (usage(), Instant::now());
        for number in 0..count as usize {
            let theirs = Arc::clone(&crowd);
            joins.push(C::start(move || theirs.wait(number)));
        }
        // Acquire: pairs with the release of `wait`. All members are set then.
        while crowd.parked.load(Ordering::Acquire) < count {
            C::park_timeout(GLANCE);
        }
        let (start, at_rest) = (begin.elapsed(), usage());
        crowd.free.store(true, Ordering::Release);
        crowd.members.iter().for_each(|member| C::unpark(member.get().expect("it has parked")));
        joins.into_iter().for_each(C::join);
        self.figure.of(count, start, before, at_rest)
    }
}

impl<C: Contender> Crowd<C> {
    fn wait(&self, number: usize) {
        let _ = self.members[number].set(C::current());
        // Release: see `play`.
        if self.parked.fetch_add(1, Ordering::Release) + 1 == self.members.len() as u64 {
            C::unpark(&self.starter);
        }
        while !self.free.load(Ordering::Acquire) {
            C::park();
        }
    }
}

impl Figure {
    /// Makes it of the time of all starts, and of what the process took before and at rest. The threads have
    /// been joined just now.
    fn of(self, count: u64, start: Duration, before: Usage, at_rest: Usage) -> Run {
        let each = |bytes: u64| Run::part(bytes / count, 1);
        match self {
            Self::Start => Run::took(count, start),
            Self::AtRest => each(at_rest.beyond(before).memory(false)),
            Self::Left => {
                std::thread::sleep(SETTLED);
                each(usage().beyond(before).resident)
            }
        }
    }
}

/// The same with tokio's tasks.
fn tasks(figure: Figure, effort: Effort) -> Run {
    let count = effort.operations();
    let runtime = Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let (gate, parked) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
        let mut joins = Vec::with_capacity(count as usize);
        let (before, begin) = (usage(), Instant::now());
        for _ in 0..count {
            let (gate, parked) = (Arc::clone(&gate), Arc::clone(&parked));
            joins.push(tokio::spawn(async move {
                parked.fetch_add(1, Ordering::Relaxed);
                gate.acquire().await.unwrap().forget();
            }));
        }
        while parked.load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
        let (start, at_rest) = (begin.elapsed(), usage());
        gate.add_permits(count as usize);
        for join in joins {
            join.await.unwrap();
        }
        figure.of(count, start, before, at_rest)
    })
}

/// The address space of a green thread of the default size: its stack, its red zone, and whole pages for its
/// TLS block.
const STRIDE: usize = (256 + 128 + 8) << 10;
/// The pages that it touches at the end of that.
const PAGES: usize = 2;
/// How many threads share a page more, for what is known of them elsewhere.
const SHARE_ONE: usize = 4;

/// What the kernel takes for the memory of so many threads.
fn memory_alone(figure: Figure, effort: Effort) -> Run {
    const PAGE: usize = 4 << 10;
    let count = effort.operations() as usize;
    let before = usage();
    let len = count * STRIDE;
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    let begin = Instant::now();
    // SAFETY: a new mapping at an address that the kernel chooses.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    // SAFETY: this call's own mapping.
    unsafe { libc::madvise(start, len, libc::MADV_NOHUGEPAGE) };
    for number in 0..count {
        let end = start.cast::<u8>().wrapping_add((number + 1) * STRIDE);
        for page in 1..=PAGES + usize::from(number % SHARE_ONE == 0) {
            // SAFETY: within the mapping.
            unsafe { end.wrapping_sub(page * PAGE).write_volatile(1) };
        }
    }
    let (time, at_rest) = (begin.elapsed(), usage());
    // SAFETY: this call's own mapping, which is not used any more.
    unsafe { libc::munmap(start, len) };
    figure.of(count as u64, time, before, at_rest)
}
