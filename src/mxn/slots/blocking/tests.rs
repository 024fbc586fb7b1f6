//! Regions that announce blocking, on a scheduler without kernel threads: which LWP is woken, and what is
//! counted.

use crate::mxn::tests::Model;

#[test]
fn a_region_wakes_an_lwp_if_threads_wait() {
    let model = Model::new(2, 0, 2);
    let (scheduler, lwp, idle) = (model.scheduler, model.lwp(0), model.lwp(1));
    let [green, other] = [0, 1].map(|index| model.green(index));
    green.lwp.set(Some(lwp));
    idle.sleep.prepare();
    scheduler.idle.enter(idle.index, false);
    let sleeping = || scheduler.idle.look().sleeping;

    scheduler.announce_long(green, lwp);
    assert_eq!(sleeping(), 1, "no thread waits");
    assert!(!lwp.slot.is_held());
    assert!(scheduler.retract(green) && lwp.slot.is_held());

    scheduler.queue_behind(lwp, other);
    scheduler.announce_long(green, lwp);
    assert_eq!(sleeping(), 0);
    assert!(scheduler.retract(green));
    assert_eq!(lwp.queue.ring.pop(), Some(other.ptr()));
    assert!(!scheduler.slots.is_any_open());
}

#[test]
fn a_region_that_lasts_is_counted_as_open() {
    let model = Model::new(1, 0, 0);
    let (scheduler, slot) = (model.scheduler, &model.lwp(0).slot);
    let slots = &scheduler.slots;
    let counts = || (slots.is_any_open(), slots.is_any_brief());
    assert!(slots.enter_brief(slot));
    let first = slot.region().unwrap();
    assert!(slots.exit_brief(slot) && slots.enter_brief(slot));
    assert!(!slots.outstay(slot, first), "it is over, and this is another");
    assert_eq!(counts(), (true, true));
    assert!(slots.outstay(slot, slot.region().unwrap()));
    assert_eq!(counts(), (true, false));
    assert!(slots.exit_blocking(slot) && slot.is_held());
    assert_eq!(counts(), (false, false));
}
