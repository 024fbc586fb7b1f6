//! Where a thread waits that has become runnable, and which LWP that wakes: on a scheduler without kernel
//! threads.

use std::ptr;

use super::Scheduler;
use super::policy::{MOST_PUSHES, PUSHES, SOON};
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::run_queue::CAPACITY;
use crate::mxn::sched::placement::Placement;
use crate::mxn::tests::{Model, run_on};
use crate::park::priority::Priority::{self, High, Low, Normal};

/// Where a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the next-slot of the first LWP.
    Next,
    /// In its ring.
    Ring,
    /// Among its pinned threads.
    Pinned,
    /// In the injection queue.
    Injected,
    /// Among those that lost their slice.
    Preempted,
    /// In the queue of its priority.
    Level,
}

/// Takes a thread out of the one queue where it waits.
fn find(model: &Model, green: &'static Green) -> At {
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let it = green.ptr();
    let levels = || scheduler.levels.take_high().or_else(|| scheduler.levels.take_low());
    let queues = [
        (At::Next, lwp.queue.next.take().into_iter().collect()),
        (At::Ring, std::iter::from_fn(|| lwp.queue.ring.pop()).collect()),
        (At::Pinned, std::iter::from_fn(|| lwp.pinned.pop(Low)).collect()),
        (At::Injected, std::iter::from_fn(|| scheduler.inject.pop(0, |_| ())).collect()),
        (At::Preempted, std::iter::from_fn(|| scheduler.pop_preempted()).collect()),
        (At::Level, std::iter::from_fn(levels).collect::<Vec<_>>()),
    ];
    let found: Vec<At> = queues.iter().filter(|(_, there)| there.contains(&it)).map(|(at, _)| *at).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

fn put_next(lwp: &Lwp, green: &'static Green) {
    lwp.queue.next.fill(green.ptr());
}

/// Puts the LWP, which has not searched, to sleep.
fn lay(scheduler: &Scheduler, lwp: &Lwp) {
    lwp.sleep.prepare();
    scheduler.idle.enter(lwp.index, false);
}

/// Returns `true` if an LWP that `lay` has laid was woken. It sleeps again then.
fn is_woken(scheduler: &Scheduler, lwp: &Lwp) -> bool {
    let woken = scheduler.idle.look().sleeping == 0;
    assert_eq!(lwp.sleep.is_asleep(), !woken);
    if woken {
        assert!(scheduler.idle.end_search(), "it counts as a searcher");
        lay(scheduler, lwp);
    }
    woken
}

fn migrates(scheduler: &mut Scheduler) {
    scheduler.placement = Placement::Elsewhere;
}

fn is_pinned(scheduler: &mut Scheduler) {
    scheduler.placement = Placement::Home;
}

fn set(green: &'static Green, level: Priority) {
    green.core.priority.set(level);
}

fn loses_its_slot(lwp: &Lwp) {
    lwp.slot.retake_unannounced().unwrap().retire();
}

/// What makes a thread runnable.
type Way = fn(&'static Scheduler, &'static Green);

/// Returns where a thread goes, which runs for the first time if `is_new`. Its waker runs on the first LWP,
/// and the second sleeps.
fn goes_to(way: Way, of: fn(&mut Scheduler), is_new: bool, change: fn(&Model, &'static Green)) -> (At, bool) {
    let model = Model::with(2, 0, 3, of);
    let (scheduler, lwp, sleeper) = (model.scheduler, model.lwp(0), model.lwp(1));
    let (me, green) = (model.green(0), model.green(1));
    green.lwp.set((!is_new).then_some(lwp));
    // The one that sleeps need not be woken for what waits in a ring.
    assert!(scheduler.idle.watch());
    lwp.skip.set(9);
    lay(scheduler, sleeper);
    change(&model, green);
    run_on(lwp, me, || way(scheduler, green));
    assert!(!scheduler.life.has_visitors());
    (find(&model, green), is_woken(scheduler, sleeper))
}

fn ready_behind(scheduler: &'static Scheduler, green: &'static Green) {
    assert_eq!(scheduler.ready_behind(green, || None), 0);
}

fn ready_new(scheduler: &'static Scheduler, green: &'static Green) {
    scheduler.ready_new(scheduler.here().map(|(me, _)| me), green);
}

const WAYS: [Way; 2] = [Scheduler::ready, ready_behind];

#[test]
fn a_woken_thread_goes_to_the_next_slot_and_wakes_no_lwp() {
    for way in WAYS {
        assert_eq!(goes_to(way, |_| (), false, |_, _| ()), (At::Next, false));
    }
    assert_eq!(goes_to(ready_new, |_| (), true, |_, _| ()), (At::Next, false), "nor does a new one");
}

#[test]
fn a_woken_thread_goes_where_all_look_if_its_waker_has_no_slot_or_threads_migrate() {
    for way in [WAYS[0], WAYS[1], ready_new] {
        assert_eq!(
            goes_to(way, |_| (), false, |model, _| loses_its_slot(model.lwp(0))),
            (At::Injected, true)
        );
        assert_eq!(goes_to(way, migrates, false, |_, _| ()), (At::Injected, true));
    }
}

#[test]
fn a_pinned_thread_goes_back_to_its_lwp() {
    for way in WAYS {
        assert_eq!(goes_to(way, is_pinned, false, |_, _| ()), (At::Pinned, false));
        assert_eq!(goes_to(way, is_pinned, true, |_, _| ()), (At::Next, false), "it has run nowhere");
        let no_slot = |model: &Model, _: &'static Green| loses_its_slot(model.lwp(0));
        assert_eq!(goes_to(way, is_pinned, false, no_slot), (At::Pinned, false));
        assert_eq!(goes_to(way, is_pinned, true, no_slot), (At::Injected, true));
    }
}

#[test]
fn a_thread_of_another_priority_goes_where_all_look() {
    for way in [WAYS[0], WAYS[1], ready_new] {
        assert_eq!(goes_to(way, |_| (), false, |_, green| set(green, High)), (At::Level, true));
        assert_eq!(goes_to(way, |_| (), false, |_, green| set(green, Low)), (At::Level, true));
    }
}

#[test]
fn a_thread_that_is_ahead_of_the_others_waits_with_those_that_lost_their_slice() {
    for way in WAYS {
        let is_ahead = |_: &Model, green: &'static Green| green.set_ahead(true);
        assert_eq!(goes_to(way, |_| (), false, is_ahead), (At::Preempted, false));
    }
}

#[test]
fn a_woken_thread_pushes_the_one_before_it_out_of_the_next_slot() {
    let model = Model::new(1, 0, 3);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let (me, first, second) = (model.green(0), model.green(1), model.green(2));
    run_on(lwp, me, || [first, second].map(|green| scheduler.ready(green)));
    assert_eq!((lwp.queue.next.look(), lwp.queue.ring.pop()), (Some(second.ptr()), Some(first.ptr())));
    assert_eq!(lwp.queue.next.filled_by(), Some(me.ptr()), "a thief learns which waker to blame");
}

#[test]
fn new_threads_run_in_the_order_of_their_making() {
    let order = |queued: bool, next_is_full: bool| {
        let model = Model::new(1, 0, 5);
        let (scheduler, lwp) = (model.scheduler, model.lwp(0));
        if queued {
            scheduler.queue_behind(lwp, model.green(1));
        }
        if next_is_full {
            put_next(lwp, model.green(2));
        }
        run_on(lwp, model.green(0), || [3, 4].map(|index| ready_new(scheduler, model.green(index))));
        assert_eq!(lwp.queue.next.filled_by(), Some(model.green(0).ptr()));
        let next = lwp.queue.next.take();
        let order: Vec<usize> = next
            .into_iter()
            .chain(std::iter::from_fn(|| lwp.queue.ring.pop()))
            .map(|taken| (0..5).find(|&index| model.green(index).ptr() == taken).unwrap())
            .collect();
        (next.is_some(), order)
    };
    assert_eq!(order(false, false), (true, vec![3, 4]));
    assert_eq!(order(true, false), (false, vec![1, 3, 4]), "not before those that are queued");
    assert_eq!(order(false, true), (true, vec![2, 3, 4]));
}

#[test]
fn of_several_that_are_woken_at_once_none_pushes_another_out() {
    let model = Model::new(1, 0, 5);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    let greens = [1, 2, 3, 4].map(|index| model.green(index));
    let mut others = greens[2..].iter().copied();
    run_on(lwp, model.green(0), || {
        scheduler.ready(greens[0]);
        assert_eq!(scheduler.ready_behind(greens[1], || others.next()), 2, "so many others");
    });
    assert_eq!(lwp.queue.next.take(), Some(greens[0].ptr()));
    assert_eq!([(); 3].map(|()| lwp.queue.ring.pop().unwrap()), [1, 2, 3].map(|index| greens[index].ptr()));
}

#[test]
fn a_thread_that_waited_for_the_end_of_another_runs_after_those_that_are_queued() {
    let model = Model::new(1, 0, 3);
    let (scheduler, lwp, me) = (model.scheduler, model.lwp(0), model.green(0));
    me.ends.set(true);
    scheduler.queue_behind(lwp, model.green(1));
    run_on(lwp, me, || scheduler.ready(model.green(2)));
    assert!(lwp.queue.next.is_empty());
    assert_eq!(
        [lwp.queue.ring.pop(), lwp.queue.ring.pop()],
        [1, 2].map(|index| Some(model.green(index).ptr()))
    );
}

#[test]
fn a_thread_is_here_only_for_its_own_runtime() {
    let (model, other) = (Model::new(1, 0, 1), Model::new(1, 0, 1));
    let (lwp, me) = (model.lwp(0), model.green(0));
    let is_here = |scheduler: &'static Scheduler| {
        scheduler.here().is_some_and(|(green, on)| ptr::eq(green, me) && ptr::eq(on, lwp))
    };
    assert!(!is_here(model.scheduler), "no thread runs");
    run_on(lwp, me, || {
        assert!(is_here(model.scheduler));
        assert!(other.scheduler.here().is_none());
    });
}

#[test]
fn a_thread_that_computes_on_after_waking_wakes_a_sleeper_early() {
    let model = Model::new(2, 1, 2);
    let (scheduler, lwp, other, spare) = (model.scheduler, model.lwp(0), model.lwp(1), model.lwp(2));
    let (me, green) = (model.green(0), model.green(1));
    let before = scheduler.clock.now();
    let wakes = || {
        run_on(lwp, me, || scheduler.ready(green));
        assert_eq!(lwp.queue.next.take(), Some(green.ptr()));
        is_woken(scheduler, other)
    };
    lay(scheduler, other);
    assert!(!wakes());
    assert_eq!(lwp.woke_early_at.get(), 0);
    me.set_wakes_early(true);
    assert!(wakes());
    assert!(lwp.woke_early_at.get() >= before, "when, is noted: the wake-up itself is no computing");
    // A slot that may be taken is left alone.
    assert!(scheduler.idle.leave(other.index) && scheduler.idle.end_search());
    other.sleep.cancel();
    block(&model, other, spare);
    run_on(lwp, me, || scheduler.ready(green));
    assert!(other.slot.is_blocking(), "it would cost more than a wake-up");
}

/// Marks that an LWP may block, and that a spare waits for its slot.
fn block(model: &Model, lwp: &Lwp, spare: &Lwp) {
    assert!(model.scheduler.slots.enter_blocking(&lwp.slot));
    spare.sleep.prepare();
    model.scheduler.pool.enter_spares(spare);
}

#[test]
fn a_thread_wakes_early_until_it_waits_with_its_wakee_or_soon_after() {
    let model = Model::new(1, 0, 2);
    let (scheduler, lwp, me) = (model.scheduler, model.lwp(0), model.green(0));
    let is_early_after = |still_there: bool, woke_at| {
        me.set_wakes_early(true);
        lwp.woke_early_at.set(woke_at);
        lwp.queue.next.take();
        if still_there {
            put_next(lwp, model.green(1));
        }
        scheduler.judge_waker(me, lwp);
        me.wakes_early()
    };
    let long_ago = 0;
    while scheduler.clock.now() <= SOON {}
    assert!(is_early_after(false, long_ago), "it has computed, and the wakee runs elsewhere");
    assert!(!is_early_after(true, long_ago), "the wakee still waits for it");
    assert!(!is_early_after(false, u64::MAX), "it has not computed");
}

#[test]
fn a_thread_that_is_queued_wakes_a_sleeper_now_and_then_or_if_none_watches() {
    let model = Model::new(2, 0, 1);
    let (scheduler, lwp, sleeper) = (model.scheduler, model.lwp(0), model.lwp(1));
    // How many may be queued before the clock is read.
    let skip_after = |skip| {
        lwp.skip.set(skip);
        scheduler.wake_for_queued(lwp);
        lwp.skip.get()
    };
    assert_eq!(skip_after(0), 0, "none sleeps");
    assert!(scheduler.idle.watch());
    assert_eq!(skip_after(3), 3);
    lay(scheduler, sleeper);
    assert_eq!((skip_after(3), is_woken(scheduler, sleeper)), (2, false), "not yet");
    assert_eq!((skip_after(0), is_woken(scheduler, sleeper)), (PUSHES - 1, true));
    scheduler.idle.unwatch();
    assert_eq!(
        (skip_after(3), is_woken(scheduler, sleeper)),
        (PUSHES - 1, true),
        "the one that wakes watches"
    );
}

#[test]
fn a_queued_thread_wakes_no_lwp_if_one_searches_or_has_asked_for_quiet() {
    let model = Model::new(4, 0, 0);
    let (scheduler, lwp, sleeper) = (model.scheduler, model.lwp(0), model.lwp(1));
    lay(scheduler, sleeper);
    let mut wakes = 0;
    // How many are queued until the clock is read again, and whether this one woke an LWP.
    let mut ask = || {
        let before = scheduler.idle.look().sleeping;
        scheduler.wake_if_worth_it(lwp);
        assert_eq!(lwp.skip.get(), lwp.skipped.get() - 1);
        let woken = scheduler.idle.look().sleeping != before;
        wakes += u64::from(woken);
        assert_eq!(lwp.counters.wakes.get(), wakes, "that is counted");
        (lwp.skipped.get(), woken)
    };
    assert!(scheduler.idle.begin_search(4));
    assert_eq!(ask(), (PUSHES, false));
    scheduler.idle.be_quiet_until(u64::MAX);
    assert_eq!(ask(), (PUSHES, false), "that one will find it");
    assert!(scheduler.idle.end_search());
    assert_eq!(
        [(); 4].map(|()| ask()),
        [2, 4, 8, 8].map(|times| (times * PUSHES, false)),
        "ever more rarely"
    );
    assert_eq!(MOST_PUSHES, 8 * PUSHES);
    scheduler.idle.be_quiet_until(0);
    assert_eq!(ask(), (PUSHES, true));
}

#[test]
fn a_thread_is_queued_on_an_lwp_unless_it_belongs_elsewhere() {
    let queue: Way = |scheduler, green| scheduler.queue_behind(scheduler.pool.lwp(0), green);
    assert_eq!(goes_to(queue, |_| (), false, |_, _| ()), (At::Ring, false));
    assert_eq!(goes_to(queue, is_pinned, true, |_, _| ()), (At::Ring, false));
    assert_eq!(goes_to(queue, is_pinned, false, |_, _| ()), (At::Pinned, false));
    assert_eq!(goes_to(queue, |_| (), false, |_, green| set(green, Low)), (At::Level, true));
    assert_eq!(goes_to(queue, migrates, false, |_, _| ()), (At::Injected, true));
}

#[test]
fn a_thread_that_goes_first_is_in_the_next_slot_unless_that_is_taken() {
    let first: Way = |scheduler, green| {
        let lwp = scheduler.pool.lwp(0);
        lwp.queue.next.blame(Some(green.ptr()));
        scheduler.put_first(lwp, green);
        assert_eq!(lwp.queue.next.filled_by().is_none(), lwp.has_next(), "no waker is to blame");
    };
    assert_eq!(goes_to(first, |_| (), false, |_, _| ()), (At::Next, false));
    assert_eq!(goes_to(first, migrates, false, |_, _| ()), (At::Injected, true));
    let model = Model::new(1, 0, 2);
    put_next(model.lwp(0), model.green(0));
    model.scheduler.put_first(model.lwp(0), model.green(1));
    assert_eq!(model.lwp(0).queue.next.look(), Some(model.green(0).ptr()));
    assert_eq!(find(&model, model.green(1)), At::Ring);
}

#[test]
fn half_of_a_full_ring_goes_where_all_look() {
    let (all, half) = (CAPACITY as usize, CAPACITY as usize / 2);
    let model = Model::new(2, 0, all + 1);
    let (scheduler, lwp) = (model.scheduler, model.lwp(0));
    lay(scheduler, model.lwp(1));
    (0..all).for_each(|index| scheduler.queue_behind(lwp, model.green(index)));
    assert!(!is_woken(scheduler, model.lwp(1)));
    scheduler.queue_behind(lwp, model.green(all));
    assert!(is_woken(scheduler, model.lwp(1)));
    assert_eq!((lwp.queue.ring.len(), scheduler.inject.len()), (half, half + 1));
    assert_eq!(lwp.queue.ring.pop(), Some(model.green(half).ptr()), "the older half has gone");
}

#[test]
fn what_waits_on_an_lwp_without_a_slot_goes_where_all_look() {
    let model = Model::new(1, 1, 3);
    let (scheduler, lwp) = (model.scheduler, model.lwp(1));
    put_next(lwp, model.green(0));
    [1, 2].iter().for_each(|&index| lwp.queue.ring.push(model.green(index).ptr()).unwrap());
    scheduler.evacuate(lwp);
    let order = [(); 3].map(|()| scheduler.inject.pop(0, |_| ()));
    assert_eq!(order, [0, 1, 2].map(|index| Some(model.green(index).ptr())));
    assert!(!lwp.has_queued());
    let queue: Way = Scheduler::queue_without_slot;
    assert_eq!(goes_to(queue, |_| (), false, |_, _| ()), (At::Injected, true));
    assert_eq!(goes_to(queue, is_pinned, false, |_, _| ()), (At::Pinned, false));
}

#[test]
fn the_lwp_of_a_pinned_thread_is_woken_or_lent_a_slot_or_asked_to_look() {
    let model = Model::with(2, 1, 2, is_pinned);
    let (scheduler, busy, idle, spare) = (model.scheduler, model.lwp(0), model.lwp(1), model.lwp(2));
    let ready = |lwp, level| {
        let green = model.green(0);
        green.lwp.set(Some(lwp));
        set(green, level);
        scheduler.ready_at_home(green);
        assert_eq!(lwp.pinned.has_high(), level == High);
        assert_eq!(lwp.pinned.pop(Low), Some(green.ptr()));
        lwp.flags.take().look
    };
    assert!(!ready(busy, Normal) && ready(busy, High));
    lay(scheduler, idle);
    assert!(!ready(busy, Normal) && !is_woken(scheduler, idle), "it is another's");
    ready(idle, Normal);
    assert!(is_woken(scheduler, idle));
    spare.sleep.prepare();
    scheduler.pool.enter_spares(spare);
    ready(spare, Normal);
    assert!(spare.slot.is_held() && !spare.sleep.is_asleep());
    assert_eq!((scheduler.slots.lent(), scheduler.pool.spares()), (1, 0));
}

#[test]
fn a_slot_that_was_lent_is_returned_once() {
    let model = Model::with(2, 0, 0, is_pinned);
    let (scheduler, lwps) = (model.scheduler, [model.lwp(0), model.lwp(1)]);
    let lent = || scheduler.slots.lent();
    assert!(!scheduler.return_loan(lwps[0]) && lwps[0].slot.is_held(), "none is lent");
    scheduler.slots.lend().retire();
    assert!(scheduler.return_loan(lwps[0]) && lwps[0].slot.is_none());
    assert_eq!(lent(), 0);
    scheduler.lend_to(lwps[0]);
    assert!(lwps[0].slot.is_held() && lent() == 1);
    loses_its_slot(lwps[1]);
    assert!(scheduler.return_loan(lwps[1]), "it has none");
    assert_eq!(lent(), 1, "so it has returned none");
}

#[test]
fn an_lwp_is_woken_only_if_none_searches_and_else_takes_an_open_slot() {
    let model = Model::new(4, 1, 0);
    let (scheduler, blocked, sleeper, spare) = (model.scheduler, model.lwp(0), model.lwp(1), model.lwp(4));
    lay(scheduler, sleeper);
    block(&model, blocked, spare);
    assert!(scheduler.idle.begin_search(4));
    scheduler.wake_searcher();
    let look = scheduler.idle.look();
    assert_eq!((look.sleeping, look.searching), (1, 1), "that one will find it");
    assert!(scheduler.idle.end_search(), "it was the last to search, although one sleeps");
    scheduler.wake_searcher();
    assert!(is_woken(scheduler, sleeper) && blocked.slot.is_blocking(), "a sleeper is nearer");
    assert!(scheduler.idle.leave(sleeper.index));
    sleeper.sleep.cancel();
    scheduler.wake_searcher();
    assert!(blocked.slot.is_blocking(), "an LWP searches");
    assert!(scheduler.idle.begin_search(4) && !scheduler.idle.end_search(), "one still searches");
    assert!(scheduler.idle.end_search());
    scheduler.wake_searcher();
    assert!(blocked.slot.is_none() && spare.slot.is_held());
    assert!(!scheduler.slots.is_any_open() && !spare.sleep.is_asleep());
}
