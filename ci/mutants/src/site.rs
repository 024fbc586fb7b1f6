//! The sites of mutations, as spans of the sources: the table's entries, and the orderings of the
//! model-checked files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

use crate::suite::Programs;

/// The file `table.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// Mutations of protocols, written by hand.
    pub(crate) mutation: Vec<Entry>,
    /// The test programs that run after the models.
    pub(crate) programs: Programs,
    /// Orderings that may be weakened without effect.
    #[serde(default)]
    pub(crate) ordering: Vec<Excuse>,
}

/// One mutation of a protocol.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    name: String,
    file: String,
    /// Text that occurs exactly once in the file. If a part stands between `‹` and `›`, only that part is
    /// replaced.
    old: String,
    new: String,
    /// The reason why no test can find it, if none can.
    no_effect: Option<String>,
}

/// An ordering that may be weakened without effect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Excuse {
    file: String,
    /// The line of the ordering, without indentation.
    line: String,
    /// The function that it is in, if other functions of the file have the same line.
    function: Option<String>,
    /// The ordering, if the line has others.
    ordering: Option<String>,
    /// The reason why the weaker ordering has no effect.
    no_effect: String,
}

/// A mutation with its place in the sources.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) no_effect: Option<String>,
    /// `true` if only a model can find it, as an ordering has no effect on the machine of the tests.
    pub(crate) only_models: bool,
    start: usize,
    end: usize,
    new: String,
}

impl Site {
    /// Makes one of cargo-mutants', which its own module plants.
    pub(crate) fn listed(number: usize, name: &str, file: &str) -> Self {
        let (name, file) = (name.to_owned(), file.to_owned());
        Self { number, name, file, no_effect: None, only_models: false, start: 0, end: 0, new: String::new() }
    }
}

impl Entry {
    /// Returns the text to look for, and the part of it to replace.
    fn part(&self) -> (String, Range<usize>) {
        let old = self.old.replace(['‹', '›'], "");
        let start = self.old.find('‹').unwrap_or(0);
        let end = self.old.find('›').map_or(old.len(), |end| end - '‹'.len_utf8());
        (old, start..end)
    }
}

impl Table {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns all mutations of the tree below `root`; their numbers start at 1.
    pub(crate) fn sites(&self, root: &Path) -> Result<Vec<Site>, String> {
        let mut sites = Vec::new();
        for entry in &self.mutation {
            let text = read(root, &entry.file)?;
            let (old, part) = entry.part();
            let mut found = text.match_indices(&old);
            let (Some((start, _)), None) = (found.next(), found.next()) else {
                return Err(format!(
                    "{}: the text of {:?} must occur exactly once: {:?}",
                    entry.file, entry.name, entry.old
                ));
            };
            sites.push(Site {
                number: 0,
                name: entry.name.clone(),
                file: entry.file.clone(),
                no_effect: entry.no_effect.clone(),
                only_models: false,
                start: start + part.start,
                end: start + part.end,
                new: entry.new.clone(),
            });
        }
        let mut excused = vec![false; self.ordering.len()];
        for file in modelled(root)? {
            let text = read(root, &file)?;
            for (start, end, new) in orderings(&text) {
                let taken = |site: &Site| site.file == file && site.start < end && start < site.end;
                if sites.iter().any(taken) {
                    continue;
                }
                let (number, line) = line_of(&text, start);
                let function = function_at(&text, start);
                let is_meant = |it: &Excuse| {
                    let is_here = it.function.as_deref().is_none_or(|it| it == function);
                    let is_it = it.ordering.as_deref().is_none_or(|it| text[start..end].ends_with(it));
                    it.file == file && it.line == line && is_here && is_it
                };
                let excuse = self.ordering.iter().position(is_meant);
                if let Some(excuse) = excuse {
                    excused[excuse] = true;
                }
                sites.push(Site {
                    number: 0,
                    name: format!("{file}:{number}: weaker: {line}"),
                    file: file.clone(),
                    no_effect: excuse.map(|excuse| self.ordering[excuse].no_effect.clone()),
                    only_models: true,
                    start,
                    end,
                    new,
                });
            }
        }
        if let Some(stale) = excused.iter().position(|used| !used) {
            let stale = &self.ordering[stale];
            return Err(format!("{}: no ordering stands in the line {:?}", stale.file, stale.line));
        }
        for (index, site) in sites.iter_mut().enumerate() {
            site.number = index + 1;
        }
        Ok(sites)
    }
}

/// Returns the texts of all files that have a mutation, with every mutation planted behind the switch.
pub(crate) fn planted(root: &Path, sites: &[Site]) -> Result<BTreeMap<String, String>, String> {
    let mut by_file: BTreeMap<&str, Vec<&Site>> = BTreeMap::new();
    for site in sites {
        by_file.entry(&site.file).or_default().push(site);
    }
    let plant = |(file, mut sites): (&str, Vec<&Site>)| {
        sites.sort_by_key(|site| (site.start, Reverse(site.end)));
        let text = read(root, file)?;
        let planted = planted_in(&text, 0..text.len(), &sites)
            .map_err(|old| format!("{file}: two mutations overlap at {old:?}"))?;
        Ok((file.to_owned(), planted))
    };
    by_file.into_iter().map(plant).collect()
}

