//! rusqlite, with SQLite in it: a C library with mutexes and error codes of its own.

use std::sync::Arc;

use harness::{HOPS, crew};
use rusqlite::{Connection, params};
use selvedge::sync::Mutex;

fn own_and_shared_databases() -> usize {
    let shared = Connection::open_in_memory().expect("a database");
    shared.execute_batch("CREATE TABLE log (member INTEGER, round INTEGER)").expect("the table");
    let shared = Arc::new(Mutex::new(shared));
    let theirs = shared.clone();
    let rounds = HOPS / 8;
    let migrations = crew(8, move |member| {
        let own = Connection::open_in_memory().expect("a database");
        own.execute_batch("CREATE TABLE square (n INTEGER PRIMARY KEY, nn INTEGER)").expect("the table");
        for n in 0..rounds {
            own.execute("INSERT INTO square VALUES (?1, ?2)", params![n, n * n]).expect("a row");
            member.hop();
            let log = theirs.lock();
            log.execute("INSERT INTO log VALUES (?1, ?2)", params![member.index(), n]).expect("a row");
            member.hop();
            let last = "SELECT member, round FROM log WHERE rowid = last_insert_rowid()";
            let last = log.query_row(last, [], |row| Ok((row.get(0)?, row.get(1)?)));
            assert_eq!(last, Ok((member.index(), n)));
        }
        let mut query = own.prepare("SELECT n, nn FROM square ORDER BY n").expect("a query");
        let mut rows = query.query([]).expect("an answer");
        let mut n = 0;
        while let Some(row) = rows.next().expect("a row") {
            assert_eq!((row.get(0), row.get(1)), (Ok(n), Ok(n * n)));
            // In the middle of a statement.
            member.hop();
            n += 1;
        }
        assert_eq!(n, rounds);
        let failed = own.execute("INSERT INTO square VALUES (0, 0)", []).expect_err("the key exists");
        assert!(failed.to_string().contains("UNIQUE"), "{failed}");
    });
    let count: usize =
        shared.lock().query_row("SELECT count(*) FROM log", [], |row| row.get(0)).expect("a row");
    assert_eq!(count, 8 * rounds);
    migrations
}

harness::on_every_runtime!(own_and_shared_databases);
