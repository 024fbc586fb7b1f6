//! Enough of Rust's grammar to see which modules a file reaches. It has tokens without comments and
//! literals, the module of each token, and the paths that start with `crate` or `super`.

/// A token and the line it starts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Inside a module that only tests compile.
    pub(crate) in_test: bool,
    /// How many modules of this file it is nested in.
    mod_depth: usize,
}

/// A path into the crate, from its root: `["park", "wait_queue", "Waiter"]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    pub(crate) in_test: bool,
}

/// `text` with comments, strings and characters blanked out, line by line as before.
fn blank_literals(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let blank = |out: &mut String, from: usize, to: usize| {
        out.extend(chars[from..to.min(chars.len())].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
    };
    while i < chars.len() {
        let start = i;
        let ident_before = i > 0 && (at(i - 1).is_alphanumeric() || at(i - 1) == '_');
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                loop {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                    if depth == 0 || i >= chars.len() {
                        break;
                    }
                }
            }
            'r' if !ident_before && matches!(at(i + 1), '"' | '#') && raw_hashes(&chars, i + 1).is_some() => {
                let hashes = raw_hashes(&chars, i + 1).unwrap_or(0);
                i += 2 + hashes;
                while i < chars.len() && !(at(i) == '"' && (1..=hashes).all(|k| at(i + k) == '#')) {
                    i += 1;
                }
                i += 1 + hashes;
            }
            '"' => {
                i += 1;
                while i < chars.len() && at(i) != '"' {
                    i += if at(i) == '\\' { 2 } else { 1 };
                }
                i += 1;
            }
            // A character, not a lifetime: it is closed after one (or one escaped) character.
            '\'' if at(i + 1) == '\\' => {
                i += 3;
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            '\'' if at(i + 2) == '\'' => i += 3,
            c => {
                out.push(c);
                i += 1;
                continue;
            }
        }
        blank(&mut out, start, i);
    }
    out
}

/// The number of `#` before the quote of a raw string that starts at `i`, if one does.
fn raw_hashes(chars: &[char], mut i: usize) -> Option<usize> {
    let start = i;
    while chars.get(i) == Some(&'#') {
        i += 1;
    }
    (chars.get(i) == Some(&'"')).then_some(i - start)
}

/// The tokens of a file: identifiers and numbers, `::`, and single signs.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for (n, line) in blank_literals(text).lines().enumerate() {
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let len = if c.is_alphanumeric() || c == '_' {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                c.len_utf8()
            };
            if !c.is_whitespace() {
                found.push(Token { text: rest[..len].into(), line: n + 1, in_test: false, mod_depth: 0 });
            }
            rest = &rest[len..];
        }
    }
    mark_modules(&mut found);
    found
}

/// Fills in `in_test` and `mod_depth`.
fn mark_modules(tokens: &mut [Token]) {
    // For each open brace: whether it opens a module, and whether only tests compile what is in it.
    let mut open: Vec<(bool, bool)> = Vec::new();
    let mut test_attribute = false;
    for i in 0..tokens.len() {
        tokens[i].in_test = test_attribute || open.last().is_some_and(|&(_, test)| test);
        tokens[i].mod_depth = open.iter().filter(|&&(module, _)| module).count();
        let word = |k: usize| tokens.get(k).map_or("", |t| t.text.as_str());
        match word(i) {
            "#" if word(i + 1) == "[" && word(i + 2) == "cfg" => {
                let words: Vec<&str> = (i + 3..).map(word).take_while(|w| !matches!(*w, "]" | "")).collect();
                test_attribute |= matches!(words[..], ["(", "test", ")"] | ["(", "all", "(", "test", ..]);
            }
            "{" => {
                let module = i >= 2 && word(i - 2) == "mod";
                let test = tokens[i].in_test;
                open.push((module, test));
                test_attribute = false;
            }
            "}" => drop(open.pop()),
            ";" => test_attribute = false,
            _ => {}
        }
    }
}

/// Every path of the file that starts at the crate root or climbs out of the module, resolved. `module`
/// is where the file stands: `["mxn", "sched"]`.
pub(crate) fn imports(tokens: &[Token], module: &[&str]) -> Vec<Import> {
    let mut found = Vec::new();
    let word = |k: usize| tokens.get(k).map_or("", |t| t.text.as_str());
    for i in 0..tokens.len() {
        let continues = i > 0 && word(i - 1) == "::";
        let visibility = i > 1 && word(i - 1) == "in" && word(i - 2) == "(";
        if continues || visibility || word(i + 1) != "::" {
            continue;
        }
        let (base, next) = match word(i) {
            "crate" => (Vec::new(), i + 2),
            "super" => {
                let mut ups = 1;
                while word(i + 2 * ups) == "super" && word(i + 2 * ups + 1) == "::" {
                    ups += 1;
                }
                // Modules inside the file are climbed first.
                let outside = ups.saturating_sub(tokens[i].mod_depth);
                let kept = module.len().saturating_sub(outside);
                (module[..kept].iter().map(|s| s.to_string()).collect(), i + 2 * ups)
            }
            _ => continue,
        };
        path_tree(tokens, next, &base, &mut found);
    }
    found
}

/// Reads a path or a `{group}` of them at `i`, below `base`; gives the index after it.
fn path_tree(tokens: &[Token], mut i: usize, base: &[String], found: &mut Vec<Import>) -> usize {
    let Some(first) = tokens.get(i) else { return i };
    let mut path = base.to_vec();
    loop {
        let word = |k: usize| tokens.get(k).map_or("", |t| t.text.as_str());
        if word(i) == "{" {
            i += 1;
            while !matches!(word(i), "}" | "") {
                i = path_tree(tokens, i, &path, found);
                while !matches!(word(i), "," | "}" | "") {
                    i += 1;
                }
                if word(i) == "," {
                    i += 1;
                }
            }
            return i + 1;
        }
        path.push(word(i).to_string());
        i += 1;
        if word(i) != "::" {
            found.push(Import { path, line: first.line, in_test: first.in_test });
            return i;
        }
        i += 1;
    }
}
