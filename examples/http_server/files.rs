//! From the target of a request to a file in the folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::response::{Body, Response, Status};

/// What a folder's own page is called.
const INDEX: &str = "index.html";

/// Opens the file that `target` names. Symbolic links in the folder are followed, also to the outside.
pub(crate) fn open(root: &Path, target: &str) -> Response {
    path(root, target)
        .and_then(|path| read(&path).map_err(|_| Status::NOT_FOUND))
        .unwrap_or_else(Response::from)
}

fn read(path: &Path) -> io::Result<Response> {
    // Before it is opened: a pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let content_type = content_type(path);
    Ok(Response { status: Status::OK, content_type, length, body: Body::File(file) })
}

/// Returns the path of the file, which need not exist.
fn path(root: &Path, target: &str) -> Result<PathBuf, Status> {
    let end = target.find(['?', '#']).unwrap_or(target.len());
    // Clients name the host there if they take the server for a proxy.
    let target = match target[..end].strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |start| &rest[start..]),
        None => &target[..end],
    };
    let decoded = target.strip_prefix('/').and_then(decode).ok_or(Status::BAD_REQUEST)?;
    let mut path = root.to_owned();
    for part in decoded.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
        // `..` would lead out of the folder. Other names that begin so are hidden.
        if part.starts_with(b".") || part.contains(&0) {
            return Err(Status::NOT_FOUND);
        }
        path.push(OsStr::from_bytes(part));
    }
    if decoded.is_empty() || decoded.ends_with(b"/") {
        path.push(INDEX);
    }
    Ok(path)
}

/// Replaces each `%41` by its byte.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(16 * digit()? + digit()?).ok()?
            }
            _ => byte,
        });
    }
    Some(decoded)
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(OsStr::to_str) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "application/octet-stream",
    }
}
