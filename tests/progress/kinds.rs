//! Hogs of every kind: what they do between two preemptions must come out as if there had been none.
//!
//! A kind makes the state of one thread; each call of what it gives is one turn, which checks its own result.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write as _;
use std::hint::black_box;
use std::panic::{catch_unwind, panic_any};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use selvedge::thread;

use crate::calls::{Pipe, look_up};
use crate::registers;

/// What one thread does again and again.
type Turn = Box<dyn FnMut()>;
/// A kind of hog; `Err` says what the machine lacks for it.
pub(crate) type Kind = (&'static str, fn() -> Result<Turn, String>);

pub(crate) const KINDS: &[Kind] = &[
    ("arithmetic", || Ok(arithmetic())),
    ("malloc and free", || Ok(heap())),
    ("formatting", || Ok(formatting())),
    ("printing", || Ok(printing())),
    ("HashMap", || Ok(Box::new(hash_map))),
    ("std Mutex and RwLock", || Ok(Box::new(locks))),
    ("thread-locals", || Ok(thread_locals())),
    ("floating point", || Ok(floats())),
    ("registers", || Ok(Box::new(registers::general))),
    ("AVX-512", registers::avx512),
    ("AMX", registers::amx),
    ("SVE", registers::sve),
    ("V", registers::rvv),
    ("deep recursion", || Ok(recursion())),
    ("qsort with a callback", || Ok(sorting())),
    ("getaddrinfo", || Ok(Box::new(look_up))),
    ("dlopen, dlsym, dlclose", loader),
    ("panics", || Ok(Box::new(panics))),
    ("thread-locals with destructors", || Ok(Box::new(destructors))),
];

/// A marker that no two threads share.
pub(crate) fn marker() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn scramble(seed: u64, steps: u32) -> u64 {
    (0..steps).fold(seed, |x, _| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 7);
        x ^ (x << 17)
    })
}

fn arithmetic() -> Turn {
    let seed = marker();
    let expected = scramble(seed, 10_000);
    Box::new(move || assert_eq!(scramble(black_box(seed), 10_000), expected))
}

fn heap() -> Turn {
    let mine = marker() as u8;
    Box::new(move || {
        let mut blocks: Vec<Vec<u8>> = (1..40_usize).map(|n| vec![mine; n * n]).collect();
        for (n, block) in blocks.iter_mut().enumerate() {
            if n % 3 == 0 {
                *block = vec![mine; 8];
            } else {
                block.resize(block.len() * 2, mine);
            }
        }
        assert!(blocks.iter().flatten().all(|&byte| byte == mine), "another thread wrote into a block");
    })
}

fn text(n: u64) -> String {
    let mut text = String::new();
    for i in 0..20 {
        writeln!(text, "{:>8.3}|{:#x}|{:?}|{}", (n + i) as f64 / 8.0, n * i, (n, "warp"), i % 2 == 0)
            .unwrap();
    }
    text
}

fn formatting() -> Turn {
    let n = marker();
    let expected = text(n);
    assert!(expected.starts_with(&format!("{:>8.3}|0x0|({n}, \"warp\")|true\n", n as f64 / 8.0)));
    Box::new(move || assert_eq!(text(black_box(n)), expected))
}

/// To the standard output, which goes nowhere in the process that plays this.
fn printing() -> Turn {
    let expected = text(marker());
    Box::new(move || {
        for line in expected.lines() {
            println!("{line}");
        }
    })
}

fn hash_map() {
    let mut map: HashMap<u64, String> = HashMap::new();
    (0..200).for_each(|n| drop(map.insert(n, n.to_string())));
    (0..200).step_by(2).for_each(|n| assert_eq!(map.remove(&n), Some(n.to_string())));
    assert_eq!(map.keys().sum::<u64>(), 10_000);
}

/// If a thread is preempted with one of these held, others wait for it in the kernel.
fn locks() {
    static BOTH: Mutex<(u64, u64)> = Mutex::new((0, 0));
    static SHARED: RwLock<(u64, u64)> = RwLock::new((0, 0));
    for _ in 0..10 {
        let mut both = BOTH.lock().unwrap();
        assert_eq!(both.0, both.1, "the lock did not exclude");
        both.0 += 1;
        black_box(scramble(both.0, 300));
        both.1 += 1;
        drop(both);
        let mut shared = SHARED.write().unwrap();
        shared.0 += 1;
        black_box(scramble(shared.0, 300));
        shared.1 += 1;
        drop(shared);
        let shared = SHARED.read().unwrap();
        assert_eq!(shared.0, shared.1, "the lock did not exclude");
        black_box(scramble(shared.0, 300));
    }
}

fn thread_locals() -> Turn {
    thread_local! {
        static PLAIN: Cell<u64> = const { Cell::new(0) };
        static BORROWED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }
    let mine = marker();
    PLAIN.set(mine);
    Box::new(move || {
        BORROWED.with_borrow_mut(|list| {
            for n in 0..200 {
                assert_eq!(PLAIN.get(), mine + n);
                PLAIN.set(mine + n + 1);
                list.push(mine);
            }
            assert!(list.drain(..).all(|value| value == mine));
        });
        // SAFETY: the C library's thread-local.
        let errno = unsafe { libc::__errno_location() };
        let number = (mine % 100) as c_int + 1;
        // SAFETY: ours, as long as nothing is called that sets it.
        unsafe { errno.write_volatile(number) };
        black_box(scramble(mine, 2_000));
        // SAFETY: asked for again, the place is the same, and nothing has set it.
        assert_eq!(unsafe { errno.read_volatile() }, number, "errno is another thread's");
        PLAIN.set(mine);
    })
}

