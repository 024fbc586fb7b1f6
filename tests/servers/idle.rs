//! Idle connections cost little memory, few kernel threads, and no wake-ups.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::target::{PAGE, Site, Target};
use crate::watchdog::Watchdog;
use crate::{full, open_files};

/// The kernel threads besides an LWP for each CPU: two spares, the monitor, the reserve's, the program's
/// first thread, and the one that waits for signals. Spares that took over while a file was opened have ended
/// then, though each connection has a deadline.
const OTHER_KERNEL_THREADS: usize = 6;
/// What a connection that has been used may take of the server's memory. It takes three pages of stack, and
/// what the C library and the server have for the thread. This is without optimizations. (With them it is 14
/// KB.)
const MOST_BYTES: u64 = 24 << 10;
/// They come in so many batches. The median batch counts: beside one of them, spares may be made. Once another
/// process has delayed a thread for a slice, there are up to 64, with what the C library keeps for each.
const BATCHES: usize = 5;
/// How long it may take until nothing happens any more.
const SETTLED: Duration = Duration::from_secs(60);

#[test]
fn idle_connections_cost_little() {
    let _watchdog = Watchdog::start("idle connections");
    hold(1_000);
}

#[test]
#[ignore = "ten thousand connections take a while, and files; run it with `--ignored`"]
fn ten_thousand_idle_connections_cost_little() {
    let _watchdog = Watchdog::start("many idle connections");
    hold(10_000);
}

fn hold(connections: usize) {
    if let Err(error) = open_files::make_room(connections as u64) {
        println!("skipped: {error}");
        return;
    }
    let site = Site::new();
    let server = site.serve(&["-r", "mxn", "--idle", "600000"]);
    // The first ones bring along what all need.
    let mut clients: Vec<_> = (0..20).map(|_| used(&server)).collect();
    let mut costs: Vec<_> =
        (0..BATCHES).map(|_| cost(&server, connections / BATCHES, &mut clients)).collect();
    costs.sort_unstable();
    let each = costs[BATCHES / 2];
    let quiet = quiet(&server);
    println!(
        "{connections} connections: {each} bytes each, of {costs:?}, {} kernel threads: {quiet:?}",
        quiet.len()
    );
    assert!(each <= MOST_BYTES, "{each} bytes for a connection");
    // Each is as good as at first.
    for client in &mut clients {
        assert_eq!(client.get("/").body, PAGE);
    }
}

/// Adds so many connections to `clients`. Returns how much more memory the server has for each.
fn cost(server: &Target, connections: usize, clients: &mut Vec<Client>) -> u64 {
    let before = server.resident();
    clients.extend((0..connections).map(|_| used(server)));
    server.resident().saturating_sub(before) / connections as u64
}

/// A connection that has been used.
fn used(server: &Target) -> Client {
    let mut client = Client::connect(server.address);
    assert_eq!(client.get("/").body, PAGE);
    client
}

/// Waits until there are no more kernel threads than there may be, and none wakes up for a while. Returns
/// them.
fn quiet(server: &Target) -> Vec<(String, u64)> {
    let deadline = Instant::now() + SETTLED;
    let most = std::thread::available_parallelism().expect("a number").get() + OTHER_KERNEL_THREADS;
    let length = Duration::from_secs(if full() { 10 } else { 2 });
    loop {
        let before = server.sleeps();
        std::thread::sleep(length);
        let after = server.sleeps();
        if before == after && after.len() <= most {
            return after;
        }
        assert!(Instant::now() < deadline, "too many, or never quiet: {before:?}, then {after:?}");
    }
}
