//! The mutations that `cargo mutants` lists, planted behind the switch.
//!
//! **Problem.** There are some 5,500. Cargo-mutants compiles the crate for each, which takes half a minute.
//!
//! **So** this module takes its list, and plants each mutation as a branch beside what it replaces. One build
//! has them all. What such a branch cannot express is left out, and counted. That is mutations of constants,
//! `const` functions, `let` chains and fields, and those that do not compile.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::site::Site;

/// One row of `cargo mutants --list --json`.
#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    file: String,
    genre: String,
    replacement: String,
    span: Lines,
}

#[derive(Debug, Deserialize)]
struct Lines {
    start: Place,
    end: Place,
}

/// Both count from 1; the column counts characters.
#[derive(Debug, Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

/// The mutations that can be planted, and the sources to plant them in.
pub(crate) struct Listed {
    pub(crate) sites: Vec<Site>,
    /// How many were left out.
    pub(crate) left_out: usize,
    files: BTreeMap<String, File>,
}

struct File {
    text: String,
    edits: Vec<Edit>,
    inserts: Vec<(usize, usize, String)>,
}

/// A part of the source that is rendered with a choice of mutations in it.
#[derive(Clone, Debug)]
struct Edit {
    range: Range<usize>,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    /// `left op right`; each mutation has another operator.
    Binary { left: Range<usize>, op: String, right: Range<usize>, by: Vec<(usize, String)> },
    /// `op inner`; the mutation deletes the operator.
    Unary { op: String, inner: Range<usize>, by: usize },
    /// The guard of a match arm, which a mutation makes `true` or `false`.
    Guard { by: Vec<(usize, String)> },
    /// The guard, or the end of the pattern, of a match arm that a mutation deletes.
    Arm { by: usize, has_guard: bool },
}

impl Listed {
    /// Asks cargo-mutants, and finds the place of each mutation.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut command = Command::new("cargo");
        command.args(["mutants", "--list", "--json"]).current_dir(root);
        let list = command.output().map_err(|error| format!("cargo mutants: {error}"))?;
        if !list.status.success() {
            return Err(format!("cargo mutants: {}\n{}", list.status, String::from_utf8_lossy(&list.stderr)));
        }
        let rows: Vec<Row> = serde_json::from_slice(&list.stdout).map_err(|error| error.to_string())?;
        let mut listed = Self { sites: Vec::new(), left_out: 0, files: BTreeMap::new() };
        let mut by_file: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in &rows {
            by_file.entry(&row.file).or_default().push(row);
        }
        for (file, rows) in by_file {
            listed.find(root, file, &rows)?;
        }
        Ok(listed)
    }

    fn find(&mut self, root: &Path, file: &str, rows: &[&Row]) -> Result<(), String> {
        let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
        let syntax = syn::parse_file(&text).map_err(|error| format!("{file}: {error}"))?;
        let mut code = Code::default();
        code.visit_file(&syntax);
        let mut edits: Vec<Edit> = Vec::new();
        let mut inserts = Vec::new();
        for row in rows {
            let (start, end) = (offset(&text, &row.span.start), offset(&text, &row.span.end));
            let number = self.sites.len() + 1;
            let is_const = code.constant.iter().any(|range| range.contains(&start));
            let planted = !is_const
                && match row.genre.as_str() {
                    "FnValue" => {
                        inserts.push((start, number, row.replacement.clone()));
                        true
                    }
                    "BinaryOperator" => code.binary.get(&start).is_some_and(|(range, left, right)| {
                        let old = text[start..end].to_owned();
                        match edits.iter_mut().find(|edit| edit.range == *range && edit.is_binary()) {
                            Some(Edit { how: How::Binary { by, .. }, .. }) => {
                                by.push((number, row.replacement.clone()));
                            }
                            _ => {
                                let by = vec![(number, row.replacement.clone())];
                                let (left, right) = (left.clone(), right.clone());
                                edits.push(Edit {
                                    range: range.clone(),
                                    how: How::Binary { left, op: old, right, by },
                                });
                            }
                        }
                        true
                    }),
                    "UnaryOperator" => code.unary.get(&start).is_some_and(|(range, inner)| {
                        let op = text[start..end].to_owned();
                        let how = How::Unary { op, inner: inner.clone(), by: number };
                        edits.push(Edit { range: range.clone(), how });
                        true
                    }),
                    "MatchArmGuard" => {
                        let range = start..end;
                        let there = edits.iter_mut().find_map(|edit| match &mut edit.how {
                            How::Guard { by } if edit.range == range => Some(by),
                            _ => None,
                        });
                        match there {
                            Some(by) => by.push((number, row.replacement.clone())),
                            None => edits.push(Edit {
                                range,
                                how: How::Guard { by: vec![(number, row.replacement.clone())] },
                            }),
                        }
                        true
                    }
                    "MatchArm" => code.arms.get(&start).is_some_and(|(range, has_guard)| {
                        let how = How::Arm { by: number, has_guard: *has_guard };
                        edits.push(Edit { range: range.clone(), how });
                        true
                    }),
                    _ => false,
                };
            if planted {
                self.sites.push(Site::listed(number, &row.name, file));
            } else {
                self.left_out += 1;
            }
        }
        // The outer ones first; of two with one range, what takes the other in.
        edits.sort_by_key(|edit| (edit.range.start, usize::MAX - edit.range.end, edit.how.order()));
        self.files.insert(file.to_owned(), File { text, edits, inserts });
        Ok(())
    }

    /// Returns the text of each file with its mutations, but for those that are `out`.
    pub(crate) fn planted(&self, out: &BTreeSet<usize>) -> BTreeMap<String, String> {
        let plant = |(name, file): (&String, &File)| (name.clone(), file.planted(out));
        self.files.iter().map(plant).collect()
    }
}

