//! Injected calls by themselves: signals as fast as they come, and every register looked at.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{mem, ptr};

use super::trampoline::probe::{FOUND, GARBAGE, Registers, Spoil, inject_carelessly, is_possible};
use super::*;
use crate::sys::child_tests::isolated;
use crate::sys::kthread::gettid;
use crate::sys::preempt::{self, Interrupted};
use crate::sys::sigstack::AltStack;

/// A stack on which code may be interrupted, now and then.
struct Ground {
    low: AtomicUsize,
    high: AtomicUsize,
    open: AtomicBool,
}

/// Not thread-locals: a thread that moves would close the ground of the one that comes after it.
static GROUNDS: [Ground; 2] =
    [const { Ground { low: AtomicUsize::new(0), high: AtomicUsize::new(0), open: AtomicBool::new(false) } };
        2];

impl Ground {
    /// The one that `sp` is on.
    fn of(sp: usize) -> Option<&'static Self> {
        GROUNDS.iter().find(|ground| {
            (ground.low.load(Ordering::Relaxed)..ground.high.load(Ordering::Relaxed)).contains(&sp)
        })
    }

    fn set(&self, stack: Range<usize>) {
        self.low.store(stack.start, Ordering::Relaxed);
        self.high.store(stack.end, Ordering::Relaxed);
    }

    fn opened<R>(&self, body: impl FnOnce() -> R) -> R {
        self.open.store(true, Ordering::Relaxed);
        let got = body();
        self.open.store(false, Ordering::Relaxed);
        got
    }

    fn closed<R>(body: impl FnOnce() -> R) -> R {
        let ground = Self::close();
        let got = body();
        ground.open.store(true, Ordering::Relaxed);
        got
    }

    /// Closes the one that the caller is on.
    fn close() -> &'static Self {
        let here = 0_u8;
        let ground = Self::of((&raw const here).addr()).unwrap();
        ground.open.store(false, Ordering::Relaxed);
        ground
    }
}

/// How many calls were injected.
static DONE: AtomicUsize = AtomicUsize::new(0);

/// Injects a call of `F` wherever it may.
pub(super) fn decide<F: Injected>(interrupted: &mut Interrupted<'_>) {
    if may(interrupted) {
        // SAFETY: as `inject` wants it: there is room, and the handler has a stack of its own.
        unsafe { interrupted.redirect(inject::inject::<F>) };
    }
}

pub(super) fn may(interrupted: &Interrupted<'_>) -> bool {
    let Some(room) = inject::room(interrupted.machine_state()) else { return false };
    Ground::of(interrupted.sp()).is_some_and(|ground| {
        ground.open.load(Ordering::Relaxed) && interrupted.sp() - ground.low.load(Ordering::Relaxed) > room
    })
}

/// Counts. Not interrupted itself, because what it is told in is there once.
pub(super) struct Count;

impl Injected for Count {
    extern "C-unwind" fn call() {
        Ground::closed(|| DONE.fetch_add(1, Ordering::Relaxed));
    }
}

