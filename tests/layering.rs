//! The architecture as a test: which module may import which, where assembly, libc and `cfg(loom)` may
//! stand, how long a file may be. The rules are read from `ARCHITECTURE.md`; the second half of this file
//! plants violations and checks that each is found.

#[path = "layering/circles.rs"]
mod circles;
#[path = "layering/policy.rs"]
mod policy;
#[path = "layering/source.rs"]
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use policy::Policy;
use source::{Token, imports, tokens};

const MAX_LINES: usize = 500;
/// The most files that may name each other in a circle.
const MAX_CIRCLE: usize = 6;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn policy() -> Policy {
    let file = root().join("ARCHITECTURE.md");
    Policy::read(&fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())))
}

/// All `.rs` files below `folder`, sorted, as (path below `folder`, text).
fn rust_files(folder: &Path) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for path in entries.map(|entry| entry.expect("a readable folder").path()) {
            if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(folder, &mut paths);
    paths.sort();
    let name = |path: &Path| path.strip_prefix(folder).expect("below").to_string_lossy().replace('\\', "/");
    paths.iter().map(|path| (name(path), fs::read_to_string(path).expect("UTF-8"))).collect()
}

/// `mxn/sched/mod.rs` stands at module `mxn/sched`; `mxn/tls.rs` at `mxn/tls`; `lib.rs` at `lib`.
fn place(file: &str) -> &str {
    let place = file.trim_end_matches(".rs");
    place.strip_suffix("/mod").unwrap_or(place)
}

/// Returns the path of a file's module, from the crate's root.
fn module(file: &str) -> Vec<&str> {
    if place(file) == "lib" { Vec::new() } else { place(file).split('/').collect() }
}

fn is_test_file(file: &str) -> bool {
    let test = |part: &str| part == "tests" || part.starts_with("loom_") || part.ends_with("_tests");
    place(file).split('/').any(test)
}

/// Everything that is wrong with one file of `src`.
fn violations(policy: &Policy, file: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.trim().is_empty() {
        return wrong;
    }
    let place = place(file);
    let top = place.split('/').next().unwrap_or_default();
    let all = tokens(text);

    let lines = text.lines().count();
    if lines > MAX_LINES {
        wrong.push(format!("{file}: {lines} lines; a file has one idea and at most {MAX_LINES}"));
    }
    if !text.starts_with("//!") && !is_test_file(file) {
        wrong.push(format!("{file}:1: no header (`//!`: the problem, what was rejected, the protocol)"));
    }
    for word in ["TODO", "FIXME", "XXX"] {
        if let Some(n) = text.lines().position(|line| line.contains(word)) {
            wrong.push(format!("{file}:{}: {word}: finish it, or say in the docs what is not there", n + 1));
        }
    }

    for import in imports(&all, &module(file)) {
        if import.in_test || is_test_file(file) || import.path.is_empty() {
            continue;
        }
        if let Err(why) = policy.allows(place, &import.path) {
            wrong.push(format!("{file}:{}: {why}", import.line));
        }
    }

    let is = |i: usize, texts: &[&str]| {
        texts.iter().enumerate().all(|(k, text)| all.get(i + k).is_some_and(|token| token.text == *text))
    };
    for (i, Token { text: word, line, in_test, .. }) in all.iter().enumerate() {
        let at = |why: &str| format!("{file}:{line}: {why}");
        let in_test = *in_test || is_test_file(file);
        if top != "arch" && matches!(word.as_str(), "asm" | "global_asm" | "naked_asm") && is(i + 1, &["!"]) {
            wrong.push(at("assembly outside arch"));
        }
        if !matches!(top, "sys" | "interpose" | "pthreads")
            && word == "libc"
            && (is(i + 1, &["::"]) || (i > 0 && is(i - 1, &["use"])))
            && !in_test
        {
            wrong.push(at("libc outside sys"));
        }
        if top != "shim" && top != "lib" && word == "loom" {
            let test_only =
                i >= 8 && is(i - 8, &["#", "[", "cfg", "(", "all", "(", "test", ",", "loom", ")", ")", "]"]);
            let own_api = is(i + 1, &["::"]) && in_test;
            if !test_only && !own_api {
                wrong.push(at("loom outside shim; a test module may say #[cfg(all(test, loom))]"));
            }
        }
        if word == "std" && !in_test && is(i + 1, &["::", "sync", "::"]) {
            let excused = |rule| policy.excuses(file, rule);
            if is(i + 4, &["atomic"]) && policy.is_modelled(place) && !excused("std-atomic") {
                wrong.push(at("an atomic of std in a model-checked file: take it from crate::shim"));
            }
            let mut names =
                all[i + 4..].iter().take_while(|token| !matches!(token.text.as_str(), ";" | "}" | "(" | "<"));
            let lock = names.any(|token| matches!(token.text.as_str(), "Mutex" | "RwLock" | "Condvar"));
            if lock && matches!(top, "mxn" | "fiber") && !excused("std-lock") {
                wrong.push(at("a lock of std in mxn or fiber: the lock there is park::queue_lock"));
            }
        }
        if matches!(word.as_str(), "todo" | "unimplemented") && is(i + 1, &["!"]) {
            wrong.push(at("code that is not there"));
        }
    }
    wrong
}

