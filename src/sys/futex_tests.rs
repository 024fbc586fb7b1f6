// The contract of a futex, included by both implementations.

use std::sync::Arc;
use std::sync::atomic::Ordering as O;
use std::thread;
use std::time::Duration;

/// Returns a deadline later than any test here should take. A wait that runs into it has failed.
fn far() -> Option<Moment> {
    Some(Moment::now() + Duration::from_secs(20))
}

#[test]
fn a_different_word_does_not_sleep() {
    let word = AtomicU32::new(1);
    assert_eq!(wait(&word, 0, far()), Waited::Woken);
    assert_eq!(wait_shared(&word, 0, far()), Waited::Woken);
}

#[test]
fn a_deadline_is_kept_and_never_early() {
    let word = AtomicU32::new(0);
    for micros in [0, 1, 50, 999, 3_000] {
        let deadline = Moment::now() + Duration::from_micros(micros);
        while wait(&word, 0, Some(deadline)) == Waited::Woken {}
        assert!(Moment::now() >= deadline, "early by {:?}", deadline - Moment::now());
    }
    assert_eq!(wait(&word, 0, Some(Moment::from_nanos(0))), Waited::TimedOut);
}

#[test]
fn a_wake_reaches_every_sleeper_once() {
    const SLEEPERS: u32 = 4;
    // (the word they sleep on, how many have returned)
    let shared = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    let sleepers: Vec<_> = (0..SLEEPERS)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                while shared.0.load(O::Acquire) == 0 {
                    assert_eq!(wait(&shared.0, 0, far()), Waited::Woken);
                }
                shared.1.fetch_add(1, O::Release);
            })
        })
        .collect();
    // The wake that takes a sleeper off counts it. Before the word changes, the sleeper goes back to sleep.
    let mut woken = 0;
    let give_up = far().unwrap();
    while woken < 2 * SLEEPERS as usize {
        woken += wake(&shared.0, 1);
        assert!(Moment::now() < give_up);
        thread::yield_now();
    }
    assert_eq!(shared.1.load(O::Acquire), 0, "nobody may return before the word has changed");
    shared.0.store(1, O::Release);
    let _ = wake(&shared.0, u32::MAX);
    for sleeper in sleepers {
        sleeper.join().unwrap();
    }
    assert_eq!(shared.1.load(O::Acquire), SLEEPERS);
}

#[test]
fn a_wake_wakes_no_more_than_it_was_told() {
    let word = Arc::new(AtomicU32::new(0));
    let returned = Arc::new(AtomicU32::new(0));
    let sleepers: Vec<_> = (0..3)
        .map(|_| {
            let (word, returned) = (Arc::clone(&word), Arc::clone(&returned));
            thread::spawn(move || {
                while word.load(O::Acquire) == 0 {
                    assert_eq!(wait_shared(&word, 0, far()), Waited::Woken);
                    returned.fetch_add(1, O::Release);
                }
            })
        })
        .collect();
    for round in 1..=20 {
        while wake_shared(&*word, 1) == 0 {
            thread::yield_now();
        }
        while returned.load(O::Acquire) < round {
            thread::yield_now();
        }
        assert_eq!(returned.load(O::Acquire), round, "one wake, one return");
    }
    word.store(1, O::Release);
    let _ = wake_shared(&*word, u32::MAX);
    for sleeper in sleepers {
        sleeper.join().unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_shared_wake_reaches_another_process() {
    if !ACROSS_PROCESSES {
        return;
    }
    // Two words that a child shares with this process: it sleeps on the first and answers in the second.
    // SAFETY: a new mapping.
    let words = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(words, libc::MAP_FAILED);
    // SAFETY: mapped for good, zero, aligned.
    let words: &'static [AtomicU32; 2] = unsafe { &*words.cast() };
    // SAFETY: the child makes system calls only, and ends by one.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: no memory is involved. Nothing else ends a child that is not woken.
        unsafe { libc::alarm(20) };
        while words[0].load(O::Acquire) == 0 {
            let _ = wait_shared(&words[0], 0, None);
        }
        words[1].store(1, O::Release);
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let limit = far().unwrap();
    while wake_shared(&words[0], 1) == 0 {
        assert!(Moment::now() < limit, "the child does not sleep where we wake");
        thread::yield_now();
    }
    words[0].store(1, O::Release);
    let _ = wake_shared(&words[0], 1);
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((status, words[1].load(O::Acquire)), (0, 1));
}
