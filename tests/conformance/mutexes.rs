//! What mutexes of all kinds have in common, in each form of locking: they exclude, deadlines pass,
//! interrupts end waits.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::{Arc, TryLockError};
use std::time::{Duration, Instant};

use selvedge::sync::{CheckedMutex, FairMutex, LockWith, Mutex, ReentrantMutex, RobustMutex, poison};
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::mixed::{KINDS, everywhere};

both! {
    all_kinds_of_threads_exclude_each_other,
    deadlines_pass,
    interrupts_end_waits,
}

const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(1000);

/// A form of locking.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Plain,
    Try,
    For,
    Until,
    Interruptible,
    InterruptibleFor,
    InterruptibleUntil,
}

use Form::*;

/// Those that give up.
const TIMED: [Form; 4] = [For, Until, InterruptibleFor, InterruptibleUntil];
const INTERRUPTIBLE: [Form; 3] = [Interruptible, InterruptibleFor, InterruptibleUntil];

impl Form {
    /// Returns what the forms of `lock_with` say.
    fn wait(self, patience: Duration) -> Wait {
        let wait = match self {
            InterruptibleFor => Wait::timeout(patience),
            InterruptibleUntil => Wait::until(Instant::now() + patience),
            _ => Wait::forever(),
        };
        wait.interruptible()
    }
}

/// Turns an expired wait into `None`.
fn unless_expired<G, E: PartialEq + From<WaitError>>(got: Result<G, E>) -> Result<Option<G>, E> {
    match got {
        Err(error) if error == WaitError::TimedOut.into() => Ok(None),
        got => got.map(Some),
    }
}

