//! tracing: the stack of entered spans is a thread-local.

use std::io::Write;
use std::sync::{Mutex, Once};

use harness::{HOPS, crew};
use tracing_subscriber::fmt::MakeWriter;

/// All lines of all tests of this process.
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

impl<'a> MakeWriter<'a> for Collect {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

fn subscribe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt().with_writer(|| Collect).without_time().with_ansi(false).init()
    });
}

fn spans_are_entered_across_switches() -> usize {
    subscribe();
    let migrations = crew(16, |member| {
        for round in 0..HOPS / 8 {
            let outer = tracing::info_span!("outer", outer_of = member.index());
            let entered = outer.enter();
            member.hop();
            assert_eq!(tracing::Span::current().id(), outer.id());
            {
                let inner = tracing::info_span!("inner", round);
                let _entered = inner.enter();
                member.hop();
                assert_eq!(tracing::Span::current().id(), inner.id());
                tracing::info!(me = member.index(), "both");
                member.hop();
            }
            assert_eq!(tracing::Span::current().id(), outer.id());
            drop(entered);
            member.hop();
            assert_eq!(tracing::Span::current().id(), None, "a span of another thread");
        }
    });
    let lines = LINES.lock().expect("no panic while writing").clone();
    let text = String::from_utf8(lines).expect("whole lines");
    let both: Vec<&str> = text.lines().filter(|line| line.contains("both")).collect();
    assert!(both.len() >= 16 * (HOPS / 8));
    for line in both {
        let field = |name: &str| {
            let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("no {name} in {line:?}"));
            rest.chars().take_while(char::is_ascii_digit).collect::<String>()
        };
        assert_eq!(field("outer_of="), field("me="), "{line:?}");
    }
    migrations
}

harness::on_every_runtime!(spans_are_entered_across_switches);
