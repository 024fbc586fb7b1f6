//! Which threads can never go on: a pure function of which thread waits for which.
//!
//! A thread may wait for certain others, each of which must do something first: release a lock, or end. It
//! goes on only if all of those do. Another thread may wait for any thread that comes: for a notification, a
//! message, an owner that is not known. It goes on if any thread can run.
//!
//! So if no thread of the process can run, and none comes from outside, all are stuck. Otherwise the stuck
//! threads are the largest set in which each thread waits for one of the set. At the core of this set are
//! cycles.

/// What a thread needs to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing, or nothing but time.
    Nothing,
    /// Any thread that comes.
    AnyThread,
    /// Each of these threads must go on.
    All(Vec<usize>),
}

impl Needs {
    fn threads(&self) -> &[usize] {
        if let Self::All(all) = self { all } else { &[] }
    }
}

/// Returns for each thread those that need it.
pub(super) fn waiters(threads: &[Needs]) -> Vec<Vec<usize>> {
    let mut waiters = vec![Vec::new(); threads.len()];
    for (thread, needs) in threads.iter().enumerate() {
        needs.threads().iter().for_each(|&needed| waiters[needed].push(thread));
    }
    waiters
}

/// What is concluded about some threads, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The threads that can never go on.
    pub(super) stuck: Vec<usize>,
    /// Those of them that wait for each other: each for the next, and the last for the first.
    pub(super) cycles: Vec<Vec<usize>>,
}

/// Judges threads. Each waits for others by their index. With `closed`, there are no others in the process.
pub(super) fn judge(threads: &[Needs], closed: bool) -> Verdict {
    let none_runs = closed && !threads.contains(&Needs::Nothing);
    let waiters = waiters(threads);
    // How many of the threads that it needs are stuck, as far as is known.
    let mut left: Vec<usize> = threads.iter().map(|needs| needs.threads().len()).collect();
    let mut stuck: Vec<bool> = left.iter().map(|&needed| needed > 0).collect();
    let mut go_on: Vec<usize> = (0..threads.len()).filter(|&thread| !stuck[thread]).collect();
    while let Some(thread) = go_on.pop() {
        for &waiter in &waiters[thread] {
            left[waiter] -= 1;
            if left[waiter] == 0 {
                stuck[waiter] = false;
                go_on.push(waiter);
            }
        }
    }
    let next = |thread: usize| threads[thread].threads().iter().copied().find(|&needed| stuck[needed]);
    let cycles = cycles(&stuck, next);
    let stuck = (0..threads.len()).filter(|&thread| none_runs || stuck[thread]).collect();
    Verdict { stuck, cycles }
}

/// Returns the cycles of `next`, each from its lowest member.
fn cycles(stuck: &[bool], next: impl Fn(usize) -> Option<usize>) -> Vec<Vec<usize>> {
    let mut cycles = Vec::new();
    // The walk in which a thread was met first; 0: none yet.
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
    use super::Needs::{All, AnyThread, Nothing};
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
        // If a thread runs, sleeps, or may be woken by any thread, the threads that wait for it go on.
        check(&[All(vec![1]), Nothing], true, &[], &[]);
        check(&[All(vec![1]), AnyThread], false, &[], &[]);
        check(&[All(vec![1]), All(vec![2]), Nothing], true, &[], &[]);
        // If one of two threads that a thread needs is stuck, it is stuck, too. If neither is, it is not.
        check(&[All(vec![1, 2]), All(vec![1]), Nothing], false, &[0, 1], &[&[1]]);
        check(&[All(vec![1, 2]), Nothing, AnyThread], false, &[], &[]);
        // No thread can run, and none comes.
        check(&[AnyThread, AnyThread], true, &[0, 1], &[]);
        check(&[AnyThread, AnyThread], false, &[], &[]);
        check(&[AnyThread, Nothing], true, &[], &[]);
        check(&[AnyThread, All(vec![1])], true, &[0, 1], &[&[1]]);
        check(&[AnyThread, All(vec![1])], false, &[1], &[&[1]]);
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
