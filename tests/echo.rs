//! The echo: every byte comes back to its sender, on every runtime; what does not is noticed; and the
//! program reports.

#[path = "support/rungs.rs"]
mod rungs;
#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use rungs::on_rungs;
use support::command_line::{Model, Refusal};
use support::concurrency::Concurrency;
use support::echo::options::{Options, Role, THOUSAND, parse};
use support::echo::program;
use support::echo::workers::{Plan, Served, compose, echo, serve, talk};
use support::latency::Latencies;
use support::library::{Attributes, Std};
use support::selvedge::Private;
use support::sockets::{Manners, Network};
use watchdog::Watchdog;

const PLAN: Plan = Plan {
    connections: 12,
    messages: 70,
    bytes: 64,
    manners: Manners::Net,
    attributes: Attributes { stack_size: None, bound: false },
};

fn comes_back<N: Network>() {
    for plan in [
        PLAN,
        Plan { connections: 1, ..PLAN },
        Plan { bytes: 1, ..PLAN },
        Plan { bytes: 64 << 10, messages: 3, ..PLAN },
        Plan { manners: Manners::Announced, ..PLAN },
        Plan { manners: Manners::Bare, ..PLAN },
    ] {
        let said = Default::default();
        let (talk, served) = echo::<N>(plan, &said).unwrap();
        let messages = u64::from(plan.connections * plan.messages);
        assert_eq!((talk.latencies.count(), talk.wrong), (messages, 0), "{plan:?}");
        assert!(talk.elapsed >= talk.latencies.longest(), "{plan:?}");
        let bytes = messages * plan.bytes as u64;
        assert_eq!(served, Served { connections: plan.connections, bytes }, "{plan:?}");
        // Counted by the 64.
        let counted = u64::from(plan.connections * (plan.messages / 64 * 64));
        assert_eq!(said.load(std::sync::atomic::Ordering::Relaxed), counted, "{plan:?}");
    }
}

#[test]
fn everything_comes_back() {
    let _watchdog = Watchdog::start("the echo");
    comes_back::<Std>();
    OneToOne::new().unwrap().run(comes_back::<Private>);
    on_rungs(&Mxn::builder().concurrency(2), |rt| rt.run(comes_back::<Private>));
}

/// A client that is being served and says nothing holds up no other.
fn served_side_by_side<N: Network>() {
    let listener = N::listen(SocketAddr::from(([127, 0, 0, 1], 0)), 3).unwrap();
    let address = N::address(&listener).unwrap();
    let clients = std::thread::spawn(move || {
        let open = |_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            say(&mut stream);
            stream
        };
        let mut streams = [0, 1, 2].map(open);
        streams.iter_mut().rev().for_each(say);
    });
    let plan = Plan { connections: 3, ..PLAN };
    assert_eq!(serve::<N>(listener, plan).unwrap(), Served { connections: 3, bytes: 3 * 2 * 4 });
    clients.join().unwrap();
}

fn say(stream: &mut TcpStream) {
    let mut heard = [0; 4];
    stream.write_all(b"warp").unwrap();
    stream.read_exact(&mut heard).expect("an echo, while others are silent");
    assert_eq!(&heard, b"warp");
}

#[test]
fn a_silent_client_holds_up_no_other() {
    let _watchdog = Watchdog::start("silent clients");
    served_side_by_side::<Std>();
    OneToOne::new().unwrap().run(served_side_by_side::<Private>);
    Mxn::builder().concurrency(1).build().unwrap().run(served_side_by_side::<Private>);
}

/// A server of one connection that treats the bytes in its own way, for so many reads of 64.
fn server(reads: u32, mut treat: impl FnMut(u32, &mut [u8]) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 64];
        for number in 0..reads {
            stream.read_exact(&mut bytes).unwrap();
            treat(number, &mut bytes);
            stream.write_all(&bytes).unwrap();
        }
    });
    address
}

