//! A sample, taken in a process of its own: this program, called again.
//!
//! The process is told by number what to measure, so both sides must have made the same questions. It
//! prints what its run did, and an alarm ends it if it hangs. Another thread can make its caller give up.

use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Effort, Failure, Question, Run};

/// What a process is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) question: usize,
    pub(crate) case: usize,
    pub(crate) effort: Effort,
    /// After which it is given up.
    pub(crate) patience: Duration,
}

/// The option that asks for a sample.
pub(crate) const OPTION: &str = "sample";

impl Sample {
    /// Reads what [`arguments`](Self::arguments) has written, after the option.
    pub(crate) fn parse(parser: &mut lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut number = || -> Result<u64, lexopt::Error> {
            use lexopt::ValueExt;
            parser.value()?.parse()
        };
        Ok(Self {
            question: number()? as usize,
            case: number()? as usize,
            effort: Effort { operations: number()?, enough: Duration::from_micros(number()?) },
            patience: Duration::from_secs(number()?),
        })
    }

    fn arguments(&self) -> Vec<String> {
        let Effort { operations, enough } = self.effort;
        let numbers = [
            self.question as u64,
            self.case as u64,
            operations,
            enough.as_micros() as u64,
            self.patience.as_secs().max(1),
        ];
        let option = format!("--{OPTION}");
        std::iter::once(option).chain(numbers.map(|number| number.to_string())).collect()
    }

    /// Takes the sample in this process, and prints it for [`Taker::take`].
    pub(crate) fn take_here(&self, questions: &[Question]) {
        // SAFETY: no memory is involved. The signal's default action ends the process, however stuck its
        // threads are.
        unsafe { libc::alarm(self.patience.as_secs().max(1) as u32) };
        // SAFETY: no memory is involved. The process that wants the sample may be killed, and a terminal's
        // Ctrl-C does not come here.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let question = &questions[self.question];
        (question.prepare)();
        let mut run = (question.cases[self.case].run)(self.effort);
        run.more = question.more(&run);
        print!("{}", said(&run));
    }
}

/// Takes samples, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Taker {
    /// What the process is told besides, so that it makes the same questions.
    said: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Child>,
    stopped: bool,
}

impl Taker {
    /// Tells each process this first.
    pub(crate) fn saying(said: Vec<String>) -> Self {
        Self { said, ..Self::default() }
    }

    /// Takes a sample; or says why there is none.
    pub(crate) fn take(&self, sample: &Sample) -> Result<Run, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(&self.said).args(sample.arguments());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A terminal's Ctrl-C is for a whole group: in ours, it would look like a sample that has failed.
        command.process_group(0);
        let (output, complaint, status) = self.run(command)?;
        match understood(&output) {
            Some(run) if status.success() => Ok(run),
            _ => Err(reason(status, &complaint)),
        }
    }

    /// Ends the process that is running, and starts no other.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        if let Some(child) = &mut state.running {
            // With all that it has started. It can only have ended by itself, and is not forgotten before
            // it is waited for. SAFETY: no memory is involved.
            unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
        }
    }

    /// Returns `true` if [`stop`](Self::stop) was called.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped
    }

    /// Runs a process to its end. Gives what it said on standard output, and on standard error.
    fn run(&self, mut command: Command) -> std::io::Result<(String, String, ExitStatus)> {
        let (mut stdout, mut stderr) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.stopped {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let mut child = command.spawn()?;
            let pipes = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
            state.running = Some(child);
            pipes
        };
        // Both at once: it stops if a pipe is full.
        let mut complaint = Vec::new();
        let mut output = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| stderr.read_to_end(&mut complaint));
            stdout.read_to_end(&mut output)
        })?;
        // Its pipes are closed, so it has ended or is about to. The lock is held: `stop` must not kill
        // the process that comes after it.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let status = state.running.take().expect("only this takes it").wait()?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((text(output), text(complaint), status))
    }
}

/// Says a run: its figures in one line, and then what was seen.
fn said(run: &Run) -> String {
    let Run { operations, elapsed, part, more, seen, .. } = run;
    let more: String = more.iter().map(|figure| format!(" {figure}")).collect();
    format!("{operations} {} {part}{more}\n{seen}", elapsed.as_nanos())
}

/// Reads what [`said`] has written.
fn understood(text: &str) -> Option<Run> {
    let (line, seen) = text.split_once('\n')?;
    let mut words = line.split_whitespace();
    let mut number = || words.next()?.parse::<u64>().ok();
    let (operations, nanos, part) = (number()?, number()?, number()?);
    let more = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(Run {
        operations,
        elapsed: Duration::from_nanos(nanos),
        part,
        more,
        seen: seen.to_owned(),
        ..Run::default()
    })
}

/// Why a process has failed, in one line.
fn reason(status: ExitStatus, complaint: &str) -> Failure {
    if status.signal() == Some(libc::SIGALRM) {
        return Failure::Late;
    }
    let words: Vec<&str> = complaint.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // The first line of a panic says where; the message is the next. What was said before is no reason.
    let panic = words.iter().position(|line| line.contains("panicked at"));
    let line = panic.and_then(|at| words.get(at + 1)).or(words.first()).unwrap_or(&"");
    Failure::Wrong(format!("{status} {line}").trim_end().to_owned())
}
