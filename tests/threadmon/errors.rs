//! What cannot be: a clear error each, and nothing is harmed.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use selvedge::threadmon::{Client, serve};
use selvedge::{Mxn, OneToOne, Runtime};

use super::{child, run, socket};

/// In a child of a fork, nothing serves, and its end leaves the parent's socket alone.
pub(super) fn fork() {
    // A process of the same number has left this behind.
    std::fs::DirBuilder::new().mode(0o700).create(socket().parent().unwrap()).unwrap();
    drop(UnixListener::bind(socket()).unwrap());
    serve().unwrap();
    serve().expect("twice is once");
    assert!(socket().exists());
    // SAFETY: the child runs this code, and ends by `exit`, which runs what is registered for that.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Without a panic: that would end this thread, which is the last, and the process with status 0.
        let refused =
            serve().is_err_and(|error| error.to_string().contains("a fork of a process that serves"));
        std::process::exit(i32::from(!refused));
    }
    let mut status = -1;
    // SAFETY: it waits for the child, and writes its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert!(socket().exists());
    Client::connect(std::process::id()).unwrap().overview().unwrap();
}

#[test]
fn a_fork_does_not_serve() {
    run("fork");
}

/// In a child of a fork, a new runtime works, though the variable asks for a server that cannot be there.
pub(super) fn fork_asked() {
    let rt = OneToOne::new().unwrap();
    Client::connect(std::process::id()).unwrap().overview().unwrap();
    // SAFETY: the child runs this code, and ends by `exit`, which runs what is registered for that.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let ran = [OneToOne::new().map(|rt| rt.run(|| 1)), Mxn::new().map(|rt| rt.run(|| 1))];
        ran.iter().filter_map(|ran| ran.as_ref().err()).for_each(|error| eprintln!("in the child: {error}"));
        std::process::exit(i32::from(ran.iter().any(Result::is_err)));
    }
    let mut status = -1;
    // SAFETY: it waits for the child, and writes its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    Client::connect(std::process::id()).unwrap().overview().unwrap();
    drop(rt);
}

#[test]
fn a_fork_of_a_program_that_was_asked_to_serve_has_runtimes() {
    let room = tempfile::tempdir().unwrap();
    let room = ("XDG_RUNTIME_DIR", room.path().to_str().unwrap());
    child::run("fork_asked", &[room, ("SELVEDGE_MON", "on")]).expect_success();
}

/// A process that serves ends, and its child goes on: it has inherited the process's side of connections.
pub(super) fn orphan() {
    let ((mut ready, tells), (ends, mut lets_go)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    // SAFETY: the child runs this code, and ends by a system call.
    let child = unsafe { libc::fork() };
    if child == 0 {
        serve().unwrap();
        let _ = (&tells).write(&[1]);
        // A client comes.
        let _ = (&ends).read(&mut [0]);
        drop(lets_go);
        // SAFETY: the child of the child makes system calls only, and ends.
        if unsafe { libc::fork() } == 0 {
            // It goes on until the test ends.
            let _ = (&ends).read(&mut [0]);
        }
        // SAFETY: it ends the process.
        unsafe { libc::_exit(0) };
    }
    drop((tells, ends));
    ready.read_exact(&mut [0]).expect("the child serves");
    let mut client = Client::connect(child.cast_unsigned()).unwrap();
    client.overview().unwrap();
    lets_go.write_all(&[1]).unwrap();
    // It is dead when this has returned, and in the list of processes until its parent asks.
    // SAFETY: plain data, for which zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `info` is written.
    assert_eq!(unsafe { libc::waitid(libc::P_PID, child.cast_unsigned(), &raw mut info, flags) }, 0);
    let error = client.overview().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
}

#[test]
fn the_end_of_a_process_is_seen_though_its_child_goes_on() {
    run("orphan");
}

/// Of threads that ask at once, one starts the server, and none removes its socket.
pub(super) fn together() {
    let all = std::sync::Barrier::new(8);
    let ask = || {
        all.wait();
        serve().unwrap();
        Client::connect(std::process::id()).unwrap().overview().unwrap();
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(ask))));
    Client::connect(std::process::id()).unwrap().overview().unwrap();
}

#[test]
fn threads_may_ask_at_once() {
    (0..10).for_each(|_| run("together"));
}

/// A program that is started with `SELVEDGE_MON=on` serves when it has built a runtime.
pub(super) fn serves() {
    let rt = OneToOne::new().unwrap();
    rt.run(|| ());
    let served = Client::connect(std::process::id()).map(|mut client| client.overview().unwrap().pid);
    match std::env::var("SELVEDGE_MON").as_deref() {
        Ok("on") => assert_eq!(served.unwrap(), std::process::id()),
        _ => {
            let error = served.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            let text = error.to_string();
            assert!(text.contains("does not serve") && text.contains("SELVEDGE_MON=on"), "{text}");
        }
    }
}

