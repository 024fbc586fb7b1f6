//! How values become bytes, and bytes values. Numbers are varints, so most take one byte.
//!
//! The bytes come from another process. Whatever they are, a reader returns a value or `None`. It takes no
//! more memory than a small multiple of their number.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::park::priority::{Level as PriorityLevel, Priority};
use crate::park::reason::WaitReason;
use crate::runtime::stats::LwpState;
use crate::thread::id::ThreadId;
use crate::trace::{EventKind, Level, SlotCause, State, Track};

/// A value that has bytes.
pub(super) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);

    /// Takes the value from the front of `from`, or returns `None` if there is none.
    fn get(from: &mut &[u8]) -> Option<Self>;

    /// Appends the values, without their number.
    fn put_all(values: &[Self], out: &mut Vec<u8>) {
        values.iter().for_each(|value| value.put(out));
    }

    /// Takes so many values from the front of `from`.
    fn get_all(from: &mut &[u8], many: usize) -> Option<Vec<Self>> {
        (0..many).map(|_| Self::get(from)).collect()
    }
}

/// Bytes travel as they are: a recording has many.
impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        from.split_off_first().copied()
    }

    fn put_all(values: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(values);
    }

    fn get_all(from: &mut &[u8], many: usize) -> Option<Vec<Self>> {
        from.split_off(..many).map(<[u8]>::to_vec)
    }
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut value = *self;
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = from.split_first()?;
            *from = rest;
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Numbers that fit into a `u64`.
macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Wire for $number {
            fn put(&self, out: &mut Vec<u8>) {
                (*self as u64).put(out);
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                u64::get(from)?.try_into().ok()
            }
        }
    )*};
}

numbers! { u16 u32 usize }

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        match u8::get(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Wire for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).put(out);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        u64::get(from).map(Self::from_nanos)
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let length = usize::get(from)?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        str::from_utf8(text).ok().map(str::to_owned)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        if bool::get(from)? { T::get(from).map(Some) } else { Some(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        T::put_all(self, out);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let length = usize::get(from)?;
        // Each value takes a byte at least. So a length that lies allocates nothing.
        if length > from.len() {
            return None;
        }
        T::get_all(from, length)
    }
}

impl<T: Wire, const N: usize> Wire for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|value| value.put(out));
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let values: Option<Vec<T>> = (0..N).map(|_| T::get(from)).collect();
        values?.try_into().ok()
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some((A::get(from)?, B::get(from)?))
    }
}

/// Enumerations: their position in a list.
macro_rules! listed {
    ($($name:ty: $($value:ident)*;)*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                const ALL: &[$name] = &[$(<$name>::$value),*];
                ALL.iter().position(|it| it == self).unwrap_or(0).put(out);
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                const ALL: &[$name] = &[$(<$name>::$value),*];
                ALL.get(usize::get(from)?).copied()
            }
        }
    )*};
}

listed! {
    Level: Off Times Events;
    State: Running Dispatchable Runnable Blocked Sleeping InKernel;
    SlotCause: Computes InKernel Open Home Concurrency;
    LwpState: Starting Running Searching Idle Spare Blocking InKernel WithoutSlot;
}

impl Wire for WaitReason {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u8).put(out);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Self::from_number(u8::get(from)?)
    }
}

impl Wire for Priority {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u8).put(out);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        u8::get(from).map(PriorityLevel::meaning)
    }
}

impl Wire for ThreadId {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_u64().get().put(out);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        u64::get(from).and_then(NonZeroU64::new).map(Self::from_number)
    }
}

/// Enumerations with values or fields: a number each, and these in order.
macro_rules! variants {
    ($name:ident {
        $($number:literal $variant:ident $(($($value:ident),*))? $({ $($field:ident),* })?)*
    }) => {
        impl $crate::threadmon::codec::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {$(
                    Self::$variant $(($($value),*))? $({ $($field),* })? => {
                        out.push($number);
                        $($($crate::threadmon::codec::Wire::put($value, out);)*)?
                        $($($crate::threadmon::codec::Wire::put($field, out);)*)?
                    }
                )*}
            }

            fn get(bytes: &mut &[u8]) -> Option<Self> {
                let (&number, rest) = bytes.split_first()?;
                *bytes = rest;
                Some(match number {
                    $($number => {
                        $($(let $value = $crate::threadmon::codec::Wire::get(bytes)?;)*)?
                        $($(let $field = $crate::threadmon::codec::Wire::get(bytes)?;)*)?
                        Self::$variant $(($($value),*))? $({ $($field),* })?
                    })*
                    _ => return None,
                })
            }
        }
    };
}
pub(super) use variants;

