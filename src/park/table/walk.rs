//! A walk over all queues, for reports.

use super::TABLE;

/// Returns for each waiter the address of the thread's core, and the key of its queue. Each bucket is of its
/// own moment.
pub(crate) fn all_waiters() -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for bucket in TABLE.iter() {
        bucket.0.copy_to(&mut found, |bucket, add| {
            bucket.waiters().for_each(|waiter| add((waiter.address(), waiter.key())));
        });
    }
    found
}
