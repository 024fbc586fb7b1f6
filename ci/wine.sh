#!/usr/bin/env bash
# Runs tests of the 1:1 runtime and of the locks for Windows, by Wine, in about three minutes on two CPUs. If
# something that it needs is missing, it prints "skipped: why" and passes.
#
# Green threads are refused there, which one of the tests checks. What is left out of the unit tests is about
# green threads, the C library, or files of Linux.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-pc-windows-gnu
limit=${WINE_SECONDS:-300} # for one test program

skip() {
    echo "skipped: $1"
    exit 0
}

wine=$(command -v wine64 || ls /usr/lib/wine/wine64 2>/dev/null) ||
    skip "there is no wine64 (Debian's package wine64)"
compiler=x86_64-w64-mingw32-gcc
command -v "$compiler" >/dev/null || skip "there is no $compiler (Debian's package gcc-mingw-w64-x86-64)"
rustup target add "$target" || skip "std for $target cannot be had"

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/wine}
export WINEPREFIX=$CARGO_TARGET_DIR/prefix WINEDEBUG=-all
export RUSTFLAGS="--cfg selvedge_lean --cfg selvedge_legs=\"kernel\" ${RUSTFLAGS:-}"
built=$(cargo test --target "$target" --lib --test conformance --no-run 2>&1) || { echo "$built"; exit 1; }
# The first program would otherwise wait for this.
"$wine" wineboot --init || skip "Wine does not start"
trap '"$(dirname "$wine")/wineserver" --kill 2>/dev/null || true' EXIT

# Plays a test program, as cargo names it.
play() {
    local program
    program=$(sed -n "s/^ *Executable .*$1.*(\(.*\))\$/\1/p" <<<"$built")
    local missing
    missing=$(dirname "$program")/bcryptprimitives.dll
    [ -e "$missing" ] || "$compiler" -shared -o "$missing" ci/wine/bcryptprimitives.c -ladvapi32
    timeout --kill-after=10 "$limit" "$wine" "$program" "${@:2}"
}

play 'src.lib\.rs' --skip fiber:: --skip mxn::
play 'conformance.main\.rs' onetoone:: windows::
