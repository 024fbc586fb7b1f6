//! Tells the user how far a program is.
//!
//! The bar is for people: on standard error, only where that is a terminal, and only once a program has
//! taken two seconds. Elsewhere there is no bar, no thread, and nothing is sampled. What is measured pays
//! nothing for it. The main thread says how far it is, or a kernel thread of the bar's own looks at counters
//! that are kept anyway.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::crew::Sampler;

/// What takes less is over before a user wonders.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at a counter.
const PACE: Duration = Duration::from_millis(200);

/// A bar that is seen from the third second on, until it is dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    /// Without one no user watches.
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    bar: ProgressBar,
    /// Dropped first, which ends the painter.
    stop: Option<Sender<()>>,
    painter: Option<JoinHandle<()>>,
}

impl Bar {
    /// A bar of `total` steps, which [`advance`](Self::advance) counts.
    pub(crate) fn new(label: &'static str, total: u64) -> Self {
        Self::start(label, total, |_| ())
    }

    /// A bar of `total` steps; `steps` says how many have been made.
    pub(crate) fn sampling(label: &'static str, total: u64, steps: Sampler) -> Self {
        Self::start(label, total, move |bar| bar.set_position(steps()))
    }

    fn start(label: &'static str, total: u64, look: impl Fn(&ProgressBar) + Send + 'static) -> Self {
        if !stderr().is_terminal() {
            return Self { seen: None };
        }
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len}, {elapsed}, {eta} to go");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
            .with_style(style.expect("a template"))
            .with_message(label);
        let (stop, stopped) = channel();
        let shown = bar.clone();
        let painter = std::thread::spawn(move || paint(&shown, look, &stopped));
        Self { seen: Some(Seen { bar, stop: Some(stop), painter: Some(painter) }) }
    }

    /// So many steps more have been made.
    pub(crate) fn advance(&self, steps: u64) {
        if let Some(seen) = &self.seen {
            seen.bar.inc(steps);
        }
    }

    /// Does something with the bar out of the way: prints, as a rule.
    pub(crate) fn aside<T>(&self, action: impl FnOnce() -> T) -> T {
        match &self.seen {
            Some(seen) => seen.bar.suspend(action),
            None => action(),
        }
    }

    /// It is over; nothing of the bar stays on the screen. (Dropping it does the same.)
    pub(crate) fn finish(self) {}
}

/// What the bar's thread does until the other end of `stopped` is dropped.
fn paint(bar: &ProgressBar, look: impl Fn(&ProgressBar), stopped: &Receiver<()>) {
    let goes_on = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !goes_on(PATIENCE) {
        return;
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    loop {
        look(bar);
        bar.tick();
        if !goes_on(PACE) {
            return;
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(painter) = self.painter.take() {
            // A bar that failed is no reason for the program to.
            let _ = painter.join();
        }
        self.bar.finish_and_clear();
    }
}