#[test]
fn every_file_keeps_to_its_layer() {
    let policy = policy();
    let files = rust_files(&root().join("src"));
    assert!(files.iter().any(|(file, _)| file == "lib.rs"), "no sources found");
    let wrong: Vec<String> = files.iter().flat_map(|(file, text)| violations(&policy, file, text)).collect();
    assert!(
        wrong.is_empty(),
        "\n{}\n\nThe rules and their reasons stand in ARCHITECTURE.md (\"Which module may import which\"). Move the code to the layer \
         that owns the matter; change a rule only together with the design.\n",
        wrong.join("\n")
    );
}

#[test]
fn circles_of_files_are_small() {
    for circle in circles::circles(&rust_files(&root().join("src"))) {
        assert!(
            circle.len() <= MAX_CIRCLE,
            "{} files in a circle, at most {MAX_CIRCLE}: {circle:?}",
            circle.len()
        );
    }
}

#[test]
fn planted_circles_are_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "mod leaf; use crate::b::B; use self::leaf::Leaf; pub(in crate::c) fn f() {}"),
        ("a/leaf.rs", "use super::A;"),
        ("b.rs", "fn f() -> crate::c::C {}"),
        ("c.rs", "use super::a::{A, leaf::Leaf};"),
        ("d.rs", "use crate::a::A; #[cfg(test)] mod tests { use crate::e::E; }"),
        ("e.rs", "use crate::d::D;"),
        ("f.rs", "mod child; fn f() { child::g(); }"),
        ("f/child.rs", "fn g() { super::f(); }"),
    ]
    .map(|(file, text)| (file.to_string(), text.to_string()));
    let found: Vec<Vec<String>> =
        circles::circles(&files).into_iter().map(|circle| circle.into_iter().collect()).collect();
    assert_eq!(found, [vec!["a", "a/leaf", "b", "c"], vec!["f", "f/child"]]);
}

#[test]
fn tests_benches_and_examples_are_short_too() {
    for folder in ["tests", "benches", "examples"] {
        for (file, text) in rust_files(&root().join(folder)) {
            let lines = text.lines().count();
            assert!(lines <= MAX_LINES, "{folder}/{file}: {lines} lines, at most {MAX_LINES}: one idea each");
        }
    }
}

#[test]
fn no_excuse_is_stale() {
    let mut policy = policy();
    for (file, rule) in std::mem::take(&mut policy.excused) {
        let text = fs::read_to_string(root().join("src").join(&file)).unwrap_or_default();
        let wrong = violations(&policy, &file, &text);
        assert!(!wrong.is_empty(), "ARCHITECTURE.md excuses {file} from {rule}, which it does not break");
    }
}

