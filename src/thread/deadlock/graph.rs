//! Who can never go on: a pure function of who waits for whom.
//!
//! A thread that waits for some others, each of whom must do something first (it holds the lock, it is to be joined), goes on only if
//! all of those do. A thread that waits for whoever comes (a notification, a message, an owner that is not known) goes on if
//! anybody can run. So in a process in which nobody can run, and nobody comes from outside, all are stuck. Else those are
//! who wait for one that is: the largest set of threads each of which waits for one of the set. Its kernel are cycles.

/// What a thread needs to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing, or nothing but time.
    Nothing,
    /// That somebody comes, whoever that is.
    Anybody,
    /// That each of these goes on.
    All(Vec<usize>),
}

/// What is to be said of some threads, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Those who can never go on.
    pub(super) stuck: Vec<usize>,
    /// Those of them who wait for each other, each for the next, the last for the first.
    pub(super) cycles: Vec<Vec<usize>>,
}

/// Judges threads, each waiting for others by their index; `closed`: there are no others in the process.
pub(super) fn judge(threads: &[Needs], closed: bool) -> Verdict {
    let nobody_runs = closed && !threads.contains(&Needs::Nothing);
    let mut left = Vec::new();
    let mut waiters = vec![Vec::new(); threads.len()];
    let mut go_on = Vec::new();
    for (thread, needs) in threads.iter().enumerate() {
        let all: &[usize] = if let Needs::All(all) = needs { all } else { &[] };
        all.iter().for_each(|&needed| waiters[needed].push(thread));
        // How many of those it needs are stuck, as far as is known.
        left.push(all.len());
        if all.is_empty() {
            go_on.push(thread);
        }
    }
    let mut stuck: Vec<bool> = left.iter().map(|&needed| needed > 0).collect();
    while let Some(thread) = go_on.pop() {
        for &waiter in &waiters[thread] {
            left[waiter] -= 1;
            if left[waiter] == 0 {
                stuck[waiter] = false;
                go_on.push(waiter);
            }
        }
    }
    let next = |thread: usize| match &threads[thread] {
        Needs::All(all) => all.iter().copied().find(|&needed| stuck[needed]),
        _ => None,
    };
    let cycles = cycles(&stuck, next);
    let stuck = (0..threads.len()).filter(|&thread| nobody_runs || stuck[thread]).collect();
    Verdict { stuck, cycles }
}

/// The cycles of `next`, each from its least member.
fn cycles(stuck: &[bool], next: impl Fn(usize) -> Option<usize>) -> Vec<Vec<usize>> {
    let mut cycles = Vec::new();
    // In which walk a thread was met first; 0: in none yet.
    let mut met = vec![0; stuck.len()];
    for first in (0..stuck.len()).filter(|&thread| stuck[thread]) {
        let mut thread = first;
        while met[thread] == 0 {
            met[thread] = first + 1;
            thread = next(thread).expect("a stuck thread waits for one that is");
        }
        if met[thread] == first + 1 {
            let rest = std::iter::successors(next(thread), |&thread| next(thread));
            let mut cycle: Vec<usize> =
                std::iter::once(thread).chain(rest.take_while(|&other| other != thread)).collect();
            let least = cycle.iter().enumerate().min_by_key(|&(_, thread)| thread).map_or(0, |(at, _)| at);
            cycle.rotate_left(least);
            cycles.push(cycle);
        }
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::Needs::{All, Anybody, Nothing};
    use super::*;

    #[track_caller]
    fn check(threads: &[Needs], closed: bool, stuck: &[usize], cycles: &[&[usize]]) {
        let verdict = judge(threads, closed);
        assert_eq!(verdict.stuck, stuck, "{threads:?}");
        assert_eq!(verdict.cycles, cycles, "{threads:?}");
    }

    #[test]
    fn cases() {
        check(&[], false, &[], &[]);
        check(&[All(vec![0])], false, &[0], &[&[0]]);
        check(&[All(vec![1]), All(vec![0])], false, &[0, 1], &[&[0, 1]]);
        check(&[All(vec![1]), All(vec![2]), All(vec![1])], false, &[0, 1, 2], &[&[1, 2]]);
        check(&[All(vec![2]), All(vec![0]), All(vec![1]), Nothing], false, &[0, 1, 2], &[&[0, 2, 1]]);
        // One that runs, sleeps, or may be woken by anybody lets those go on who wait for it.
        check(&[All(vec![1]), Nothing], true, &[], &[]);
        check(&[All(vec![1]), Anybody], false, &[], &[]);
        check(&[All(vec![1]), All(vec![2]), Nothing], true, &[], &[]);
        // One of two that a thread needs is stuck: so is it. Neither is: it is not.
        check(&[All(vec![1, 2]), All(vec![1]), Nothing], false, &[0, 1], &[&[1]]);
        check(&[All(vec![1, 2]), Nothing, Anybody], false, &[], &[]);
        // Nobody can run, and nobody comes.
        check(&[Anybody, Anybody], true, &[0, 1], &[]);
        check(&[Anybody, Anybody], false, &[], &[]);
        check(&[Anybody, Nothing], true, &[], &[]);
        check(&[Anybody, All(vec![1])], true, &[0, 1], &[&[1]]);
        check(&[Anybody, All(vec![1])], false, &[1], &[&[1]]);
        // Two cycles, and a tail on one of them.
        check(
            &[All(vec![1]), All(vec![0]), All(vec![3]), All(vec![4]), All(vec![3])],
            false,
            &[0, 1, 2, 3, 4],
            &[&[0, 1], &[3, 4]],
        );
    }

    #[test]
    fn a_long_chain_is_no_matter() {
        let chain = |last| (1..100_000).map(|next| All(vec![next])).chain([last]).collect::<Vec<_>>();
        assert_eq!(judge(&chain(Nothing), true), Verdict::default());
        let verdict = judge(&chain(All(vec![0])), false);
        assert_eq!((verdict.stuck.len(), verdict.cycles.len()), (100_000, 1));
    }
}
