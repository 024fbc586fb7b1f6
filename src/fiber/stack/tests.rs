//! Pools, limits and overflows. Each test has a process of its own, because pools and mappings are the
//! process's.

use std::collections::HashSet;
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Barrier, Mutex};

use super::pool::MAGAZINE;
use super::*;
use crate::arch::{self, SavedSp};
use crate::park::{core_pool, current};
use crate::sys::child_tests as child;
use crate::sys::sigstack::AltStack;

/// The share of the TLS block, as glibc 2.36 has it.
const RESERVE: usize = 4288;

/// Blocks that were destroyed, by thread register.
static DESTROYED: AtomicUsize = AtomicUsize::new(0);

fn start() {
    init(RESERVE, |tp| _ = DESTROYED.fetch_add(tp, Ordering::Relaxed));
}

/// Returns the test at this path, with the stacks set up.
macro_rules! isolated {
    ($name:literal, $body:expr) => {
        child::isolated(concat!(module_path!(), "::", $name), || {
            start();
            $body
        })
    };
}

fn class(bytes: usize) -> SizeClass {
    SizeClass::of(bytes).unwrap()
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn sizes_round_up_within_bounds() {
    for (asked, got) in
        [(1, SMALLEST), (4096, 4096), (4097, 8192), (100 << 10, 128 << 10), (LARGEST, LARGEST)]
    {
        assert_eq!(class(asked).usable(), got.max(page_size()), "{asked}");
    }
    assert_eq!(class(LARGEST).index() + 1, SizeClass::COUNT);
    for absurd in [0, LARGEST + 1, usize::MAX, 1 << 63] {
        let error = SizeClass::of(absurd).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("64 GiB"), "{error}");
    }
}

#[test]
fn spans_are_apart_and_coloured() {
    isolated!("spans_are_apart_and_coloured", {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut colours = HashSet::new();
        for size in [SMALLEST, 64 << 10, 1 << 20] {
            let class = class(size);
            for _ in 0..100 {
                let stack = take(class, || true).unwrap();
                let (limit, start, top) = (stack.limit().addr(), stack.start().addr(), stack.top().addr());
                let tls_end = stack.tls_end().addr();
                assert!(start - limit >= class.usable() && tls_end <= top);
                assert!(stack.porch().wrapping_add(1).addr() + RESERVE <= tls_end);
                assert!(top.is_multiple_of(page_size()) && limit.is_multiple_of(page_size()));
                assert!(start.is_multiple_of(COLOUR_STEP) && tls_end.is_multiple_of(COLOUR_STEP));
                assert_eq!((stack.size_class(), stack.usable()), (class, class.usable()));
                let red_zone = mapped::red_zone(stack);
                assert!(red_zone.len() >= RED_ZONE && red_zone.end == limit);
                colours.insert((top - start, top - tls_end));
                spans.push(red_zone.start..top);
                // SAFETY: a stack that this test owns, from its lowest to its highest byte.
                unsafe { stack.limit().write_bytes(0xA5, top - limit) };
            }
        }
        assert_eq!(colours.len(), COLOURS);
        let of_blocks: HashSet<usize> = colours.iter().map(|&(_, of_block)| of_block).collect();
        assert_eq!(of_blocks.len(), COLOURS);
        spans.sort_by_key(|span| span.start);
        assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
    });
}

#[test]
fn the_place_of_a_second_block_is_zero_again() {
    isolated!("the_place_of_a_second_block_is_zero_again", {
        let stack = take(class(SMALLEST), || true).unwrap();
        let block = stack.tls_end().wrapping_sub(RESERVE);
        for _ in 0..3 {
            // SAFETY: a stack that this test owns, without a block.
            unsafe { stack.clear_for_block() };
            // SAFETY: the place of the block is this test's.
            let bytes = unsafe { std::slice::from_raw_parts_mut(block, RESERVE) };
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(0xA5);
        }
    });
}

