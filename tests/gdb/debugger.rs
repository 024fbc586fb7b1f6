//! Drives gdb, and keeps apart what it says to each command.

use std::path::Path;
use std::process::{Command, Stdio};

/// What the script uses.
const NEEDS: &str = "python import gdb.unwinder; gdb.events.inferior_call; print('it is' + ' fit')";

pub(crate) struct Debugger(());

/// What gdb said, by command.
#[derive(Debug)]
pub(crate) struct Said(String);

impl Said {
    /// Returns the answer to a command.
    #[track_caller]
    pub(crate) fn of(&self, command: &str) -> &str {
        let answer = self.0.split_once(&title(command)).map(|(_, rest)| rest);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {command:?} in:\n{}", self.0));
        answer.split("=== ").next().unwrap_or_default()
    }
}

fn title(command: &str) -> String {
    format!("=== {command}\n")
}

impl Debugger {
    /// Returns gdb, or why it is of no use.
    pub(crate) fn find() -> Result<Self, String> {
        let mut gdb = Command::new("gdb");
        match gdb.args(["--batch", "-nx", "-ex", NEEDS]).stdin(Stdio::null()).output() {
            Err(error) => Err(format!("no gdb: {error}")),
            Ok(output) if String::from_utf8_lossy(&output.stdout).contains("it is fit") => Ok(Self(())),
            Ok(output) => Err(format!("gdb lacks something: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Runs commands for a process. Returns why it could not be stopped, if gdb may not do that.
    pub(crate) fn attach(&self, pid: u32, commands: &[&str]) -> Result<Said, String> {
        let pid = pid.to_string();
        let Said(said) = self.run(&["-p", &pid], commands);
        match said.lines().find(|line| line.contains("ptrace: Operation not permitted")) {
            Some(line) => Err(format!("gdb may not stop a process: {line}")),
            None => Ok(Said(said)),
        }
    }

    /// Runs commands for this program and a core file, or without one.
    pub(crate) fn open(&self, core: &Path, commands: &[&str]) -> Said {
        let core = core.to_str().expect("UTF-8");
        let of_core = ["--core", core];
        self.run(if core.is_empty() { &[] } else { &of_core }, commands)
    }

    fn run(&self, what: &[&str], commands: &[&str]) -> Said {
        let program = std::env::current_exe().expect("the test program");
        let program = program.to_str().expect("UTF-8");
        let mut gdb = Command::new("gdb");
        // All that the script needs from the user is the leave to load it.
        gdb.args(["--batch", "-nx", "-iex", &format!("add-auto-load-safe-path {program}"), program]);
        gdb.args(what).args(["-ex", "set width 0", "-ex", "set style enabled off"]);
        for command in commands {
            gdb.args(["-ex", &format!("echo {}", title(command).replace('\n', "\\n")), "-ex", command]);
        }
        let (read, write) = std::io::pipe().expect("a pipe");
        let errors = write.try_clone().expect("a descriptor");
        gdb.stdin(Stdio::null()).stdout(write).stderr(errors).env_remove("DEBUGINFOD_URLS");
        let mut running = gdb.spawn().expect("gdb, which was there before");
        drop(gdb);
        let said = std::io::read_to_string(read).expect("UTF-8");
        running.wait().expect("the end of gdb");
        Said(said)
    }
}
