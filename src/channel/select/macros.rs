//! The macros `select!` and `select_biased!`.
//!
//! The arms are read one by one: the operation before the arrow, then the body. Each is stored with a
//! number. One expression is then made of all: an array of the operations, a choice, and a `match` over
//! the number. Its arms complete the operation.

/// Waits until one of several operations is ready, does it, and runs its body.
///
/// | operation | ready when | result |
/// |---|---|---|
/// | `recv(receiver) -> result` | there is a message, or no sender is left | `Result<T, RecvError>` |
/// | `send(sender, message) -> result` | there is room, or no receiver is left | `Result<(), SendError<T>>` |
/// | `join(handle) -> result` | the thread has ended | that of `handle.join()` |
/// | `default` | nothing else is ready | |
/// | `default(timeout)` | nothing else became ready in that time | |
///
/// If several are ready, each has the same chance; [`select_biased!`](crate::channel::select_biased!)
/// takes the first. The macro is an expression: its value is that of the body that was run. Bodies may
/// `break`, `continue` and `return`.
///
/// Senders, receivers and the timeout are evaluated once, before the wait. A message is made only after its
/// send has been selected. Until then its room in the channel is reserved, or [its
/// receiver](crate::channel#a-select-that-sends-without-a-buffer).
///
/// `handle` is a mutable variable or field that is a [`JoinHandle`](crate::thread::JoinHandle), or any
/// mutable place that is an `Option` of one, like `workers[next()]`. Such a place is evaluated once, before
/// the wait. Only when the operation is selected, the handle is moved out of the variable or taken out of the
/// `Option`. `None` never ends.
///
/// # Examples
///
/// ```
/// use selvedge::channel::{self, select};
/// use std::time::Duration;
///
/// let (s1, r1) = channel::unbounded();
/// let (s2, r2) = channel::rendezvous::<u32>();
/// s1.send("hello").unwrap();
///
/// let got = select! {
///     recv(r1) -> message => message.unwrap(),
///     recv(r2) -> _ => unreachable!("no thread sends"),
///     default(Duration::from_secs(60)) => "nothing",
/// };
/// assert_eq!(got, "hello");
/// # drop(s2);
/// ```
///
/// Until a thread ends:
///
/// ```
/// use selvedge::channel::{self, select};
/// use selvedge::{Mxn, Runtime, thread};
///
/// let rt = Mxn::new()?;
/// let total = rt.run(|| {
///     let (s, r) = channel::bounded(1);
///     let mut worker = Some(thread::spawn(move || {
///         (1..=3).for_each(|n| s.send(n).unwrap());
///         "done"
///     }));
///     let (mut total, mut open) = (0, true);
///     while open || worker.is_some() {
///         select! {
///             recv(if open { r.clone() } else { channel::never() }) -> message => match message {
///                 Ok(n) => total += n,
///                 Err(_) => open = false,
///             },
///             join(worker) -> result => assert_eq!(result.unwrap(), "done"),
///         }
///     }
///     total
/// });
/// assert_eq!(total, 6);
/// # std::io::Result::Ok(())
/// ```
///
/// # Blocks
///
/// The thread, while no operation is ready; not if there is a `default` without a timeout.
#[macro_export]
#[doc(hidden)]
macro_rules! __selvedge_select {
    () => { compile_error!("a `select!` without operations would wait forever") };
    ($($arms:tt)+) => {
        $crate::channel::internal::arms! {
            [false] [] []
            [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31]
            $($arms)+
        }
    };
}

/// [`select!`](crate::channel::select!) that does the first of several operations that are ready.
///
/// # Examples
///
/// ```
/// use selvedge::channel::{self, select_biased};
///
/// let (s, r) = channel::unbounded();
/// for n in 0..10 {
///     select_biased! {
///         send(s, n) -> result => result.unwrap(),
///         recv(r) -> _ => unreachable!("the other one comes first"),
///     }
/// }
/// ```
///
/// # Blocks
///
/// As `select!`.
#[macro_export]
#[doc(hidden)]
macro_rules! __selvedge_select_biased {
    () => { compile_error!("a `select_biased!` without operations would wait forever") };
    ($($arms:tt)+) => {
        $crate::channel::internal::arms! {
            [true] [] []
            [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31]
            $($arms)+
        }
    };
}

