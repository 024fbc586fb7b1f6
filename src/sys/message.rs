//! Texts that are made without an allocation, and messages on standard error for contexts that may take no
//! lock: by `write(2)`.

use std::ffi::CStr;
use std::fmt::{self, Write};

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

/// A text of less than `N` bytes.
pub(super) struct Text<const N: usize> {
    /// Zero from `len` on.
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// Returns `text`, cut if it is longer.
    pub(super) fn of(text: fmt::Arguments<'_>) -> Self {
        let mut made = Self { bytes: [0; N], len: 0 };
        let _ = made.write_fmt(text);
        made
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns it as the C library wants it, up to the first zero.
    pub(super) fn c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = N - 1 - self.len;
        let part = &s.as_bytes()[..s.len().min(room)];
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut() {
        let mut text = Text::<512>::of(format_args!(""));
        for _ in 0..100 {
            text.write_str("0123456789").unwrap();
        }
        assert_eq!((text.len, text.c_str().count_bytes()), (511, 511));
    }
}
