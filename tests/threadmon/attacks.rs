//! Clients that send anything, stall, vanish, or come in numbers. The program goes on.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use selvedge::threadmon::wire::{LONGEST_REQUEST, Request, Response, VERSION};
use selvedge::threadmon::{Client, serve};
use selvedge::trace::Level;
use selvedge::{Mxn, Runtime};

use super::random::{Numbers, full};
use super::{Target, run, socket};

/// Returns a request, most often one that makes sense.
fn request(random: &mut Numbers) -> Request {
    match random.below(10) {
        0 => Request::Hello(VERSION),
        1 => Request::Overview,
        2 => Request::Threads(random.below(3) as u32, random.below(100) as u32, random.below(2) == 0),
        3 => Request::Locks,
        4 => Request::SetLevel([Level::Off, Level::Times, Level::Events][random.below(3) as usize]),
        5 => Request::Events(random.below(2) == 0),
        6 => Request::Dump,
        7 => Request::Deadlocks,
        8 => Request::History(random.below(8), random.below(2) == 0),
        _ => Request::Threads(random.next() as u32, random.next() as u32, true),
    }
}

/// Returns a frame: whole, mutated, cut, or of random bytes.
fn frame(random: &mut Numbers) -> Vec<u8> {
    let mut frame = request(random).to_frame();
    match random.below(8) {
        0..4 => {
            for _ in 0..1 + random.below(3) {
                let at = random.below(frame.len() as u64) as usize;
                frame[at] = random.next() as u8;
            }
        }
        4 => frame.truncate(random.below(frame.len() as u64) as usize),
        5 => frame = (0..random.below(64)).map(|_| random.next() as u8).collect(),
        6 => {
            // A payload of random bytes with the right length.
            let payload: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
            frame = (payload.len() as u32).to_le_bytes().to_vec();
            frame.extend(payload);
        }
        _ => {}
    }
    frame
}

/// How many frames are sent: a million at full length.
fn how_many() -> u64 {
    if full() { 1_000_000 } else { 30_000 }
}

pub(super) fn frames() {
    println!("{} frames", how_many());
    let target = Target::start();
    let mut random = Numbers::new();
    let mut sent = 0;
    let mut room = vec![0; 1 << 16];
    while sent < how_many() {
        let mut stream = UnixStream::connect(socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_micros(200))).unwrap();
        if random.below(8) > 0 {
            stream.write_all(&Request::Hello(VERSION).to_frame()).unwrap();
        }
        // Until the server closes, or a while.
        for _ in 0..random.below(400) {
            sent += 1;
            if stream.write_all(&frame(&mut random)).is_err() {
                break;
            }
            // Otherwise both sides would wait for room.
            if sent % 16 == 0 && matches!(stream.read(&mut room), Ok(0)) {
                break;
            }
        }
        if sent % 5_000 < 400 {
            target.check();
        }
    }
    selvedge::trace::set_level(Level::Off);
    target.end();
}

#[test]
fn random_frames_are_refused_or_survived() {
    run("frames");
}

/// Both decoders, with no socket in between: no bytes are a panic.
#[test]
fn random_payloads_are_decoded_or_refused() {
    let mut random = Numbers::new();
    let mut decoded = 0;
    for _ in 0..how_many().max(100_000) {
        let frame = frame(&mut random);
        let payload = frame.get(4..).unwrap_or_default();
        if let Some(request) = Request::from_payload(payload) {
            decoded += 1;
            assert_eq!(Request::from_payload(&request.to_frame()[4..]), Some(request));
        }
        // Most numbers of requests are numbers of responses, too.
        decoded += u32::from(Response::from_payload(payload).is_some());
    }
    assert!(decoded > 1_000, "{decoded}");
}