variants! {
    Track {
        0 Lwp { runtime, lwp }
        1 Kernel(number)
    }
}

variants! {
    EventKind {
        0 Spawn { by, priority }
        1 Ready { by, chosen }
        2 Dispatch { cpu }
        3 Block { reason, at }
        4 Yield
        5 Preempt
        6 Exit
        7 EnterKernel
        8 LeaveKernel { cpu }
        9 Steal { from }
        10 Search
        11 Idle
        12 Spare
        13 SlotMove { runtime, from, to, cause }
        14 LwpStart { tid }
        15 LwpEnd
        16 FoundAsleep { runtime, lwp }
        17 FoundRunning { runtime, lwp, cpu }
    }
}

/// Structures: their fields, in order.
macro_rules! wire_struct {
    ($($name:ident { $($field:ident)* })*) => {$(
        impl $crate::threadmon::codec::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::threadmon::codec::Wire::put(&self.$field, out);)*
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                $(let $field = $crate::threadmon::codec::Wire::get(from)?;)*
                Some(Self { $($field),* })
            }
        }
    )*};
}
pub(super) use wire_struct;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn survives<T: Wire + PartialEq + Debug>(value: T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut from = bytes.as_slice();
        assert_eq!(T::get(&mut from), Some(value));
        assert!(from.is_empty());
        for end in 0..bytes.len() {
            assert!(T::get(&mut &bytes[..end]).is_none(), "{end} of {}", bytes.len());
        }
    }

    #[test]
    fn values_survive() {
        [0, 1, 127, 128, 300, u64::MAX - 1, u64::MAX].into_iter().for_each(survives);
        survives(u32::MAX);
        survives("é and more".to_string());
        survives(vec![Some(1_u64), None, Some(u64::MAX)]);
        survives([Duration::from_nanos(7); 3]);
        survives((WaitReason::Mutex, Priority::High));
        survives((LwpState::WithoutSlot, State::InKernel));
        survives(Level::Events);
        survives([Track::Lwp { runtime: 1, lwp: 300 }, Track::Kernel(7)]);
        let by = NonZeroU64::new(9).map(ThreadId::from_number);
        survives(vec![
            EventKind::Spawn { by, priority: Priority::High },
            EventKind::Ready { by: None, chosen: true },
            EventKind::Block { reason: WaitReason::Mutex, at: Some(0xbeef) },
            EventKind::Steal { from: 3 },
            EventKind::Dispatch { cpu: Some(3) },
            EventKind::LeaveKernel { cpu: None },
            EventKind::Preempt,
            EventKind::Spare,
            EventKind::SlotMove { runtime: 300, from: Some(7), to: Some(8), cause: SlotCause::Home },
            EventKind::SlotMove { runtime: 1, from: None, to: Some(0), cause: SlotCause::InKernel },
            EventKind::SlotMove { runtime: 1, from: Some(0), to: None, cause: SlotCause::Concurrency },
            EventKind::LwpStart { tid: 70_000 },
            EventKind::LwpEnd,
            EventKind::FoundAsleep { runtime: 2, lwp: 300 },
            EventKind::FoundRunning { runtime: 2, lwp: 300, cpu: Some(1) },
        ]);
    }

    #[test]
    fn what_does_not_fit_is_no_value() {
        let get = |bytes: &[u8]| u64::get(&mut { bytes });
        assert_eq!(get(&[0xFF; 9]), None);
        assert_eq!(get(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2]), None);
        assert_eq!(u32::get(&mut &[0xFF, 0xFF, 0xFF, 0xFF, 0x7F][..]), None);
        assert_eq!(bool::get(&mut &[2][..]), None);
        assert_eq!(ThreadId::get(&mut &[0][..]), None);
        assert_eq!((EventKind::get(&mut &[16][..]), Track::get(&mut &[2, 0][..])), (None, None));
        let mut long = Vec::new();
        usize::MAX.put(&mut long);
        assert!(Vec::<u8>::get(&mut long.as_slice()).is_none());
        assert!(String::get(&mut long.as_slice()).is_none());
    }
}
