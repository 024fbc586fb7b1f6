//! Tasks that end together. At most four threads at once count the files of a folder. The first error ends
//! the rest, and so does a deadline.
//!
//! ```text
//! cargo run --release --example task_group [FOLDER]
//! SELVEDGE_RUNTIME=onetoone cargo run --release --example task_group
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge::Wait;
use selvedge::thread::{self, TaskGroupBuilder};

/// Counts the lines of all files in `folder`. A file that cannot be read ends the whole count.
fn count_lines(folder: &Path) -> io::Result<usize> {
    TaskGroupBuilder::new().limit(4).timeout(Duration::from_secs(30)).run(|group| {
        let mut tasks = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_file() {
                // Waits until fewer than four run.
                tasks.push(group.spawn(move || lines_of(&path)));
            }
        }
        let mut lines = 0;
        for task in tasks {
            // If a task has failed, its error is the group's, whatever this returns.
            lines += task.join()?;
        }
        Ok(lines)
    })
}

fn lines_of(path: &Path) -> io::Result<usize> {
    let bytes = thread::blocking(|| fs::read(path))?;
    Ok(bytes.iter().filter(|&&byte| byte == b'\n').count())
}

/// Returns the first answer. It is the "error" that interrupts the slower tasks.
fn fastest(answers: &[(&'static str, Duration)]) -> Option<&'static str> {
    enum Ends {
        Answer(&'static str),
        Cancelled,
    }
    impl From<selvedge::WaitError> for Ends {
        fn from(_: selvedge::WaitError) -> Self {
            Ends::Cancelled
        }
    }
    let raced: Result<(), Ends> = thread::task_group(|group| {
        for &(answer, time) in answers {
            group.spawn(move || {
                thread::sleep_with(Wait::timeout(time).interruptible()).map_err(|_| Ends::Cancelled)?;
                Err::<(), _>(Ends::Answer(answer))
            });
        }
        Ok(())
    });
    match raced {
        Err(Ends::Answer(answer)) => Some(answer),
        Ok(()) | Err(Ends::Cancelled) => None,
    }
}

/// Asks a server that never answers.
fn ask_in_vain() -> io::Result<()> {
    TaskGroupBuilder::new().timeout(Duration::from_millis(20)).run(|group| {
        // A group inside has the same deadline, and needs no word of it.
        group.spawn(|| {
            thread::task_group(|inner| {
                inner.spawn(|| Ok(thread::park_with(Wait::within(inner))?));
                Ok(())
            })
        });
        Ok(())
    })
}

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    // `run` starts the runtime that SELVEDGE_RUNTIME names, or green threads.
    selvedge::run(|| {
        println!("{}: {} lines", folder.display(), count_lines(&folder)?);

        let minute = Duration::from_secs(60);
        let first = fastest(&[("warp", minute), ("weft", Duration::from_millis(5)), ("selvedge", minute)]);
        println!("the first answer: {first:?}");
        assert_eq!(first, Some("weft"));

        let error = ask_in_vain().expect_err("no answer");
        println!("no answer: {error}");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        Ok(())
    })
}
