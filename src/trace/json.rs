//! Strings of JSON: what both writers of JSON, of recordings and of dumps, have in common.

use std::fmt;

/// A string of JSON.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                char if u32::from(char) < 0x20 => write!(f, "\\u{:04x}", u32::from(char))?,
                char => write!(f, "{char}")?,
            }
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_a_string_of_json() {
        let name = "a \"quoted\" \\ name\n\u{1}é";
        let read: String = serde_json::from_str(&Text(name).to_string()).unwrap();
        assert_eq!(read, name);
    }
}
