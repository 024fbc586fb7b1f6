//! The public items are those of `docs/api.txt`: a change of the API is a change of that file, which a reader
//! of the change sees.
//!
//! The list is read from the crate's documentation with all features. Each line has the name of an item and
//! its declaration. `SELVEDGE_UPDATE_API=1 cargo test --test api` writes the file anew.
//!
//! Only a few marks of rustdoc's HTML are read (`id`, `class`). Another version of rustdoc may write a
//! declaration in another way, and know more auto traits. So only the names of items are compared with a list
//! that another version has made.

#[allow(dead_code, reason = "shared")]
#[path = "support/rustdoc.rs"]
mod rustdoc;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustdoc::{minor, plain, stable_minor};

/// Traits that stable programs cannot name.
const NOT_FOR_USERS: [&str; 3] = ["Freeze", "UnsafeUnpin", "StructuralPartialEq"];

/// Makes the documentation in a folder of its own. Returns that of the crate.
fn documentation() -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = root.join("target/api");
    // An earlier build may have left pages of items that are gone.
    let _ = fs::remove_dir_all(target.join("doc"));
    let made = Command::new(env!("CARGO"))
        .args(["doc", "--no-deps", "--lib", "--all-features", "--quiet", "--target-dir"])
        .arg(&target)
        .current_dir(root)
        .env_remove("RUSTDOCFLAGS")
        .output()
        .expect("cargo starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    target.join("doc/selvedge")
}

/// Returns the text of a declaration in one line.
fn declaration(html: &str) -> String {
    // Long declarations are folded, under a line that says so.
    let mut unfolded = String::new();
    for part in html.split("<summary") {
        unfolded.push_str(part.split_once("</summary>").map_or(part, |(_, declared)| declared));
    }
    plain(&unfolded).replace("]pub", "] pub").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns what stands between the first `begin` and the next `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(begin)?;
    after.split(end).next()
}

fn read_folder(folder: &Path, module: &str, items: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the documentation") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            // Folders without a page have the former addresses of items.
            if let Ok(page) = fs::read_to_string(path.join("index.html")) {
                items.insert(format!("{module}{file} | mod"));
                if is_own(&page) {
                    read_folder(&path, &format!("{module}{file}::"), items);
                }
            }
            continue;
        }
        let parts: Vec<&str> = file.split('.').collect();
        if let [kind, name, "html"] = parts[..]
            && kind != "index"
        {
            let page = fs::read_to_string(&path).expect("a page");
            read_page(&page, kind, &format!("{module}{name}"), items);
        }
    }
}

/// Returns `false` for the page of an item of std: its parts depend on the compiler.
fn is_own(page: &str) -> bool {
    between(page, "<a class=\"src\" href=\"", "\"").is_none_or(|source| !source.starts_with("https:"))
}

fn read_page(page: &str, kind: &str, item: &str, items: &mut BTreeSet<String>) {
    // A page without a declaration leads to the item's present address.
    let Some(declared) = between(page, "class=\"rust item-decl\">", "</pre>") else { return };
    let declared = if is_own(page) { declaration(declared) } else { String::from("of std") };
    items.insert(format!("{item} | {declared}"));
    if !is_own(page) || !matches!(kind, "struct" | "enum" | "union") {
        return;
    }
    let own = page.split("id=\"blanket-implementations\"").next().unwrap_or_default();
    let mut owner = String::new();
    for part in own.split("<section id=\"").skip(1) {
        let (id, rest) = part.split_once('"').expect("the end of an id");
        let class = between(rest, "class=\"", "\"").unwrap_or_default();
        let header = between(rest, "class=\"code-header\">", "</section>").unwrap_or_default();
        if class == "impl" {
            owner = declaration(header.split("</h3>").next().unwrap_or_default());
            let of = trait_of(&owner);
            if id.contains("-for-") && !NOT_FOR_USERS.iter().any(|name| of.ends_with(name)) {
                items.insert(format!("{item} {of} | {owner}"));
            }
        } else if class == "method"
            && let Some(name) = id.strip_prefix("method.")
        {
            // `set-1` is the second method of that name.
            let name = name.split('-').next().unwrap_or_default();
            let text = declaration(header.split("</h4>").next().unwrap_or_default());
            items.insert(format!("{item}::{name} | {owner} {text}"));
        }
    }
}

/// Returns `impl Send` or `impl !Send` for `impl<T> Send for Mutex<T>`.
fn trait_of(header: &str) -> String {
    let mut depth = 0;
    let mut of = String::from("impl ");
    for (at, letter) in header.char_indices().skip("impl".len()) {
        match letter {
            '<' => depth += 1,
            '>' if !header[..at].ends_with('-') => depth -= 1,
            ' ' if header[at..].starts_with(" for ") && depth == 0 => break,
            ' ' => {}
            _ if depth == 0 => of.push(letter),
            _ => {}
        }
    }
    of
}

#[test]
fn the_public_items_are_those_of_the_list() {
    let minor_here = match stable_minor() {
        Ok(minor) => minor,
        Err(why) => return println!("skipped: the list of public items: {why}"),
    };
    let mut items = BTreeSet::new();
    read_folder(&documentation(), "", &mut items);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/api.txt");
    if std::env::var_os("SELVEDGE_UPDATE_API").is_some() {
        let version = rustdoc::rustc(&["--version"]).expect("a compiler");
        let lines: String = items.iter().map(|item| format!("{item}\n")).collect();
        fs::write(&path, format!("# {}\n{lines}", version.trim())).expect("writable");
    }
    let kept = fs::read_to_string(&path).expect("docs/api.txt");
    let (version, lines) = kept.split_once('\n').expect("lines");
    let same = minor(version.trim_start_matches("# ")) == Some(minor_here);
    let comparable = |line: &str| {
        let name = line.split(" | ").next().unwrap_or_default();
        if same { Some(line.to_owned()) } else { (!name.contains(" impl ")).then(|| name.to_owned()) }
    };
    let kept: BTreeSet<String> = lines.lines().filter_map(comparable).collect();
    let items: BTreeSet<String> = items.iter().filter_map(|item| comparable(item)).collect();
    let (new, gone): (Vec<_>, Vec<_>) =
        (items.difference(&kept).collect(), kept.difference(&items).collect());
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:#?}\ngone: {gone:#?}\nIf that is as it should be: SELVEDGE_UPDATE_API=1 cargo test --test api"
    );
}

#[test]
fn headers_of_impls_are_read() {
    assert_eq!(trait_of("impl<T: Fn() -> u8> Send for Mutex<T>"), "impl Send");
    assert_eq!(trait_of("impl<'a, T> !Send for Guard<'a, T>"), "impl !Send");
    assert_eq!(trait_of("impl<T> From<T> for Mutex<T>"), "impl From");
}