/// Sends the calling kernel thread a signal every 20 us or so, until dropped. A timer sends it, because on a
/// busy machine another thread would hardly ever run while this one does. The timer's own signal is the
/// foreign one here, and relayed.
struct Bombardment(&'static Shots);

/// What the handler of the timer's signal goes by. It outlives the timer: the last signal may come late.
struct Shots {
    timer: Cell<libc::timer_t>,
    least: Duration,
    gap: Cell<Duration>,
    /// How many calls were injected when the last one was fired.
    done: Cell<usize>,
}

impl Shots {
    /// Sets the timer for one more. If the last one brought no call about, signals may take all the time
    /// (with a cold cache, on an emulator): the next comes later.
    fn load(&self) {
        let done = DONE.load(Ordering::Relaxed);
        let in_vain = self.done.replace(done) == done;
        self.gap.set(if in_vain { (2 * self.gap.get()).min(Duration::from_millis(1)) } else { self.least });
        let value = libc::timespec { tv_sec: 0, tv_nsec: self.gap.get().as_nanos() as i64 };
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let when = libc::itimerspec { it_interval: never, it_value: value };
        // It may have been deleted.
        // SAFETY: valid places.
        unsafe { libc::timer_settime(self.timer.get(), 0, &raw const when, ptr::null_mut()) };
    }
}

impl Bombardment {
    fn begin() -> Self {
        extern "C" fn relay(_: libc::c_int, info: &libc::siginfo_t, _: *mut libc::c_void) {
            // Blocked in here, so it comes when this handler has returned, to the same instruction.
            preempt::send(gettid()).unwrap();
            // SAFETY: a timer's signal has a value.
            let value = unsafe { info.si_value() };
            // SAFETY: what `begin` has set, which is never freed.
            let shots = unsafe { &*value.sival_ptr.cast::<Shots>() };
            shots.load();
        }
        let handler: extern "C" fn(libc::c_int, &libc::siginfo_t, *mut libc::c_void) = relay;
        // SAFETY: plain data, for which zero is valid.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_SIGINFO;
        // SAFETY: a set to write.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        let start = Instant::now();
        (0..20).for_each(|_| preempt::send(gettid()).unwrap());
        let least = (start.elapsed() / 5).clamp(Duration::from_micros(20), Duration::from_millis(1));
        let (timer, gap, done) = (Cell::new(ptr::null_mut()), Cell::new(least), Cell::new(usize::MAX));
        let shots: &Shots = Box::leak(Box::new(Shots { timer, least, gap, done }));
        // SAFETY: plain data, for which zero is valid.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGVTALRM;
        event.sigev_value.sival_ptr = ptr::from_ref(shots).cast_mut().cast();
        event.sigev_notify_thread_id = gettid();
        // SAFETY: the handler is async-signal-safe.
        let handled = unsafe { libc::sigaction(libc::SIGVTALRM, &raw const action, ptr::null_mut()) };
        // SAFETY: valid places.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, shots.timer.as_ptr()) };
        assert_eq!((handled, made), (0, 0));
        shots.load();
        Self(shots)
    }
}

impl Drop for Bombardment {
    fn drop(&mut self) {
        // SAFETY: made above.
        unsafe { libc::timer_delete(self.0.timer.get()) };
    }
}

/// Holds states in all registers under fire until `count` calls were injected, and gives what differed.
pub(super) fn hold_under_fire(count: usize, states: &[Box<Registers>]) -> Vec<String> {
    let _alternate = AltStack::install().unwrap();
    let here = 0_u8;
    let here = (&raw const here).addr();
    GROUNDS[0].set(here - (512 << 10)..here);
    let _bombardment = Bombardment::begin();
    hold_until(count, states, &GROUNDS[0])
}

/// All kinds of states, some with tiles if asked for.
#[allow(clippy::vec_box, reason = "on x86-64, each takes several pages")]
pub(super) fn states(tiles: bool) -> Vec<Box<Registers>> {
    (0..12).map(|seed| Registers::filled(seed, tiles && seed % 2 == 0)).collect()
}

fn hold_until(count: usize, states: &[Box<Registers>], ground: &Ground) -> Vec<String> {
    let mut after = Registers::filled(0, false);
    let mut wrong = Vec::new();
    while wrong.is_empty() && DONE.load(Ordering::Relaxed) < count {
        for state in states {
            ground.opened(|| state.hold(&mut after, 20_000));
            wrong.extend(after.differences(state));
        }
    }
    wrong
}

/// Returns `true` if these tests mean anything here: valgrind knows nothing of extended state in signal
/// frames.
pub(super) fn possible() -> bool {
    let possible = is_possible() && !valgrind::is_running();
    if !possible {
        println!("skipped: not on this processor, or inside valgrind");
    }
    possible
}

#[test]
fn every_register_survives_ten_thousand_injected_calls() {
    isolated(concat!(module_path!(), "::every_register_survives_ten_thousand_injected_calls"), || {
        if possible() {
            every_register_survives(false);
        }
    });
}

pub(super) fn every_register_survives(tiles: bool) {
    struct Check;
    static NEW: OnceLock<Box<Registers>> = OnceLock::new();
    static WRONG: Mutex<Vec<String>> = Mutex::new(Vec::new());
    impl Injected for Check {
        extern "C-unwind" fn call() {
            Ground::closed(|| {
                let found = FOUND.get();
                let mut wrong = found.differences(NEW.get().unwrap());
                if found.is_burdened() {
                    wrong.push("burdened".into());
                }
                if !wrong.is_empty() {
                    WRONG.lock().unwrap().extend(wrong);
                }
            });
            Count::call();
        }
    }
    NEW.set(Registers::new_thread()).ok().unwrap();
    GARBAGE.set(*Registers::filled(100, tiles));
    preempt::install(preempt::DEFAULT_SIGNAL, decide::<Spoil<Check>>).unwrap();
    assert_eq!(hold_under_fire(10_000, &states(tiles)), Vec::<String>::new());
    assert_eq!(*WRONG.lock().unwrap(), Vec::<String>::new());
}

/// The control of the two above.
#[test]
fn a_call_that_saves_too_little_is_found_out() {
    isolated(concat!(module_path!(), "::a_call_that_saves_too_little_is_found_out"), || {
        fn decide(interrupted: &mut Interrupted<'_>) {
            if may(interrupted) {
                // SAFETY: the code that was stopped does not use the registers that are not saved.
                unsafe { interrupted.redirect(inject_carelessly::<Spoil<Count>>) };
            }
        }
        if !possible() {
            return;
        }
        GARBAGE.set(*Registers::filled(100, false));
        preempt::install(preempt::DEFAULT_SIGNAL, decide).unwrap();
        assert_ne!(hold_under_fire(1_000, &states(false)), Vec::<String>::new());
    });
}

#[test]
fn state_that_is_not_saved_is_refused() {
    assert_eq!(inject::room(1 << 63), None);
    assert!(inject::room(0).unwrap() > inject::SLACK);
}

/// Two threads, each of which an injected call makes leave its kernel thread for the other's.
pub(super) mod migration {
    use super::*;

    struct Green {
        stack: Vec<u128>,
        context: Cell<SavedSp>,
        ground: &'static Ground,
        tiles: bool,
        ended: Cell<bool>,
        wrong: RefCell<Vec<String>>,
    }

    // SAFETY: one kernel thread at a time has it: the two of them pass it on through their mailboxes.
    unsafe impl Sync for Green {}

    /// A kernel thread that runs one green thread after the other.
    struct Carrier {
        context: Cell<SavedSp>,
        green: Cell<*const Green>,
    }

    thread_local! {
        static CARRIER: Carrier = const { Carrier { context: Cell::new(SavedSp::NONE), green: Cell::new(ptr::null()) } };
    }

    /// To the kernel thread's own context. Thread-locals are not to be touched after the switch:
    /// compilers keep addresses.
    #[inline(never)]
    fn leave() {
        let (green, carrier) = CARRIER.with(|carrier| (carrier.green.get(), carrier.context.get()));
        // SAFETY: the carrier has stored it before it came here.
        let green = unsafe { &*green };
        // SAFETY: the carrier's context was saved when it came here, and only its green thread takes it up.
        unsafe { switch(green.context.as_ptr(), carrier, 0) };
    }

    pub(in crate::arch) struct Leave;

    impl Injected for Leave {
        /// The ground opens again with the next state. Until then, this call has ended: on riscv64, its end
        /// writes down the thread register, which here is the kernel thread's.
        extern "C-unwind" fn call() {
            Ground::close();
            DONE.fetch_add(1, Ordering::Relaxed);
            leave();
        }
    }

    unsafe extern "C" fn enter(count: usize, green: *mut ()) -> ! {
        // SAFETY: the green thread outlives its context.
        let green = unsafe { &*green.cast::<Green>() };
        *green.wrong.borrow_mut() = hold_until(count, &states(green.tiles), green.ground);
        green.ended.set(true);
        leave();
        unreachable!()
    }

    impl Green {
        fn new(ground: &'static Ground, tiles: bool) -> Box<Self> {
            let mut green = Box::new(Self {
                stack: vec![0; (512 << 10) / size_of::<u128>()],
                context: Cell::new(SavedSp::NONE),
                ground,
                tiles,
                ended: Cell::new(false),
                wrong: RefCell::default(),
            });
            let Range { start, end } = green.stack.as_mut_ptr_range();
            ground.set(start.addr()..end.addr());
            // SAFETY: the stack is the context's alone, and outlives it; `enter` never returns.
            green.context.set(unsafe { init(end.cast(), enter, (&raw const *green).cast_mut().cast()) });
            green
        }
    }

    /// Runs a green thread until it leaves.
    fn carry(green: &Green, count: usize) {
        CARRIER.with(|carrier| {
            carrier.green.set(green);
            // SAFETY: new, or saved by `leave` on the other carrier, which has passed it on since.
            unsafe { switch(carrier.context.as_ptr(), green.context.get(), count) };
        });
    }

    /// Lets a thread leave a kernel thread at its first call, and carries it to its end on new ones. Gives
    /// what differed.
    #[cfg(target_arch = "riscv64")]
    pub(in crate::arch) fn once(tiles: bool) -> Vec<String> {
        let green = Green::new(&GROUNDS[0], tiles);
        let count = DONE.load(Ordering::Relaxed) + 1;
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let _alternate = AltStack::install().unwrap();
                let _bombardment = Bombardment::begin();
                carry(&green, count);
            });
            first.join().unwrap();
            assert!(!green.ended.get());
            // It leaves again if a call was injected where another one had just begun.
            while !green.ended.get() {
                scope.spawn(|| carry(&green, count)).join().unwrap();
            }
        });
        green.wrong.into_inner()
    }

    /// How many calls it shall be. Each takes as long as the kernel needs to run both threads once.
    pub(in crate::arch) fn turns() -> usize {
        if std::env::var_os("SELVEDGE_STRESS").is_some_and(|what| what == "full") { 20_000 } else { 2_000 }
    }

    /// Runs both until `count` calls were injected, with tiles in some of their states if asked for;
    /// `burden`: one of the kernel threads has tiles of its own, the other none. Gives what differed.
    pub(in crate::arch) fn swap(count: usize, tiles: bool, burden: bool) -> Vec<String> {
        let greens = [0, 1].map(|i| Green::new(&GROUNDS[i], tiles));
        let mailboxes = [0, 1].map(|_| AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for me in [0, 1] {
                let (greens, mailboxes) = (&greens, &mailboxes);
                let garbage = Registers::filled(200 + me as u64, me == 0 && burden);
                scope.spawn(move || {
                    let _alternate = AltStack::install().unwrap();
                    let mut after = Registers::filled(0, false);
                    let _bombardment = Bombardment::begin();
                    let mut now = me;
                    loop {
                        garbage.hold(&mut after, 1);
                        if !greens[now].ended.get() {
                            carry(&greens[now], count);
                        }
                        // Which one, and whether it has ended; both see the same two, so they stop together.
                        let mine = now << 1 | usize::from(greens[now].ended.get());
                        while mailboxes[1 - me].load(Ordering::Acquire) != 0 {
                            std::thread::yield_now();
                        }
                        mailboxes[1 - me].store(mine + 1, Ordering::Release);
                        let theirs = loop {
                            match mailboxes[me].swap(0, Ordering::Acquire) {
                                0 => std::thread::yield_now(),
                                message => break message - 1,
                            }
                        };
                        if mine & theirs & 1 == 1 {
                            break;
                        }
                        now = theirs >> 1;
                    }
                });
            }
        });
        greens.map(|green| green.wrong.into_inner()).concat()
    }
}