fn floats() -> Turn {
    fn series(x: f64) -> f64 {
        let mut sums = [0.0_f64; 8];
        for n in 1..1_000 {
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum += (x + at as f64).sqrt() / f64::from(n);
            }
        }
        sums.iter().product()
    }
    let x = marker() as f64;
    let expected = series(x).to_bits();
    Box::new(move || {
        assert_eq!(series(black_box(x)).to_bits(), expected);
        // Lost if another thread's control word counted.
        assert!(black_box(1e-310_f64) * black_box(1.0) != 0.0, "denormals are flushed");
    })
}

const PAGE: usize = 4096;

/// How far the stack of the calling thread reaches down: the kernel can read every page of it, and none
/// of the red zone.
fn stack_end() -> usize {
    let here = 0_u8;
    let pipe = Pipe::new();
    let mut page = (&raw const here).addr() & !(PAGE - 1);
    while pipe.can_read(page - PAGE) {
        page -= PAGE;
    }
    page
}

/// To within a page of the red zone, where no signal's frame and no trampoline has room.
fn recursion() -> Turn {
    /// Sum of the numbers from 1 to `depth`, which it finds out on the way.
    #[inline(never)]
    fn dive(end: usize, depth: u64) -> (u64, u64) {
        let frame = black_box([depth; 8]);
        if frame.as_ptr().addr() - end < PAGE {
            black_box(scramble(depth, 3_000));
            return (depth, depth);
        }
        let (bottom, sum) = dive(end, depth + 1);
        assert!(black_box(frame).iter().all(|&value| value == depth), "a frame was overwritten");
        (bottom, sum + depth)
    }
    let end = stack_end();
    Box::new(move || {
        let (bottom, sum) = dive(end, 1);
        assert_eq!(sum, bottom * (bottom + 1) / 2);
        assert!(bottom > 10);
    })
}

fn sorting() -> Turn {
    extern "C" fn compare(a: *const c_void, b: *const c_void) -> c_int {
        // SAFETY: qsort passes two elements of the array, which are such numbers.
        let a = unsafe { *a.cast::<u64>() };
        // SAFETY: the second of the two elements.
        let b = unsafe { *b.cast::<u64>() };
        black_box(scramble(a, 5));
        a.cmp(&b) as c_int
    }
    let seed = marker();
    Box::new(move || {
        let mut numbers: Vec<u64> = (0..300_u64).map(|n| scramble(seed + n, 3)).collect();
        let sum = numbers.iter().fold(0, |sum: u64, &n| sum.wrapping_add(n));
        // SAFETY: an array of so many elements of this size, and a comparison of them.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), size_of::<u64>(), Some(compare)) };
        assert!(numbers.is_sorted());
        assert_eq!(numbers.iter().fold(0, |sum: u64, &n| sum.wrapping_add(n)), sum);
    })
}

/// Libraries come and go, each time with the loader's lock held. A library that another thread has open would
/// only be counted, so each thread has its own.
fn loader() -> Result<Turn, String> {
    const LIBRARIES: [&CStr; 4] = [c"libm.so.6", c"libutil.so.1", c"libanl.so.1", c"libBrokenLocale.so.1"];
    let library = LIBRARIES[marker() as usize % LIBRARIES.len()];
    let open = move || {
        // SAFETY: a library of the system, without constructors that could harm.
        unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
    };
    let close = |handle| {
        // SAFETY: opened by the caller, which uses nothing of it any more.
        assert_eq!(unsafe { libc::dlclose(handle) }, 0);
    };
    match open() {
        handle if handle.is_null() => return Err(format!("there is no {library:?}")),
        handle => close(handle),
    }
    Ok(Box::new(move || {
        let handle = open();
        assert!(!handle.is_null(), "{library:?} was there before");
        // In the C library, which all of them need.
        // SAFETY: the library is loaded.
        let found = unsafe { libc::dlsym(handle, c"getppid".as_ptr()) };
        assert!(!found.is_null(), "the C library has it");
        // SAFETY: its type in C.
        let parent = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(found) };
        assert!(parent() >= 0);
        close(handle);
    }))
}

fn panics() {
    struct Counted<'a>(&'a Cell<u64>);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    #[inline(never)]
    fn deep(dropped: &Cell<u64>, depth: u64) -> u64 {
        let _counted = Counted(dropped);
        if depth == 0 { panic_any(7_u32) } else { black_box(deep(dropped, depth - 1)) + 1 }
    }
    for _ in 0..5 {
        let dropped = Cell::new(0);
        let caught = catch_unwind(std::panic::AssertUnwindSafe(|| deep(&dropped, 10))).unwrap_err();
        assert_eq!(caught.downcast_ref::<u32>(), Some(&7));
        assert_eq!(dropped.get(), 11);
        assert!(!std::thread::panicking());
    }
}

/// The first use of a thread-local in these threads registers its destructor, which takes locks of the C
/// library.
fn destructors() {
    struct Told(Arc<AtomicU64>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    thread_local! {
        static FIRST: RefCell<Option<Told>> = const { RefCell::new(None) };
        static SECOND: RefCell<Vec<Told>> = const { RefCell::new(Vec::new()) };
    }
    const THREADS: u64 = 4;
    let dropped = Arc::new(AtomicU64::new(0));
    let child = |_| {
        let dropped = Arc::clone(&dropped);
        thread::spawn(move || {
            FIRST.set(Some(Told(Arc::clone(&dropped))));
            SECOND.with_borrow_mut(|list| list.push(Told(dropped)));
        })
    };
    let children: Vec<_> = (0..THREADS).map(child).collect();
    children.into_iter().for_each(|child| child.join().unwrap());
    // A join comes after the destructors.
    assert_eq!(dropped.load(Ordering::Relaxed), 2 * THREADS);
}
