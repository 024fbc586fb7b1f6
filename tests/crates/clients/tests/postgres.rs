//! postgres: the blocking client, which runs tokio inside, over a socket of its own.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use clients::{Server, find, others_go_on, without};
use harness::{HOPS, crew};
use postgres::{Client, Config, NoTls};

fn config(folder: &Path) -> Config {
    let mut config = Config::new();
    config.host_path(folder).user("postgres").dbname("postgres");
    config
}

fn connect(config: &Config) -> Client {
    config.connect(NoTls).expect("a connection")
}

/// Where Debian puts the servers, which are not in `PATH`.
fn folders() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).collect()
}

/// Returns a number that `id` tells.
fn id(words: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(words).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Runs a scenario with a server of its own, if there is one.
fn with_server(scenario: impl FnOnce(Config) -> usize) -> Option<usize> {
    // One server at a time.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (initdb, postgres) = (find("initdb", &folders())?, find("postgres", &folders())?);
    let folder = Server::folder();
    // The server refuses to be the superuser.
    let user = if id(&["-u"]) == Some(0) { Some(id(&["-u", "postgres"])) } else { None };
    let user = match user {
        Some(None) => {
            println!("skipped: postgres: there is no user of this name");
            return None;
        }
        other => other.flatten(),
    };
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.current_dir(folder.path());
        if let Some(user) = user {
            command.uid(user);
        }
        command
    };
    chown(folder.path(), user, None).expect("a folder of ours");
    let mut make = command(&initdb);
    make.args(["-D", "data", "-U", "postgres", "-A", "trust", "--no-sync"]);
    assert!(make.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("initdb").success());
    let mut serve = command(&postgres);
    serve.args(["-D", "data", "-h", "", "-F", "-k"]).arg(folder.path());
    let server = Server::start(&mut serve, folder, |folder| config(folder).connect(NoTls).is_ok());
    Some(scenario(config(server.path())))
}

fn answers_belong_to_their_questions() -> usize {
    with_server(|config| {
        crew(8, move |member| {
            let mut postgres = connect(&config);
            for round in 0..HOPS / 2 {
                let (a, b) = (member.index() as i32, round as i32);
                let row = member.across(|| postgres.query_one("SELECT $1::INT * 1000 + $2::INT", &[&a, &b]));
                assert_eq!(row.expect("an answer").get::<_, i32>(0), a * 1000 + b);
                member.hop();
            }
        })
    })
    .unwrap_or_else(without)
}

fn threads_that_wait_for_postgres_hold_up_no_other() -> usize {
    with_server(|config| {
        // Held until the release.
        let mut holder = connect(&config);
        holder.execute("SELECT pg_advisory_lock(1)", &[]).expect("a lock");
        let holder = Mutex::new(holder);
        others_go_on(
            move || connect(&config),
            |postgres| {
                postgres.execute("SELECT pg_advisory_lock(1)", &[]).expect("a lock");
                postgres.execute("SELECT pg_advisory_unlock(1)", &[]).expect("our lock");
            },
            move |_| {
                let mut holder = holder.lock().expect("no panic");
                holder.execute("SELECT pg_advisory_unlock(1)", &[]).expect("our lock");
            },
        )
    })
    .unwrap_or_else(without)
}

harness::on_every_runtime!(
    answers_belong_to_their_questions,
    threads_that_wait_for_postgres_hold_up_no_other
);
