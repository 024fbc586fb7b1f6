//! Contexts by themselves: no scheduler, no control blocks but those that the C library made.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::hint::{black_box, spin_loop};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[cfg(not(target_arch = "riscv64"))]
use super::isa::probe::FLOAT_FLUSH;
use super::isa::probe::{
    FLOAT_DEFAULT, FLOAT_OTHERS, HELD, call_marked, float_control, frame_pointer_first, set_float_control,
};
use super::*;

/// A context with a stack, and the two words between which it and its creator go to and fro.
struct Pair<F> {
    stack: Box<[Cell<u128>]>,
    outside: Cell<SavedSp>,
    inside: Cell<SavedSp>,
    body: Cell<Option<F>>,
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

/// The way back, as the body sees it.
struct Inside<'a>(&'a Cell<SavedSp>, &'a Cell<SavedSp>);

impl Inside<'_> {
    /// Switches back to the caller of [`Pair::go_in`].
    fn go_out(&self, arg: usize) -> usize {
        // SAFETY: the creator's word was written by the `go_in` that brought us here, and it stands where
        // it left.
        unsafe { switch(self.0.as_ptr(), self.1.get(), arg) }
    }
}

impl<F: FnOnce(Inside<'_>, usize) -> usize> Pair<F> {
    /// A context that will run `body(way back, first arg)`, and then switch out for good with what that
    /// returned.
    fn new(body: F) -> Box<Self> {
        const BYTES: usize = 512 << 10;
        let pair = Box::new(Self {
            stack: (0..BYTES / size_of::<u128>()).map(|_| Cell::new(0)).collect(),
            outside: Cell::new(SavedSp::NONE),
            inside: Cell::new(SavedSp::NONE),
            body: Cell::new(Some(body)),
            panic: Cell::new(None),
        });
        let top = pair.stack[pair.stack.len() - 4..].as_ptr().cast_mut().cast();
        // SAFETY: the stack is the context's alone, aligned as u128, and boxed with it; `enter` never
        // returns.
        pair.inside.set(unsafe { init(top, Self::enter, (&raw const *pair).cast_mut().cast()) });
        // From the first stack pointer up lie return addresses, for an unwinder that does not stop at the
        // start.
        for word in &pair.stack[pair.stack.len() - 5..] {
            let address = the_unwinder_went_too_far as *const () as u128 + 4;
            word.set(address << 64 | address);
        }
        pair
    }

    /// Lets the context run until it goes out.
    fn go_in(&self, arg: usize) -> usize {
        // SAFETY: `inside` was saved by `new` or `go_out`, and this is the one place that takes it up.
        let got = unsafe { switch(self.outside.as_ptr(), self.inside.get(), arg) };
        if let Some(payload) = self.panic.take() {
            resume_unwind(payload);
        }
        got
    }

    unsafe extern "C" fn enter(arg: usize, data: *mut ()) -> ! {
        // SAFETY: `data` is the pair, which its creator keeps while it goes in.
        let pair = unsafe { &*data.cast::<Self>() };
        let inside = || Inside(&pair.inside, &pair.outside);
        let body = pair.body.take().expect("a context starts once");
        let end = catch_unwind(AssertUnwindSafe(|| body(inside(), arg))).unwrap_or_else(|payload| {
            pair.panic.set(Some(payload));
            0
        });
        inside().go_out(end);
        unreachable!("a context that has ended was taken up again")
    }
}

impl<F> Drop for Pair<F> {
    fn drop(&mut self) {
        let untouched = self.stack[..64].iter().all(|word| word.get() == 0);
        assert!(untouched || std::thread::panicking(), "the test wants a larger stack");
    }
}

#[inline(never)]
fn the_unwinder_went_too_far() {
    black_box(());
    black_box(());
}

/// Ends the process if it lives for a minute: a stack that is walked wrongly may be walked forever.
struct Watchdog {
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    fn new() -> Self {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            if receive.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("a context test hangs");
                std::process::abort();
            }
        });
        Self { _alive: send }
    }
}

/// Returns `true` if this machine can switch the register by an instruction, by the vector from the kernel.
fn can_switch_register() -> bool {
    const AT_HWCAP2: usize = 26;
    let vector = std::fs::read("/proc/self/auxv").unwrap();
    let words: Vec<usize> =
        vector.chunks_exact(8).map(|w| usize::from_ne_bytes(w.try_into().unwrap())).collect();
    let hwcap2 = words.chunks_exact(2).find(|pair| pair[0] == AT_HWCAP2).map_or(0, |pair| pair[1]);
    tp::can_write(hwcap2)
}