/// A client asks for much, and reads nothing. It is dropped, and others are served meanwhile.
pub(super) fn stall() {
    let target = Target::start();
    target.rt.run(|| {
        (0..2_000).for_each(|_| {
            drop(
                selvedge::thread::Builder::new()
                    .name("x".repeat(200))
                    .spawn(selvedge::thread::park)
                    .map(|thread| thread.thread().unpark()),
            )
        })
    });
    let mut stalled = UnixStream::connect(socket()).unwrap();
    stalled.write_all(&Request::Hello(VERSION).to_frame()).unwrap();
    stalled.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    while stalled.write_all(&Request::Dump.to_frame()).is_ok() {}
    target.check();
    // The server drops it after five seconds. It would not if anything were read before.
    let mut end = libc::pollfd { fd: stalled.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one descriptor, which is open.
    assert_eq!(unsafe { libc::poll(&raw mut end, 1, 60_000) }, 1, "it was not dropped");
    assert_ne!(end.revents & libc::POLLHUP, 0);
    target.check();
    target.end();
}

#[test]
fn a_client_that_stalls_is_dropped() {
    run("stall");
}

/// Clients vanish in the middle of a request, and of an answer.
pub(super) fn vanish() {
    let target = Target::start();
    for round in 0..200 {
        let mut stream = UnixStream::connect(socket()).unwrap();
        stream.write_all(&Request::Hello(VERSION).to_frame()).unwrap();
        let frame = Request::Dump.to_frame();
        let end = if round % 2 == 0 { frame.len() } else { round % frame.len() };
        stream.write_all(&frame[..end]).unwrap();
        if round % 3 == 0 {
            let _ = stream.read(&mut [0; 3]);
        }
    }
    let too_long = UnixStream::connect(socket()).unwrap();
    (&too_long).write_all(&(LONGEST_REQUEST as u32 + 1).to_le_bytes()).unwrap();
    assert_eq!((&too_long).read(&mut [0; 8]).unwrap(), 0, "it is dropped");
    target.end();
}

#[test]
fn clients_that_vanish_are_forgotten() {
    run("vanish");
}

pub(super) fn ten() {
    let target = Target::start();
    std::thread::scope(|scope| {
        for n in 0..10 {
            scope.spawn(move || {
                let mut client = Client::connect(std::process::id()).unwrap();
                for _ in 0..50 {
                    let overview = client.overview().unwrap();
                    let runtime = overview.runtimes[0].number;
                    assert_eq!(client.threads(runtime, 100, true).unwrap().threads.len(), 2, "client {n}");
                    assert!(client.dump().unwrap().contains("player-1"));
                }
            });
        }
    });
    target.end();
}

#[test]
fn ten_clients_are_served_at_once() {
    run("ten");
}

/// Makes the child of a fork, which is root's, another user's.
fn become_other_user() {
    const OTHER: u32 = 65_534;
    // SAFETY: a system call of the child.
    unsafe { libc::setgroups(0, std::ptr::null()) };
    // SAFETY: a system call of the child.
    unsafe { libc::setgid(OTHER) };
    // SAFETY: a system call of the child.
    unsafe { libc::setuid(OTHER) };
}

/// Another user's client is let in by the files' modes, and refused by its credentials.
pub(super) fn other_user() {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can be another user");
        return;
    }
    let target = Target::start();
    let path = socket();
    for (path, mode) in
        [(path.parent().unwrap().parent().unwrap(), 0o755), (path.parent().unwrap(), 0o755), (&path, 0o777)]
    {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // SAFETY: the child makes system calls only, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        become_other_user();
        let served = UnixStream::connect(&path).and_then(|mut stream| {
            stream.write_all(&Request::Hello(VERSION).to_frame())?;
            stream.read(&mut [0; 16])
        });
        // It is closed without an answer.
        let refused = served.as_ref().is_ok_and(|&got| got == 0) || served.is_err();
        // SAFETY: it ends the child.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = -1;
    // SAFETY: it waits for the child, and writes its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "it was served");
    target.end();
}

#[test]
fn another_users_client_is_refused() {
    run("other_user");
}

/// Root looks at a process of another user.
pub(super) fn roots_client() {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can be another user");
        return;
    }
    let (mut ready, mut tells) = std::io::pipe().unwrap();
    let (mut waits, done) = std::io::pipe().unwrap();
    // SAFETY: the child of a process with one thread runs this code, and ends by a system call.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(done);
        become_other_user();
        // SAFETY: takes numbers. It lets the process belong to its user in `/proc` again.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 1)
        };
        let told = serve().and_then(|()| tells.write_all(&[1]));
        let _ = waits.read(&mut [0]);
        // SAFETY: it ends the child.
        unsafe { libc::_exit(i32::from(told.is_err())) };
    }
    drop((tells, waits));
    ready.read_exact(&mut [0]).expect("the other user serves");
    let seen = Client::connect(child.cast_unsigned()).and_then(|mut client| client.overview());
    drop(done);
    let mut status = -1;
    // SAFETY: it waits for the child, and writes its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((seen.unwrap().pid, status), (child.cast_unsigned(), 0));
}

