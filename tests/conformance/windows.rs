//! What a program learns on Windows, where there are no green threads.

use std::io::ErrorKind;

use selvedge::Mxn;

#[test]
fn green_threads_are_refused_and_the_other_runtime_is_named() {
    for error in [Mxn::new().unwrap_err(), Mxn::builder().concurrency(2).build().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        for word in ["OneToOne", "SELVEDGE_RUNTIME=onetoone"] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
