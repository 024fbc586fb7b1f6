//! What two tests read of documentation that rustdoc makes.

use std::process::Command;

/// Returns the output of `rustc` with these arguments.
pub(crate) fn rustc(arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new("rustc").args(arguments).output().map_err(|error| format!("no rustc: {error}"))?;
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// Returns the `95` of `rustc 1.95.0 (..)`.
pub(crate) fn minor(version: &str) -> Option<u32> {
    version.split_whitespace().nth(1)?.split('.').nth(1)?.parse().ok()
}

/// Returns the minor version of the compiler that is used here, if it is a stable one.
pub(crate) fn stable_minor() -> Result<u32, String> {
    let version = rustc(&["--version"])?;
    if version.contains("nightly") || version.contains("beta") || version.contains("dev") {
        return Err(format!("what is stable is read from stable releases; this is {}", version.trim()));
    }
    minor(&version).ok_or_else(|| format!("no version in {version:?}"))
}

/// Returns the text without tags.
pub(crate) fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        rest = after.split_once('>').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
        .replace("&#39;", "'")
        .replace("&quot;", "\"")
}
