//! `Serialize` and `Deserialize` for locks that are not `lock_api`'s (which has its own): as the value, without the lock.
//!
//! A lock is locked while its value is written. What cannot be locked in good order is an error: serde asks for no more than that, and a
//! value that nobody vouches for should not reach a file.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};

use super::robust::{Legacy, Lock, RawRobust};
use super::{CheckedMutex, poison};

macro_rules! from_value {
    ($($lock:ty),*) => {$(
        impl<'de, T: Deserialize<'de>> Deserialize<'de> for $lock {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                T::deserialize(deserializer).map(Self::new)
            }
        }
    )*};
}

from_value!(CheckedMutex<T>, poison::Mutex<T>, poison::RwLock<T>);

impl<'de, R: Default, T: Deserialize<'de>> Deserialize<'de> for Lock<R, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

/// An error where the running thread has it locked.
impl<T: ?Sized + Serialize> Serialize for CheckedMutex<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lock().map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// An error where the running thread has it locked, or its last owner has not left well; the news is then for the next one.
impl<R: RawRobust, T: ?Sized + Serialize> Serialize for Lock<R, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.lock().map_err(S::Error::custom)? {
            Legacy::Sound(guard) => guard.serialize(serializer),
            legacy => Err(S::Error::custom(legacy.refuse())),
        }
    }
}

/// An error where it is poisoned.
impl<T: ?Sized + Serialize> Serialize for poison::Mutex<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.lock() {
            Ok(guard) => guard.serialize(serializer),
            Err(_) => Err(S::Error::custom("the lock is poisoned")),
        }
    }
}

/// An error where it is poisoned.
impl<T: ?Sized + Serialize> Serialize for poison::RwLock<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.read() {
            Ok(guard) => guard.serialize(serializer),
            Err(_) => Err(S::Error::custom("the lock is poisoned")),
        }
    }
}
