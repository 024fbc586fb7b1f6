//! What is made once: by one of several, after all by another, in time and too late.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use selvedge::sync::{LazyLock, Once, OnceLock};
use selvedge::{Wait, WaitError};

use super::{SOON, count, start};

/// A program's own type: settings that are read when they are first wanted.
#[derive(Default)]
struct Settings {
    port: OnceLock<u32>,
    readings: AtomicU32,
}

impl Settings {
    fn read(&self) -> u32 {
        self.readings.fetch_add(1, SeqCst) + 80
    }

    fn port(&self) -> u32 {
        *self.port.get_or_init(|| self.read())
    }

    /// A mistake: two may see that no thread has read them.
    fn port_carelessly(&self) -> u32 {
        if self.port.get().is_none() {
            let _ = self.port.set(self.read());
        }
        *self.port.get().expect("it was set")
    }
}

/// Two threads ask, by `port`.
fn read_once(port: fn(&Settings) -> u32) -> impl Fn() + Send + Sync + 'static {
    move || {
        let settings = Arc::new(Settings::default());
        let other = start(&settings, port);
        assert_eq!(port(&settings), other.join().unwrap());
        assert_eq!(settings.readings.load(SeqCst), 1, "read once");
    }
}

#[test]
fn settings_are_read_once() {
    let orders = count(read_once(Settings::port));
    assert!(orders <= 40, "the steps of the cell itself are no part of a program's model: {orders}");
}

#[test]
#[should_panic(expected = "read once")]
fn negative_settings_read_twice() {
    loom::model(read_once(Settings::port_carelessly));
}

/// Something that is written before it is said to be there.
struct Letter {
    there: Once,
    text: UnsafeCell<u32>,
}

// SAFETY: what the models are to show: loom reports accesses to the cell that are not ordered.
unsafe impl Sync for Letter {}
// SAFETY: what the models are to show, too.
unsafe impl Send for Letter {}

impl Letter {
    fn new() -> Arc<Self> {
        Arc::new(Self { there: Once::new(), text: UnsafeCell::new(0) })
    }

    fn write(&self) {
        // SAFETY: checked by loom.
        self.there.call_once(|| self.text.with_mut(|text| unsafe { *text = 7 }));
    }

    fn read(&self) -> u32 {
        // SAFETY: checked by loom.
        self.text.with(|text| unsafe { *text })
    }
}

#[test]
fn a_waiter_sees_what_was_done() {
    count(|| {
        let letter = Letter::new();
        let readers = [(); 2].map(|()| {
            start(&letter, |letter| {
                letter.there.wait();
                letter.read()
            })
        });
        letter.write();
        assert_eq!(readers.map(|reader| reader.join().unwrap()), [7, 7]);
    });
}

/// A mistake: the letter is read whether or not it is there.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_not_waited_for() {
    loom::model(|| {
        let letter = Letter::new();
        let reader = start(&letter, |letter| {
            let _ = letter.there.wait_for(SOON);
            letter.read()
        });
        letter.write();
        reader.join().unwrap();
    });
}

/// A mistake: each is made of the other.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_made_of_each_other() {
    loom::model(|| {
        let both = Arc::new([OnceLock::new(), OnceLock::new()]);
        let make = |both: &[OnceLock<u32>; 2], first: usize| {
            *both[first].get_or_init(|| *both[1 - first].get_or_init(|| 1))
        };
        let other = start(&both, move |both| make(both, 1));
        make(&both, 0);
        other.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "reentrant init")]
fn negative_made_of_itself() {
    loom::model(|| {
        let cell = OnceLock::new();
        cell.get_or_init(|| *cell.get_or_init(|| 1));
    });
}

/// One of the two fails, and the next does it after all.
#[test]
fn a_call_that_fails_leaves_it_to_the_next() {
    count(|| {
        let settings = Arc::new(Settings::default());
        let other = start(&settings, |settings| settings.port.get_or_try_init(|| Err(())).copied());
        assert_eq!(settings.port(), 80);
        assert!(matches!(other.join().unwrap(), Ok(80) | Err(())));
    });
}

