//! Messages on standard error for contexts that may take no lock: of bounded length, by `write(2)`.

use std::fmt::{self, Write};

/// Prints a message. Async-signal-safe, if the formatting is. What is longer than 512 bytes is cut off.
pub(crate) fn to_standard_error(message: fmt::Arguments<'_>) {
    let mut text = Text { bytes: [0; 512], len: 0 };
    let _ = text.write_fmt(message);
    let mut rest = &text.bytes[..text.len];
    while !rest.is_empty() {
        // SAFETY: `rest` is readable for its length.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len() as _) };
        let Some(written) = usize::try_from(written).ok().filter(|&written| written > 0) else { break };
        rest = &rest[written..];
    }
}

/// A text of bounded length.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.bytes.len() - self.len;
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
        let mut text = Text { bytes: [0; 512], len: 0 };
        for _ in 0..100 {
            text.write_str("0123456789").unwrap();
        }
        assert_eq!(text.len, 512);
    }
}