#[test]
fn root_sees_processes_of_other_users() {
    let room = tempfile::tempdir().unwrap();
    std::fs::set_permissions(room.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let variables = [("XDG_RUNTIME_DIR", ""), ("TMPDIR", room.path().to_str().unwrap())];
    super::child::run("roots_client", &variables).expect_success();
}

/// Another user serves at the path of this process. A client tells it nothing.
pub(super) fn other_server() {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can be another user");
        return;
    }
    let path = socket();
    let directory = path.parent().unwrap();
    std::fs::create_dir(directory).unwrap();
    for (path, mode) in [(directory.parent().unwrap(), 0o755), (directory, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let (mut ready, mut tells) = std::io::pipe().unwrap();
    // SAFETY: the child makes system calls only, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        become_other_user();
        let heard = UnixListener::bind(&path).and_then(|listener| {
            tells.write_all(&[1])?;
            listener.accept()?.0.read(&mut [0; 16])
        });
        let nothing = heard.is_ok_and(|got| got == 0);
        // SAFETY: it ends the child.
        unsafe { libc::_exit(i32::from(!nothing)) };
    }
    drop(tells);
    ready.read_exact(&mut [0]).expect("the other user serves");
    let error = Client::connect(std::process::id()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("is another user's (user 65534"), "{error}");
    let mut status = -1;
    // SAFETY: it waits for the child, and writes its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "it was told something");
}

#[test]
fn another_users_server_is_not_trusted() {
    run("other_server");
}

/// Sends a request, and returns the answer; `None`: the server has closed.
fn ask(stream: &mut UnixStream, request: &Request) -> Option<Response> {
    let mut length = [0; 4];
    stream.write_all(&request.to_frame()).and_then(|()| stream.read_exact(&mut length)).ok()?;
    let mut payload = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(Response::from_payload(&payload).expect("an answer makes sense"))
}

/// A client that does not say hello, or is of another version, is told so, and sees nothing.
pub(super) fn strangers() {
    let target = Target::start();
    for hello in [None, Some(VERSION - 1), Some(VERSION + 1)] {
        let mut stream = UnixStream::connect(socket()).unwrap();
        if let Some(version) = hello {
            assert_eq!(ask(&mut stream, &Request::Hello(version)), Some(Response::Hello(VERSION)));
        }
        let Some(Response::Refused(why)) = ask(&mut stream, &Request::Overview) else {
            panic!("{hello:?} was served")
        };
        assert!(why.contains("expected a hello of version"), "{why}");
    }
    target.end();
}

#[test]
fn a_client_without_a_hello_of_this_version_is_refused() {
    run("strangers");
}

/// There are at most sixteen clients. When one has gone, another is served.
pub(super) fn crowd() {
    let target = Target::start();
    let connect = || UnixStream::connect(socket()).unwrap();
    let hello = |stream: &mut UnixStream| ask(stream, &Request::Hello(VERSION)).is_some();
    let mut clients: Vec<_> = (0..16).map(|_| connect()).collect();
    assert!(clients.iter_mut().all(hello));
    assert!(!hello(&mut connect()), "one more is closed");
    clients.pop();
    while !hello(&mut connect()) {
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(clients);
    while Client::connect(std::process::id()).is_err() {
        std::thread::sleep(Duration::from_millis(2));
    }
    target.end();
}

#[test]
fn there_are_at_most_sixteen_clients() {
    run("crowd");
}

/// Hogs without time slices keep all LWPs, and all CPUs. Clients are served all the same.
pub(super) fn hogs() {
    static STOP: AtomicBool = AtomicBool::new(false);
    serve().unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let rt = Mxn::builder().concurrency(cpus + 1).time_slice(None).build().unwrap();
    let hog = || {
        while !STOP.load(Relaxed) {
            std::hint::spin_loop();
        }
    };
    let hogs: Vec<_> = (0..=cpus).map(|_| rt.spawn(hog)).collect();
    let mut client = Client::connect(std::process::id()).unwrap();
    for _ in 0..20 {
        let overview = client.overview().unwrap();
        assert_eq!(overview.runtimes[0].threads, cpus + 1);
    }
    STOP.store(true, Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}

#[test]
fn hogs_do_not_keep_clients_out() {
    run("hogs");
}

/// A program closes all descriptors that it does not know. Those of the server are among them, and their
/// numbers are used again: for a listener of the program's own, whose clients the server must not take.
pub(super) fn closed() {
    serve().unwrap();
    drop(Client::connect(std::process::id()).unwrap());
    // SAFETY: it closes what this process has open, and that the test needs none of.
    assert_eq!(unsafe { libc::close_range(3, u32::MAX, 0) }, 0);
    let path = socket().with_file_name("own");
    // One of these has the number that the server's had.
    let own: Vec<_> =
        (0..16).map(|n| UnixListener::bind(path.with_extension(n.to_string())).unwrap()).collect();
    // It wakes the server, which waits for clients with what it had.
    let _woken = UnixStream::connect(socket());
    for _ in 0..20 {
        for (n, own) in own.iter().enumerate() {
            let mut client = UnixStream::connect(path.with_extension(n.to_string())).unwrap();
            // Time for the server to take it.
            std::thread::sleep(Duration::from_millis(1));
            own.set_nonblocking(true).unwrap();
            let (mut server, _) = own.accept().expect("the client is still there");
            own.set_nonblocking(false).unwrap();
            server.write_all(&[7]).unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
    }
}

#[test]
fn a_server_that_was_closed_takes_no_clients_of_others() {
    run("closed");
}
