//! rayon: its latches for callers from outside are thread-locals.

use harness::{HOPS, crew};
use rayon::prelude::*;

fn parallel_work_from_many_threads() -> usize {
    crew(6, |member| {
        for round in 0..HOPS / 10 {
            let top = 1000 + (member.index() + round) as u64;
            let sum = member.across(|| (0..top).into_par_iter().map(|n| n * n).sum::<u64>());
            assert_eq!(sum, (0..top).map(|n| n * n).sum::<u64>());
            member.hop();
            let (a, b) = member.across(|| rayon::join(|| top * 2, || top * 3));
            assert_eq!((a, b), (top * 2, top * 3));
            member.hop();
            assert_eq!(rayon::current_thread_index(), None, "not one of rayon's threads");
        }
    })
}

harness::on_every_runtime!(parallel_work_from_many_threads);
