//! What all connections share: the folder, the limits, and the list of connections.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge::net::TcpStream;
use selvedge::sync::Mutex;

use crate::connection::Connection;
use crate::options::Limits;

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) root: PathBuf,
    pub(crate) limits: Limits,
    open: Mutex<Open>,
}

/// The connections that are open.
#[derive(Debug, Default)]
struct Open {
    streams: HashMap<u64, Arc<TcpStream>>,
    /// How many there have been.
    count: u64,
    /// The server ends.
    ending: bool,
}

impl Site {
    pub(crate) fn new(root: &Path, limits: Limits) -> io::Result<Self> {
        Ok(Self { root: root.canonicalize()?, limits, open: Mutex::default() })
    }

    /// Serves a connection to its end.
    pub(crate) fn visit(&self, stream: TcpStream) {
        let stream = Arc::new(stream);
        if let Some(number) = self.enter(&stream) {
            // Clients that go away, or take too long, are no news.
            let _ = Connection::new(&stream, self).serve();
            self.open.lock().streams.remove(&number);
        }
    }

    /// Ends all connections, each when it has answered the requests that it has.
    pub(crate) fn close(&self) {
        let mut open = self.open.lock();
        open.ending = true;
        for stream in open.streams.values() {
            // A thread that waits for a request finds the end of the stream.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }

    fn enter(&self, stream: &Arc<TcpStream>) -> Option<u64> {
        let mut open = self.open.lock();
        if open.ending {
            return None;
        }
        open.count += 1;
        let number = open.count;
        open.streams.insert(number, Arc::clone(stream));
        Some(number)
    }
}
