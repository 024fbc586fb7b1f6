use super::*;

const SESSION: Session = Session { number: 1, began: 100 };

/// Returns what an account says that is of the session.
fn says(account: &Account, session: Session, now: u64) -> Statement {
    match account.look(session, now) {
        Look::Says(statement) => statement,
        other => panic!("{other:?}"),
    }
}

/// Returns what is charged: running, dispatchable, queued, blocked, sleeping, in the kernel.
fn times(account: &Account, now: u64) -> [u64; STATES] {
    let statement = says(account, SESSION, now);
    assert_eq!(statement.times.iter().sum::<u64>(), statement.life, "they add up");
    statement.times
}

#[test]
fn a_life_adds_up() {
    let account = Account::new();
    assert_eq!(account.look(SESSION, 1_000), Look::Unchanged);
    account.spawned(SESSION, 1_000, 7);
    assert_eq!(times(&account, 1_500), [0, 0, 500, 0, 0, 0]);
    account.runs(SESSION, 2_000, 0, Some(3));
    account.stops(SESSION, 2_100, State::Blocked, false);
    assert_eq!(times(&account, 2_200), [100, 0, 1_000, 100, 0, 0]);
    assert_eq!(says(&account, SESSION, 2_200).cpu, Some(3), "it stays where it ran last");
    account.readied(2_400, true);
    assert_eq!(times(&account, 2_450), [100, 50, 1_000, 300, 0, 0]);
    account.runs(SESSION, 2_500, 1, None);
    assert_eq!(times(&account, 2_500), [100, 100, 1_000, 300, 0, 0]);
    assert_eq!(says(&account, SESSION, 2_500).cpu, None);
    account.in_kernel(SESSION, 2_600, true);
    account.in_kernel(SESSION, 2_900, false);
    account.stops(SESSION, 3_000, State::Queued, true);
    account.runs(SESSION, 3_050, 1, None);
    account.stops(SESSION, 3_060, State::Sleeping, false);
    account.readied(4_060, false);
    account.runs(SESSION, 4_080, 0, Some(0));
    let statement = says(&account, SESSION, 4_080);
    assert_eq!(statement.times, [310, 100, 1_070, 300, 1_000, 300]);
    let counts = (statement.dispatches, statement.preempted, statement.migrations);
    assert_eq!((statement.life, statement.state, counts), (3_080, State::Running, (4, 1, 2)));
    assert_eq!(statement.cpu, Some(0));
    assert_eq!(statement.maker, 7);
    // In the next session, what was before is not known.
    let next = Session { number: SESSION.number + 1, ..SESSION };
    account.runs(next, 5_000, 0, None);
    assert_eq!(says(&account, next, 5_000).maker, 0);
}

/// Times in a run queue are what a keeper is told: since the spawn, the wake-up, or the stop.
#[test]
fn a_thread_that_runs_has_waited_since_it_could() {
    let account = Account::new();
    account.spawned(SESSION, 1_000, 0);
    assert_eq!(account.runs(SESSION, 1_300, 0, None), Some(300), "new");
    account.stops(SESSION, 1_400, State::Blocked, false);
    account.readied(1_900, true);
    assert_eq!(account.runs(SESSION, 1_950, 0, None), Some(50), "woken");
    account.stops(SESSION, 2_000, State::Queued, true);
    assert_eq!(account.runs(SESSION, 2_700, 0, None), Some(700), "preempted");
    account.readied(2_790, false);
    account.stops(SESSION, 2_800, State::Sleeping, false);
    assert_eq!(account.runs(SESSION, 2_840, 0, None), Some(40), "woken before it had stopped");
    account.stops(SESSION, 2_900, State::Blocked, false);
    assert_eq!(account.runs(SESSION, 3_900, 0, None), None, "no waker has told");
    account.stops(SESSION, 4_000, State::Queued, false);
    assert_eq!(account.runs(SESSION, 3_990, 0, None), Some(0), "the clock is behind");
}

/// A kernel thread may run, and wait again, before its waker has told of the wake-up.
#[test]
fn a_waker_that_is_late_does_not_end_the_next_wait_of_a_kernel_thread() {
    let account = Account::new();
    account.spawned(SESSION, 100, 0);
    account.runs(SESSION, 200, ITS_OWN, None);
    account.stops(SESSION, 300, State::Blocked, false);
    account.runs(SESSION, 310, ITS_OWN, None);
    account.readied(320, true);
    account.stops(SESSION, 330, State::Blocked, false);
    assert_eq!(times(&account, 1_000)[State::Blocked as usize], 680);
    assert_eq!(account.runs(SESSION, 10_330, ITS_OWN, None), None, "by its deadline");
    account.stops(SESSION, 10_400, State::Blocked, false);
    account.readied(10_500, true);
    assert_eq!(account.runs(SESSION, 10_530, ITS_OWN, None), Some(30));
}

/// A thread that waits since before the session is in a run queue from its wake-up on.
#[test]
fn a_thread_that_slept_through_the_begin_of_a_session_has_waited_since_its_wake_up() {
    let account = Account::new();
    account.readied(900, true);
    assert_eq!(account.runs(SESSION, 950, 0, None), Some(50));
    assert_eq!(times(&account, 950), [0, 50, 0, 800, 0, 0]);
    account.stops(SESSION, 960, State::Blocked, false);
    let next = Session { number: 2, began: 1_000 };
    account.readied(990, false);
    assert_eq!(account.runs(next, 1_500, 0, None), None, "it was woken before the session began");
    assert_eq!(says(&account, next, 1_500).times, [0, 0, 500, 0, 0, 0]);
}