#[test]
fn arguments_go_both_ways_a_million_times() {
    let pair = Pair::new(|inside, first| {
        let mut got = first;
        while got != 0 {
            got = inside.go_out(got + 1);
        }
        7
    });
    for i in 1..=1_000_000 {
        assert_eq!(pair.go_in(i), i + 1);
    }
    assert_eq!(pair.go_in(0), 7);
}

#[test]
fn a_ring_of_contexts_keeps_what_each_has_live() {
    // More integers and floats than there are registers, so some live in registers and some on the stack.
    fn work(inside: &Inside<'_>, seed: usize) -> usize {
        let ints: [usize; 20] = std::array::from_fn(|i| black_box(seed * 31 + i));
        let floats: [f64; 20] = std::array::from_fn(|i| black_box(seed as f64 + i as f64 / 64.0));
        inside.go_out(0);
        let mut sum = 0;
        for i in 0..20 {
            assert_eq!(ints[i], seed * 31 + i);
            assert_eq!(floats[i].to_bits(), (seed as f64 + i as f64 / 64.0).to_bits());
            sum += ints[i];
        }
        sum
    }
    let ring: Vec<_> = (0..100)
        .map(|seed| Pair::new(move |inside, _| (0..50).fold(0_usize, |sum, i| sum ^ work(&inside, seed + i))))
        .collect();
    for _ in 0..50 {
        for pair in &ring {
            assert_eq!(pair.go_in(0), 0);
        }
    }
    for (seed, pair) in ring.iter().enumerate() {
        let expected = (0..50).fold(0, |sum, i| sum ^ (20 * 31 * (seed + i) + 190));
        assert_eq!(pair.go_in(0), expected);
    }
}

