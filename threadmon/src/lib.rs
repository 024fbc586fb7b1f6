//! What `threadmon` does, apart from its command line: so that tests can call it.

pub mod explain;

/// Returns a text that a terminal shows as it is: what would control the terminal is replaced.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect()
}
