//! The terminal: keys in, pictures out. However it ends, the terminal is as it was.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::attach::say;
use crate::poller::{News, Poller};
use crate::source::Source;
use crate::ui::{App, Request};

/// Shows the program until `q`, or a signal.
///
/// # Errors
///
/// The terminal's.
pub(crate) fn run(source: Source, interval: Duration, stop: &AtomicBool) -> io::Result<()> {
    let stdin = io::stdin();
    let other = if stdin.is_terminal() { None } else { Some(File::open("/dev/tty")?) };
    let keys = other.as_ref().map_or(stdin.as_fd(), |it| it.as_fd());
    let poller = Poller::start(source, interval)?;
    // It also restores the terminal before the message of a panic.
    let mut terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
    let shown = show(&mut terminal, keys, &poller, interval, stop);
    // The program first: what follows may fail.
    let answered = poller.end();
    if is_there(keys, Duration::ZERO).unwrap_or(false) {
        drop(terminal);
        ratatui::restore();
    } else {
        // There is nothing to restore, and complaints about that would go there, too.
        std::mem::forget(terminal);
    }
    if !answered {
        say("the program does not answer; it ends the counting when it goes on");
    }
    shown
}

/// Waits until the terminal has a key, or for this time. Returns `false` if the terminal has gone.
///
/// `crossterm` would read a terminal that has gone for ever. So it is asked only when this has returned.
fn is_there(terminal: BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
    let mut one = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    match rustix::event::poll(&mut one, Some(&time)) {
        // A signal: that of another size, or of the end of the terminal.
        Err(rustix::io::Errno::INTR) => is_there(terminal, Duration::ZERO),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(!one[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    keys: BorrowedFd<'_>,
    poller: &Poller,
    interval: Duration,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut app = App::new();
    let (mut changed, mut ended) = (true, false);
    let mut followed = None;
    // Relaxed: only the flag itself is read.
    while !stop.load(Ordering::Relaxed) {
        if changed {
            terminal.draw(|frame| app.draw(frame.area(), frame.buffer_mut()))?;
            changed = false;
        }
        if !is_there(keys, interval.div_f64(2.0).min(Duration::from_millis(50)))? {
            return Ok(());
        }
        // Relaxed: only the flag itself is read.
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        while event::poll(Duration::ZERO)? {
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
        if app.model.followed != followed {
            followed = app.model.followed;
            poller.ask(Request::Follow(followed));
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
