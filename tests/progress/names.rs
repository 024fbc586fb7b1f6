//! A name that is being looked up: `getaddrinfo` waits for as long as one likes, without any network.
//!
//! glibc reads aliases of names from the file that `HOSTALIASES` names, before it asks a name server.
//! That is a FIFO here, so the look-up waits until it is opened for writing. The alias is no name, so
//! no server is asked in the end. In a process of its own, for the variable.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::ToSocketAddrs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use selvedge::Runtime;

use crate::calls::{Kind, Scratch, check};
use crate::child;
use crate::deadlock::{play, stand_still};
use crate::ladder::{MIGRATING, ThreadRegister, builder, full, on, sized};

const VARIABLE: &str = "HOSTALIASES";
const NAME: &str = "selvedge-test-of-names";

fn fifo() -> PathBuf {
    std::env::var_os(VARIABLE).expect("a role that was given one").into()
}

fn look_up() {
    assert!((NAME, 80).to_socket_addrs().is_err(), "no host has that name");
}

/// Makes the FIFO anew.
fn prepare() {
    let _ = std::fs::remove_file(fifo());
    let name = std::ffi::CString::new(fifo().to_str().expect("a name of ours")).unwrap();
    // SAFETY: a name that ends.
    check(unsafe { libc::mkfifo(name.as_ptr(), 0o600) });
}

/// Lets the thread that waits at the FIFO go on, and later ones not wait. Returns `false` if no thread waits
/// there.
fn answer() -> bool {
    let writer = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(fifo());
    let mut writer = match writer {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return false,
        writer => writer.expect("our own FIFO"),
    };
    // Longer than any label of a name.
    let alias = format!("{NAME} {}\n", "a".repeat(70));
    // The C library may look more than once.
    std::fs::remove_file(fifo()).expect("the FIFO");
    File::create_new(fifo())
        .and_then(|mut file| file.write_all(alias.as_bytes()))
        .expect("a file in its place");
    match writer.write_all(alias.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => panic!("{error}"),
        _ => true,
    }
}

const LOOK_UP: Kind = ("getaddrinfo", |meet| {
    prepare();
    meet(&look_up, &mut || {
        while !answer() {
            std::thread::yield_now();
        }
    });
});

/// Returns `true` if a look-up waits at the FIFO. The C library or its settings may be such that none does.
fn waits() -> bool {
    prepare();
    let looks = std::thread::spawn(look_up);
    while !looks.is_finished() {
        if answer() {
            looks.join().expect("it fails well");
            return true;
        }
        std::thread::yield_now();
    }
    false
}

pub(crate) fn role(rung: ThreadRegister) {
    if !waits() {
        return println!(
            "  skipped: getaddrinfo, {rung:?}: names are not looked up by way of {VARIABLE} here"
        );
    }
    let rt = builder(rung).concurrency(1).build().unwrap();
    let (most, time) = sized((10_000, Duration::from_millis(50)), (10_000, Duration::MAX));
    rt.run(|| play(&rt, rung, LOOK_UP, most, time));
    stand_still(rung, &[LOOK_UP]);
}

#[test]
fn a_thread_that_looks_a_name_up_is_released_by_a_waiter_for_the_slot() {
    on(MIGRATING, "one slot, a name", |rung| {
        let file = Scratch::new("names");
        let path = file.0.to_str().expect("a name of ours");
        // Should the alias not be found, soon over.
        let mut variables = vec![(VARIABLE, path), ("RES_OPTIONS", "attempts:1 timeout:1")];
        if full() {
            variables.push(("SELVEDGE_STRESS", "full"));
        }
        let patience = Duration::from_secs(sized(200, 1_000));
        let ended = child::run_within(&format!("names, {rung:?}"), &variables, patience);
        ended.expect_success();
        // The first line comes behind the name of the test.
        let lines = ended.said.lines().map(|line| line.trim_start_matches("test child ... "));
        println!("{}", lines.filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n"));
    });
}
