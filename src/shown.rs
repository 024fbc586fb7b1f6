//! `Debug` of types that show only some of what they have.

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

pub(crate) use debug;
