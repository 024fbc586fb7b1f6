//! reqwest in threads, with tokio's runtime beside, against a server of threads with std's sockets.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::LazyLock;

use harness::{HOPS, crew};
use selvedge::future::block_on;
use tokio::runtime::{Builder, Runtime};

static TOKIO: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a tokio runtime")
});

/// Starts a server that answers each request with its path, on kernel threads. Returns its address.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            std::thread::spawn(move || {
                loop {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        if stream.read_until(b'\n', &mut head).unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let head = String::from_utf8(head).expect("text");
                    let path = head.split(' ').nth(1).expect("a path");
                    let length = path.len();
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{path}");
                    if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

fn threads_send_requests() -> usize {
    let (address, client) = (serve(), reqwest::Client::builder().no_proxy().build().expect("a client"));
    crew(8, move |member| {
        let _in_tokio = TOKIO.enter();
        for round in 0..HOPS / 20 {
            let path = format!("/{}/{round}", member.index());
            let request = async { client.get(format!("{address}{path}")).send().await?.text().await };
            assert_eq!(member.across(|| block_on(request)).expect("an answer"), path);
            member.hop();
        }
    })
}

harness::on_every_runtime!(threads_send_requests);
