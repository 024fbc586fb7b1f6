//! Tests that run in processes of their own, each in a module with its name.

/// Makes a test of each function, and `child`, which plays them. `also`: roles that other tests play.
macro_rules! isolated {
    (also: [$($also:expr),*], $($role:ident),* $(,)?) => {
        $(mod $role {
            #[test]
            fn in_a_child() {
                let _watchdog = super::Watchdog::start(stringify!($role));
                super::child::run(stringify!($role), &[]).expect_success();
            }
        })*

        #[test]
        #[ignore = "the other side of the tests above"]
        fn child() {
            child::play(&[$((stringify!($role), $role),)* $($also,)*]);
        }
    };
}
