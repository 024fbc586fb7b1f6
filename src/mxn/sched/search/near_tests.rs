//! LWPs that share a cache go first: on a scheduler without kernel threads.

use std::ptr::NonNull;

use super::policy::{FAR_VICTIMS, VICTIMS};
use crate::mxn::lwp::Lwp;
use crate::mxn::lwp_set::Near;
use crate::mxn::tests::Model;
use crate::shim::cpu;
use crate::sys::caches::Caches;

/// More than any machine has: a processor of this number is in no group but the first.
const NOWHERE: u32 = 60_000;

/// Makes a model of LWPs that all have slots. The processors are in the groups `groups`, by number.
fn model(lwps: usize, groups: &[u8]) -> Model {
    let caches: &'static Caches = Box::leak(Box::new(Caches::of(groups)));
    Model::with(lwps, 0, 0, |scheduler| scheduler.near = Near::new(lwps, Some(caches)))
}

/// Moves an LWP to a processor.
fn put(model: &Model, lwp: &Lwp, word: &cpu::Word) {
    lwp.show_cpu(Some(NonNull::from(word)));
    model.scheduler.near.settle(lwp);
}

fn look(model: &Model, lwp: &'static Lwp) -> Vec<u32> {
    model.scheduler.victims(lwp).map(|victim| victim.index).collect()
}

#[test]
fn a_thief_looks_at_near_lwps_first_and_comes_to_all() {
    const LWPS: u32 = 24;
    let cpus = [cpu::Word::new(0), cpu::Word::new(1)];
    let model = model(LWPS as usize, &[0, 1]);
    for index in 0..LWPS {
        put(&model, model.lwp(index), &cpus[(index % 2) as usize]);
    }
    let thief = model.lwp(5);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let seen = look(&model, thief);
        assert_eq!(seen.len(), VICTIMS);
        let (first, last) = seen.split_at(VICTIMS - FAR_VICTIMS);
        assert!(first.iter().all(|index| index % 2 == 1) && last.iter().all(|index| index % 2 == 0));
        near.extend_from_slice(first);
        far.extend_from_slice(last);
    }
    near.truncate(LWPS as usize / 2 - 1);
    near.append(&mut far);
    near.sort_unstable();
    assert_eq!(near, (0..LWPS).filter(|&index| index != 5).collect::<Vec<_>>());
}

#[test]
fn an_lwp_that_moves_has_other_neighbours() {
    let cpus = [cpu::Word::new(0), cpu::Word::new(1)];
    let model = model(4, &[0, 1]);
    (0..4).for_each(|index| put(&model, model.lwp(index), &cpus[usize::from(index > 1)]));
    assert_eq!(look(&model, model.lwp(0))[0], 1);
    put(&model, model.lwp(0), &cpus[1]);
    assert_eq!(look(&model, model.lwp(0))[..2], [2, 3]);
    assert_eq!(
        look(&model, model.lwp(1)),
        [0, 2],
        "none is near any more: as many of the others as a look has"
    );
}

#[test]
fn a_waker_takes_a_sleeper_that_is_near() {
    let (here, far) = (cpu::Word::new(0), cpu::Word::new(NOWHERE));
    // Wherever this test runs, that is in the second group.
    let model = model(3, &[1; 8192]);
    let (scheduler, near) = (model.scheduler, model.lwp(1));
    for index in 0..3 {
        let lwp = model.lwp(index);
        put(&model, lwp, if index == near.index { &here } else { &far });
        lwp.sleep.prepare();
        scheduler.idle.enter(lwp.index, false);
    }
    let wake = || {
        scheduler.wake_searcher();
        (0..3).filter(|&index| !scheduler.idle.sleepers().contains(index)).collect::<Vec<_>>()
    };
    assert_eq!(wake(), [1], "not the last to come, which is far");
    assert!(scheduler.idle.end_search());
    assert_eq!(wake(), [1, 2], "there is none that is near");
}

/// Where all share a cache, or the LWP cannot tell where it is, no LWP is nearer than another.
#[test]
fn without_neighbours_the_look_is_at_all() {
    let model = model(4, &[0, 1]);
    assert_eq!(look(&model, model.lwp(0)), [1, 2, 3], "no LWP says where it is");
    let one_cache = Model::new(4, 0, 0);
    let cpu = cpu::Word::new(0);
    put(&one_cache, one_cache.lwp(0), &cpu);
    assert_eq!(look(&one_cache, one_cache.lwp(0)), [1, 2, 3]);
    assert!(one_cache.scheduler.near.here().is_none());
}