#[test]
fn callee_saved_registers_survive_on_both_sides() {
    const ROUNDS: usize = 50;
    fn check(mark: usize, f: unsafe extern "C" fn(*mut ()), data: *mut ()) {
        let mut held = [0; HELD];
        // SAFETY: `data` is what `f` wants, and there is room for what is held.
        unsafe { call_marked(data, f, mark, held.as_mut_ptr()) };
        assert_eq!(held, std::array::from_fn(|i| mark + i));
    }
    unsafe extern "C" fn out(inside: *mut ()) {
        // SAFETY: the context below passes its way back.
        unsafe { &*inside.cast::<Inside<'_>>() }.go_out(1);
    }
    let pair = Pair::new(|inside, _| {
        for i in 0..ROUNDS {
            check(1_000_000 + 100 * i, out, (&raw const inside).cast_mut().cast());
        }
        0
    });
    unsafe extern "C" fn call<F: Fn() -> usize>(f: *mut ()) {
        // SAFETY: the loop below passes its closure.
        assert_eq!(unsafe { &*f.cast::<F>() }(), 1);
    }
    fn code_of<F: Fn() -> usize>(_: &F) -> unsafe extern "C" fn(*mut ()) {
        call::<F>
    }
    let go_in = || pair.go_in(0);
    for i in 0..ROUNDS {
        check(2_000_000 + 100 * i, code_of(&go_in), (&raw const go_in).cast_mut().cast());
    }
    assert_eq!(pair.go_in(0), 0);
}

#[test]
fn rounding_and_flushing_modes_stay_with_their_thread() {
    let [made_under, in_context, outside] = FLOAT_OTHERS;
    /// # Safety
    /// As `set_float_control`.
    unsafe fn set(to: usize) {
        // SAFETY: the caller's.
        unsafe { set_float_control(to) };
        assert_eq!(float_control(), to);
    }
    let pair = Pair::new(|inside, _| {
        let mut seen = vec![float_control()];
        // SAFETY: only integers until the default is back.
        unsafe { set(in_context) };
        inside.go_out(0);
        seen.push(float_control());
        inside.go_out(0);
        seen.push(float_control());
        // SAFETY: it is the default.
        unsafe { set(FLOAT_DEFAULT) };
        assert_eq!(seen, [FLOAT_DEFAULT, in_context, in_context]);
        1
    });
    // This kernel thread may have flags of exceptions, from its maker.
    let mut seen = Vec::new();
    // SAFETY: only integers until the default is back.
    unsafe { set(made_under) };
    pair.go_in(0);
    seen.push(float_control());
    // SAFETY: only integers until the default is back.
    unsafe { set(outside) };
    pair.go_in(0);
    seen.push(float_control());
    // SAFETY: it is the default.
    unsafe { set(FLOAT_DEFAULT) };
    assert_eq!(pair.go_in(0), 1);
    seen.push(float_control());
    assert_eq!(seen, [made_under, outside, FLOAT_DEFAULT]);
}

/// H10: one thread flushes denormals to zero, the other must not. On riscv64, no thread can.
#[cfg(not(target_arch = "riscv64"))]
#[test]
fn denormals_survive_a_neighbour_that_flushes_them() {
    let pair = Pair::new(|inside, _| {
        // SAFETY: no arithmetic until the default is back.
        unsafe { set_float_control(FLOAT_FLUSH) };
        inside.go_out(0);
        // SAFETY: it is the default.
        unsafe { set_float_control(FLOAT_DEFAULT) };
        0
    });
    pair.go_in(0);
    let product = black_box(1e-310_f64) * black_box(1.0);
    pair.go_in(0);
    assert_eq!(product, 1e-310);
}

#[test]
fn a_new_context_starts_on_an_aligned_stack() {
    #[repr(align(16))]
    struct Vector([u8; 16]);
    let pair = Pair::new(|_, _| {
        let vector = Vector([1; 16]);
        // A frame is laid out from the stack pointer at entry, taken to be aligned: if that was wrong, so
        // is this address.
        let address = black_box(&raw const vector).addr();
        assert_eq!(vector.0.iter().sum::<u8>(), 16);
        address % 16
    });
    assert_eq!(pair.go_in(0), 0);
}

#[test]
fn a_new_context_starts_a_chain_of_frame_pointers() {
    struct First {
        outside: Cell<SavedSp>,
        frame_pointer: Cell<usize>,
    }
    unsafe extern "C" fn then(_: usize, data: *mut (), frame_pointer: usize) -> ! {
        // SAFETY: `data` is the `First` of the test, which waits in its switch.
        let first = unsafe { &*data.cast::<First>() };
        first.frame_pointer.set(frame_pointer);
        let mut never = SavedSp::NONE;
        // SAFETY: the test's context, saved by the switch that brought us here.
        unsafe { switch(&raw mut never, first.outside.get(), 0) };
        unreachable!()
    }
    #[unsafe(naked)]
    unsafe extern "C" fn enter(arg: usize, data: *mut ()) -> ! {
        frame_pointer_first!(then)
    }
    let mut stack = vec![0_u128; 4096];
    let first = First { outside: Cell::new(SavedSp::NONE), frame_pointer: Cell::new(1) };
    let data = (&raw const first).cast_mut().cast();
    // SAFETY: the stack is the context's alone, and outlives it; `then` never returns.
    let inside = unsafe { init(stack.as_mut_ptr_range().end.cast(), enter, data) };
    // SAFETY: just made.
    unsafe { switch(first.outside.as_ptr(), inside, 0) };
    assert_eq!(first.frame_pointer.get(), 0);
}

#[test]
fn a_panic_is_caught_inside_and_its_payload_carried_out() {
    let payload = Cell::new(None);
    let pair = Pair::new(|inside, _| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            inside.go_out(1);
            panic_any(42_u8);
        }));
        payload.set(caught.err());
        2
    });
    assert_eq!(pair.go_in(0), 1);
    assert_eq!(pair.go_in(0), 2);
    assert_eq!(*payload.take().unwrap().downcast::<u8>().unwrap(), 42);
}

#[test]
fn a_backtrace_ends_at_the_start_of_its_context() {
    #[inline(never)]
    fn somewhere_inside() -> String {
        black_box(Backtrace::force_capture().to_string())
    }
    #[inline(never)]
    fn the_creator() -> [String; 2] {
        let text = Cell::new([const { String::new() }; 2]);
        let pair = Pair::new(|inside, _| {
            let before = somewhere_inside();
            inside.go_out(0);
            text.set([before, somewhere_inside()]);
            0
        });
        pair.go_in(0);
        pair.go_in(0);
        drop(pair);
        text.take()
    }
    let _watchdog = Watchdog::new();
    for trace in the_creator() {
        assert!(trace.contains("somewhere_inside"), "{trace}");
        assert!(!trace.contains("go_in"), "went on into the creator's stack:\n{trace}");
        let last = trace.lines().rfind(|line| !line.trim_start().starts_with("at ")).unwrap();
        assert!(last.ends_with("::start"), "went on past the start, or stopped before it:\n{trace}");
    }
}

thread_local! {
    static NAME: Cell<&str> = const { Cell::new("no context") };
}

