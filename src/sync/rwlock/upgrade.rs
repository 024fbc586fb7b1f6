//! The upgradable reader goes on as the writer: at once if no other thread reads, otherwise when the last
//! of the others has left. The protocol is in `raw.rs`.

use crate::observe::contention::Contention;
use crate::park::current::{current, waiter_hint};
use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Woken};

use super::leave::not_locked;
use super::raw::{Looks, RawRwLock, options};
use super::word::{Queue, Share};

impl RawRwLock {
    /// Upgrades, if no other thread reads.
    #[inline]
    pub(super) fn try_upgrade(&self) -> bool {
        self.word.try_upgrade_idle() || self.try_upgrade_waited_for()
    }

    /// Upgrades a lock that other threads may wait for, unless others read.
    #[inline(never)]
    fn try_upgrade_waited_for(&self) -> bool {
        loop {
            let seen = self.word.look();
            if !seen.has(Share::UPGRADABLE) {
                not_locked();
            }
            if seen.readers() > 1 {
                return false;
            }
            if self.word.try_take(seen, seen.upgraded()) {
                self.change_owner(seen, Share::UPGRADABLE, Share::WRITE);
                return true;
            }
        }
    }

    /// Upgrades when no other thread reads, unless `wait` ends before.
    #[inline]
    pub(super) fn upgrade_with(&self, wait: Wait) -> Result<(), WaitError> {
        wait.run(|wait| if self.try_upgrade() { Ok(()) } else { self.upgrade_slow(wait) })
    }

    #[cold]
    fn upgrade_slow(&self, wait: Wait) -> Result<(), WaitError> {
        current();
        self.forget_others();
        let mut contention = Contention::begin(self.address(), WaitReason::RwLock);
        let options = options(wait);
        let door = self.close_door();
        loop {
            let mut looks = Looks::new(waiter_hint());
            loop {
                if self.try_upgrade() {
                    door.leave_closed();
                    self.still_owner();
                    return Ok(());
                }
                if !looks.look(self.owner(), || ()) {
                    break;
                }
            }
            let others_read = || self.word.look().readers() > 1;
            let wait = || wait_queue::wait_while(self.key(Queue::Upgrader), &options, others_read);
            return match contention.during(wait) {
                Err(_) => continue,
                Ok(Woken::Granted(_)) => {
                    door.leave_closed();
                    self.still_owner();
                    self.change_owner(self.bits(), Share::UPGRADABLE, Share::WRITE);
                    Ok(())
                }
                Ok(Woken::Ended { why, .. }) => Err(why),
            };
        }
    }
}
