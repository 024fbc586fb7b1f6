//! TLS: a server that sends back what it is sent, with rustls over the sockets of `selvedge::net`.
//!
//! rustls reads and writes through `Read` and `Write`, as with std's sockets. It makes its certificate at the
//! start. Clients that are to trust it find it in a file.
//!
//! ```text
//! cargo run --release --example tls_echo -- --certificate /tmp/localhost.pem
//! openssl s_client -connect localhost:8443 -CAfile /tmp/localhost.pem
//! ```

use std::error::Error;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use selvedge::net::{TcpListener, TcpStream};
use selvedge::thread::Builder;

const USAGE: &str = "\
usage: tls_echo [--listen <address>] [--certificate <file>] [--idle <ms>]

  --listen       where to listen (127.0.0.1:8443)
  --certificate  where to write the certificate of localhost, as PEM
  --idle         how long a client may be silent, also in the handshake (60000)

SELVEDGE_RUNTIME=mxn|onetoone chooses the threads.
";

#[derive(Debug)]
struct Options {
    listen: String,
    certificate: Option<PathBuf>,
    idle: Duration,
}

impl Options {
    /// Reads the command line of the process.
    fn parse() -> Result<Self, lexopt::Error> {
        use lexopt::prelude::*;

        let mut listen = "127.0.0.1:8443".to_owned();
        let (mut certificate, mut idle) = (None, 60_000);
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("listen") => listen = parser.value()?.string()?,
                Long("certificate") => certificate = Some(parser.value()?.into()),
                Long("idle") => idle = parser.value()?.parse()?,
                Short('?' | 'h') | Long("help") => {
                    print!("{USAGE}");
                    process::exit(0);
                }
                _ => return Err(argument.unexpected()),
            }
        }
        Ok(Self { listen, certificate, idle: Duration::from_millis(idle.max(1)) })
    }
}

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(error) => {
            eprint!("tls_echo: {error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = selvedge::run(|| serve(&options)) {
        eprintln!("tls_echo: {error}");
    }
    ExitCode::FAILURE
}

/// Makes a key and a certificate for `localhost`, and writes the certificate for clients.
fn config(options: &Options) -> Result<ServerConfig, Box<dyn Error + Send + Sync>> {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    if let Some(file) = &options.certificate {
        std::fs::write(file, own.cert.pem()).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
    Ok(ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key)?)
}

/// Starts a thread for each connection, until the process is ended.
fn serve(options: &Options) -> Result<(), Box<dyn Error + Send + Sync>> {
    let config = Arc::new(config(options)?);
    let idle = options.idle;
    let listener =
        TcpListener::bind(&options.listen).map_err(|error| format!("{}: {error}", options.listen))?;
    println!("listening at {}", listener.local_addr()?);
    io::stdout().flush()?;
    for client in listener.incoming() {
        let config = Arc::clone(&config);
        let started = client.and_then(|client| {
            Builder::new().spawn(move || {
                // A client that speaks no TLS, or goes away: the next one may be better.
                let _ = echo(client, config, idle).inspect_err(|error| eprintln!("tls_echo: {error}"));
            })
        });
        // The client is gone, or there is no room for another connection, which is then closed.
        let _ = started.inspect_err(|error| eprintln!("tls_echo: {error}"));
    }
    Ok(())
}

/// Sends back what comes, until the client has no more to say.
fn echo(client: TcpStream, config: Arc<ServerConfig>, idle: Duration) -> io::Result<()> {
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(idle))?;
    client.set_write_timeout(Some(idle))?;
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, client);
    let mut buffer = vec![0; 16 << 10];
    loop {
        // The first read does the handshake.
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            stream.conn.send_close_notify();
            return stream.flush();
        }
        stream.write_all(&buffer[..length])?;
    }
}
