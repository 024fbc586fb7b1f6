#!/usr/bin/env bash
# Runs tests of another architecture under the emulator of Debian's package `qemu-user`, in about 10 minutes
# on two CPUs. ARCH is `aarch64` or `riscv64`.
#
# * `ci/emulated.sh ARCH` runs them. If something that it needs is missing, it prints "skipped: why" and
#   passes. EMULATED=short, as in `.ci/run`, takes some three minutes. It plays what depends on the processor,
#   or on how its kernel and C library are called: contexts, stacks, thread registers and thread-locals,
#   injected calls, signal frames, system calls. It leaves out `selvedge::signal`, and what locks, channels
#   and the scheduler do above all that.
# * `ci/emulated.sh ARCH run PROGRAM [ARGUMENT...]` runs one program for ARCH in the same way.
# * `ci/emulated.sh ARCH ready` only says whether that can be done. If not, its exit status is 1.
#
# Tests start programs for ARCH themselves, so a runner in front of the first program is not enough: the
# kernel must know the interpreter. It learns that in a user namespace of its own (`binfmt_misc`, since Linux
# 6.7), which no other process sees.
#
# ci/emulated/ARCH.skip lists the tests that the emulator fails, each with its control: a test of
# `tests/emulator.rs`, without Selvedge, that must fail here as well. If a control passes, so does the test
# perhaps, and the leg fails until the entry is removed.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=${1:?aarch64 or riscv64}
shift
# The number of the machine in the head of its programs, the loader, and the processors.
case $arch in
    aarch64)
        target=aarch64-unknown-linux-gnu machine=b7 loader=ld-linux-aarch64.so.1
        # With pointer authentication and landing pads. Without SVE: the emulator's frames of signals always
        # have its registers, and no call is injected beside them. Signatures are made in a way that is fast.
        processor=max,sve=off,sme=off,pauth-impdef=on
        ;;
    riscv64)
        target=riscv64gc-unknown-linux-gnu machine=f3 loader=ld-linux-riscv64-lp64d.so.1
        # Without vectors: the emulator's frames of signals do not have these, up to version 11.1. With them,
        # its handlers of signals do away with those of the code that they interrupt. See `ci/vectors.sh`.
        processor=rv64
        # What ci/emulated/riscv64.c makes good.
        repaired=a_handler_has_the_mask_that_was_asked_for
        ;;
    *)
        echo "no such architecture: $arch"
        exit 1
        ;;
esac
root=/usr/$arch-linux-gnu
compiler=$arch-linux-gnu-gcc
repair=${repaired:+ci/emulated/$arch.c} # of what the emulator does wrong in all programs
list=ci/emulated/$arch.skip
limit=${EMULATED_SECONDS:-240} # for one test program

missing=0 # the exit status if something is
[ "${1:-}" != ready ] || missing=1

skip() {
    echo "skipped: $1"
    exit "$missing"
}

# Runs the arguments where the kernel starts programs for ARCH. The emulator's own settings come from the
# environment, so that they hold for children, too. As root, users keep their numbers there.
emulated() {
    local child status=0
    # Not `unshare --mount` at once: what may be mounted depends on the users that are known.
    QEMU_LD_PREFIX=$root CC=$compiler unshare --user bash -c '
        until grep -q . /proc/self/uid_map && grep -q . /proc/self/gid_map; do sleep 0.01; done
        exec unshare --mount bash -c "$@"
    ' users "$inside" emulated "$arch" "$machine" "$@" &
    child=$!
    until [ "$(readlink "/proc/$child/ns/user")" != "$(readlink /proc/self/ns/user)" ]; do sleep 0.01; done
    if [ "$(id -u)" = 0 ]; then
        echo 0 0 65536 | tee "/proc/$child/uid_map" >"/proc/$child/gid_map"
    else
        echo deny >"/proc/$child/setgroups"
        echo "0 $(id -u) 1" >"/proc/$child/uid_map"
        echo "0 $(id -g) 1" >"/proc/$child/gid_map"
    fi
    wait "$child" || status=$?
    return "$status"
}

# What `emulated` runs in the namespace.
inside='
    set -euo pipefail
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    # The first bytes of such a program, the bits of them that count, the interpreter.
    head="\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\x$2\\x00"
    mask="\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00"
    mask+="\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff"
    printf %s ":$1:M::$head:$mask:$(command -v "qemu-$1"):P" >/proc/sys/fs/binfmt_misc/register
    exec "${@:3}"
'

if [ "${1:-}" = run ]; then
    shift
    emulated "$@"
    exit
fi

for program in "qemu-$arch" "$compiler" unshare; do
    command -v "$program" >/dev/null || skip "there is no $program"
done
[ -e "$root/lib/$loader" ] || skip "there is no C library for $arch in $root"
rustup target add "$target" >/dev/null 2>&1 || skip "there is no standard library for $target"
emulated true 2>/dev/null || skip "the kernel starts no programs for $arch in a user namespace"
[ "${1:-}" != ready ] || exit 0

setting=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")
flags="--cfg selvedge_lean"
# The short form plays conformance on green threads only, so it compiles nothing else.
not_there='^$'
if [ "${EMULATED:-}" = short ]; then
    flags+=' --cfg selvedge_legs="green"'
    not_there='::onetoone::'
