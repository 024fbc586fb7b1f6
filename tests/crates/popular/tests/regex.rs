//! regex: its pool of scratch memory has a fast path for one thread, which it knows by a thread-local number.

use std::sync::Arc;

use harness::{HOPS, crew};
use regex::Regex;

fn one_expression_in_many_threads() -> usize {
    let words = Arc::new(Regex::new(r"(?<word>[a-z]+)(?<number>\d+)").expect("an expression"));
    crew(24, move |member| {
        let text = format!("alpha{0} beta{1} gamma{0}{1}", member.index(), member.index() + 1);
        for _ in 0..HOPS / 4 {
            let mut found = Vec::new();
            // The iterator keeps its scratch memory across the switches.
            for captures in words.captures_iter(&text) {
                found.push(format!("{}-{}", &captures["word"], &captures["number"]));
                member.hop();
            }
            let [a, b] = [member.index(), member.index() + 1];
            assert_eq!(found, [format!("alpha-{a}"), format!("beta-{b}"), format!("gamma-{a}{b}")]);
        }
    })
}

harness::on_every_runtime!(one_expression_in_many_threads);
