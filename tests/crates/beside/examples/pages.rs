//! A program of ordinary threads that uses three async libraries: reqwest fetches, sqlx stores, tokio's clock
//! limits both. Each thread awaits what it needs, one line after the other. tokio's runtime runs beside.
//!
//! `cargo run --example pages` (in `tests/crates`); `SELVEDGE_RUNTIME` chooses the threads.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use selvedge::future::block_on;
use selvedge::net::{TcpListener, TcpStream};
use selvedge::thread;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use tokio::time::timeout;

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PAGES: i64 = 100;
const LIMIT: Duration = Duration::from_secs(30);

/// Answers one request with a page whose length is in its path.
fn answer(stream: TcpStream) -> std::io::Result<()> {
    let mut line = String::new();
    let mut lines = BufReader::new(&stream);
    lines.read_line(&mut line)?;
    let length: usize = line.split(['/', ' ']).find_map(|word| word.parse().ok()).unwrap_or(0);
    while lines.read_line(&mut line)? > 2 {}
    write!(
        &stream,
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{}",
        "x".repeat(length)
    )
}

/// Fetches a page, and stores how long it is.
fn store(page: i64, address: &str, client: &reqwest::Client, pages: &SqlitePool) -> Result {
    let text = block_on(async {
        let request = async { client.get(format!("http://{address}/{page}")).send().await?.text().await };
        timeout(LIMIT, request).await
    })??;
    let insert = sqlx::query("INSERT INTO page VALUES (?, ?)").bind(page).bind(text.len() as i64);
    block_on(async { timeout(LIMIT, insert.execute(pages)).await })??;
    Ok(())
}

fn main() -> Result {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let tokio = runtime.handle().clone();
    selvedge::run(move || {
        // The libraries find tokio's clock and sockets by this. Each thread enters for itself.
        let _in_tokio = tokio.enter();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(|| answer(stream.expect("a connection")));
            }
        });
        let in_memory = SqliteConnectOptions::new().in_memory(true);
        let pages = block_on(SqlitePoolOptions::new().max_connections(1).connect_with(in_memory))?;
        block_on(
            sqlx::raw_sql("CREATE TABLE page (number INTEGER PRIMARY KEY, length INTEGER)").execute(&pages),
        )?;
        let client = reqwest::Client::builder().no_proxy().build()?;

        let (tokio, address, client, pages) = (&tokio, &address, &client, &pages);
        thread::task_group(|group| {
            for page in 1..=PAGES {
                group.spawn(move || {
                    let _in_tokio = tokio.enter();
                    store(page, address, client, pages)
                });
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        })?;

        let sum = sqlx::query_as("SELECT COUNT(*), SUM(length) FROM page").fetch_one(pages);
        let (count, length): (i64, i64) = block_on(sum)?;
        println!("{count} pages, {length} bytes");
        assert_eq!((count, length), (PAGES, PAGES * (PAGES + 1) / 2));
        block_on(pages.close());
        Ok(())
    })
}