/// The waker comes between the thread's publication and the end of its stop.
#[test]
fn an_early_waker_leaves_no_time_blocked() {
    let account = Account::new();
    account.spawned(SESSION, 100, 0);
    account.runs(SESSION, 200, 0, None);
    account.readied(290, false);
    account.stops(SESSION, 300, State::Blocked, false);
    account.runs(SESSION, 400, 0, None);
    assert_eq!(times(&account, 400), [100, 0, 200, 0, 0, 0]);
    // The next wait has not been ended yet, although `ready` is there.
    account.stops(SESSION, 500, State::Blocked, false);
    assert_eq!(times(&account, 600), [200, 0, 200, 100, 0, 0]);
}

#[test]
fn a_new_session_begins_anew() {
    let account = Account::new();
    account.spawned(SESSION, 200, 0);
    account.runs(SESSION, 300, 0, Some(1));
    let next = Session { number: 2, began: 1_000 };
    assert_eq!(account.look(next, 1_100), Look::Unchanged, "no keeper has been there");
    account.stops(next, 1_500, State::Blocked, false);
    let statement = says(&account, next, 1_600);
    assert_eq!((statement.life, statement.times), (600, [500, 0, 0, 100, 0, 0]));
    assert_eq!(statement.cpu, None, "it has not begun to run in this session");
}

/// `Level::Times` promises so many bytes for a thread.
#[test]
fn an_account_has_two_cache_lines() {
    assert_eq!(size_of::<Account>(), 128);
}

/// Counters of two CPUs may differ, and a keeper may use a reading that is a little old. Nothing underflows,
/// and nothing is charged twice.
#[test]
fn a_clock_that_is_behind_charges_nothing_twice() {
    let account = Account::new();
    account.spawned(SESSION, 1_000, 0);
    account.runs(SESSION, 990, 0, None);
    account.stops(SESSION, 1_100, State::Blocked, false);
    account.readied(1_090, false);
    account.runs(SESSION, 1_095, 0, None);
    assert_eq!(times(&account, 1_090), [100, 0, 0, 0, 0, 0]);
    account.stops(SESSION, 1_098, State::Queued, false);
    account.runs(SESSION, 1_120, 0, None);
    assert_eq!(times(&account, 1_130), [110, 0, 20, 0, 0, 0]);
}

/// A keeper that has lost its CPU is not taken for one that has not been there.
#[test]
fn a_look_in_the_middle_of_a_change_says_so() {
    let account = Account::new();
    account.spawned(SESSION, 100, 0);
    account.version.fetch_add(1, Ordering::Relaxed);
    assert_eq!(account.look(SESSION, 200), Look::Busy);
    account.version.fetch_add(1, Ordering::Relaxed);
    assert_eq!(says(&account, SESSION, 200).life, 100);
}

#[test]
fn a_thread_does_not_run_before_it_has_stopped_and_was_woken() {
    let account = Account::new();
    account.spawned(SESSION, 100, 0);
    account.runs(SESSION, 200, 0, None);
    account.stops(SESSION, 300, State::Blocked, false);
    assert_eq!((account.not_before(250), account.not_before(310)), (300, 310));
    account.readied(400, true);
    assert_eq!((account.not_before(250), account.not_before(410)), (400, 410));
}

/// Words of two changes may stand beside each other in a look, before it finds that out.
#[test]
fn a_look_beside_keepers_and_wakers_finds_whole_changes() {
    const SESSIONS: u32 = 50_000;
    let (account, number) = (Account::new(), AtomicU32::new(1));
    let session = |number: u32| Session { number, began: u64::from(number) * 1_000 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for session in (1..=SESSIONS).map(session) {
                number.store(session.number, Ordering::Relaxed);
                for now in (session.began..session.began + 900).step_by(100) {
                    account.runs(session, now, now as u32 % 2, None);
                    account.stops(session, now + 10, State::Blocked, false);
                    account.readied(now + 20, true);
                }
            }
        });
        let mut seen = 0;
        while number.load(Ordering::Relaxed) < SESSIONS || seen == 0 {
            let session = session(number.load(Ordering::Relaxed));
            if let Look::Says(says) = account.look(session, session.began + 50) {
                assert_eq!(says.times.iter().sum::<u64>(), says.life, "{says:?}");
                seen += 1;
            }
        }
    });
}

/// A busy thread is dispatched more than 2^32 times, and its account has no more room for that than before.
#[test]
fn dispatches_are_counted_without_end() {
    let account = Account::new();
    assert_eq!(size_of_val(&account), 128);
    account.spawned(SESSION, 1_000, 0);
    account.dispatches.store(u32::MAX.into(), Ordering::Relaxed);
    account.migrations.store(u32::MAX.into(), Ordering::Relaxed);
    account.runs(SESSION, 1_100, 0, None);
    account.stops(SESSION, 1_200, State::Queued, false);
    account.runs(SESSION, 1_300, 1, None);
    let says = says(&account, SESSION, 1_300);
    assert_eq!((says.dispatches, says.migrations), (u64::from(u32::MAX) + 2, u64::from(u32::MAX) + 1));
}

/// A kernel thread that waits when the counting begins, and goes on without a waker, has waited: it slept, or
/// its time was over.
#[test]
fn a_kernel_thread_from_before_has_waited_until_it_runs() {
    let account = Account::new();
    assert_eq!(account.runs(SESSION, 900, ITS_OWN, None), None);
    assert_eq!(times(&account, 1_000), [100, 0, 0, 800, 0, 0]);
    // A green thread would have been woken.
    let account = Account::new();
    assert_eq!(account.runs(SESSION, 900, 0, None), None);
    assert_eq!(times(&account, 1_000), [100, 0, 800, 0, 0, 0]);
}
