//! Implementations that many types of this module have in common.

/// Implements what each guard has: access to the value, and `Debug` and `Display` as the value's. It takes,
/// in this order:
///
/// - the guard's generic parameters except `T`, each with a comma behind it, in brackets
/// - the guard's type
/// - how a shared borrow of the guard gives the value
/// - if the value may change: how an exclusive borrow gives it
macro_rules! guard {
    ([$($params:tt)*] $guard:ty: |$shared:ident| $value:expr, mut |$exclusive:ident| $mut_value:expr) => {
        $crate::sync::impls::guard! { [$($params)*] $guard: |$shared| $value }

        impl<$($params)* T: ?Sized> std::ops::DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                let $exclusive = self;
                $mut_value
            }
        }
    };
    ([$($params:tt)*] $guard:ty: |$shared:ident| $value:expr) => {
        impl<$($params)* T: ?Sized> std::ops::Deref for $guard {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                let $shared = self;
                $value
            }
        }

        impl<$($params)* T: ?Sized + std::fmt::Debug> std::fmt::Debug for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($params)* T: ?Sized + std::fmt::Display> std::fmt::Display for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

/// Defines methods that are one expression each, the `unsafe` ones last. The traits of `lock_api` only have
/// other names for what a raw lock does.
macro_rules! forward {
    ($(fn $method:ident(&$this:ident $(, $limit:ident: $time:ty)?) $(-> $result:ty)? = $own:expr;)*
     $(unsafe fn $unsafe:ident(&$owner:ident $(, $by:ident: $until:ty)?) $(-> $outcome:ty)? = $leave:expr;)*
    ) => {
        $(#[inline]
        fn $method(&$this $(, $limit: $time)?) $(-> $result)? {
            $own
        })*
        $(#[inline]
        unsafe fn $unsafe(&$owner $(, $by: $until)?) $(-> $outcome)? {
            $leave
        })*
    };
}

pub(super) use {forward, guard};
