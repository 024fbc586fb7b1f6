//! sqlx in threads, with tokio's runtime beside: a database in memory, and transactions that take turns.

use std::sync::LazyLock;
use std::time::Duration;

use harness::{HOPS, crew};
use selvedge::future::block_on;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use tokio::runtime::{Builder, Runtime};

static TOKIO: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a tokio runtime")
});

const THREADS: usize = 8;
const ROUNDS: usize = HOPS / 20;

/// Opens a database of its own. It lives as long as its one connection, for which the threads wait.
async fn open() -> sqlx::Result<SqlitePool> {
    let forever = SqlitePoolOptions::new().idle_timeout(None).max_lifetime(None);
    let pool = forever
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(120))
        .connect_with(SqliteConnectOptions::new().in_memory(true))
        .await?;
    sqlx::raw_sql("CREATE TABLE account (owner INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
        .execute(&pool)
        .await?;
    Ok(pool)
}

/// Adds 1 to an account, in a transaction. Returns the balance. Each second round fails and is taken back.
async fn deposit(pool: &SqlitePool, owner: i64, keep: bool) -> sqlx::Result<i64> {
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO account VALUES (?, 1) ON CONFLICT DO UPDATE SET balance = balance + 1")
        .bind(owner)
        .execute(&mut *transaction)
        .await?;
    let balance = sqlx::query_scalar("SELECT balance FROM account WHERE owner = ?")
        .bind(owner)
        .fetch_one(&mut *transaction)
        .await?;
    if keep {
        transaction.commit().await?;
    } else {
        transaction.rollback().await?;
    }
    Ok(balance)
}

fn threads_share_a_database() -> usize {
    let pool = TOKIO.block_on(open()).expect("a database");
    let shared = pool.clone();
    let hops = crew(THREADS, move |member| {
        let _in_tokio = TOKIO.enter();
        let owner = member.index() as i64;
        for round in 0..ROUNDS {
            let balance =
                member.across(|| block_on(deposit(&shared, owner, round % 2 == 0))).expect("a balance");
            assert_eq!(balance, round.div_ceil(2) as i64 + 1);
            member.hop();
        }
    });
    let all = sqlx::query_as("SELECT COUNT(*), SUM(balance) FROM account").fetch_one(&pool);
    let (accounts, sum): (i64, i64) = TOKIO.block_on(all).expect("a sum");
    assert_eq!((accounts as usize, sum as usize), (THREADS, THREADS * ROUNDS.div_ceil(2)));
    TOKIO.block_on(pool.close());
    hops
}

harness::on_every_runtime!(threads_share_a_database);
