//! The command line of `threadmon`.

fn main() {}