/// Returns the numbers of the mutations that stand at, or right before, a part of a planted text.
pub(crate) fn numbers_at(text: &str, part: Range<usize>) -> Vec<usize> {
    const CALL: &str = "mutants::is_on(";
    let number = |at: usize| text[at + CALL.len()..].split(')').next().and_then(|digits| digits.parse().ok());
    let inside: Vec<usize> =
        text[part.clone()].match_indices(CALL).filter_map(|(at, _)| number(part.start + at)).collect();
    if !inside.is_empty() {
        return inside;
    }
    text[..part.start].rfind(CALL).and_then(number).into_iter().collect()
}

impl File {
    fn planted(&self, out: &BTreeSet<usize>) -> String {
        let edits: Vec<Edit> = self.edits.iter().filter_map(|edit| edit.without(out)).collect();
        let mut inserts: BTreeMap<usize, String> = BTreeMap::new();
        for (at, number, value) in &self.inserts {
            // A function inside of an expression that is rendered twice: its place would not be one.
            let is_inside = edits.iter().any(|edit| edit.range.start < *at && *at < edit.range.end);
            if !out.contains(number) && !is_inside {
                let text = inserts.entry(*at).or_default();
                text.push_str(&format!("if crate::mutants::is_on({number}) {{ return {value}; }} "));
            }
        }
        let mut planted = String::new();
        let mut from = 0;
        for (at, insert) in &inserts {
            planted.push_str(&self.render(&edits, from..*at));
            planted.push_str(insert);
            from = *at;
        }
        planted + &self.render(&edits, from..self.text.len())
    }

    /// Renders a part of the file with the edits, sorted, that lie within.
    fn render(&self, edits: &[Edit], part: Range<usize>) -> String {
        let mut text = String::new();
        let mut at = part.start;
        let mut index = 0;
        while let Some(edit) = edits.get(index) {
            let within = part.start <= edit.range.start && edit.range.end <= part.end;
            if !within || edit.range.start < at {
                index += 1;
                continue;
            }
            text.push_str(&self.text[at..edit.range.start]);
            text.push_str(&self.edited(edit, &edits[index + 1..]));
            at = edit.range.end;
            index += 1;
            // An insertion at the end of a pattern may have the place of what follows.
            if edit.range.is_empty() {
                continue;
            }
        }
        text.push_str(&self.text[at..part.end]);
        text
    }

