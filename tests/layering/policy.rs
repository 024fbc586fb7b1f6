//! The rules, read from `ARCHITECTURE.md`.

use std::collections::BTreeSet;

/// What one row of the `layers` block says.
#[derive(Debug)]
pub(crate) struct Row {
    /// The module, as a path below `src`: `park`, `mxn/lwp`.
    pub(crate) module: String,
    allowed: Vec<(Vec<String>, Option<String>)>,
    denied: Vec<Vec<String>>,
    all: bool,
}

/// All blocks.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) rows: Vec<Row>,
    /// Files and folders below `src` that are model-checked.
    pub(crate) models: Vec<String>,
    /// Files that may break a rule, and which.
    pub(crate) excused: Vec<(String, String)>,
}

fn block<'a>(document: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let fence = format!("```{name}\n");
    let start = document.find(&fence).unwrap_or_else(|| panic!("ARCHITECTURE.md has no block {name:?}"));
    document[start + fence.len()..].lines().take_while(|line| !line.starts_with("```")).map(str::trim)
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(str::to_string).collect()
}

impl Policy {
    pub(crate) fn read(document: &str) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for line in block(document, "layers") {
            let mut words = line.split_whitespace();
            let module = words.next().expect("a row starts with a module").to_string();
            let mut row = Row { module, allowed: Vec::new(), denied: Vec::new(), all: false };
            for word in words {
                if word == "*" {
                    row.all = true;
                } else if let Some(path) = word.strip_prefix('!') {
                    row.denied.push(segments(path));
                } else {
                    let (path, file) = word.split_once('@').map_or((word, None), |(p, f)| (p, Some(f)));
                    let (path, up) = path.strip_prefix('^').map_or((path, false), |path| (path, true));
                    let path = segments(path);
                    assert!(
                        up || row.module.starts_with(&path[0])
                            || rows.iter().any(|above| above.module == path[0]),
                        "ARCHITECTURE.md: {} imports {word}, which does not stand above it",
                        row.module
                    );
                    row.allowed.push((path, file.map(str::to_string)));
                }
            }
            rows.push(row);
        }
        let models = block(document, "models").map(str::to_string).collect();
        let excused = block(document, "excused").map(|line| {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(file), Some(rule), Some(_)) => (file.to_string(), rule.to_string()),
                _ => panic!("ARCHITECTURE.md: {line:?} gives no reason"),
            }
        });
        Self { rows, models, excused: excused.collect() }
    }

    /// Returns every module, file and item that the blocks name, as paths below `src`.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for row in &self.rows {
            let top = row.module.split('/').next().unwrap_or_default();
            names.insert(row.module.clone());
            for (path, file) in &row.allowed {
                names.insert(path.join("/"));
                names.extend(file.as_ref().map(|file| format!("{top}/{file}")));
            }
            names.extend(row.denied.iter().map(|path| path.join("/")));
        }
        names.extend(self.models.iter().cloned());
        names.extend(self.excused.iter().map(|(file, _)| file.clone()));
        names
    }

    /// Returns what rows allow and no import needs. An import is a module (`mxn/lwp/pool`) and a path.
    pub(crate) fn unused(&self, imports: &[(&str, Vec<String>)]) -> Vec<String> {
        let of_row = |row: &Row| {
            let top = row.module.split('/').next().unwrap_or_default();
            let is_needed = |path: &[String], file: &Option<String>| {
                let place = file.as_ref().map_or(row.module.clone(), |file| format!("{top}/{file}"));
                imports.iter().any(|(module, import)| within(module, &place) && import.starts_with(path))
            };
            let unused = row.allowed.iter().filter(|(path, file)| !is_needed(path, file));
            unused.map(|(path, _)| format!("{} {}", row.module, path.join("::"))).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(of_row).collect()
    }

    /// Returns `true` if `file` may break `rule`.
    pub(crate) fn excuses(&self, file: &str, rule: &str) -> bool {
        self.excused.iter().any(|(excused, which)| excused == file && which == rule)
    }

    /// Returns an error if the file `module` (`mxn/lwp/pool`, without `.rs`) may not name `path`.
    pub(crate) fn allows(&self, module: &str, path: &[String]) -> Result<(), String> {
        let top = module.split('/').next().unwrap_or_default();
        let mut known = false;
        let mut allowed = path[0] == top;
        for row in self.rows.iter().filter(|row| within(module, &row.module)) {
            if let Some(denied) = row.denied.iter().find(|denied| path.starts_with(denied)) {
                let again = |(ok, _): &(Vec<String>, _)| ok.starts_with(denied) && path.starts_with(ok);
                if !row.allowed.iter().any(again) {
                    return Err(format!("{} must not know {}", row.module, denied.join("::")));
                }
            }
            known |= row.module == top;
            allowed |= row.all
                || row.allowed.iter().any(|(ok, file)| {
                    path.starts_with(ok)
                        && file.as_ref().is_none_or(|file| within(module, &format!("{top}/{file}")))
                });
        }
        match (known, allowed) {
            (false, _) => Err(format!("module {top} has no row")),
            (true, false) => Err(format!("{top} may not import {}", path.join("::"))),
            (true, true) => Ok(()),
        }
    }

    /// Returns `true` if the file `module` must take its atomics from `shim`.
    pub(crate) fn is_modelled(&self, module: &str) -> bool {
        self.models.iter().any(|model| within(module, model.trim_end_matches(".rs")))
    }
}

/// Returns `true` if `module` is `folder`, or lies in it.
fn within(module: &str, folder: &str) -> bool {
    module.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