#[test]
fn the_variable_decides() {
    let room = tempfile::tempdir().unwrap();
    let room = ("XDG_RUNTIME_DIR", room.path().to_str().unwrap());
    child::run("serve", &[room, ("SELVEDGE_MON", "on")]).expect_success();
    child::run("serve", &[room, ("SELVEDGE_MON", "off")]).expect_success();
    child::run("serve", &[room]).expect_success();
    let ended = child::run("serve", &[room, ("SELVEDGE_MON", "perhaps")]);
    assert!(!ended.status.success());
    assert!(
        ended.said.contains("invalid value `perhaps` in SELVEDGE_MON: expected on or off"),
        "{}",
        ended.said
    );
    let left: Vec<_> = std::fs::read_dir(std::path::Path::new(room.1).join("selvedge")).unwrap().collect();
    assert!(left.is_empty(), "each has removed its socket: {left:?}");
}

/// Tries to serve, and says why it cannot.
pub(super) fn refuses() {
    println!("refused: {}", serve().unwrap_err());
}

#[test]
fn a_directory_that_will_not_do_is_named() {
    let room = tempfile::tempdir().unwrap();
    let said = |path: &std::path::Path| {
        let ended = child::run("refuse", &[("XDG_RUNTIME_DIR", path.to_str().unwrap())]);
        ended.expect_success();
        ended.said
    };
    let long = room.path().join("x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    assert!(said(&long).contains("a socket's has at most 107"), "{}", said(&long));
    let open = room.path().join("open");
    std::fs::DirBuilder::new().recursive(true).create(open.join("selvedge")).unwrap();
    std::fs::set_permissions(open.join("selvedge"), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(said(&open).contains("can be used by other users"), "{}", said(&open));
    let none = room.path().join("none");
    assert!(said(&none).contains("cannot create"), "{}", said(&none));
}

/// Serves until nothing writes to it any more.
pub(super) fn stays() {
    serve().unwrap();
    println!("serves");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Looks at a process that has no directory of its user's session, as services have none.
pub(super) fn elsewhere() {
    let mut service = child::command("stays", &[("XDG_RUNTIME_DIR", "")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(service.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("serves")));
    let looked = Client::connect(service.id()).and_then(|mut client| client.overview());
    drop(service.stdin.take());
    assert!(service.wait().unwrap().success());
    assert_eq!(looked.unwrap().pid, service.id());
}

#[test]
fn a_process_outside_of_the_session_is_found() {
    let room = tempfile::tempdir().unwrap();
    let session = room.path().join("session");
    std::fs::create_dir(&session).unwrap();
    let [room, session] = [room.path(), &*session].map(|path| path.to_str().unwrap());
    child::run("elsewhere", &[("XDG_RUNTIME_DIR", session), ("TMPDIR", room)]).expect_success();
}

/// Processes that cannot be looked at.
pub(super) fn errors() {
    let error = Client::connect(u32::MAX).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::NotFound, format!("there is no process {}", u32::MAX))
    );
    let mut plain = std::process::Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap();
    let error = Client::connect(plain.id()).unwrap_err();
    assert!(error.to_string().contains("does not serve"), "{error}");
    // One that speaks another version, and one that says nothing that makes sense.
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(socket().parent().unwrap()).unwrap();
    let path = socket().with_file_name(format!("{}.sock", plain.id()));
    let listener = UnixListener::bind(&path).unwrap();
    let answer = |bytes: &'static [u8]| {
        let listener = listener.try_clone().unwrap();
        std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 64]);
            stream.write_all(bytes).unwrap();
        })
    };
    let server = answer(&[2, 0, 0, 0, 0, 9]);
    let error = Client::connect(plain.id()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let versions = format!("speaks version 9; this is version {}", selvedge::threadmon::wire::VERSION);
    assert!(error.to_string().contains(&versions), "{error}");
    server.join().unwrap();
    for bytes in [&[1, 0, 0, 0, 77][..], &[255, 255, 255, 255, 0], &[0, 0, 0, 0]] {
        let server = answer(bytes);
        let error = Client::connect(plain.id()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        server.join().unwrap();
    }
    let server = answer(&[]);
    let error = Client::connect(plain.id()).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    server.join().unwrap();
    plain.kill().unwrap();
    plain.wait().unwrap();
}

#[test]
fn a_process_that_cannot_be_looked_at_is_an_error() {
    run("errors");
}
