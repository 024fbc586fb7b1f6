//! What stands in for something that a system, a C library or a build lacks: the same names, in a sibling of
//! the file that has it. What these names are for, that file says.

/// Defines functions that return one expression each. Where the receiver's type has no values, that expression
/// is a `match` of it. Where its docs do not say otherwise, an `unsafe` one requires nothing.
#[allow(unused_macros, reason = "some builds lack nothing")]
macro_rules! stand_in {
    ($($(#[$meta:meta])* $vis:vis $($head:ident)+ ($($arguments:tt)*) $(-> $type:ty)? = $value:expr;)*) => {$(
        $(#[$meta])*
        #[allow(unused_variables, reason = "nothing depends on them here")]
        $vis $($head)+ ($($arguments)*) $(-> $type)? {
            $value
        }
    )*};
}
