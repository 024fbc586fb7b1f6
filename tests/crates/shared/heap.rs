//! Works the global allocator: its caches are per thread, found through the thread register.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use harness::{HOPS, crew};
use selvedge::sync::Mutex;

fn blocks_travel_between_threads() -> usize {
    let shared: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    crew(24, move |member| {
        for round in 0..HOPS {
            let len = [8, 24, 100, 1000, 5000, 70_000][(round + member.index()) % 6];
            let mut block = vec![member.index() as u8; len];
            member.hop();
            // Grown on another LWP than it was made on.
            block.resize(len * 2, member.index() as u8);
            member.hop();
            let taken: Vec<Vec<u8>> = {
                let mut shared = shared.lock();
                shared.push(block);
                if shared.len() > 32 { shared.drain(..8).collect() } else { Vec::new() }
            };
            for block in taken {
                assert!(block.iter().all(|&byte| byte == block[0]), "another thread's memory");
            }
        }
    })
}

fn collections_and_short_lives() -> usize {
    let mut migrations = 0;
    for _ in 0..20 {
        migrations += crew(16, |member| {
            let mut names = HashMap::new();
            let mut order = BTreeMap::new();
            for n in 0..40 {
                names.insert(n, format!("{}-{n}", member.index()));
                member.hop();
                order.insert(names[&n].clone(), n);
            }
            assert!(order.iter().all(|(name, n)| names[n] == *name));
        });
    }
    migrations
}

harness::on_every_runtime!(blocks_travel_between_threads, collections_and_short_lives);
