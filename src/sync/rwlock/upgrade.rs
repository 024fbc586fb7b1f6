//! The upgradable reader goes on as the writer: at once, if nobody else reads, or when the last of the others has left. The protocol
//! is in `raw.rs`.

use std::time::Instant;

use crate::park::contention::Contention;
use crate::park::current::{current, place};
use crate::park::interrupt::{self, Interrupted};
use crate::park::reason::WaitReason;
use crate::park::wait_queue::{self, Woken};

use super::leave::not_locked;
use super::patience::Patience;
use super::raw::{Ended, RawRwLock, Until, options, reported};
use super::state::{Queue, Share};

impl RawRwLock {
    /// Upgrades, if nobody else reads.
    #[inline]
    pub(super) fn try_upgrade_now(&self) -> bool {
        self.state.try_upgrade_idle() || self.try_upgrade_waited_for()
    }

    /// The same, of a lock that others wait for, or read.
    #[inline(never)]
    fn try_upgrade_waited_for(&self) -> bool {
        loop {
            let seen = self.state.look();
            if !seen.has(Share::UPGRADABLE) {
                not_locked();
            }
            if seen.readers() > 1 {
                return false;
            }
            if self.state.try_take(seen, seen.upgraded()) {
                self.change_owner(seen, Share::UPGRADABLE, Share::WRITE);
                return true;
            }
        }
    }

    /// Upgrades when nobody else reads, or gives up.
    #[inline]
    pub(super) fn upgrade_until(&self, deadline: Option<Instant>) -> bool {
        self.try_upgrade_now() || self.upgrade_slow(Until::deadline(deadline)) == Ended::Locked
    }

    /// [`upgrade_until`](Self::upgrade_until), which an interrupt ends too.
    pub(super) fn upgrade_interruptible(&self, deadline: Option<Instant>) -> Result<bool, Interrupted> {
        interrupt::check()?;
        if self.try_upgrade_now() {
            return Ok(true);
        }
        reported(self.upgrade_slow(Until::interrupted_or(deadline)))
    }

    #[cold]
    fn upgrade_slow(&self, until: Until) -> Ended {
        current();
        self.forget_others();
        let mut contention = Contention::begin(self.address(), WaitReason::RwLock);
        let options = options(until);
        let door = self.close_door();
        loop {
            let mut patience = Patience::new(place());
            loop {
                if self.try_upgrade_now() {
                    door.leave_closed();
                    self.still_owner();
                    return Ended::Locked;
                }
                if !patience.look(self.owner(), || ()) {
                    break;
                }
            }
            let others_read = || self.state.look().readers() > 1;
            let wait = || wait_queue::wait(self.key(Queue::Upgrader), &options, others_read, || ());
            return match contention.during(wait) {
                Err(_) => continue,
                Ok(Woken::Granted(_)) => {
                    door.leave_closed();
                    self.still_owner();
                    self.change_owner(self.bits(), Share::UPGRADABLE, Share::WRITE);
                    Ended::Locked
                }
                Ok(Woken::Expired { .. }) => Ended::Expired,
                Ok(Woken::Interrupted { .. }) => Ended::Interrupted,
            };
        }
    }
}
