//! ureq: an HTTP client with sockets of std, beside a server with those of `selvedge::net`.

use std::io::{self, BufRead, BufReader, Write};
use std::sync::Arc;

use clients::others_go_on;
use harness::{HOPS, crew};
use selvedge::net::{TcpListener, TcpStream};
use selvedge::sync::Semaphore;
use selvedge::{Wait, thread};
use ureq::Agent;

/// Answers each request with its target; if that is `/later`, when the gate lets it.
fn serve(stream: &TcpStream, gate: &Semaphore) -> io::Result<()> {
    let mut output = stream;
    let mut lines = BufReader::new(stream).lines();
    while let Some(first) = lines.next() {
        let first = first?;
        let target = first.split(' ').nth(1).unwrap_or_default();
        while !lines.next().ok_or(io::ErrorKind::UnexpectedEof)??.is_empty() {}
        if target == "/later" {
            drop(gate.acquire());
        }
        write!(output, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len())?;
    }
    Ok(())
}

/// Runs a scenario with a server on the caller's runtime. It is told the address, and has the gate.
fn with_server(scenario: impl FnOnce(String, Arc<Semaphore>) -> usize) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let gate = Arc::new(Semaphore::new(0));
    let theirs = Arc::clone(&gate);
    let acceptor = thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept_with(Wait::forever().interruptible()) {
            let gate = Arc::clone(&theirs);
            thread::spawn(move || serve(&stream, &gate));
        }
    });
    let migrations = scenario(address, gate);
    acceptor.thread().interrupt();
    acceptor.join().expect("no panic");
    migrations
}

fn get(agent: &Agent, url: &str) -> String {
    agent.get(url).call().expect("an answer").body_mut().read_to_string().expect("text")
}

fn agent() -> Agent {
    Agent::new_with_defaults()
}

fn answers_belong_to_their_questions() -> usize {
    with_server(|address, _| {
        crew(8, move |member| {
            // It keeps its connection between the requests.
            let agent = agent();
            for round in 0..HOPS / 2 {
                let target = format!("/{}/{round}", member.index());
                let url = format!("{address}{target}");
                assert_eq!(member.across(|| get(&agent, &url)), target);
                member.hop();
            }
        })
    })
}

fn threads_that_wait_for_an_answer_hold_up_no_other() -> usize {
    with_server(|address, gate| {
        let url = format!("{address}/later");
        others_go_on(agent, move |agent| assert_eq!(get(agent, &url), "/later"), move |_| gate.add_permits(1))
    })
}

harness::on_every_runtime!(
    answers_belong_to_their_questions,
    threads_that_wait_for_an_answer_hold_up_no_other
);
