//! env_logger: each thread formats into a thread-local buffer, borrowed while the line is made.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, Once};

use harness::{HOPS, Member, crew};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Collect;

impl Write for Collect {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.lock().expect("no panic while writing").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Hops while it is formatted, in the middle of the line, with the logger's buffer borrowed.
struct Hopping<'a>(&'a Member<'a>);

impl fmt::Display for Hopping<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..3 {
            write!(f, "<{}>", self.0.index())?;
            self.0.hop();
        }
        Ok(())
    }
}

fn lines_are_whole() -> usize {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        env_logger::Builder::new()
            .filter_level(log::LevelFilter::Info)
            .target(env_logger::Target::Pipe(Box::new(Collect)))
            .init();
    });
    let migrations = crew(16, |member| {
        for _ in 0..HOPS / 8 {
            log::info!("from {} {} end", member.index(), Hopping(member));
        }
    });
    log::logger().flush();
    let lines = LINES.lock().expect("no panic while writing").clone();
    let text = String::from_utf8(lines).expect("whole lines");
    let mut count = 0;
    for line in text.lines() {
        let (_, rest) = line.split_once("from ").unwrap_or_else(|| panic!("a broken line: {line:?}"));
        let (member, _) = rest.split_once(' ').expect("a space");
        assert_eq!(rest, format!("{member} <{member}><{member}><{member}> end"));
        count += 1;
    }
    assert!(count >= 16 * (HOPS / 8));
    migrations
}

harness::on_every_runtime!(lines_are_whole);