/// Reads arms: how to choose, the default, the arms that have been read, numbers for the others, the
/// others.
#[macro_export]
#[doc(hidden)]
macro_rules! __selvedge_select_arms {
    // A body: a block, which needs no comma, or any expression. It ends an arm, which begins with `head`, and
    // is added to a list between what stands before and after that.
    (@body {$($before:tt)*} [$($list:tt)*] {$($after:tt)*} [$($head:tt)*] $body:block , $($rest:tt)*) => {
        $crate::channel::internal::arms! { $($before)* [$($list)* [$($head)* ($body)]] $($after)* $($rest)* }
    };
    (@body {$($before:tt)*} [$($list:tt)*] {$($after:tt)*} [$($head:tt)*] $body:block $($rest:tt)*) => {
        $crate::channel::internal::arms! { $($before)* [$($list)* [$($head)* ($body)]] $($after)* $($rest)* }
    };
    (@body {$($before:tt)*} [$($list:tt)*] {$($after:tt)*} [$($head:tt)*] $body:expr , $($rest:tt)*) => {
        $crate::channel::internal::arms! { $($before)* [$($list)* [$($head)* ($body)]] $($after)* $($rest)* }
    };
    (@body {$($before:tt)*} [$($list:tt)*] {$($after:tt)*} [$($head:tt)*] $body:expr) => {
        $crate::channel::internal::arms! { $($before)* [$($list)* [$($head)* ($body)]] $($after)* }
    };
    // The operation before the arrow.
    ($how:tt $default:tt $done:tt [$n:tt $($ns:tt)*] recv($r:expr $(,)?) -> $p:pat => $($rest:tt)+) => {
        $crate::channel::internal::arms! { @body {$how $default} $done {[$($ns)*]} [recv $n ($r) () ($p)] $($rest)+ }
    };
    ($how:tt $default:tt $done:tt [$n:tt $($ns:tt)*] send($s:expr, $m:expr $(,)?) -> $p:pat => $($rest:tt)+) => {
        $crate::channel::internal::arms! { @body {$how $default} $done {[$($ns)*]} [send $n ($s) ($m) ($p)] $($rest)+ }
    };
    // A variable or field is evaluated again to move the handle out of it. Any other place must be an
    // `Option`: it is evaluated once and borrowed.
    ($how:tt $default:tt $done:tt [$n:tt $($ns:tt)*] join($h:ident $(. $field:tt)* $(,)?) -> $p:pat => $($rest:tt)+) => {
        $crate::channel::internal::arms! {
            @body {$how $default} $done {[$($ns)*]} [join $n ($h $(. $field)*) (move) ($p)] $($rest)+
        }
    };
    ($how:tt $default:tt $done:tt [$n:tt $($ns:tt)*] join($h:expr $(,)?) -> $p:pat => $($rest:tt)+) => {
        $crate::channel::internal::arms! { @body {$how $default} $done {[$($ns)*]} [join $n ($h) () ($p)] $($rest)+ }
    };
    ($how:tt [] $done:tt $numbers:tt default $(($($timeout:expr $(,)?)?))? => $($rest:tt)+) => {
        $crate::channel::internal::arms! { @body {$how} [] {$done $numbers} [$($(($timeout))?)?] $($rest)+ }
    };
    ($how:tt [$($default:tt)+] $done:tt $numbers:tt default $($rest:tt)*) => {
        compile_error!("`select!` has two `default` arms")
    };
    ($how:tt $default:tt $done:tt [] $($rest:tt)+) => {
        compile_error!("`select!` has more than 32 operations")
    };
    // All arms have been read.
    ([$biased:tt] $default:tt [$([$kind:ident $n:tt ($e:expr) $m:tt ($p:pat) ($body:expr)])*] $numbers:tt) => {
        // A `match`, and not a `let`: the operations may borrow temporaries.
        match ($($crate::channel::internal::arm!(@handle $kind $e),)*) {
            handles => {
                let operations = [$($crate::channel::internal::$kind(handles.$n)),*];
                let operation = $crate::channel::internal::choose_by!(operations $biased $default);
                match operation.index() {
                    $($n => {
                        let $p =
                            $crate::channel::internal::arm!(@complete $kind operation (handles.$n) ($e) $m);
                        $body
                    })*
                    _ => {
                        operation.nothing();
                        $crate::channel::internal::default!($default)
                    }
                }
            }
        }
    };
    ($how:tt $default:tt $done:tt $numbers:tt $($rest:tt)+) => {
        compile_error!(concat!(
            "expected `recv(receiver) -> result => body`, `send(sender, message) -> result => body`, ",
            "`join(handle) -> result => body`, `default => body` or `default(timeout) => body`, found `",
            stringify!($($rest)+),
            "`"
        ))
    };
}

/// Expands to the choice.
#[macro_export]
#[doc(hidden)]
macro_rules! __selvedge_select_choose {
    ($operations:ident $biased:tt []) => {
        $crate::channel::internal::select(
            $operations,
            $biased,
            ::std::option::Option::Some($crate::channel::internal::Wait::forever()),
        )
    };
    ($operations:ident $biased:tt [[($default:expr)]]) => {
        $crate::channel::internal::select($operations, $biased, ::std::option::Option::None)
    };
    ($operations:ident $biased:tt [[($timeout:expr) ($default:expr)]]) => {
        $crate::channel::internal::select(
            $operations,
            $biased,
            ::std::option::Option::Some($crate::channel::internal::Wait::timeout($timeout)),
        )
    };
}

/// Expands to the body for the case that nothing was chosen.
#[macro_export]
#[doc(hidden)]
macro_rules! __selvedge_select_default {
    ([]) => {
        ::std::unreachable!("an index of the array")
    };
    ([[($default:expr)]]) => {
        $default
    };
    ([[($timeout:expr) ($default:expr)]]) => {
        $default
    };
}

/// Expands to what differs between the three kinds of operations.
#[macro_export]
#[doc(hidden)]
macro_rules! __selvedge_select_arm {
    (@handle join $h:expr) => {
        &mut $h
    };
    (@handle $kind:ident $e:expr) => {
        &$e
    };
    (@complete recv $operation:ident ($handle:expr) $e:tt $m:tt) => {
        $operation.recv($handle)
    };
    (@complete send $operation:ident ($handle:expr) $e:tt ($m:expr)) => {{
        let message = $m;
        $operation.send($handle, message)
    }};
    (@complete join $operation:ident ($handle:expr) ($h:expr) (move)) => {{
        $operation.join();
        use $crate::channel::internal::Joined as _;
        $h.joined()
    }};
    (@complete join $operation:ident ($handle:expr) ($h:expr) ()) => {{
        $operation.join();
        $crate::channel::internal::Joined::joined($handle)
    }};
}