/// Returns what the rows allow and no file needs.
fn needless(policy: &Policy, files: &[(String, String)]) -> Vec<String> {
    let named = |(file, text): &(String, String)| imports(&tokens(text), &module(file));
    let of_code = files.iter().filter(|(file, _)| !is_test_file(file));
    let all: Vec<_> = of_code
        .flat_map(|file| named(file).into_iter().map(|import| (place(&file.0), import)))
        .filter(|(_, import)| !import.in_test)
        .map(|(place, import)| (place, import.path))
        .collect();
    policy.unused(&all)
}

#[test]
fn no_allowance_is_stale() {
    let stale = needless(&policy(), &rust_files(&root().join("src")));
    assert_eq!(stale, Vec::<String>::new(), "ARCHITECTURE.md allows imports that no file has");
}

#[test]
fn planted_stale_allowances_are_found() {
    let files = [
        ("park/kernel_park.rs", "#[cfg(test)] mod tests { use crate::shim::x; }"),
        ("park/other.rs", "use crate::sys::futex::wait;"),
        ("mxn/lwp.rs", "use crate::{park::Permit, mxn::sched::inject::Inject};"),
    ];
    let files = files.map(|(file, text)| (file.to_string(), text.to_string()));
    let found = needless(&Policy::read(RULES), &files);
    assert_eq!(found, ["park shim", "park sys::futex", "mxn sys"]);
}

/// Returns the names in the blocks that are no file or folder of `files`, and no item in one of them.
fn names_of_nothing(policy: &Policy, files: &[(String, String)]) -> Vec<String> {
    let is_file = |name: &str, file: &str| place(file) == name || file.starts_with(&format!("{name}/"));
    let exists = |name: &str| {
        let name = name.trim_end_matches(".rs");
        let item = |(parent, item): (&str, &str)| {
            files.iter().any(|(file, text)| {
                place(file) == parent && tokens(text).iter().any(|token| token.text == item)
            })
        };
        files.iter().any(|(file, _)| is_file(name, file)) || name.rsplit_once('/').is_some_and(item)
    };
    policy.names().into_iter().filter(|name| !exists(name)).collect()
}

#[test]
fn every_name_in_the_rules_is_there() {
    let missing = names_of_nothing(&policy(), &rust_files(&root().join("src")));
    assert_eq!(missing, Vec::<String>::new(), "ARCHITECTURE.md names what is not there");
}

/// Returns the paths of a text between backticks that end in `.rs` or `/` and are below neither `src` nor the
/// root. Braces stand for each of their names; a path with a star is none.
fn paths_of_nothing(text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let code = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
    let named = code.filter(|name| {
        let is_path = name.ends_with(".rs") || name.ends_with('/');
        is_path && !name.contains(['*', ' ', '<']) && (name.contains('/') || name.contains('.'))
    });
    let each = named.flat_map(|name| match (name.find('{'), name.find('}')) {
        (Some(open), Some(close)) => name[open + 1..close]
            .split(',')
            .map(|middle| format!("{}{middle}{}", &name[..open], &name[close + 1..]))
            .collect(),
        _ => vec![name.to_string()],
    });
    each.filter(|path| !exists(path)).collect()
}

#[test]
fn every_path_in_the_map_is_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    // A name without a folder may be that of any file, if the text before it says which.
    let files = rust_files(&root().join("src"));
    let exists = |path: &str| {
        let ends = |(file, _): &(String, String)| *file == path || file.ends_with(&format!("/{path}"));
        root().join(path).exists() || root().join("src").join(path).exists() || files.iter().any(ends)
    };
    assert_eq!(
        paths_of_nothing(&text, exists),
        Vec::<String>::new(),
        "ARCHITECTURE.md names what is not there"
    );
}