#[test]
fn what_does_not_come_back_is_noticed() {
    let _watchdog = Watchdog::start("bad servers");
    let plan = Plan { connections: 1, messages: 10, ..PLAN };
    let flips = server(10, |number, bytes| bytes[5] ^= u8::from(number == 3));
    assert_eq!(talk::<Std>(flips, plan, &Default::default()).unwrap().wrong, 1);
    // Yesterday's message, again and again: of 64 random bytes, few are the same.
    let mut first = None;
    let repeats = server(10, move |_, bytes| bytes.copy_from_slice(first.get_or_insert(bytes.to_vec())));
    assert!(talk::<Std>(repeats, plan, &Default::default()).unwrap().wrong > 9 * 50);
    let hangs_up = server(9, |_, _| ());
    let error = talk::<Std>(hangs_up, plan, &Default::default()).unwrap_err();
    assert!(
        matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset),
        "{error:?}"
    );
}

/// A socket that has an address and does not listen.
fn bound() -> (OwnedFd, SocketAddr) {
    // SAFETY: no memory is involved.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    assert!(socket >= 0, "{}", io::Error::last_os_error());
    // SAFETY: new, and ours alone.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: of zeros, it is an address: no port, any interface.
    let mut name: libc::sockaddr_in = unsafe { mem::zeroed() };
    name.sin_family = libc::AF_INET as libc::sa_family_t;
    name.sin_addr.s_addr = u32::from(Ipv4Addr::LOCALHOST).to_be();
    let mut length = size_of_val(&name) as libc::socklen_t;
    // SAFETY: an address of this length.
    let error = unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), length) };
    assert_eq!(error, 0, "{}", io::Error::last_os_error());
    // SAFETY: room for an address of this length.
    let error = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut name).cast(), &raw mut length) };
    assert_eq!(error, 0, "{}", io::Error::last_os_error());
    (socket, SocketAddr::from((Ipv4Addr::LOCALHOST, u16::from_be(name.sin_port))))
}

#[test]
fn no_client_waits_for_one_that_cannot_connect() {
    let _watchdog = Watchdog::start("no server");
    // Bound, so that no other gets the port; and no socket listens.
    let (_bound, address) = bound();
    let refused = |result: io::Result<_>| {
        let error = result.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
    };
    refused(talk::<Std>(address, PLAN, &Default::default()).map(|_| ()));
    let rt = Mxn::new().unwrap();
    refused(rt.run(|| talk::<Private>(address, PLAN, &Default::default()).map(|_| ())));
    // Nor a server for clients that cannot exist.
    let none = Plan { attributes: Attributes { stack_size: Some(usize::MAX), bound: false }, ..PLAN };
    let listener = Std::listen(SocketAddr::from(([127, 0, 0, 1], 0)), 12).unwrap();
    let address = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || serve::<Std>(listener, PLAN));
    assert!(rt.run(|| talk::<Private>(address, none, &Default::default())).is_err());
    assert_eq!(served.join().unwrap().unwrap(), Served { connections: 12, bytes: 0 });
}

#[test]
fn no_two_messages_are_alike() {
    let message = |number, message| {
        let mut text = [0; 13];
        compose(&mut text, number, message);
        text
    };
    let all: HashSet<_> =
        (0..50).flat_map(|client| (0..50).map(move |number| message(client, number))).collect();
    assert_eq!(all.len(), 2_500);
    assert_eq!(message(3, 4), message(3, 4));
}

#[test]
fn latencies_are_told_to_within_two_percent() {
    let mut all = Latencies::default();
    assert_eq!((all.count(), all.percentile(50.0), all.longest()), (0, Duration::ZERO, Duration::ZERO));
    let (mut even, mut odd) = (Latencies::default(), Latencies::default());
    for micros in 1..=10_000 {
        let half = if micros % 2 == 0 { &mut even } else { &mut odd };
        half.record(Duration::from_micros(micros));
    }
    all.add(&even);
    all.add(&odd);
    assert_eq!((all.count(), all.longest()), (10_000, Duration::from_millis(10)));
    for (percent, micros) in
        [(0.0, 1), (0.01, 1), (50.0, 5_000), (99.0, 9_900), (99.9, 9_990), (100.0, 10_000)]
    {
        let exact = Duration::from_micros(micros);
        let told = all.percentile(percent);
        assert!(told >= exact && told <= exact.mul_f64(1.02), "{percent} %: {told:?}, not {exact:?}");
    }
    // Whatever the latency, and to the nanosecond where there are few.
    for nanos in (0..64).chain((6..64).map(|power| 1_u64 << power)).chain([u64::MAX]) {
        let mut one = Latencies::default();
        one.record(Duration::from_nanos(nanos));
        one.record(Duration::from_nanos(u64::MAX));
        let told = one.percentile(50.0).as_nanos() as f64;
        assert!(told >= nanos as f64 && told <= nanos as f64 * 1.02, "{nanos}: {told}");
        assert!(nanos >= 64 || told == nanos as f64, "{nanos}: {told}");
    }
}

