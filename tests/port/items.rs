//! The stable items of std that a port meets. They are read from the toolchain's own documentation, and kept
//! in `std-items.txt`.
//!
//! The documentation is HTML that rustdoc makes. Unlike the sources, it says of each item whether it is
//! stable, and lists auto traits and the items that macros and `derive` make. Only a few marks are read here
//! (`id`, `class`, links). If rustdoc changes them, the comparison with the kept list fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::rustdoc::{minor, plain, rustc, stable_minor};

/// The listed modules, as folders of the documentation.
const MODULES: [&str; 3] = ["thread", "sync", "sync/mpsc"];

/// Returns the kept list.
pub(crate) fn kept() -> BTreeSet<String> {
    include_str!("std-items.txt").lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Returns the minor version of Rust from which the kept list was read.
pub(crate) fn kept_of() -> u32 {
    let first = include_str!("std-items.txt").lines().next().unwrap_or_default();
    minor(first.trim_start_matches("# ")).expect("the list begins with a version")
}

/// Returns the list of the toolchain that runs this test and its minor version, or why there is no list.
pub(crate) fn of_toolchain() -> Result<(u32, BTreeSet<String>), String> {
    let minor = stable_minor()?;
    let root = PathBuf::from(rustc(&["--print", "sysroot"])?.trim()).join("share/doc/rust/html/std");
    if !root.join("index.html").is_file() {
        return Err(format!(
            "no documentation of std in {} (rustup component add rust-docs)",
            root.display()
        ));
    }
    let mut items = BTreeSet::new();
    for module in MODULES {
        read_module(&root.join(module), &module.replace('/', "::"), &mut items);
    }
    Ok((minor, items))
}

fn read_module(folder: &Path, module: &str, items: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the documentation") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        if let Ok(page) = fs::read_to_string(path.join("index.html")) {
            let (_, page) = page.split_once("<h1>").expect("a heading");
            if is_stable(page.split("<h2 id=").next().unwrap_or_default()) {
                items.insert(format!("{module} mod {file}"));
            }
            continue;
        }
        let parts: Vec<&str> = file.split('.').collect();
        let [
            kind @ ("struct" | "enum" | "union" | "fn" | "type" | "constant" | "static" | "trait" | "macro"),
            name,
            "html",
        ] = parts[..]
        else {
            continue;
        };
        let page = fs::read_to_string(&path).expect("a page");
        read_page(&page, folder, module, kind, name, items);
    }
}

/// Returns `true` if no part of a page's text says that it is unstable.
fn is_stable(text: &str) -> bool {
    !text.contains("stab unstable")
}

fn read_page(page: &str, folder: &Path, module: &str, kind: &str, name: &str, items: &mut BTreeSet<String>) {
    let (_, declared) = page.split_once("class=\"rust item-decl\"").expect("a declaration");
    if !is_stable(declared.split("<details class=\"toggle top-doc\"").next().unwrap_or_default()) {
        return;
    }
    items.insert(format!("{module} {kind} {name}"));
    if kind == "type" {
        return;
    }
    let own = page.split("id=\"blanket-implementations\"").next().unwrap_or_default();
    // Methods of the type that it derefs to are listed with that type.
    let (before, after) = own.split_once("id=\"deref-methods").unwrap_or((own, ""));
    let after = after.split_once("id=\"trait-implementations\"").map_or("", |(_, after)| after);
    for text in [before, after] {
        for part in text.split("<section id=\"").skip(1) {
            // The text that belongs to this part only.
            let head = part.split("<div class=\"docblock\">").next().unwrap_or_default();
            let (id, rest) = part.split_once('"').expect("the end of an id");
            let class =
                rest.split_once("class=\"").map_or("", |(_, class)| class.split('"').next().unwrap_or(""));
            if !is_stable(head) || head.contains("<strong>Windows</strong>") || class.contains("trait-impl") {
                continue;
            }
            if let Some(member) =
                ["method.", "tymethod.", "variant."].iter().find_map(|mark| id.strip_prefix(mark))
            {
                // `set-1` is the second method of that name. A field of a variant is not an item.
                if let Some(member) = member.split(['-', '.']).next() {
                    items.insert(format!("{module} {name}::{member}"));
                }
            } else if class == "impl" && id.contains("-for-") {
                read_impl(head, folder, module, name, items);
            }
        }
    }
}

/// Lists `impl<..> Trait<..> for Type<..> where ..` if the trait is stable.
fn read_impl(head: &str, folder: &Path, module: &str, page_of: &str, items: &mut BTreeSet<String>) {
    let (_, header) = head.split_once("class=\"code-header\">").expect("a header");
    let header = header.split("</h3>").next().and_then(|header| header.split("<div class=\"where\">").next());
    let header = header.unwrap_or_default();
    let link = |text: &str| {
        let (_, link) = text.split_once("<a class=\"trait\" href=\"")?;
        Some(link.split('"').next().unwrap_or_default().to_owned())
    };
    let plain = plain(header);
    let plain = skip_generics(plain.strip_prefix("impl").expect("an impl"));
    let (of, type_name) = plain.split_once(" for ").expect("a trait and a type");
    // The first linked trait may be a bound of a parameter.
    let name = head_name(of);
    let target = header.match_indices("<a class=\"trait\"").find(|(at, _)| {
        header[*at..].split_once('>').is_some_and(|(_, text)| text.starts_with(&format!("{name}<")))
    });
    if let Some(target) = target.and_then(|(at, _)| link(&header[at..]))
        && let Ok(page) = fs::read_to_string(folder.join(target))
        && let Some((_, declared)) = page.split_once("class=\"rust item-decl\"")
        && !is_stable(declared.split("<details class=\"toggle top-doc\"").next().unwrap_or_default())
    {
        return;
    }
    let not = if of.starts_with('!') { "!" } else { "" };
    // `From<Arc<W>> for Waker` stands on the page of `Arc`.
    let elsewhere = if head_name(type_name) == page_of { String::new() } else { format!(" ({page_of})") };
    items.insert(format!("{module} impl {not}{name} for {}{elsewhere}", head_name(type_name)));
}

/// Returns the text after a leading `<..>`.
fn skip_generics(text: &str) -> &str {
    let mut depth = 0;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text[at..].trim_start_matches('>').trim_start();
        }
        before = letter;
    }
    ""
}

/// Returns `Receiver` for `&'a Receiver<T>`.
fn head_name(text: &str) -> &str {
    let text = text.trim_start_matches(['!', '&']).trim_start();
    let text = text.strip_prefix('\'').map_or(text, |text| text.split_once(' ').map_or("", |(_, text)| text));
    text.trim_start_matches("mut ")
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .next()
        .unwrap_or("")
}
