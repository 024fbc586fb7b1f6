//! `Serialize` and `Deserialize` for locks that are not `lock_api`'s (which has its own): as the value,
//! without the lock.
//!
//! A lock is locked while its value is written. If it cannot be locked as usual, that is an error. That is
//! enough for serde, and a value that may be broken should not reach a file.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};

use super::lock::{Lock, RawLock};
use super::robust::{Acquired, RawRobust};
use super::{CheckedMutex, poison};

impl<'de, T: Deserialize<'de>> Deserialize<'de> for poison::RwLock<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

impl<'de, R: RawLock + Default, T: Deserialize<'de>> Deserialize<'de> for Lock<R, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

/// Fails if the running thread has locked it.
impl<T: ?Sized + Serialize> Serialize for CheckedMutex<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lock().map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// Fails if the running thread has locked it, or its last owner has not left it sound. The next owner
/// then gets the news.
impl<R: RawRobust, T: ?Sized + Serialize> Serialize for Lock<R, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.lock().map_err(S::Error::custom)? {
            Acquired::Consistent(guard) => guard.serialize(serializer),
            acquired => Err(S::Error::custom(acquired.refuse())),
        }
    }
}

/// Fails if it is poisoned.
impl<T: ?Sized + Serialize> Serialize for poison::Mutex<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.lock() {
            Ok(guard) => guard.serialize(serializer),
            Err(_) => Err(S::Error::custom("the lock is poisoned")),
        }
    }
}

/// Fails if it is poisoned.
impl<T: ?Sized + Serialize> Serialize for poison::RwLock<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.read() {
            Ok(guard) => guard.serialize(serializer),
            Err(_) => Err(S::Error::custom("the lock is poisoned")),
        }
    }
}