#[test]
fn a_panic_poisons_and_can_be_forced() {
    let seen = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let theirs = Arc::clone(&seen);
    count(move || {
        let once = Arc::new(Once::new());
        let other = start(&once, |once| {
            // Quietly: without the message.
            let panics = || std::panic::resume_unwind(Box::new("on purpose"));
            catch_unwind(AssertUnwindSafe(|| once.call_once(panics))).is_err()
        });
        let mut was_poisoned = false;
        once.call_once_force(|state| was_poisoned = state.is_poisoned());
        assert_eq!(was_poisoned, other.join().unwrap());
        assert!(once.is_completed());
        theirs[usize::from(was_poisoned)].store(true, SeqCst);
    });
    assert!(seen.iter().all(|seen| seen.load(SeqCst)), "{seen:?}");
}

/// A mistake: that none has failed.
#[test]
#[should_panic(expected = "LazyLock instance has previously been poisoned")]
fn negative_panic_not_thought_of() {
    loom::model(|| {
        let lazy = Arc::new(LazyLock::<u32>::new(|| std::panic::resume_unwind(Box::new("on purpose"))));
        let other = start(&lazy, |lazy| catch_unwind(AssertUnwindSafe(|| **lazy)).is_err());
        assert!(other.join().unwrap());
        LazyLock::force(&lazy);
    });
}

#[test]
fn a_deadline_passes_and_does_not() {
    let seen = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let theirs = Arc::clone(&seen);
    count(move || {
        let settings = Arc::new(Settings::default());
        let other = start(&settings, Settings::port);
        let port = settings.port.get_or_init_for(|| settings.read(), SOON).copied();
        assert!(matches!(port, Some(80) | None));
        assert_eq!(other.join().unwrap(), 80);
        theirs[usize::from(port.is_some())].store(true, SeqCst);
    });
    assert!(seen.iter().all(|seen| seen.load(SeqCst)), "{seen:?}");
}

/// A mistake: that the deadline will not pass.
#[test]
#[should_panic(expected = "in time")]
fn negative_deadline_not_thought_of() {
    loom::model(|| {
        let settings = Arc::new(Settings::default());
        let other = start(&settings, Settings::port);
        assert_eq!(settings.port.wait_for(SOON), Some(&80), "in time");
        other.join().unwrap();
    });
}

#[test]
fn all_forms_are_there() {
    count(|| {
        let once = Once::new();
        assert!(!once.is_completed() && !once.wait_for(SOON));
        let (endless, timed) = (Wait::forever().interruptible(), Wait::timeout(SOON).interruptible());
        assert_eq!(once.wait_with(timed), Err(WaitError::TimedOut));
        assert!(once.call_once_for(|| (), SOON) && once.is_completed());
        once.call_once(|| unreachable!());
        once.wait();
        once.wait_force();
        assert!(once.wait_with(endless).is_ok());
        assert!(once.wait_force_for(SOON) && once.wait_force_with(endless).is_ok());
        assert_eq!(Once::new().call_once_with(endless, || ()), Ok(()));
        assert_eq!(Once::new().call_once_force_with(timed, |_| ()), Ok(()));
        assert_eq!(OnceLock::new().get_or_init_with(endless, || 1), Ok(&1));
        assert_eq!(OnceLock::new().get_or_try_init_for(|| Err::<u32, _>(2), SOON), Err(2));
        assert_eq!(LazyLock::force_with(&LazyLock::new(|| 3), endless), Ok(&3));

        let mut cell = OnceLock::from(3);
        assert_eq!((cell.get(), cell.set(4)), (Some(&3), Err(4)));
        assert_eq!(cell.take(), Some(3));
        assert_eq!((cell.wait_for(SOON), cell.set(5)), (None, Ok(())));
        assert_eq!((*cell.wait(), cell.clone().into_inner()), (5, Some(5)));

        let mut lazy = LazyLock::new(|| 6);
        assert_eq!((LazyLock::get(&lazy), *lazy), (None, 6));
        *LazyLock::force_mut(&mut lazy) += 1;
        *lazy += 1;
        assert_eq!(LazyLock::into_inner(lazy).ok(), Some(8));
        assert_eq!(*LazyLock::<u32>::from(9), 9);
        assert!(LazyLock::into_inner(LazyLock::new(|| 8)).is_err());
    });
}
