//! r2d2: a pool of connections, with locks and threads of std and parking_lot. There are fewer connections
//! than threads.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use harness::{HOPS, crew};
use r2d2::{ManageConnection, Pool};
use selvedge::thread;

const CONNECTIONS: u32 = 3;

/// Connects to a server that returns each line.
struct Lines {
    server: SocketAddr,
    made: Arc<AtomicUsize>,
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn ask(&mut self, line: &str) -> io::Result<String> {
        // In one piece, so that the kernel does not wait for more.
        self.0.get_mut().write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        self.0.read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    }
}

impl ManageConnection for Lines {
    type Connection = Connection;
    type Error = io::Error;

    fn connect(&self) -> io::Result<Connection> {
        self.made.fetch_add(1, SeqCst);
        Ok(Connection(BufReader::new(TcpStream::connect(self.server)?)))
    }

    fn is_valid(&self, connection: &mut Connection) -> io::Result<()> {
        if connection.ask("still there?")? == "still there?" {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn has_broken(&self, _connection: &mut Connection) -> bool {
        false
    }
}

fn threads_take_turns_with_connections() -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let server = listener.local_addr().expect("an address");
    let acceptor = thread::spawn(move || {
        let served: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let (stream, _) = listener.accept().expect("a connection");
                thread::spawn(move || {
                    let mut output = &stream;
                    for line in BufReader::new(&stream).lines() {
                        let line = line.expect("a line") + "\n";
                        output.write_all(line.as_bytes()).expect("the client waits");
                    }
                })
            })
            .collect();
        served.into_iter().for_each(|it| it.join().expect("no panic"));
    });
    let made = Arc::new(AtomicUsize::new(0));
    let manager = Lines { server, made: Arc::clone(&made) };
    let pool = Pool::builder().max_size(CONNECTIONS).test_on_check_out(true).build(manager).expect("a pool");
    let theirs = pool.clone();
    let migrations = crew(8, move |member| {
        for round in 0..HOPS / 4 {
            let line = format!("{} {round}", member.index());
            let mut connection = theirs.get().expect("a connection, in time");
            assert_eq!(member.across(|| connection.ask(&line)).expect("an answer"), line);
            member.hop();
        }
    });
    assert_eq!(made.load(SeqCst), CONNECTIONS as usize);
    drop(pool);
    acceptor.join().expect("no panic");
    migrations
}

harness::on_every_runtime!(threads_take_turns_with_connections);
