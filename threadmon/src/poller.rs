//! Asks the program in a thread of its own: so a program that does not answer leaves the keys alive.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::source::{Snapshot, Source};
use crate::ui::Request;

/// How long the end waits for a program that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) enum News {
    Snapshot(Box<Snapshot>),
    /// It does not answer, and why. Another attempt follows.
    Trouble(String),
    /// There will be nothing more, and why.
    Ended(String),
}

pub(crate) struct Poller {
    requests: Option<Sender<Request>>,
    pub(crate) news: Receiver<News>,
    thread: JoinHandle<()>,
}

impl Poller {
    pub(crate) fn start(source: Source, interval: Duration) -> io::Result<Self> {
        let (requests, asked) = mpsc::channel();
        let (told, news) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("poller".into());
        let thread = thread.spawn(move || poll(source, interval, &asked, &told))?;
        Ok(Self { requests: Some(requests), news, thread })
    }

    /// Ends the connection, and with it what is wanted of the program. Returns `false` if the program does
    /// not answer.
    pub(crate) fn end(mut self) -> bool {
        self.wait()
    }

    fn wait(&mut self) -> bool {
        self.requests = None;
        let end = Instant::now() + PATIENCE;
        // The thread ends when it sees that there are no more requests. News would keep it.
        while !self.thread.is_finished() && Instant::now() < end {
            let _ = self.news.recv_timeout(Duration::from_millis(10));
        }
        self.thread.is_finished()
    }

    pub(crate) fn ask(&self, request: Request) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }
}

/// Ends the thread, and with it the connection.
impl Drop for Poller {
    fn drop(&mut self) {
        self.wait();
    }
}

fn poll(mut source: Source, interval: Duration, asked: &Receiver<Request>, told: &SyncSender<News>) {
    let (mut paused, mut broken) = (false, false);
    let mut next = Instant::now();
    loop {
        let news = if paused {
            None
        } else {
            let snapshot = if broken { source.reconnect() } else { Ok(()) };
            match snapshot.and_then(|()| source.snapshot()) {
                Ok(snapshot) => {
                    broken = false;
                    Some(News::Snapshot(Box::new(snapshot)))
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    broken = true;
                    Some(News::Trouble(error.to_string()))
                }
                Err(error) => {
                    let _ = told.send(News::Ended(error.to_string()));
                    return;
                }
            }
        };
        if news.is_some_and(|news| told.send(news).is_err()) {
            return;
        }
        next = (next + interval).max(Instant::now());
        loop {
            let wait = if paused { interval } else { next.saturating_duration_since(Instant::now()) };
            let answer = match asked.recv_timeout(wait) {
                Ok(Request::Quit) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => break,
                Ok(Request::Pause(on)) => {
                    paused = on;
                    Ok(())
                }
                Ok(Request::Level(level)) => source.level(level),
                Ok(Request::Follow(thread)) => {
                    source.follow(thread);
                    Ok(())
                }
                Ok(Request::Locks) => {
                    source.with_locks = true;
                    source.attached.count_locks()
                }
            };
            // The next snapshot meets the same error, and tells it.
            if answer.is_err() {
                broken = true;
            }
        }
    }
}