fi
if [ -n "$repair" ]; then
    mkdir -p "target/$arch"
    $compiler -O -c "$repair" -o "target/$arch/repair.o"
    flags+=" -Clink-arg=$PWD/target/$arch/repair.o"
fi
export "${setting}_LINKER=$compiler" "${setting}_RUSTFLAGS=$flags"
export RUST_BACKTRACE=0
# A test that fails by a signal would leave a core of the emulator.
ulimit -c 0

suites=(selvedge signal tls tls_block stack progress conformance)
# The tests of a program that are played, if not all: those whose names match.
declare -A parts=()
if [ "${EMULATED:-}" = short ]; then
    suites=(selvedge tls tls_block stack progress conformance)
    parts=(
        [selvedge]='^(arch|backtrace|fiber|reactor|sys)::|^mxn::(backtrace|preempt)'
        [progress]='^(allocator|crowd|frames|signals)::'
        [conformance]='^(affinity|forked|io|limits|locals|net|net_ends|parking|pthread|time)::mxn_migrating::'
    )
fi

tests=(emulator "${suites[@]:1}")
log=$(cargo test --target "$target" --target-dir "target/$arch" --features signal --no-run \
    --message-format=json-render-diagnostics --lib "${tests[@]/#/--test=}")
files=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$log")
out=$(mktemp)
trap 'rm -f "$out" "$out".*' EXIT
failed=()

# Returns the file of the test program $1.
file_of() {
    grep "/$1-[^/]*$" <<<"$files"
}

# Runs program $1 with the other arguments.
run_tests() {
    local program=$1 begun=$SECONDS
    shift
    emulated timeout --kill-after=10 "$limit" "$(file_of "$program")" "$@" >"$out" 2>&1 || failed+=("$program")
    if ! tail -n 20 "$out" | grep -q '^test result: ok. [1-9]'; then
        grep -v '^test .* ok$' "$out" | tail -n 100
        echo "$arch: $program: FAILED"
    fi
    echo "$program, $((SECONDS - begun)) s: $(tail -n 20 "$out" | grep '^test result' || echo 'no result')"
}

# Runs the part of program $1, but not the tests of the list. A hundred at a time: the emulator does not give
# back all memory of threads that have ended. And without markers, warm stacks take thousands of mappings.
play() {
    local names at program test
    emulated "$(file_of "$1")" --list | sed -n 's/: test$//p' >"$out.names"
    while read -r program test _; do
        [ "$program" != "$1" ] || echo "$test"
    done <"$out.listed" >"$out.skipped"
    while read -r test; do
        echo "$arch: $list names $1 $test, which is no test"
        failed+=("$test")
    done < <(grep -vxF -f "$out.names" "$out.skipped" | grep -v "$not_there" || true)
    mapfile -t names < <(grep -vxF -f "$out.skipped" "$out.names" | grep -E "${parts[$1]:-}")
    [ "${#names[@]}" != 0 ] || failed+=("$1 has no such tests")
    for ((at = 0; at < ${#names[@]}; at += 100)); do
        run_tests "$1" --exact "${names[@]:at:100}"
    done
}

# Fails if the emulator does what control $1 asks for. One with a question mark may pass. It takes as long as
# all others, so the short form leaves it out.
control() {
    [ "${EMULATED:-}" != short ] || [ "$1" = "${1#\?}" ] || return 0
    if emulated timeout --kill-after=10 60 "$(file_of emulator)" --exact "${1#\?}" >"$out" 2>&1; then
        if [ "$1" != "${1#\?}" ] && grep -q '^test result: ok. 1 passed' "$out"; then
            echo "$arch: the control ${1#\?} has passed this time"
            return
        fi
        echo "$arch: the control $1 passes, or there is none: remove it from $list, and what it excuses"
        failed+=("$1")
    elif ! grep -q '^test result: FAILED. 0 passed; 1 failed' "$out"; then
        cat "$out"
        echo "$arch: the control $1 did not fail as a test does"
        failed+=("$1")
    fi
}

sed '/^#/d; /^$/d' "$list" >"$out.listed"
while read -r name; do
    control "$name"
done < <({ awk '{ print $3 }' "$out.listed"; echo "${repaired:-}"; } | sed '/^$/d' | sort -u)
# If this control passes, the suites can be played with vectors.
[ "$arch" != riscv64 ] || QEMU_CPU=rv64,v=true,vext_spec=v1.0 control a_signal_frame_has_the_vectors

export QEMU_CPU=$processor
for program in "${suites[@]}"; do
    play "$program"
done
if [ "$arch" = aarch64 ]; then
    # With SVE, threads lose their slots, and keep these registers too.
    export QEMU_CPU=max
    run_tests progress --exact crowd::hogs_of_every_kind_come_out_right --nocapture
    grep '^  SVE: [1-9]' "$out" || failed+=("registers of SVE")
fi

if [ "${#failed[@]}" -gt 0 ]; then
    echo "$arch: FAILED: ${failed[*]}"
    exit 1
fi
echo "$arch: $(wc -l <"$out.listed") tests are left to other machines; see $list"