/// Returns a part of the `text` with `sites`, which lie in it. A site may lie in another one, and changes
/// what that is without its own mutation. If two overlap otherwise, returns the text of one as an error.
fn planted_in<'a>(text: &'a str, part: Range<usize>, mut sites: &[&Site]) -> Result<String, &'a str> {
    let mut out = String::new();
    let mut at = part.start;
    while let Some(&outer) = sites.first() {
        let begin_before = |end| sites.partition_point(|site| site.start < end);
        let same = sites
            .partition_point(|site| (site.start, Reverse(site.end)) <= (outer.start, Reverse(outer.end)));
        let (within, rest) = sites.split_at(begin_before(outer.end).max(same));
        if let Some(crossing) = within.iter().find(|site| site.end > outer.end) {
            return Err(&text[crossing.start..crossing.end]);
        }
        out.push_str(&text[at..outer.start]);
        let old = planted_in(text, outer.start..outer.end, &within[same..])?;
        out.push_str(&switched(&old, &within[..same]));
        (at, sites) = (outer.end, rest);
    }
    out.push_str(&text[at..part.end]);
    Ok(out)
}

/// Returns `old` behind a switch: a statement stays a statement, an expression an expression.
fn switched(old: &str, sites: &[&Site]) -> String {
    let mut out = String::new();
    for site in sites {
        out.push_str(&format!("if crate::mutants::is_on({}) {{ {} }} else ", site.number, site.new));
    }
    out.push_str(&format!("{{ {old} }}"));
    let statement = old.trim_end().ends_with([';', '}']);
    if statement { out } else { format!("({out})") }
}

/// Returns each ordering that is stronger than `Relaxed`, outside comments and tests: span and replacement.
fn orderings(text: &str) -> Vec<(usize, usize, String)> {
    let text = text.find("\n#[cfg(test)]\nmod tests {").map_or(text, |tests| &text[..tests]);
    let mut found = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let code = line.find("//").map_or(line, |comment| &line[..comment]);
        for strong in ["Ordering::SeqCst", "Ordering::AcqRel", "Ordering::Acquire", "Ordering::Release"] {
            for (at, _) in code.match_indices(strong) {
                // A fence cannot be relaxed, so it is removed.
                let call = format!("fence({strong})");
                let fence = code.match_indices(&call).map(|(at, _)| at).find(|&from| from + 6 == at);
                found.push(match fence {
                    Some(from) => (offset + from, offset + from + call.len(), "()".to_owned()),
                    None => (offset + at, offset + at + strong.len(), "Ordering::Relaxed".to_owned()),
                });
            }
        }
        offset += line.len();
    }
    found.sort();
    found
}

fn line_of(text: &str, at: usize) -> (usize, &str) {
    let number = text[..at].matches('\n').count() + 1;
    (number, text.lines().nth(number - 1).unwrap_or_default().trim())
}

/// Returns the name of the last function that begins before `at`.
fn function_at(text: &str, at: usize) -> &str {
    let begin = text[..at].rfind("fn ").map_or("", |begin| &text[begin + 3..]);
    begin.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// Returns the model-checked files, which `ARCHITECTURE.md` lists, without their tests.
fn modelled(root: &Path) -> Result<Vec<String>, String> {
    let map = read(root, "ARCHITECTURE.md")?;
    let block = map.split("```models\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut files = Vec::new();
    for place in block.ok_or("ARCHITECTURE.md has no block `models`")?.lines() {
        collect(root, &format!("src/{}", place.trim()), &mut files)?;
    }
    files.sort();
    Ok(files)
}

fn collect(root: &Path, place: &str, files: &mut Vec<String>) -> Result<(), String> {
    let path = root.join(place);
    if path.is_file() || path.with_extension("rs").is_file() && !path.is_dir() {
        files.push(place.to_owned());
        return Ok(());
    }
    // `park` may be a folder beside `park.rs`.
    if path.with_extension("rs").is_file() {
        files.push(format!("{place}.rs"));
    }
    let entries = fs::read_dir(&path).map_err(|error| format!("{place}: {error}"))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("{place}: {error}"))?;
        let name = entry.file_name().into_string().map_err(|name| format!("{place}: {name:?}"))?;
        let is_test = ["tests", "tests.rs"].contains(&&*name)
            || name.ends_with("_tests.rs")
            || name.starts_with("loom_");
        if !is_test && (entry.path().is_dir() || name.ends_with(".rs")) {
            collect(root, &format!("{place}/{name}"), files)?;
        }
    }
    Ok(())
}

fn read(root: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
}
