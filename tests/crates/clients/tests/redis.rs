//! redis: the blocking client, over a socket of std.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use clients::{Server, find, others_go_on, without};
use harness::{HOPS, crew};
use redis::{Client, Commands, Connection};

fn client(folder: &Path) -> Client {
    Client::open(format!("redis+unix://{}", folder.join("socket").display())).expect("an address")
}

fn connect(client: &Client) -> Connection {
    client.get_connection().expect("a connection")
}

/// Runs a scenario with a server of its own, if there is one.
fn with_server(scenario: impl FnOnce(Client) -> usize) -> Option<usize> {
    // One server at a time.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let program = find("redis-server", &[])?;
    let folder = Server::folder();
    let mut command = Command::new(program);
    command.args(["--port", "0", "--save", "", "--dir"]).arg(folder.path());
    command.arg("--unixsocket").arg(folder.path().join("socket"));
    let server = Server::start(&mut command, folder, |folder| client(folder).get_connection().is_ok());
    Some(scenario(client(server.path())))
}

fn answers_belong_to_their_questions() -> usize {
    with_server(|client| {
        crew(8, move |member| {
            let mut redis = connect(&client);
            for round in 0..HOPS {
                let key = format!("{} {round}", member.index());
                member.across(|| redis.set::<_, _, ()>(&key, &key)).expect("a server");
                member.hop();
                let back: String = member.across(|| redis.get(&key)).expect("a value");
                assert_eq!(back, key);
                let _: u64 = redis.incr("all", 1).expect("a number");
            }
        })
    })
    .unwrap_or_else(without)
}

fn threads_that_wait_for_redis_hold_up_no_other() -> usize {
    with_server(|client| {
        others_go_on(
            move || connect(&client),
            |redis| {
                let [_, value]: [String; 2] = redis.blpop("queue", 0.0).expect("a value");
                assert_eq!(value, "job");
            },
            |redis| {
                for _ in 0..8 {
                    let _: u64 = redis.rpush("queue", "job").expect("a server");
                }
            },
        )
    })
    .unwrap_or_else(without)
}

harness::on_every_runtime!(answers_belong_to_their_questions, threads_that_wait_for_redis_hold_up_no_other);
