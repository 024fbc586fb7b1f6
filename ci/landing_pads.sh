#!/usr/bin/env bash
# Runs unit tests of aarch64 with landing pads (BTI) enforced and return addresses signed (PAC), as some
# distributions compile all of their programs. It needs what `ci/emulated.sh` needs, and nightly Rust with its
# source. Where something is missing, it prints "skipped: why" and passes.
#
# The standard library is compiled in that way, too, and the program gets an entry of its own (start.s): the
# loader enforces landing pads in the program only if all of it has them. A control shows that it does.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
compiler=aarch64-linux-gnu-gcc
work=$PWD/target/landing-pads
mkdir -p "$work"

skip() {
    echo "skipped: $1"
    exit 0
}

ci/emulated.sh aarch64 ready || exit 0
rustc +nightly --version >/dev/null 2>&1 || skip "there is no nightly compiler"
rustup component add rust-src --toolchain nightly >/dev/null 2>&1 ||
    skip "the source of nightly's standard library is not available"

# The processor has both, and the emulator enforces them.
export QEMU_CPU=max,sve=off,sme=off,pauth-impdef=on
entry=(-nostartfiles "$work/start.o" -Wl,-z,force-bti)
$compiler -c ci/landing_pads/start.s -o "$work/start.o"
$compiler -mbranch-protection=standard ci/landing_pads/control.c "${entry[@]}" -o "$work/control"
ci/emulated.sh aarch64 run timeout 20 "$work/control" pad
status=0
ci/emulated.sh aarch64 run timeout 20 "$work/control" 2>/dev/null || status=$?
if [ "$status" != 132 ]; then
    echo "a jump to code without a landing pad is not refused: exit status $status, and not that of SIGILL"
    exit 1
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler
export RUSTFLAGS="-Zbranch-protection=bti,pac-ret ${entry[*]/#/-Clink-arg=}"
log=$(cargo +nightly test -Zbuild-std --target "$target" --target-dir "$work" --all-features --lib --no-run \
    --message-format=json-render-diagnostics 2> >(grep -v 'BTI turned on' >&2))
program=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$log")
# Left out: what the emulator fails (the other leg has the controls), and what takes minutes here, because the
# standard library is not optimised.
skipped=(--skip inject_tests::every_register --skip backtrace)
while read -r name; do
    skipped+=(--skip "$name")
done < <(awk '$1 == "selvedge" { print $2 }' ci/emulated/aarch64.skip)
RUST_BACKTRACE=0 ci/emulated.sh aarch64 run timeout --kill-after=10 300 "$program" \
    arch:: fiber:: interpose:: pthreads:: sys::preempt sys::sigstack "${skipped[@]}"