#[test]
fn a_cache_recycles_and_stays_bounded() {
    isolated!("a_cache_recycles_and_stays_bounded", {
        let class = class(64 << 10);
        let cache = Cache::new();
        let first = cache.take(class, || true).unwrap();
        first.tls().set(77);
        cache.give_back(first);
        let again = cache.take(class, || true).unwrap();
        assert_eq!((again, again.tls().get()), (first, 77), "the last one back is the next one out");
        again.tls().set(0);
        cache.give_back(again);

        // Whole batches of new ones, so that none is left over.
        const MANY: usize = 16 * MAGAZINE as usize;
        let many: Vec<Stack> = (0..MANY).map(|_| cache.take(class, || true).unwrap()).collect();
        let distinct: HashSet<usize> = many.iter().map(|stack| stack.limit().addr()).collect();
        assert_eq!(distinct.len(), MANY);
        many.iter().for_each(|&stack| cache.give_back(stack));
        // All but two magazines are for others to take.
        let other = Cache::new();
        let before = mappings();
        for _ in 0..MANY - 2 * MAGAZINE as usize {
            let stack = other.take(class, || true).unwrap();
            assert!(distinct.contains(&stack.limit().addr()), "not a new one");
            // Not given back: `other` must find them all.
        }
        cache.drain();
        for _ in 0..2 * MAGAZINE {
            assert!(distinct.contains(&other.take(class, || true).unwrap().limit().addr()));
        }
        assert_eq!(mappings(), before);
    });
}

