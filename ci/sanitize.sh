#!/usr/bin/env bash
# Runs tests under a sanitizer of the nightly compiler: `ci/sanitize.sh address` or `ci/sanitize.sh thread`.
# If the nightly compiler, its source or the sanitizer is not available, prints "skipped: why" and passes.
#
# A sanitizer follows the stacks that the C library made. It does not follow a switch between stacks of our
# own, and it has no shadow for a thread-control block of our own. So only kernel threads run here: 1:1
# threads, foreign threads, and the unit tests that switch no stacks. The M:N runtime cannot start under a
# sanitizer, so its tests are left out.
#
# AddressSanitizer finds reads of memory after its end: of the heap, a scope (a temporary of a statement), a
# frame. It does not look for leaks here, because cores of threads are never freed. ThreadSanitizer finds
# accesses that no atomic operation orders. ci/tsan.supp lists the reports that are suppressed, and why.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:?address or thread}
limit=${SANITIZE_SECONDS:-480} # for one test program

skip() {
    echo "skipped: $1"
    exit 0
}

host=$(rustc -vV | sed -n 's/^host: //p')
case $host in
    x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
    *) skip "no $kind sanitizer for $host" ;;
esac
rustc +nightly --version >/dev/null 2>&1 ||
    rustup toolchain install nightly --profile minimal --no-self-update >/dev/null 2>&1 ||
    skip "there is no nightly compiler, and none can be installed"

build=() more=()
case $kind in
    address)
        export ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=0
        ;;
    thread)
        # The standard library must be instrumented, too.
        rustup component add rust-src --toolchain nightly >/dev/null 2>&1 ||
            skip "the source of nightly's standard library is not available"
        build=(-Zbuild-std) more=(--test trace)
        export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp halt_on_error=1"
        ;;
    *)
        echo "$kind: not address or thread" >&2
        exit 1
        ;;
esac
export RUSTFLAGS="--cfg selvedge_lean --cfg selvedge_legs=\"kernel\" -Zsanitizer=$kind ${RUSTFLAGS:-}"
# With 0, as in `.ci/run`, reports name functions only.
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-1}

log=$(cargo +nightly test "${build[@]}" --target "$host" --target-dir "target/$kind-sanitizer" \
    --lib --test conformance "${more[@]}" --no-run --message-format=json-render-diagnostics)
programs=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$log")

# Runs the tests of program $1 that the other arguments select. Fails if there are none.
play() {
    local program output
    program=$(grep "/$1-[^/]*$" <<<"$programs")
    shift
    if ! output=$(timeout "$limit" "$program" "$@" 2>&1) ||
        grep -q '^test result: ok. 0 passed' <<<"$output"; then
        printf '%s\n' "$output" >&2
        echo "$program $*: failed" >&2
        exit 1
    fi
    grep '^test result' <<<"$output"
}

# Threads without a runtime start others on the process default, which must be 1:1 here.
export SELVEDGE_RUNTIME=onetoone RUST_BACKTRACE=0

case $kind in
    address)
        # Left out: tests of stacks, control blocks and faults, and tests that need the M:N runtime.
        play selvedge --skip arch:: --skip fiber:: --skip mxn::preempt --skip mxn::sched::switch \
            --skip mxn::monitor::naps_tests --skip mxn::sched::poll --skip mxn::sched::alarm \
            --skip mxn::slots::reserve --skip mxn::start --skip sys::tcb --skip sys::sigstack \
            --skip sys::preempt --skip channel::tests::the_order_of_service \
            --skip channel::tests::passed_green_threads --skip between_the_looks
        # Left out: a limit on the address space; the sanitizer needs more than that.
        play conformance onetoone:: --skip limits::
        ;;
    thread)
        # `park::fork`: a child of a process with threads may not start one under this sanitizer. And
        # destructors of keys that wait, after the sanitizer has left the thread. One thread plays random tests.
        play selvedge recorder:: trace:: park:: observe:: sync:: channel:: tsd:: --skip park::fork \
            --skip random_tests \
            --skip first_met_in_destructors_of_keys \
            --skip channel::tests::the_order_of_service --skip channel::tests::passed_green_threads
        # The same: a forked child, and destructors of keys.
        play conformance onetoone:: --skip limits:: --skip a_thread_on_its_way_out_is_joined_in_a_child \
            --skip a_destructor_of_a_key_may_
        # The switch of the trace, against kernel threads that record and others that read.
        play trace --exact switching::levels_change_under_kernel_threads
        ;;
esac
