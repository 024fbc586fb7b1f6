//! tiny_http: an HTTP server with sockets, locks and threads of std, whose requests green threads answer, and
//! ureq as its client.

use std::sync::Arc;

use harness::{HOPS, crew};
use selvedge::thread;
use tiny_http::{Response, Server};
use ureq::Agent;

const WORKERS: usize = 4;

fn answers_belong_to_their_questions() -> usize {
    let server = Arc::new(Server::http("127.0.0.1:0").expect("a server"));
    let address = format!("http://{}", server.server_addr());
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                let mut answered = 0;
                // Until it is unblocked.
                while let Ok(request) = server.recv() {
                    let target = request.url().to_owned();
                    thread::yield_now();
                    request.respond(Response::from_string(target)).expect("the client waits");
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let migrations = crew(8, move |member| {
        let agent = Agent::new_with_defaults();
        for round in 0..HOPS / 4 {
            let target = format!("/{}/{round}", member.index());
            let url = format!("{address}{target}");
            let answer = member.across(|| {
                agent.get(&url).call().expect("an answer").body_mut().read_to_string().expect("text")
            });
            assert_eq!(answer, target);
            member.hop();
        }
    });
    workers.iter().for_each(|_| server.unblock());
    let answered: usize = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
    assert_eq!(answered, 8 * (HOPS / 4));
    migrations
}

harness::on_every_runtime!(answers_belong_to_their_questions);
