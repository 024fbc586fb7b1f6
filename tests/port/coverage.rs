//! The items of std that the programs use.

use std::collections::BTreeSet;

/// What the programs cover.
pub(crate) struct Covered {
    /// The texts of the programs, as words and signs.
    texts: Vec<Vec<String>>,
    /// `(type, trait)`, by their names without the part in angle brackets.
    traits: BTreeSet<(String, String)>,
    /// The same for traits that a type of this name does not have. (Another type of the name may have them.)
    not: BTreeSet<(String, String)>,
    /// Items that are std's own on both sides.
    own: BTreeSet<String>,
    /// Items in the table of what cannot be ported.
    absent: BTreeSet<String>,
}

/// Traits with methods that a program calls by syntax and not by name.
const BY_SYNTAX: [&str; 1] = ["Drop"];

impl Covered {
    /// Collects from the texts of the programs, the output of `traits`, and the output of `own`.
    pub(crate) fn new(texts: &[&str], traits: &str, own: &str) -> Self {
        let (mut has, mut not) = (BTreeSet::new(), BTreeSet::new());
        for line in traits.lines() {
            let (type_name, fact) = line.split_once(": ").expect("a type and a fact");
            let (of, answer) = fact.rsplit_once(' ').expect("a trait and an answer");
            let fact = (head(type_name).to_owned(), head(of).to_owned());
            if answer == "yes" {
                has.insert(fact)
            } else {
                not.insert(fact)
            };
        }
        let own =
            own.lines().filter_map(|line| line.strip_prefix("std's own: ")).map(str::to_owned).collect();
        Self {
            texts: texts.iter().map(|text| words(text)).collect(),
            traits: has,
            not,
            own,
            absent: absent(),
        }
    }

    /// Returns `true` if `item`, a line of the list, is in a program or in the table.
    pub(crate) fn has(&self, item: &str) -> bool {
        let (module, what) = item.split_once(' ').expect("a module and an item");
        let short = module.rsplit("::").next().unwrap_or(module);
        if let Some((of, type_name)) = what.strip_prefix("impl ").and_then(|what| what.split_once(" for ")) {
            // `impl From for Waker (Arc)` comes with `Arc`.
            let (type_name, page) = type_name.split_once(" (").unwrap_or((type_name, type_name));
            let page = page.trim_end_matches(')');
            let (no, of) = of.strip_prefix('!').map_or((false, of), |of| (true, of));
            let fact = (type_name.to_owned(), of.to_owned());
            return self.own.contains(page)
                || self.absent.iter().any(|path| path.rsplit("::").next() == Some(of))
                || BY_SYNTAX.contains(&of)
                || self.traits.contains(&fact) != no && (!no || self.not.contains(&fact));
        }
        if let Some((kind, name)) = what.split_once(' ') {
            let path = [short, name];
            return self.own.contains(name)
                || self.absent.contains(&format!("{module}::{name}"))
                || match kind {
                    "fn" => self.names(&path),
                    "mod" => self.names(&path) || self.names(&["sync", name]),
                    _ => self.names(&[name]),
                };
        }
        let (name, member) = what.split_once("::").expect("a type and a member");
        self.own.contains(name)
            || self.absent.contains(&format!("{module}::{what}"))
            || self.names(&[name, member])
    }

    /// Returns `true` if a program has this path, with or without a part in angle brackets.
    fn names(&self, path: &[&str]) -> bool {
        self.texts.iter().any(|text| {
            (0..text.len()).any(|start| {
                let mut rest = &text[start..];
                path.iter().enumerate().all(|(at, part)| {
                    if at > 0 {
                        let Some(after) = rest.strip_prefix(&["::".to_owned()]) else { return false };
                        rest = skip_brackets(after);
                    }
                    let found = rest.first().is_some_and(|word| word == part);
                    rest = rest.get(1..).unwrap_or_default();
                    found
                })
            })
        })
    }
}

/// Skips `<..>::` if that comes next.
fn skip_brackets(text: &[String]) -> &[String] {
    let mut depth = 0;
    for (at, word) in text.iter().enumerate() {
        match word.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { text } else { text.get(at + 2..).unwrap_or_default() };
        }
    }
    text
}

/// Returns `Receiver` for `&Receiver<u8>`.
fn head(text: &str) -> &str {
    text.trim_start_matches('&').split('<').next().unwrap_or_default().trim()
}

/// Splits a text into words, `::`, and single signs; leaves out comments.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let mut in_word = false;
        for letter in line.chars() {
            let is_word = letter.is_alphanumeric() || letter == '_';
            match words.last_mut() {
                Some(last) if is_word && in_word => last.push(letter),
                Some(last) if letter == ':' && last == ":" => last.push(letter),
                _ if letter.is_whitespace() => {}
                _ => words.push(letter.to_string()),
            }
            in_word = is_word;
        }
    }
    words
}

/// Returns the paths in the first column of the table in the crate's documentation.
fn absent() -> BTreeSet<String> {
    let (_, table) = include_str!("../../src/lib.rs")
        .split_once("//! | what is not there")
        .expect("src/lib.rs has the table of what cannot be");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with("//! |"));
    let first = rows.filter_map(|row| row.split('|').nth(1));
    first
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|path| path.trim_start_matches("std::").to_owned())
        .collect()
}
