//! Messages on standard error for contexts that may take no lock: by `write(2)`.

use std::fmt;

use super::text::Text;

/// Prints a message. Async-signal-safe, if the formatting is. What is longer than 511 bytes is cut off.
pub(crate) fn to_standard_error(message: fmt::Arguments<'_>) {
    all_to_standard_error(Text::<512>::of(message).bytes());
}

/// Prints all of this. Async-signal-safe.
pub(crate) fn all_to_standard_error(text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        // SAFETY: `rest` is readable for its length.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len() as _) };
        let Some(written) = usize::try_from(written).ok().filter(|&written| written > 0) else { break };
        rest = &rest[written..];
    }
}
