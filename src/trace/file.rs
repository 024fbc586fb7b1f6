//! `SELVEDGE_TRACE`: the file that a program's trace is written to. With `1/16:` before it, one thread of 16
//! records events. `%p` in its name is the process's id. `SELVEDGE_TRACE_EVENTS` says how many events are
//! kept.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use super::level::{Level, set_level, set_sample};
use super::recording::Recording;
use crate::park::fork;
use crate::recorder::crash::{self, Reason};
use crate::recorder::rings;
use crate::settings::{self, Lookup, TRACE, invalid};
use crate::sys;
use crate::sys::fork::Generation;
use crate::sys::once::OnceLock;

/// How a file is written, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Chrome,
    Perfetto,
    Raw,
}

impl Format {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|it| it.to_str()) {
            Some("json") => Self::Chrome,
            Some("pftrace" | "perfetto-trace") => Self::Perfetto,
            _ => Self::Raw,
        }
    }
}

struct Wanted {
    path: PathBuf,
    process: Generation,
}

/// The file that is written at the end; `None`: none is.
static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();

/// Begins the trace if `SELVEDGE_TRACE` asks for it. Called when a runtime is built. Only the first call
/// looks.
///
/// # Errors
///
/// If the file cannot be created, or a variable is invalid.
pub(crate) fn start(lookup: Lookup<'_>) -> io::Result<()> {
    if WANTED.get().is_some() {
        return Ok(());
    }
    // Also for a trace that is switched on later.
    settings::trace_events(lookup)?.into_iter().for_each(rings::set_default_events);
    let Some(path) = lookup(TRACE) else {
        WANTED.get_or_init(|| None);
        return Ok(());
    };
    let (one_of, path) = sample(&path)?;
    let path = check(&with_process(path))?;
    let process = fork::watch()?;
    let mut is_first = false;
    WANTED.get_or_init(|| {
        is_first = true;
        Some(Wanted { path: path.clone(), process })
    });
    if is_first {
        sys::crash::at_exit(write_at_exit)?;
        sys::crash::at_abort(|| crash::write(Reason::Abort))?;
        crash::write_to(path.as_os_str().as_encoded_bytes());
        set_sample(one_of);
        set_level(Level::Events);
    }
    Ok(())
}

/// Returns of how many threads one records events, and the path.
fn sample(value: &OsStr) -> io::Result<(NonZeroU32, &OsStr)> {
    let parts = value.to_str().and_then(|text| text.strip_prefix("1/")?.split_once(':'));
    let Some((number, path)) = parts.filter(|(number, _)| !number.contains('/')) else {
        return Ok((NonZeroU32::MIN, value));
    };
    let one_of = number.parse().map_err(|_| {
        let value = value.display();
        invalid(format!("invalid value `{value}` in {TRACE}: expected 1/N:FILE with a whole N from 1 on"))
    })?;
    Ok((one_of, OsStr::new(path)))
}

/// Returns the path with this process's id for each `%p`.
fn with_process(path: &OsStr) -> Cow<'_, OsStr> {
    match path.to_str().filter(|path| path.contains("%p")) {
        Some(path) => Cow::Owned(path.replace("%p", &std::process::id().to_string()).into()),
        None => Cow::Borrowed(path),
    }
}

/// Returns the path of a file that can be created. It exists from then on.
fn check(path: &OsStr) -> io::Result<PathBuf> {
    let cannot = |error: &dyn std::fmt::Display| {
        invalid(format!("invalid value `{}` in {TRACE}: expected a file to write: {error}", path.display()))
    };
    if path.is_empty() {
        return Err(cannot(&"it is empty"));
    }
    let path = PathBuf::from(path);
    File::create(&path).map_err(|error| cannot(&error))?;
    // The program may change its folder.
    std::path::absolute(&path).map_err(|error| cannot(&error))
}

extern "C" fn write_at_exit() {
    let Some(Some(wanted)) = WANTED.get() else { return };
    // A child of a fork has nothing to write. Its parent has the file.
    if wanted.process.is_mine()
        && let Err(error) = write(&wanted.path)
    {
        let path = wanted.path.display();
        // If standard error cannot be written either, the process ends as it would have.
        let _ = writeln!(io::stderr(), "selvedge: cannot write the trace to {path}: {error}");
    }
}

fn write(path: &Path) -> io::Result<()> {
    let recording = Recording::take();
    let file = BufWriter::new(File::create(path)?);
    match Format::of(path) {
        Format::Chrome => recording.write_chrome(file),
        Format::Perfetto => recording.write_perfetto(file),
        Format::Raw => recording.write(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_name_is_the_format() {
        let format = |path: &str| Format::of(Path::new(path));
        assert_eq!(format("a/b.json"), Format::Chrome);
        assert_eq!(format("b.pftrace"), Format::Perfetto);
        assert_eq!(format("b.perfetto-trace"), Format::Perfetto);
        assert_eq!((format("json"), format("a.svt")), (Format::Raw, Format::Raw));
    }

    #[test]
    fn a_sample_stands_before_the_path() {
        let of = |value: &'static str| {
            sample(value.as_ref()).map(|(one_of, path)| (one_of.get(), path.to_str().unwrap()))
        };
        assert_eq!(of("1/16:a/b.json").unwrap(), (16, "a/b.json"));
        assert_eq!(of("1/1:").unwrap(), (1, ""));
        for path in ["a/b", "1/16", "./1/16:a", "1/a/b:c", "/1/2:c"] {
            assert_eq!(of(path).unwrap(), (1, path));
        }
        for wrong in ["1/0:a", "1/x:a", "1/:a", "1/99999999999:a"] {
            let error = of(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("expected 1/N:FILE"), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error_that_says_so() {
        for path in ["", "/nowhere/at/all"] {
            let error = check(path.as_ref()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains("SELVEDGE_TRACE") && text.contains("a file to write"), "{text}");
        }
    }
}