/// A mutex of one kind, around a count.
pub(crate) trait Kind: Debug + Send + Sync {
    /// Locks it in this form, with so much patience where that has any, and shows the count. `false`:
    /// another thread has it.
    fn enter(&self, form: Form, patience: Duration, show: Show<'_>) -> Result<bool, String>;
}

type Show<'a> = &'a mut dyn FnMut(&mut usize);

/// One of each kind.
fn kinds() -> [Arc<dyn Kind>; 6] {
    [
        Arc::<Mutex<usize>>::default(),
        Arc::<FairMutex<usize>>::default(),
        Arc::<poison::Mutex<usize>>::default(),
        Arc::<CheckedMutex<usize>>::default(),
        Arc::<RobustMutex<usize>>::default(),
        Arc::<ReentrantMutex<Cell<usize>>>::default(),
    ]
}

/// Of kinds with guards that tell nothing but the value.
macro_rules! kinds_without_news {
    ($($mutex:ident),*) => {$(
        impl Kind for $mutex<usize> {
            fn enter(&self, form: Form, patience: Duration, show: Show<'_>) -> Result<bool, String> {
                let guard = match form {
                    Plain => Ok(Some(self.lock())),
                    Try => Ok(self.try_lock()),
                    For => Ok(self.try_lock_for(patience)),
                    Until => Ok(self.try_lock_until(Instant::now() + patience)),
                    form => unless_expired(self.lock_with(form.wait(patience))),
                };
                Ok(guard.map_err(|error| error.to_string())?.map(|mut guard| show(&mut guard)).is_some())
            }
        }
    )*};
}

kinds_without_news!(Mutex, FairMutex);

impl Kind for poison::Mutex<usize> {
    fn enter(&self, form: Form, patience: Duration, show: Show<'_>) -> Result<bool, String> {
        let guard = match form {
            Plain => Ok(self.lock().map_err(Into::into)),
            Try => Ok(self.try_lock()),
            For => Ok(self.try_lock_for(patience)),
            Until => Ok(self.try_lock_until(Instant::now() + patience)),
            form => match self.lock_with(form.wait(patience)) {
                Err(WaitError::TimedOut) => Ok(Err(TryLockError::WouldBlock)),
                got => got.map(|result| result.map_err(Into::into)),
            },
        };
        match guard.map_err(|error| error.to_string())? {
            Ok(mut guard) => show(&mut guard),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(poisoned) => return Err(poisoned.to_string()),
        }
        Ok(true)
    }
}

impl Kind for CheckedMutex<usize> {
    fn enter(&self, form: Form, patience: Duration, show: Show<'_>) -> Result<bool, String> {
        let guard = match form {
            Plain => self.lock().map(Some),
            Try => self.try_lock(),
            For => self.try_lock_for(patience),
            Until => self.try_lock_until(Instant::now() + patience),
            form => unless_expired(self.lock_with(form.wait(patience))),
        };
        Ok(guard.map_err(|error| error.to_string())?.map(|mut guard| show(&mut guard)).is_some())
    }
}

impl Kind for RobustMutex<usize> {
    fn enter(&self, form: Form, patience: Duration, show: Show<'_>) -> Result<bool, String> {
        let acquired = match form {
            Plain => self.lock().map(Some),
            Try => self.try_lock(),
            For => self.try_lock_for(patience),
            Until => self.try_lock_until(Instant::now() + patience),
            form => unless_expired(self.lock_with(form.wait(patience))),
        };
        let acquired = acquired.map_err(|error| error.to_string())?;
        Ok(acquired.map(|acquired| show(&mut acquired.unwrap())).is_some())
    }
}

impl Kind for ReentrantMutex<Cell<usize>> {
    fn enter(&self, form: Form, patience: Duration, show: Show<'_>) -> Result<bool, String> {
        let guard = match form {
            Plain => Ok(Some(self.lock())),
            Try => Ok(self.try_lock()),
            For => Ok(self.try_lock_for(patience)),
            Until => Ok(self.try_lock_until(Instant::now() + patience)),
            form => unless_expired(self.lock_with(form.wait(patience))),
        };
        let Some(guard) = guard.map_err(|error| error.to_string())? else { return Ok(false) };
        let mut count = guard.get();
        show(&mut count);
        guard.set(count);
        Ok(true)
    }
}

/// What the running thread is told, by each form, of a mutex that it has.
pub(crate) fn relock(mutex: &dyn Kind) -> [Result<bool, String>; 7] {
    [Plain, Try, For, Until, Interruptible, InterruptibleFor, InterruptibleUntil]
        .map(|form| mutex.enter(form, LONG, &mut |_| ()))
}

/// Has `f` run while the running thread has the mutex.
fn holding(mutex: &dyn Kind, f: impl FnOnce()) {
    let mut f = Some(f);
    let entered = mutex.enter(Plain, LONG, &mut |_| f.take().expect("once")());
    assert_eq!(entered, Ok(true));
}

fn all_kinds_of_threads_exclude_each_other<L: Leg>() {
    const ROUNDS: usize = 400;
    for mutex in kinds() {
        let theirs = Arc::clone(&mutex);
        everywhere::<L, _>(2, move || {
            for round in 0..ROUNDS {
                let count = &mut |count: &mut usize| {
                    let before = *count;
                    if round % 50 == 0 {
                        // Others come meanwhile, and must wait.
                        thread::yield_now();
                    }
                    *count = before + 1;
                };
                assert_eq!(theirs.enter(Plain, LONG, count), Ok(true));
            }
        });
        let all = &mut |count: &mut usize| assert_eq!(*count, 2 * KINDS * ROUNDS, "{mutex:?}");
        assert_eq!(mutex.enter(Try, LONG, all), Ok(true));
    }
}

fn deadlines_pass<L: Leg>() {
    L::new().run(|| {
        for mutex in kinds() {
            let theirs = Arc::clone(&mutex);
            let waits = move || {
                assert_eq!(theirs.enter(Try, SHORT, &mut |_| ()), Ok(false), "{theirs:?}");
                let start = Instant::now();
                for form in TIMED {
                    assert_eq!(theirs.enter(form, SHORT, &mut |_| ()), Ok(false), "{form:?}: {theirs:?}");
                }
                assert!(start.elapsed() >= 4 * SHORT, "{theirs:?}");
            };
            holding(&*mutex, || thread::spawn(waits).join().unwrap());
            for form in TIMED {
                assert_eq!(mutex.enter(form, SHORT, &mut |_| ()), Ok(true), "{form:?}: {mutex:?}");
            }
        }
    });
}

fn interrupts_end_waits<L: Leg>() {
    L::new().run(|| {
        let interrupted = Err("the wait was interrupted".to_owned());
        for mutex in kinds() {
            for form in INTERRUPTIBLE {
                let theirs = Arc::clone(&mutex);
                holding(&*mutex, || {
                    let waiter = thread::spawn(move || theirs.enter(form, LONG, &mut |_| ()));
                    thread::yield_now();
                    waiter.thread().interrupt();
                    assert_eq!(waiter.join().unwrap(), interrupted, "{form:?}: {mutex:?}");
                });
                // Also where there is no need to wait; and once.
                thread::current().interrupt();
                assert_eq!(mutex.enter(form, LONG, &mut |_| ()), interrupted, "{form:?}: {mutex:?}");
                assert_eq!(mutex.enter(form, LONG, &mut |_| ()), Ok(true), "{form:?}: {mutex:?}");
            }
        }
    });
}
