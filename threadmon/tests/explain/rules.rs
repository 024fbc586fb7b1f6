//! Recordings that are made up, and what the rules say of them.
