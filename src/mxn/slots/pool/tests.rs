use super::LwpPool;
use crate::mxn::tests::Model;

/// Once a newcomer was missed: the bound was counted, and counted again when it had come and gone.
#[test]
fn a_spare_that_is_yet_to_come_is_not_in_use() {
    let model = Model::new(1, 2, 0);
    let (pool, first, second) = (&model.scheduler.pool, model.lwp(1), model.lwp(2));
    for lwp in [first, second] {
        lwp.life.show_awaited(true);
        assert!(!pool.becomes_exhausted(), "this one is yet to come");
        assert_eq!(pool.enter_spares(lwp), 1);
        assert!(!pool.becomes_exhausted(), "it has come");
        assert!(pool.leave_spares(lwp));
    }
    assert!(pool.becomes_exhausted());
    assert!(!pool.becomes_exhausted(), "it was before");
    pool.enter_spares(first);
    assert!(pool.leave_spares(first) && !pool.becomes_exhausted(), "it came back, and went out again");
    pool.enter_spares(first);
    pool.enter_spares(second);
    assert!(pool.leave_spares(first) && pool.leave_spares(second) && pool.becomes_exhausted());
}

/// Once, only a second spare ended the shortage. The bound was then counted once and never again.
#[test]
fn the_only_spare_that_there_can_be_ends_the_shortage() {
    let model = Model::new(1, 1, 0);
    let (pool, spare) = (&model.scheduler.pool, model.lwp(1));
    assert!(pool.becomes_exhausted());
    pool.enter_spares(spare);
    assert!(pool.leave_spares(spare) && pool.becomes_exhausted());
}

#[test]
fn only_a_number_of_slots_that_follows_the_cpus_may_be_less_for_a_time() {
    let pool = LwpPool::new(8, 4, true);
    assert_eq!((pool.follows(), pool.aim()), (Some(4), 4));
    assert!(pool.save(1) && !pool.save(1), "it says what is a change");
    assert_eq!((pool.wanted(), pool.aim()), (4, 3), "the program does not see it");
    assert!(pool.save(9));
    assert_eq!(pool.aim(), 1, "one always stays");
    pool.want(3);
    assert_eq!((pool.follows(), pool.aim()), (None, 3), "the program has set the number");
}

#[test]
fn what_is_saved_is_taken_from_an_lwp_and_given_back() {
    let model = Model::with(2, 0, 0, |scheduler| scheduler.pool = LwpPool::new(2, 2, true));
    let (scheduler, last) = (model.scheduler, model.lwp(1));
    scheduler.pool.save(1);
    assert!(scheduler.settle_concurrency());
    assert_eq!((scheduler.pool.slots(), last.slot.is_none()), (1, true));
    scheduler.pool.enter_spares(last);
    scheduler.pool.save(0);
    assert!(scheduler.settle_concurrency());
    assert_eq!((scheduler.pool.slots(), last.slot.is_held()), (2, true));
}
