//! What types show of themselves: `Debug` with some of their fields, and methods that only look.

/// Implements `Debug`: a name and some fields, with a mark that there is more.
macro_rules! debug {
    ([$($params:tt)*] $type:ty: $name:literal $(, $field:literal: |$this:ident| $value:expr)*) => {
        impl<$($params)*> std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct($name)
                    $(.field($field, &{
                        let $this = self;
                        $value
                    }))*
                    .finish_non_exhaustive()
            }
        }
    };
}

/// Defines public methods that only look: one expression each.
macro_rules! getters {
    ($($(#[$about:meta])* fn $name:ident(&$this:ident) -> $type:ty = $value:expr;)+) => {$(
        $(#[$about])*
        #[must_use]
        pub fn $name(&$this) -> $type {
            $value
        }
    )+};
}

pub(crate) use {debug, getters};