#[test]
fn the_program_reads_its_options() {
    let options = |line: &str| parse(line.split_whitespace(), None);
    assert_eq!(options(""), Ok(THOUSAND));
    assert_eq!((THOUSAND.plan.connections, THOUSAND.threads()), (1_000, 2_001));
    let address = SocketAddr::from(([127, 0, 0, 1], 7007));
    let plan = Plan {
        connections: 2,
        messages: 3,
        bytes: 4,
        manners: Manners::Announced,
        attributes: Attributes { stack_size: Some(65536), bound: false },
    };
    let all = Options {
        role: Role::Client(address),
        plan,
        max_lwps: 5,
        concurrency: Concurrency::of(6),
        model: Model::Std,
        json: true,
    };
    let line = "-n 2 -i 3 -b 4 -s std -a yes -S 65536 -m 5 -c 6 -r std --json --connect 127.0.0.1:7007";
    assert_eq!(options(line), Ok(all));
    assert_eq!(all.threads(), 3);
    assert_eq!(options("-s std").unwrap().plan.manners, Manners::Bare);
    let listens = Options { role: Role::Server(address), ..THOUSAND };
    assert_eq!(options("--listen 127.0.0.1:7007"), Ok(listens));
    assert_eq!(options("-?"), Err(Refusal::Help));
    for wrong in [
        "-n 0",
        "-b 65537",
        "-a maybe",
        "-a yes",
        "-s ours",
        "-m 2048",
        "-r vax",
        "-x",
        "--listen here",
        "--listen 127.0.0.1:1 --connect 127.0.0.1:1",
        "more",
    ] {
        assert!(matches!(options(wrong), Err(Refusal::Wrong(_))), "{wrong}");
    }
}

#[test]
fn the_program_says_how_it_ended() {
    let _watchdog = Watchdog::start("the program");
    let run = |line: &str, environment: Option<&str>| {
        program::run(line.split_whitespace(), environment.map(Into::into))
    };
    for environment in [None, Some("mxn"), Some("onetoone")] {
        assert_eq!(run("-n 10 -i 20", environment), 0);
    }
    assert_eq!(run("-n 10 -i 20 -s std -a yes -r mxn --json", None), 0);
    assert_eq!(run("-n 10 -i 20 -r std --json", None), 0);
    assert_eq!(run("-?", None), 0);
    assert_eq!(run("-n none", None), 1);
    // An address that no host has.
    assert_eq!(run("--connect 127.0.0.1:1 -n 2 -r onetoone", None), 1);
    assert_eq!(run("", Some("vax")), 1);
}

/// Tells the other end where the program listens.
struct Lines {
    line: Vec<u8>,
    lines: Sender<String>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            if byte == b'\n' {
                // The listener may have heard enough.
                let _ = self.lines.send(String::from_utf8(std::mem::take(&mut self.line)).unwrap());
            } else {
                self.line.push(byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The two ends apart, on different runtimes.
#[test]
fn server_and_clients_can_be_apart() {
    let _watchdog = Watchdog::start("server and clients");
    for (server, clients) in [(Model::Mxn, Model::Std), (Model::OneToOne, Model::Mxn)] {
        let plan = Plan { manners: Manners::Announced, ..PLAN };
        let options = Options { plan, ..THOUSAND };
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let listens = Options { role: Role::Server(free), model: server, ..options };
        let (lines, told) = channel();
        let listener = std::thread::spawn(move || {
            let mut text = Lines { line: Vec::new(), lines };
            program::perform(&listens, &mut text).unwrap()
        });
        let first = told.recv().unwrap();
        let address = first.strip_prefix("listening at ").unwrap_or_else(|| panic!("{first}"));
        let role = Role::Client(address.parse().unwrap());
        let talked = program::perform(&Options { role, model: clients, ..options }, &mut io::sink()).unwrap();
        assert_eq!(talked.exit_status(), 0, "{}", talked.to_json());
        let served = listener.join().unwrap();
        assert_eq!(served.exit_status(), 0, "{}", served.to_json());
    }
}