#[test]
fn every_register_survives_on_another_kernel_thread() {
    isolated(concat!(module_path!(), "::every_register_survives_on_another_kernel_thread"), || {
        if possible() {
            preempt::install(preempt::DEFAULT_SIGNAL, decide::<migration::Leave>).unwrap();
            assert_eq!(migration::swap(migration::turns(), false, false), Vec::<String>::new());
        }
    });
}

#[test]
fn a_backtrace_leads_through_an_injected_call() {
    static TRACES: Mutex<Vec<Backtrace>> = Mutex::new(Vec::new());
    struct Trace;
    impl Injected for Trace {
        extern "C-unwind" fn call() {
            Ground::closed(|| {
                DONE.fetch_add(1, Ordering::Relaxed);
                TRACES.lock().unwrap().push(Backtrace::force_capture());
            });
        }
    }
    /// Many prologues and epilogues to be interrupted in.
    #[inline(never)]
    fn interrupted(depth: usize) -> usize {
        let local = black_box([depth; 3]);
        if depth == 0 { 0 } else { interrupted(depth - 1) + black_box(local[1]) }
    }
    #[inline(never)]
    fn caller_of_the_interrupted() {
        while DONE.load(Ordering::Relaxed) < 20 {
            GROUNDS[0].opened(|| black_box(interrupted(3)));
        }
    }
    isolated(concat!(module_path!(), "::a_backtrace_leads_through_an_injected_call"), || {
        if !possible() {
            return;
        }
        preempt::install(preempt::DEFAULT_SIGNAL, decide::<Trace>).unwrap();
        let _alternate = AltStack::install().unwrap();
        let here = 0_u8;
        let here = (&raw const here).addr();
        GROUNDS[0].set(here - (512 << 10)..here);
        let bombardment = Bombardment::begin();
        caller_of_the_interrupted();
        drop(bombardment);
        // Resolved only here: it takes long.
        for trace in TRACES.lock().unwrap().iter().map(ToString::to_string) {
            assert!(trace.contains("caller_of_the_interrupted"), "{trace}");
        }
    });
}
