//! An HTTP/1.1 server for the files of a folder, with a thread for each connection.
//!
//! It reads as a server of `std::thread` and `std::net` does. On green threads it holds ten thousand idle
//! connections. SIGTERM or Ctrl-C ends it: it accepts no more connections, closes those that are idle, and
//! answers what has been asked.
//!
//! ```text
//! cargo run --release --example http_server -- docs
//! curl -i http://127.0.0.1:8080/experiments.md
//! ```

mod connection;
mod files;
mod options;
mod request;
mod response;
mod site;

use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use selvedge::net::TcpListener;
use selvedge::thread::{self, Builder};
use selvedge::{Mxn, OneToOne, Runtime, Wait};

use options::{Model, Options};
use site::Site;

/// How long the answers that are under way may take when the server ends.
const GRACE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(error) => {
            eprint!("http_server: {error}\n{}", options::USAGE);
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = run(&options) {
        eprintln!("http_server: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(options: &Options) -> Result<(), Box<dyn Error + Send + Sync>> {
    // The shutdown waits until the last connection is closed, or says which are left.
    match options.model {
        Model::Mxn => {
            let rt = Mxn::new()?;
            rt.run(|| serve(options))?;
            rt.shutdown(GRACE)?;
        }
        Model::OneToOne => {
            let rt = OneToOne::new()?;
            rt.run(|| serve(options))?;
            rt.shutdown(GRACE)?;
        }
    }
    // If nothing reads it, the status tells.
    let _ = writeln!(io::stdout(), "ended");
    Ok(())
}

/// Starts a thread for each connection, until a signal ends the server.
fn serve(options: &Options) -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener =
        TcpListener::bind(&options.listen).map_err(|error| format!("{}: {error}", options.listen))?;
    let site = Site::new(&options.root, options.limits);
    let site = Arc::new(site.map_err(|error| format!("{}: {error}", options.root.display()))?);
    let acceptor = thread::current();
    ctrlc::set_handler(move || acceptor.interrupt())?;
    println!("listening at http://{}/", listener.local_addr()?);
    io::stdout().flush()?;
    loop {
        match listener.accept_with(Wait::forever().interruptible()) {
            Ok((stream, _)) => {
                let site = Arc::clone(&site);
                // If there is no room for another thread, the connection is closed.
                let started = Builder::new().spawn(move || site.visit(stream));
                let _ = started.inspect_err(|error| eprintln!("http_server: no thread: {error}"));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => break,
            // Some clients leave before they are accepted. If descriptors are short, `accept` has waited.
            Err(error) => eprintln!("http_server: accept: {error}"),
        }
    }
    // Clients that come from now on are refused.
    drop(listener);
    site.close();
    Ok(())
}
