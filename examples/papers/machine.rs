//! What it ran on.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use selvedge::{Mxn, OneToOne, Runtime};

/// The machine, and what a reader needs to know of it.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    /// CPUs that this process may use.
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) libc: String,
    pub(crate) rustc: String,
    pub(crate) date: String,
    /// Of the last minute, at the start.
    pub(crate) load: String,
    /// What Selvedge says of its own runtimes.
    pub(crate) runtimes: Vec<String>,
    /// How the M:N runtime keeps thread registers.
    pub(crate) rung: String,
    /// Ticks of the time stamp counter in a nanosecond.
    pub(crate) ticks: Option<f64>,
    pub(crate) command: String,
}

impl Machine {
    /// This one, now.
    pub(crate) fn here() -> Self {
        let infos = [Mxn::new().map(|rt| rt.info()), OneToOne::new().map(|rt| rt.info())];
        let said = |info: &std::io::Result<selvedge::RuntimeInfo>| match info {
            Ok(info) => info.to_string(),
            Err(error) => format!("does not start: {error}"),
        };
        let rung = infos[0].as_ref().ok().and_then(|info| info.thread_register);
        Self {
            processor: processor(),
            cpus: crate::support::affinity::allowed().len(),
            kernel: format!("Linux {}", line("/proc/sys/kernel/osrelease")),
            libc: libc_version(),
            rustc: compiler(),
            date: date(SystemTime::now()),
            load: load(),
            runtimes: infos.iter().map(said).collect(),
            rung: rung.map_or_else(|| "unknown".to_owned(), |rung| rung.to_string()),
            ticks: ticks_per_nanosecond(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
        }
    }

    /// Lines of a table.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let ticks = self.ticks.map(|ticks| format!(", {ticks:.2} ticks of its counter in a nanosecond"));
        vec![
            ("processor", self.processor.clone() + &ticks.unwrap_or_default()),
            ("CPUs", self.cpus.to_string()),
            ("kernel", self.kernel.clone()),
            ("C library", self.libc.clone()),
            ("compiler", self.rustc.clone()),
            ("thread register", self.rung.clone()),
            ("runtimes", self.runtimes.join("; ")),
            ("date", self.date.clone()),
            ("load average at the start", self.load.clone()),
            ("command", format!("`{}`", self.command)),
        ]
    }
}

/// The load average of the last minute.
pub(crate) fn load() -> String {
    line("/proc/loadavg").split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(target_env = "gnu")]
fn libc_version() -> String {
    // SAFETY: no preconditions.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: it is a string that lives as long as the program.
    let version = unsafe { std::ffi::CStr::from_ptr(version) };
    format!("glibc {}", version.to_string_lossy())
}

#[cfg(not(target_env = "gnu"))]
fn libc_version() -> String {
    "unknown".to_owned()
}

/// The compiler leaves its version in what it makes.
fn compiler() -> String {
    let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let mark = b"rustc version ";
    let found = program.windows(mark.len()).enumerate().filter(|(_, bytes)| bytes == mark);
    let version = found.filter_map(|(at, _)| {
        let rest = &program[at + mark.len()..];
        let text = std::str::from_utf8(&rest[..rest.iter().position(|&byte| byte == 0)?.min(60)]).ok()?;
        text.starts_with(|first: char| first.is_ascii_digit()).then(|| text.to_owned())
    });
    version.take(1).next().map_or_else(|| "unknown".to_owned(), |version| format!("rustc {version}"))
}

/// Day and time, UTC.
fn date(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil((seconds / 86_400) as i64);
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Year, month and day of a day's number since 1970. Years are taken to begin in March, so that the odd
/// day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * era + year_of_era + i64::from(month <= 2), month, day)
}

/// `true` if the processor has a counter that ticks at one rate.
pub(crate) const HAS_TICKS: bool = cfg!(target_arch = "x86_64");

/// Measured once, over some milliseconds.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks_per_nanosecond() -> Option<f64> {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    static TICKS: OnceLock<f64> = OnceLock::new();
    let ticks = TICKS.get_or_init(|| {
        // SAFETY: every processor of this architecture has the instruction.
        let ticks = || unsafe { std::arch::x86_64::_rdtsc() };
        let (start, from) = (Instant::now(), ticks());
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        (ticks() - from) as f64 / start.elapsed().as_nanos() as f64
    });
    Some(*ticks)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks_per_nanosecond() -> Option<f64> {
    None
}
