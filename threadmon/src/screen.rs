//! The terminal: keys in, pictures out. However it ends, the terminal is as it was.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event};

use crate::poller::{News, Poller};
use crate::source::Source;
use crate::ui::{App, Request};

/// Shows the program until `q`, or a signal.
///
/// # Errors
///
/// The terminal's.
pub(crate) fn run(source: Source, interval: Duration, stop: &AtomicBool) -> io::Result<()> {
    let poller = Poller::start(source, interval)?;
    // It also restores the terminal before the message of a panic.
    let terminal = ratatui::try_init();
    let terminal = terminal.inspect_err(|_| ratatui::restore())?;
    let ended = show(terminal, &poller, interval, stop);
    ratatui::restore();
    ended
}

fn show(
    mut terminal: ratatui::DefaultTerminal,
    poller: &Poller,
    interval: Duration,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut app = App::new();
    let (mut changed, mut ended) = (true, false);
    // Relaxed: only the flag itself is read.
    while !stop.load(Ordering::Relaxed) {
        if changed {
            terminal.draw(|frame| app.draw(frame.area(), frame.buffer_mut()))?;
            changed = false;
        }
        if event::poll(interval.div_f64(2.0).min(Duration::from_millis(50)))? {
            match event::read()? {
                Event::Key(key) => match app.key(key) {
                    Some(Request::Quit) => return Ok(()),
                    Some(request) => poller.ask(request),
                    None => {}
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            changed = true;
        }
        while !ended {
            match poller.news.try_recv() {
                // One that was on its way when the pause began.
                Ok(News::Snapshot(_)) if app.paused => {}
                Ok(News::Snapshot(snapshot)) => app.model.apply(*snapshot),
                Ok(News::Trouble(why)) => {
                    app.model.trouble = Some(format!("{why}; this is what it last said"))
                }
                Ok(News::Ended(why)) => {
                    app.model.trouble = Some(format!("{why}; this is what it last said. q quits"));
                    ended = true;
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    return Err(io::Error::other("the thread that asks the program has failed"));
                }
            }
            app.refresh();
            changed = true;
        }
    }
    Ok(())
}
