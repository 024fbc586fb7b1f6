//! Where a process listens, and which processes it lets in.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::settings;
use crate::sys::{self, poll};

/// The longest path of a socket: the kernel has room for 108 bytes, with a zero at the end.
const LONGEST: usize = 107;

/// Returns the directory of all sockets of this user.
fn directory() -> PathBuf {
    directory_in(settings::process("XDG_RUNTIME_DIR").map(PathBuf::from), poll::user())
}

/// Returns the same for any user, by what the variable says. A relative path does not count: it would be
/// another directory for each process (XDG Base Directory Specification).
fn directory_in(private: Option<PathBuf>, user: u32) -> PathBuf {
    match private.filter(|it| it.is_absolute()) {
        Some(private) => private.join("selvedge"),
        // The user that starts a set-user-id program must not choose where it listens.
        None if sys::is_privileged() => Path::new("/tmp").join(format!("selvedge-{user}")),
        None => std::env::temp_dir().join(format!("selvedge-{user}")),
    }
}

/// Returns where processes of this user may listen. A process outside of the user's session, as services are,
/// has no directory of that.
fn directories(user: u32) -> [PathBuf; 2] {
    // Of another user, what the variable is by the convention of systemd.
    let session =
        if user == poll::user() { directory() } else { format!("/run/user/{user}/selvedge").into() };
    [session, directory_in(None, user)]
}

/// Returns the path of the socket of a process in this directory.
fn path_in(directory: &Path, pid: u32) -> io::Result<PathBuf> {
    let path = directory.join(format!("{pid}.sock"));
    if path.as_os_str().len() > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the path {} has {} bytes; a socket's has at most {LONGEST}: set XDG_RUNTIME_DIR to a shorter one",
                path.display(),
                path.as_os_str().len()
            ),
        ));
    }
    Ok(path)
}

/// Checks that a directory belongs to this user, and that no other user may use it.
fn check(directory: &Path) -> io::Result<()> {
    let it = fs::symlink_metadata(directory)?;
    let problem = if !it.is_dir() {
        "is no directory"
    } else if it.uid() != poll::user() {
        "belongs to another user"
    } else if it.mode() & 0o077 != 0 {
        "can be used by other users"
    } else {
        return Ok(());
    };
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{} {problem}; expected a directory of this user with mode 0700", directory.display()),
    ))
}

/// Listens for clients. Returns the listener, and the path to remove at the end.
pub(super) fn listen() -> io::Result<(UnixListener, PathBuf)> {
    let directory = directory();
    let path = path_in(&directory, std::process::id())?;
    match fs::DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(explain(&error, &format!("cannot create {}", directory.display())));
        }
        _ => check(&directory)?,
    }
    // Left by a process of the same number that was killed. The directory is private, so it is no other
    // user's.
    if fs::symlink_metadata(&path).is_ok_and(|it| it.file_type().is_socket()) {
        fs::remove_file(&path)?;
    }
    let listener = UnixListener::bind(&path)
        .map_err(|error| explain(&error, &format!("cannot listen at {}", path.display())))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Returns `true` if the process at the other end may ask: it is this user's, or root's.
pub(super) fn is_allowed(client: &UnixStream) -> bool {
    poll::peer(client).is_ok_and(|user| user == poll::user() || user == 0)
}

/// Connects to the process of this number.
pub(super) fn connect(pid: u32) -> io::Result<UnixStream> {
    let Ok(process) = fs::metadata(format!("/proc/{pid}")) else {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no process {pid}")));
    };
    let [session, outside] = directories(process.uid());
    let path = path_in(&session, pid)?;
    let me = poll::user();
    // Root may ask any process.
    if process.uid() != me && me != 0 {
        let problem = format!("process {pid} is another user's (user {}; this is user {me})", process.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let found = UnixStream::connect(&path).map(|stream| (stream, path.clone())).or_else(|error| {
        let elsewhere = path_in(&outside, pid)?;
        UnixStream::connect(&elsewhere).map(|stream| (stream, elsewhere)).map_err(|_| error)
    });
    let (stream, path) = found.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "process {pid} does not serve at {}: start it with SELVEDGE_MON=on, or let it call \
                 selvedge::threadmon::serve",
                path.display()
            ),
        ),
        _ => explain(&error, &format!("cannot connect to {}", path.display())),
    })?;
    check_server(poll::peer(&stream)?, process.uid(), &path)?;
    Ok(stream)
}

/// Checks that the server at this path belongs to the user that the process belongs to.
fn check_server(server: u32, process: u32, path: &Path) -> io::Result<()> {
    if server == process {
        return Ok(());
    }
    let problem = format!("{} is another user's (user {server}; expected user {process})", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

fn explain(error: &io::Error, context: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{context}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_private_directory_will_do() {
        let room = tempfile::tempdir().unwrap();
        let directory = room.path().join("it");
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        check(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(check(&directory).unwrap_err().to_string().contains("can be used by other users"));
        let link = room.path().join("link");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        assert!(check(&link).unwrap_err().to_string().contains("is no directory"));
        // Only root can give a directory away.
        if poll::user() == 0 {
            let other = room.path().join("other");
            fs::DirBuilder::new().mode(0o700).create(&other).unwrap();
            std::os::unix::fs::chown(&other, Some(65_534), None).unwrap();
            assert!(check(&other).unwrap_err().to_string().contains("belongs to another user"));
        }
        assert_eq!(check(&room.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn every_process_has_the_same_directory() {
        let none = directory_in(None, 7);
        assert!(none.is_absolute());
        for relative in ["", ".", "run/user"] {
            assert_eq!(directory_in(Some(relative.into()), 7), none);
        }
        assert_eq!(directory_in(Some("/run/user/7".into()), 7), Path::new("/run/user/7/selvedge"));
    }

    #[test]
    fn only_a_server_of_the_same_user_will_do() {
        let path = Path::new("/a/socket");
        check_server(1_000, 1_000, path).unwrap();
        // Not even root will do.
        for server in [0, 1_001] {
            let error = check_server(server, 1_000, path).unwrap_err();
            let text = format!("/a/socket is another user's (user {server}; expected user 1000)");
            assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::PermissionDenied, text));
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = connect(u32::MAX).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::NotFound, format!("there is no process {}", u32::MAX))
        );
        let error = connect(1).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("process 1 "), "{text}");
    }
}
