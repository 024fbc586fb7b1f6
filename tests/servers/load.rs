//! Public programs load the HTTP server, and no request fails.

use std::process::Command;

use crate::on_both;
use crate::target::{PAGE, Site};

/// Runs a program of another package. Returns what it said, or `None` if it is not here.
fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(name).args(arguments).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {said}{complaint}");
            Some(said)
        }
        Err(error) => {
            println!("skipped: {name}: {error}");
            None
        }
    }
}

/// Returns the number behind a name that stands at the start of a line.
fn number(said: &str, name: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[test]
fn ab_finds_no_failed_request() {
    let site = Site::new();
    on_both("ab", |runtime| {
        let server = site.serve(&["-r", runtime]);
        let url = format!("http://{}/", server.address);
        for kept in [true, false] {
            let keep = if kept { &["-k"][..] } else { &[] };
            let arguments = [&["-q", "-n", "5000", "-c", "100"], keep, &[&url]].concat();
            let Some(said) = tool("ab", &arguments) else { return };
            assert_eq!(number(&said, "Complete requests:"), Some(5_000), "{said}");
            assert_eq!(number(&said, "Failed requests:"), Some(0), "{said}");
            assert_eq!(number(&said, "Non-2xx responses:"), None, "{said}");
            assert_eq!(number(&said, "HTML transferred:"), Some(5_000 * PAGE.len() as u64), "{said}");
            assert_eq!(number(&said, "Keep-Alive requests:"), kept.then_some(5_000), "{said}");
        }
    });
}

#[test]
fn wrk_finds_no_failed_request() {
    let site = Site::new();
    on_both("wrk", |runtime| {
        let server = site.serve(&["-r", runtime]);
        let url = format!("http://{}/", server.address);
        let Some(said) = tool("wrk", &["-t", "1", "-c", "64", "-d", "1s", &url]) else { return };
        assert!(said.contains("requests in "), "{said}");
        assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
    });
}