    fn edited(&self, edit: &Edit, inner: &[Edit]) -> String {
        let on = |number: &usize| format!("crate::mutants::is_on({number})");
        match &edit.how {
            How::Binary { left, op, right, by } => {
                let (left, right) = (self.render(inner, left.clone()), self.render(inner, right.clone()));
                let choose = |l: &str, r: &str| {
                    let others = by
                        .iter()
                        .map(|(number, other)| format!("if {} {{ {l} {other} {r} }} else ", on(number)));
                    others.collect::<String>() + &format!("{{ {l} {op} {r} }}")
                };
                match op.as_str() {
                    "&&" | "||" => {
                        format!("(match {left} {{ l => {} }})", choose("l", &format!("({right})")))
                    }
                    "==" | "!=" | "<" | "<=" | ">" | ">=" => {
                        format!("(match (&({left}), &({right})) {{ (l, r) => {} }})", choose("l", "r"))
                    }
                    _ if op.ends_with('=') => format!("{{ {} }}", choose(&left, &format!("({right})"))),
                    _ => format!("(match (({left}), ({right})) {{ (l, r) => {} }})", choose("l", "r")),
                }
            }
            How::Unary { op, inner: range, by } => {
                let value = self.render(inner, range.clone());
                format!("(match {value} {{ v => if {} {{ v }} else {{ {op}v }} }})", on(by))
            }
            How::Guard { by } => {
                let guard = self.render(inner, edit.range.clone());
                let value = by.iter().map(|(number, value)| format!("if {} {{ {value} }} else ", on(number)));
                format!("({}{{ {guard} }})", value.collect::<String>())
            }
            How::Arm { by, has_guard: true } => {
                format!("!{} && ({})", on(by), self.render(inner, edit.range.clone()))
            }
            How::Arm { by, has_guard: false } => format!(" if !{} ", on(by)),
        }
    }
}

impl Edit {
    fn is_binary(&self) -> bool {
        matches!(self.how, How::Binary { .. })
    }

    /// Returns the edit with the mutations that are not `out`, if there is one.
    fn without(&self, out: &BTreeSet<usize>) -> Option<Self> {
        let mut edit = self.clone();
        let any = match &mut edit.how {
            How::Binary { by, .. } | How::Guard { by } => {
                by.retain(|(number, _)| !out.contains(number));
                !by.is_empty()
            }
            How::Unary { by, .. } | How::Arm { by, .. } => !out.contains(by),
        };
        any.then_some(edit)
    }
}

impl How {
    fn order(&self) -> u8 {
        match self {
            Self::Arm { .. } => 0,
            Self::Guard { .. } => 1,
            Self::Binary { .. } | Self::Unary { .. } => 2,
        }
    }
}

type Operands = (Range<usize>, Range<usize>, Range<usize>);

/// Where a file has what can be mutated, by the offset of the operator or of the arm.
#[derive(Default)]
struct Code {
    binary: HashMap<usize, Operands>,
    unary: HashMap<usize, (Range<usize>, Range<usize>)>,
    /// The guard, or the empty range behind the pattern.
    arms: HashMap<usize, (Range<usize>, bool)>,
    /// What is evaluated when the crate is compiled.
    constant: Vec<Range<usize>>,
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// Returns `true` for a chain of `&&` that has a `let` in it, which stands only where it is.
fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Code {
    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        if !has_let(&node.left) && !has_let(&node.right) {
            self.binary.insert(range(&node.op).start, (range(node), range(&node.left), range(&node.right)));
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        self.unary.insert(range(&node.op).start, (range(node), range(&node.expr)));
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        // Behind a condition, an arm does not count: another must take all values.
        let takes_all = |arm: &syn::Arm| arm.guard.is_none() && matches!(arm.pat, syn::Pat::Wild(_));
        if node.arms.iter().any(takes_all) {
            for arm in &node.arms {
                let end = range(&arm.pat).end;
                let guard = arm.guard.as_ref().map(|(_, guard)| range(guard));
                let has_guard = guard.is_some();
                self.arms.insert(range(arm).start, (guard.unwrap_or(end..end), has_guard));
            }
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.constant.extend(node.sig.constness.map(|_| range(node)));
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.constant.extend(node.sig.constness.map(|_| range(node)));
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_item_const(&mut self, node: &'ast syn::ItemConst) {
        self.constant.push(range(node));
    }

    fn visit_impl_item_const(&mut self, node: &'ast syn::ImplItemConst) {
        self.constant.push(range(node));
    }

    fn visit_trait_item_const(&mut self, node: &'ast syn::TraitItemConst) {
        self.constant.push(range(node));
    }

    fn visit_item_static(&mut self, node: &'ast syn::ItemStatic) {
        self.constant.push(range(node));
    }

    fn visit_expr_const(&mut self, node: &'ast syn::ExprConst) {
        self.constant.push(range(node));
    }

    fn visit_type_array(&mut self, node: &'ast syn::TypeArray) {
        self.constant.push(range(node));
    }

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.constant.push(range(&node.len));
        visit::visit_expr_repeat(self, node);
    }
}

fn offset(text: &str, place: &Place) -> usize {
    let line = text.split_inclusive('\n').take(place.line - 1).map(str::len).sum::<usize>();
    let in_line = text[line..].char_indices().nth(place.column - 1).map_or(text.len() - line, |(at, _)| at);
    line + in_line
}