#[test]
fn one_stack_has_one_owner_at_a_time() {
    isolated!("one_stack_has_one_owner_at_a_time", {
        const THREADS: usize = 4;
        const ROUNDS: usize = 20_000;
        let classes = [SMALLEST, 16 << 10].map(class);
        let together = Arc::new(Barrier::new(THREADS));
        // Stacks that one thread took and another gives back.
        let passed: Arc<Mutex<Vec<Stack>>> = Arc::default();
        let threads: Vec<_> = (1..=THREADS)
            .map(|me| {
                let (together, passed) = (Arc::clone(&together), Arc::clone(&passed));
                std::thread::spawn(move || {
                    let cache = Cache::new();
                    let mut mine: Vec<Stack> = Vec::new();
                    let mut random = me as u64;
                    let check = |stack: Stack, owner| assert_eq!(stack.tls().replace(0), owner);
                    together.wait();
                    for round in 0..ROUNDS {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let class = classes[(random >> 40) as usize % 2];
                        let stack =
                            if round % 16 == 0 { take(class, || true) } else { cache.take(class, || true) }
                                .unwrap();
                        check(stack, 0);
                        stack.tls().set(me);
                        mine.push(stack);
                        if random >> 60 == 0 {
                            for stack in mine.drain(..) {
                                check(stack, me);
                                stack.tls().set(usize::MAX);
                                passed.lock().unwrap().push(stack);
                            }
                        } else if random >> 62 == 1 {
                            let others = std::mem::take(&mut *passed.lock().unwrap());
                            for stack in others {
                                check(stack, usize::MAX);
                                if round % 2 == 0 { give_back(stack) } else { cache.give_back(stack) }
                            }
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_hundred_thousand_stacks_are_few_mappings() {
    isolated!("a_hundred_thousand_stacks_are_few_mappings", {
        if crate::sys::mmap::Guard::best() != crate::sys::mmap::Guard::Marker {
            eprintln!("skipped: this kernel has no MADV_GUARD_INSTALL");
            return;
        }
        let before = mappings();
        let class = class(64 << 10);
        let stacks: Vec<Stack> = (0..100_000).map(|_| take(class, || true).unwrap()).collect();
        assert!(mappings() - before < 40, "{} mappings", mappings() - before);
        // Every one is there: the handler would find each.
        for stack in stacks.iter().step_by(997) {
            assert_eq!(mapped::find(stack.limit().addr() - 1), Some(*stack));
            assert_eq!(mapped::find(stack.top().addr() - 1), Some(*stack));
        }
        assert_eq!(mapped::find(0), None);
        assert_eq!(mapped::find(std::ptr::from_ref(&before).addr()), None);
    });
}

#[test]
fn without_markers_stacks_work_until_mappings_run_out() {
    isolated!("without_markers_stacks_work_until_mappings_run_out", {
        mapped::force_no_access();
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        if limit > 200_000 {
            eprintln!("skipped: {limit} mappings take too long to use up");
            return;
        }
        let class = class(SMALLEST);
        let mut count = 0;
        let error = loop {
            match take(class, || true) {
                Ok(stack) if count % 1000 == 0 => {
                    // SAFETY: a stack that this test owns, whole.
                    unsafe { stack.limit().write_bytes(1, stack.top().addr() - stack.limit().addr()) };
                }
                Ok(_) => {}
                Err(error) => break error,
            }
            count += 1;
            assert!(count <= limit);
        };
        assert!(count > limit / 3, "only {count} of {limit}");
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("vm.max_map_count"), "{error}");
    });
}

#[test]
fn a_limit_on_address_space_is_a_clear_error_and_leaves_some() {
    isolated!("a_limit_on_address_space_is_a_clear_error_and_leaves_some", {
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: a valid limit. This process has nothing else to do.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
        let class = class(256 << 10);
        let mut count = 0;
        let error = loop {
            match take(class, || true) {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
        };
        // 1 GiB / 392 KiB, less what the process needs.
        assert!((1500..3200).contains(&count), "{count} stacks");
        assert!(error.to_string().contains("ulimit -v"), "{error}");
        drop(black_box(vec![1_u8; 8 << 20]));
    });
}

#[test]
fn trimming_keeps_the_bound_and_destroys_blocks() {
    isolated!("trimming_keeps_the_bound_and_destroys_blocks", {
        let class = class(SMALLEST);
        // Whole batches of new ones, so that none is left over.
        const EXTRA: usize = 16 * MAGAZINE as usize;
        let stacks: Vec<Stack> =
            (0..pool::KEEP_WARM + EXTRA).map(|_| take(class, || true).unwrap()).collect();
        for stack in &stacks {
            stack.tls().set(1);
            // SAFETY: a stack that this test owns.
            unsafe { stack.start().wrapping_sub(8).write(1) };
        }
        stacks.iter().for_each(|&stack| give_back(stack));
        assert!(notice_surplus() && !notice_surplus());
        while trim() {}
        assert!(!trim());
        let destroyed = DESTROYED.load(Ordering::Relaxed);
        assert!((EXTRA - MAGAZINE as usize..=EXTRA + MAGAZINE as usize).contains(&destroyed), "{destroyed}");
        let cold = stacks.iter().filter(|stack| stack.tls().get() == 0).count();
        assert_eq!(cold, destroyed);
        for stack in stacks.iter().filter(|stack| stack.tls().get() == 0) {
            // SAFETY: mapped, and no thread owns it.
            assert_eq!(unsafe { stack.start().wrapping_sub(8).read() }, 0, "its memory is given back");
        }
        let warm = stacks.len() - cold;
        assert_eq!(trim_to(warm), 0);
        assert_eq!((trim_to(0), trim_to(0)), (warm / MAGAZINE as usize * MAGAZINE as usize, 0));
        // Nothing is lost: all can be taken again, without a new span.
        let before: HashSet<usize> = stacks.iter().map(|stack| stack.limit().addr()).collect();
        assert!((0..stacks.len()).all(|_| before.contains(&take(class, || true).unwrap().limit().addr())));
    });
}

/// What a thread outside the pool of LWPs took or gave back is found, too.
#[test]
fn stacks_given_back_one_by_one_are_trimmed() {
    isolated!("stacks_given_back_one_by_one_are_trimmed", {
        let stacks: Vec<Stack> = (0..3).map(|_| take(class(SMALLEST), || true).unwrap()).collect();
        stacks.iter().for_each(|&stack| give_back(stack));
        assert!(trim_to(0) >= 3);
        assert_eq!(trim_to(0), 0);
    });
}

/// 128 of them, if all have been used to the end, would be 16 GiB for each LWP.
#[test]
fn a_cache_keeps_few_large_stacks() {
    isolated!("a_cache_keeps_few_large_stacks", {
        const MANY: usize = 20;
        let class = class(128 << 20);
        let cache = Cache::new();
        let stacks: Vec<Stack> = (0..MANY).map(|_| cache.take(class, || true).unwrap()).collect();
        stacks.iter().for_each(|&stack| cache.give_back(stack));
        assert!(trim_to(0) >= MANY - 2, "all but two are for others to take, and to trim");
    });
}

#[test]
fn a_trim_keeps_as_many_stacks_as_it_is_told() {
    isolated!("a_trim_keeps_as_many_stacks_as_it_is_told", {
        const MANY: usize = 3 * MAGAZINE as usize;
        let stacks: Vec<Stack> = (0..MANY).map(|_| take(class(SMALLEST), || true).unwrap()).collect();
        stacks.into_iter().for_each(give_back);
        // What was taken with the last of them is warm, too.
        let all = trim_to(10) + 10;
        assert!(all >= MANY);
        assert_eq!([trim_to(10), trim_to(3), trim_to(0)], [0, 7, 3]);
    });
}

/// Runs `body` on a stack of the pool, on this kernel thread.
fn on(stack: Stack, body: &dyn Fn()) {
    struct Visit<'a> {
        back: Cell<SavedSp>,
        here: Cell<SavedSp>,
        body: &'a dyn Fn(),
    }
    unsafe extern "C" fn enter(_: usize, visit: *mut ()) -> ! {
        // SAFETY: the visit of the frame below, which waits in its switch.
        let visit = unsafe { &*visit.cast::<Visit<'_>>() };
        (visit.body)();
        // SAFETY: saved by that switch, and no other code resumes this context.
        unsafe { arch::switch(visit.here.as_ptr(), visit.back.get(), 0) };
        unreachable!("the visit is over")
    }
    let visit = Visit { back: Cell::new(SavedSp::NONE), here: Cell::new(SavedSp::NONE), body };
    // SAFETY: the caller owns the stack, and `enter` does not return.
    let there = unsafe { arch::init(stack.start(), enter, (&raw const visit).cast_mut().cast()) };
    // SAFETY: just made, and resumed once.
    unsafe { arch::switch(visit.back.as_ptr(), there, 0) };
}

#[inline(never)]
fn dig(depth: usize) -> usize {
    let frame = black_box([depth; 64]);
    if depth == 0 { 0 } else { dig(depth - 1) + frame[depth % 64] }
}

#[test]
fn high_water_tells_how_deep() {
    isolated!("high_water_tells_how_deep", {
        let stack = take(class(256 << 10), || true).unwrap();
        // Room for the first frames is there from the start.
        let first = Bounds::of(stack).high_water();
        assert!(first <= page_size(), "{first}");
        on(stack, &|| _ = black_box(dig(1)));
        let shallow = Bounds::of(stack).high_water();
        assert!(shallow <= first.max(page_size()), "{shallow}");
        on(stack, &|| _ = black_box(dig(200)));
        let deep = Bounds::of(stack).high_water();
        assert!((200 * 512..256 << 10).contains(&deep), "{deep}");
    });
}

/// What is there from the start is enough for the frames of a parked thread, colour included.
#[test]
fn a_shallow_thread_touches_no_page_of_its_own() {
    isolated!("a_shallow_thread_touches_no_page_of_its_own", {
        for _ in 0..2 * COLOURS {
            let stack = take(class(64 << 10), || true).unwrap();
            let first = Bounds::of(stack).high_water();
            on(stack, &|| _ = black_box([1_u8; 512]));
            let used = Bounds::of(stack).high_water();
            assert!(
                used == first || first == 0 && used <= page_size(),
                "{used} of {stack:?}, {first} at first"
            );
        }
    });
}

/// The CPU that runs the thread touches it, unless that is the spawner's.
#[test]
fn the_page_of_the_first_frames_is_left_to_another_cpu() {
    isolated!("the_page_of_the_first_frames_is_left_to_another_cpu", {
        let lowest = |class, alone: bool| {
            let stack = take(class, || alone).unwrap();
            let first = stack.start().addr() / page_size() * page_size();
            mmap::lowest_resident(first..stack.top().addr()).map(|lowest| (lowest - first) / page_size())
        };
        assert_eq!(lowest(class(16 << 10), false), None);
        // A kernel may have no call for it.
        let Some(mine) = lowest(class(32 << 10), true) else { return };
        assert_eq!(mine, 0);
        expect_blocks();
        assert_eq!(lowest(class(64 << 10), false), Some(1), "the block is written by the spawner");
        assert_eq!(lowest(class(128 << 10), true), Some(0));
    });
}

#[test]
fn an_overflow_names_the_thread() {
    let ended = child::run(concat!(module_path!(), "::an_overflow_names_the_thread"), || {
        start();
        report_overflows().unwrap();
        let _alternate = AltStack::install().unwrap();
        let thread = core_pool::take(1, None, Some("diver".into()));
        current::set_current(Some(thread));
        let stack = take(class(64 << 10), || true).unwrap();
        stack.set_owner(std::ptr::from_ref(thread.core()).cast_mut().cast());
        on(stack, &|| _ = black_box(dig(usize::MAX)));
    });
    if let Some(ended) = ended {
        ended.expect_signal(libc::SIGABRT);
        ended.expect_words(&["thread 'diver' (id ", "overflowed its stack of 64 KiB", "SELVEDGE_STACK_SIZE"]);
    }
}

#[test]
fn a_write_into_a_strangers_red_zone_is_no_overflow() {
    let ended =
        child::run(concat!(module_path!(), "::a_write_into_a_strangers_red_zone_is_no_overflow"), || {
            start();
            report_overflows().unwrap();
            let stack = take(class(64 << 10), || true).unwrap();
            let thread = core_pool::take(1, None, Some("innocent".into()));
            stack.set_owner(std::ptr::from_ref(thread.core()).cast_mut().cast());
            // SAFETY: none. This child is here to fault.
            unsafe { stack.limit().wrapping_sub(1).write_volatile(1) };
        });
    if let Some(ended) = ended {
        ended.expect_signal(libc::SIGSEGV);
        ended.expect_silence_about("innocent");
    }
}
