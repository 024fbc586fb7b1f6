//! Compiles the C and C++ side, if there is a compiler: without one the tests say so and pass.

use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(no_cxx)");
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-env-changed=CXX");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if !Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("cargo::rustc-cfg=no_cxx");
        return;
    }
    cc::Build::new().file("native/jump.c").warnings_into_errors(true).compile("selvedge_ffi_c");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("native/exceptions.cc")
        .warnings_into_errors(true)
        .compile("selvedge_ffi_cc");
}
