//! Compiles programs, and runs them on a model or without the library.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long any program may take, on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(200);

/// The models, as `SELVEDGE_RUNTIME` names them.
pub(crate) const MODELS: [&str; 2] = ["mxn", "onetoone"];

/// Returns the library. Cargo builds it with these tests, beside them.
pub(crate) fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this program");
    let folder = tests.parent().expect("a folder");
    let library = folder.join("libselvedge_preload.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// Returns a place for files that is there until the tests end.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| TempDir::new().expect("a folder")).path()
}

/// Compiles a program of `tests/c`, or says why not.
pub(crate) fn compile(name: &str) -> Option<PathBuf> {
    compile_with(name, &[])
}

/// Does what [`compile`] does, with these arguments for the compiler.
pub(crate) fn compile_with(name: &str, arguments: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
    let program = folder().join(name);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-O2", "-pthread", "-o"]).arg(&program).args(arguments).arg(source);
    let compiled = compile.output();
    match compiled {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(error) => {
            eprintln!("skipped: {name}: there is no C compiler: {error}");
            None
        }
    }
}

/// Returns `true` if the system has this program. Says so if not.
pub(crate) fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|folder| folder.join(program).exists());
    if !found {
        eprintln!("skipped: {program}: the system does not have it");
    }
    found
}

/// Returns a command that runs a program on a model, or without the library.
pub(crate) fn on(model: Option<&str>, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SELVEDGE_")) {
        command.env_remove(name);
    }
    if let Some(model) = model {
        command.env("LD_PRELOAD", library()).env("SELVEDGE_RUNTIME", model);
    }
    command.stdin(Stdio::null());
    command
}

/// Waits for a program, which is killed if it takes too long.
pub(crate) fn wait(mut child: Child, what: &str) -> Output {
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            let said = stderr.join().expect("a reader");
            panic!("{what} has not ended after {PATIENCE:?}: {}", String::from_utf8_lossy(&said));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: stdout.join().expect("a reader"), stderr: stderr.join().expect("a reader") }
}

/// Runs a program that must end well, and returns what it wrote.
#[track_caller]
pub(crate) fn run(mut command: Command, what: &str) -> Vec<u8> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect(what);
    let output = wait(child, what);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {}: {}{said}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    output.stdout
}

/// Plays a program that checks itself: plainly, with few and many slots, and with kernel threads.
pub(crate) fn says_ok(name: &str) {
    let Some(program) = compile(name) else { return };
    for (model, slots) in [(None, "2"), (Some("mxn"), "1"), (Some("mxn"), "3"), (Some("onetoone"), "2")] {
        let mut command = on(model, &program);
        command.env("SELVEDGE_CONCURRENCY", slots);
        // Of a thread that is gone, freed memory says that it is to end, and may be ended anywhere.
        command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.perturb=5");
        assert_eq!(run(command, &format!("{name}, {model:?}, {slots} slots")), b"ok\n");
    }
}
