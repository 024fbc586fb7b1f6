//! Scoped threads: a thousand threads that borrow the same data and add up what they find.
//!
//! ```text
//! cargo run --release --example scoped_threads
//! SELVEDGE_RUNTIME=onetoone cargo run --release --example scoped_threads
//! ```

use std::collections::BTreeMap;

use selvedge::sync::Mutex;
use selvedge::thread;

const TEXT: &str = "a thread waits on a condition variable until another thread wakes the thread";

fn main() {
    // `run` starts the runtime that SELVEDGE_RUNTIME names, or green threads.
    let counts = selvedge::run(|| {
        let words: Vec<&str> = TEXT.split(' ').cycle().take(100_000).collect();
        let counts = Mutex::new(BTreeMap::new());
        // When the scope returns, all of its threads have ended. So they may borrow `words` and `counts`.
        thread::scope(|s| {
            for part in words.chunks(100) {
                let counts = &counts;
                s.spawn(move || {
                    let mut mine = BTreeMap::new();
                    for &word in part {
                        *mine.entry(word).or_insert(0) += 1;
                    }
                    let mut all = counts.lock();
                    for (word, count) in mine {
                        *all.entry(word).or_insert(0) += count;
                    }
                });
            }
        });
        counts.into_inner()
    });
    for (word, count) in &counts {
        println!("{count:>6}  {word}");
    }
    assert_eq!(counts.values().sum::<usize>(), 100_000);
}