#[inline(never)]
fn name() -> &'static str {
    NAME.get()
}

type Switch = unsafe fn(*mut SavedSp, SavedSp, usize, usize) -> usize;

/// One kernel thread lends its thread register, while it does nothing that needs it, to a context that
/// another runs.
fn thread_locals_follow_the_register(switch: Switch) {
    struct Lent {
        outside: Cell<SavedSp>,
        inside: Cell<SavedSp>,
        theirs: usize,
        switch: Switch,
        seen: Cell<[(&'static str, usize); 2]>,
    }
    unsafe extern "C" fn enter(_: usize, data: *mut ()) -> ! {
        // SAFETY: `data` is the `Lent` of the borrower, which waits in its switch.
        let lent = unsafe { &*data.cast::<Lent>() };
        let first = (name(), tp::read());
        NAME.set("written by the borrower");
        // SAFETY: the borrower's context, on the borrower's register.
        unsafe { (lent.switch)(lent.inside.as_ptr(), lent.outside.get(), lent.theirs, 0) };
        lent.seen.set([first, (name(), tp::read())]);
        // SAFETY: the borrower's context, on the borrower's register.
        unsafe { (lent.switch)(lent.inside.as_ptr(), lent.outside.get(), lent.theirs, 0) };
        unreachable!()
    }

    let given_back = AtomicBool::new(false);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let lender = scope.spawn(|| {
            NAME.set("lender");
            send.send(tp::read()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(60);
            // No thread-local, and no call that might use one.
            while !given_back.load(Ordering::Acquire) {
                spin_loop();
                if Instant::now() > deadline {
                    std::process::abort();
                }
            }
            assert_eq!(name(), "written by the borrower");
        });
        let given_back = &given_back;
        scope.spawn(move || {
            NAME.set("borrower");
            let register: usize = receive.recv().unwrap();
            let mut stack = vec![0_u128; 4096];
            let lent = Lent {
                outside: Cell::new(SavedSp::NONE),
                inside: Cell::new(SavedSp::NONE),
                theirs: tp::read(),
                switch,
                seen: Cell::new([("", 0); 2]),
            };
            // SAFETY: the stack is the context's alone, and outlives it; `enter` never returns.
            let inside = unsafe {
                init(stack.as_mut_ptr_range().end.cast(), enter, (&raw const lent).cast_mut().cast())
            };
            lent.inside.set(inside);
            let after = [(); 2].map(|()| {
                // SAFETY: the lender does not use its register until told, so it has one user (I1).
                unsafe { switch(lent.outside.as_ptr(), lent.inside.get(), register, 0) };
                (name(), tp::read())
            });
            given_back.store(true, Ordering::Release);
            assert_eq!(after, [("borrower", lent.theirs); 2]);
            assert_ne!(register, lent.theirs);
            assert_eq!(lent.seen.get(), [("lender", register), ("written by the borrower", register)]);
        });
        lender.join().unwrap();
    });
}

#[test]
fn thread_locals_follow_a_register_written_by_an_instruction() {
    if !can_switch_register() {
        println!("skipped: the kernel has not enabled FSGSBASE");
        return;
    }
    thread_locals_follow_the_register(|save, to, tp, arg| {
        // SAFETY: the caller's.
        unsafe { switch_tp(save, to, tp, arg) }
    });
}

#[test]
fn thread_locals_follow_a_register_written_by_a_system_call() {
    thread_locals_follow_the_register(|save, to, tp, arg| {
        // SAFETY: the caller's.
        unsafe { switch_tp_syscall(save, to, tp, arg) }
    });
}

#[test]
fn the_register_reads_back_as_written() {
    let own = tp::read();
    // As much of a control block as `read` looks at: its own address.
    let mut block = [0_usize; 2];
    block[0] = block.as_ptr().addr();
    let mut seen = [0; 2];
    // SAFETY: nothing uses a thread-local before the register has its own value back.
    unsafe { tp::write_syscall(block[0]) };
    seen[0] = tp::read();
    // SAFETY: it is its own.
    unsafe { tp::write_syscall(own) };
    assert_eq!((seen[0], tp::read()), (block[0], own));
    if can_switch_register() {
        // SAFETY: nothing uses a thread-local before the register has its own value back.
        unsafe { tp::write(block[0]) };
        seen[1] = tp::read();
        // SAFETY: it is its own.
        unsafe { tp::write(own) };
        assert_eq!((seen[1], tp::read()), (block[0], own));
    }
}