#[test]
fn planted_paths_of_nothing_are_found() {
    let text =
        "In `a/b.rs`, `a/{c,d}.rs` and `e/`, by `F::g`; `h`, `i/*.rs`.\n```text\n`x.rs`\n```\nSee `j.rs`.";
    let found = paths_of_nothing(text, |path| path == "a/c.rs" || path == "e/");
    assert_eq!(found, ["a/b.rs", "a/d.rs", "j.rs"]);
}

#[test]
fn planted_names_of_nothing_are_found() {
    let files = [
        "shim.rs",
        "sys/mod.rs",
        "park/id.rs",
        "mxn/mod.rs",
        "mxn/timer.rs",
        "mxn/kernel_threads.rs",
        "lib.rs",
    ];
    let files = files.map(|file| (file.to_string(), String::from("pub(crate) fn futex() {}")));
    let found = names_of_nothing(&Policy::read(RULES), &files);
    assert_eq!(found, ["mxn/lwp", "mxn/sched", "mxn/sched/inject", "park/kernel_park", "sync"]);
}

/// The rules of the tests below: three layers and a rule inside one of them.
const RULES: &str = "\
```layers
shim
sys
sync
park     shim sys::futex@kernel_park
mxn      park sys
mxn/lwp  !mxn::sched mxn::sched::inject
lib      *
```
```models
park
mxn/timer.rs
```
```excused
park/id.rs std-atomic a static
mxn/kernel_threads.rs std-lock not the dispatcher's
```
";

/// Plants `code` in `file` and gives what is found, without the file's name.
fn planted(file: &str, code: &str) -> Vec<String> {
    let found = violations(&Policy::read(RULES), file, &format!("//! Header.\n{code}\n"));
    found
        .into_iter()
        .map(|line| line.split_once(": ").map_or(line.clone(), |(_, why)| why.to_string()))
        .collect()
}

#[track_caller]
fn assert_found(file: &str, code: &str, why: &str) {
    let found = planted(file, code);
    assert!(found.len() == 1 && found[0].contains(why), "{file}: {code:?} gave {found:?}, not {why:?}");
}

#[track_caller]
fn assert_clean(file: &str, code: &str) {
    assert_eq!(planted(file, code), Vec::<String>::new(), "{file}: {code:?}");
}

#[test]
fn planted_imports_are_found() {
    assert_found("park/mod.rs", "use crate::mxn::Mxn;", "park may not import mxn::Mxn");
    assert_found(
        "park/mod.rs",
        "use crate::{shim::x, mxn::{a::b}, shim::y};",
        "park may not import mxn::a::b",
    );
    assert_found("park/a.rs", "fn f() { super::super::mxn::go() }", "park may not import mxn::go");
    assert_found(
        "park/a/b.rs",
        "mod inner { use super::super::super::super::mxn; }",
        "park may not import mxn",
    );
    assert_found("park/a.rs", "use crate::sys::futex;", "park may not import sys::futex");
    assert_found("park/kernel_park.rs", "use crate::sys::mmap;", "park may not import sys::mmap");
    assert_found("mxn/lwp/pool.rs", "use crate::mxn::sched::Dispatcher;", "mxn/lwp must not know mxn::sched");
    assert_clean("mxn/lwp/pool.rs", "use crate::mxn::sched::inject::Inject;");
    assert_found("mxn/lwp/pool.rs", "use super::super::sched;", "mxn/lwp must not know mxn::sched");
    assert_found("mxn/tls.rs", "use crate::Runtime;", "mxn may not import Runtime");
    assert_found("stray.rs", "use crate::park::permit;", "stray has no row");
}

#[test]
fn allowed_imports_pass() {
    assert_clean("park/kernel_park.rs", "use crate::sys::futex::wait;");
    assert_clean("park/wait_queue.rs", "use super::permit::Permit; use crate::park::reason;");
    assert_clean("park/a.rs", "pub(in crate::mxn) fn f() {}");
    assert_clean(
        "park/a.rs",
        "// crate::mxn::x\nconst S: &str = \"crate::mxn::x\"; /* crate::mxn */ const R: &str = r#\"\"crate::mxn::x\"#;",
    );
    assert_clean(
        "park/a.rs",
        "#[cfg(test)] mod tests { use super::*; use crate::mxn::Mxn; fn f() { crate::mxn::g() } }",
    );
    assert_clean("mxn/sched/tests/steal.rs", "use crate::sync::Mutex;");
    assert_clean(
        "mxn/sched/mod.rs",
        "use crate::mxn::lwp; fn f<'a>(c: char) -> bool { c == '\"' } use super::lwp::x;",
    );
    assert_clean("lib.rs", "pub use crate::mxn::Mxn;");
    // The test module has ended.
    assert_found(
        "park/a.rs",
        "#[cfg(test)] mod tests { fn f() {} } use crate::mxn::Mxn;",
        "park may not import",
    );
    assert_found("park/a.rs", "#[cfg(test)] mod tests; use crate::mxn::Mxn;", "park may not import");
}

#[test]
fn planted_machine_code_is_found() {
    assert_found(
        "mxn/context.rs",
        "fn f() { unsafe { core::arch::asm!(\"nop\") } }",
        "assembly outside arch",
    );
    assert_found("mxn/context.rs", "std::arch::global_asm!(\"\");", "assembly outside arch");
    assert_found("park/a.rs", "fn f() { unsafe { libc::getpid() }; }", "libc outside sys");
    assert_found("park/a.rs", "use libc;", "libc outside sys");
    assert_clean("sys/futex.rs", "use libc::syscall;");
}

#[test]
fn planted_loom_and_atomics_are_found() {
    for code in [
        "#[cfg(loom)] fn f() {}",
        "#[cfg(not(loom))] fn f() {}",
        "fn f() -> bool { cfg!(loom) }",
        "use loom::sync::Arc;",
    ] {
        assert_found("park/a.rs", code, "loom outside shim");
    }
    assert_clean("park/a.rs", "#[cfg(all(test, loom))] mod tests { use loom::thread; }");
    assert_found("park/a.rs", "use std::sync::atomic::AtomicU32;", "an atomic of std");
    assert_found("mxn/timer.rs", "static N: std::sync::atomic::AtomicU8 = x;", "an atomic of std");
    assert_clean("park/id.rs", "use std::sync::atomic::AtomicU32;");
    assert_clean("mxn/tls.rs", "use std::sync::atomic::AtomicU32; use std::sync::Arc;");
    assert_found("mxn/tls.rs", "use std::sync::{Arc, Mutex};", "a lock of std");
    assert_found("mxn/tls.rs", "fn f(m: &std::sync::Mutex<u8>) {}", "a lock of std");
    assert_clean("mxn/kernel_threads.rs", "use std::sync::{Arc, Mutex};");
    assert_found("park/id.rs", "fn f() { libc::x() }", "libc outside sys");
}

#[test]
fn planted_length_header_and_gaps_are_found() {
    assert_found("park/a.rs", &"\n".repeat(MAX_LINES), "a file has one idea");
    let bare = violations(&Policy::read(RULES), "park/a.rs", "fn f() {}\n");
    assert!(bare.len() == 1 && bare[0].contains("no header"), "{bare:?}");
    assert_found("park/a.rs", "// FIXME later", "FIXME");
    assert_found("park/a.rs", "fn f() { unimplemented!() }", "code that is not there");
}

#[test]
#[should_panic(expected = "does not stand above it")]
fn a_cycle_in_the_rules_is_refused() {
    Policy::read("```layers\npark mxn\nmxn\n```\n```models\n```\n```excused\n```\n");
}
