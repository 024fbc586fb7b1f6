//! Circles of imports: files that can only be understood together.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{imports, tokens};
use super::{is_test_file, module, place};

/// Returns the modules that a file names, without those that only tests name.
fn named(file: &str, text: &str, places: &BTreeSet<&str>) -> BTreeSet<String> {
    let module = module(file);
    let all = tokens(text);
    let word = |k: usize| all.get(k).map_or("", |token| token.text.as_str());
    let mut paths: Vec<Vec<String>> = imports(&all, &module)
        .into_iter()
        .filter(|import| !import.in_test)
        .map(|import| import.path)
        .collect();
    // A module names its children without a prefix, or by `self`.
    for (i, token) in all.iter().enumerate() {
        let by_self = i > 1 && word(i - 1) == "::" && word(i - 2) == "self";
        if token.in_test || word(i + 1) != "::" || (i > 0 && word(i - 1) == "::" && !by_self) {
            continue;
        }
        let mut path: Vec<String> = module.iter().map(|part| (*part).to_string()).collect();
        path.extend(
            (i..).step_by(2).take_while(|&k| k == i || word(k - 1) == "::").map(|k| word(k).to_string()),
        );
        if places.contains(path[..=module.len()].join("/").as_str()) {
            paths.push(path);
        }
    }
    let deepest = |path: Vec<String>| {
        (1..=path.len()).rev().map(|n| path[..n].join("/")).find(|place| places.contains(place.as_str()))
    };
    let mut found: BTreeSet<String> = paths.into_iter().filter_map(deepest).collect();
    found.remove(place(file));
    found
}

/// Returns the groups of modules in which each one names, directly or not, all others. The largest comes
/// first.
pub(crate) fn circles(files: &[(String, String)]) -> Vec<BTreeSet<String>> {
    let files: Vec<_> = files.iter().filter(|(file, _)| !is_test_file(file)).collect();
    let places: BTreeSet<&str> = files.iter().map(|(file, _)| place(file)).collect();
    let edges: BTreeMap<&str, BTreeSet<String>> =
        files.iter().map(|(file, text)| (place(file), named(file, text, &places))).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> = places
        .iter()
        .map(|&start| {
            let (mut met, mut next) = (BTreeSet::new(), vec![start]);
            while let Some(at) = next.pop() {
                next.extend(edges[at].iter().map(String::as_str).filter(|&to| met.insert(to)));
            }
            (start, met)
        })
        .collect();
    let mut circles: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (&start, met) in &reached {
        if met.contains(start) {
            let back = met.iter().filter(|&&other| reached[other].contains(start));
            circles.insert(back.map(|other| (*other).to_string()).collect());
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}
