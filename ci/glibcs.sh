#!/usr/bin/env bash
# Runs tests on other versions of glibc than this machine's: `ci/glibcs.sh` on all of the list below,
# `ci/glibcs.sh 2.41 2.31` on the named ones. It needs no root. If something that it needs is missing, it
# prints "skipped: why" and goes on. GLIBCS=short leaves out some of the tests.
#
# The C libraries are Debian's and Ubuntu's packages (`ci/packages.sh`).
#
# The test programs are linked with the oldest of the wanted versions, because a program runs on that version
# and on later ones. They name a loader in a folder of ours, and look there for libraries first. So do their
# children, which are the same programs. That folder is a link, which leads to one version after the other.
# Compilers and shells that the tests start run on the machine's own glibc.
set -euo pipefail
cd "$(dirname "$0")/.."

# From old to new: the version, the distribution, and its suite. If a suite has moved on, the script says so.
# The first is too old for green threads, which the tests on it show.
list="
2.23 ubuntu xenial
2.27 ubuntu bionic
2.31 debian bullseye
2.35 ubuntu jammy
2.36 debian bookworm
2.39 ubuntu noble
2.41 debian trixie
2.42 ubuntu questing
2.43 ubuntu resolute
2.44 debian experimental
"
limit=${GLIBCS_SECONDS:-300} # for one test program
made=${CARGO_TARGET_DIR:-$PWD/target}/glibcs
loader=ld-linux-x86-64.so.2
mkdir -p "$made"
made=$(cd "$made" && pwd)

skip() {
    echo "skipped: $1"
}

[ "$(uname -m)" = x86_64 ] || { skip "this machine is no x86-64"; exit 0; }
for tool in apt-get dpkg-deb cc; do
    command -v "$tool" >/dev/null || { skip "there is no $tool"; exit 0; }
done

architecture=amd64
. ci/packages.sh

# Gets version $1 of the list into the folder of that name.
get() {
    local version=$1 distribution=$2 suite=$3 parts=$made/parts folder=$made/$1.new lib link gcc=libgcc-s1
    [ ! -d "$made/$version" ] || return 0
    index "$distribution" "$suite" || return
    # Up to Ubuntu 18.04, the unwinder's package is libgcc1.
    [[ "$suite" != xenial && "$suite" != bionic ]] || gcc=libgcc1
    unpack "$suite" "$parts" libc6 libc6-dev "$gcc" || return
    rm -rf "$folder"
    mkdir "$folder"
    for lib in "$parts"/lib/x86_64-linux-gnu "$parts"/usr/lib/x86_64-linux-gnu; do
        [ ! -d "$lib" ] || cp -a "$lib/." "$folder" || return
    done
    # What points to a place in the system points to its neighbour.
    for link in $(find "$folder" -type l -lname '/*'); do
        ln -sf "$(basename "$(readlink "$link")")" "$link"
    done
    for link in $(grep -l '^GROUP' "$folder"/*.so); do
        sed -i "/^GROUP/s|/\(usr/\)\?lib[0-9]*/\(x86_64-linux-gnu/\)\?|$made/$version/|g" "$link" || return
    done
    mv "$folder" "$made/$version"
}

# Gets version $1, and checks that the C library says so itself.
have() {
    local version distribution suite is
    read -r version distribution suite < <(grep "^$1 " <<<"$list")
    get "$version" "$distribution" "$suite" ||
        { skip "glibc $version, of $distribution's suite $suite, cannot be had"; return 1; }
    is=$("$made/$version/$loader" --library-path "$made/$version" "$made/$version/libc.so.6" |
        sed -n '1s/.* version \([0-9.]*[0-9]\).*/\1/p')
    [ "$is" != "$version" ] || return 0
    rm -rf "${made:?}/$version"
    skip "$distribution's suite $suite has glibc $is now, not $version"
    return 1
}

suites=(--lib --test tls --test tls_block --test conformance)
[ "${GLIBCS:-}" = short ] || suites+=(--test tls_pinned --test stack)

# Links the test programs with version $1. A wrapper adds the flags: what only dependencies need is not
# compiled again. The short form plays conformance on green threads only, and compiles nothing else. Version
# 2.23 has none.
build() {
    local only=
    [ "${GLIBCS:-}" != short ] || [ "$1" = 2.23 ] || only="--cfg 'selvedge_legs=\"green\"'"
    cat >"$made/rustc-$1" <<END
#!/bin/sh
exec "\$@" $only -C link-arg=-B$made/$1/ -C link-arg=-L$made/$1 \\
    -C link-arg=-Wl,--dynamic-linker=$made/current/$loader -C link-arg=-Wl,-rpath,$made/current \\
    -C link-arg=-Wl,--disable-new-dtags
END
    chmod +x "$made/rustc-$1"
    built=$(RUSTC_WORKSPACE_WRAPPER=$made/rustc-$1 cargo test "${suites[@]}" --no-run 2>&1) ||
        { echo "$built"; exit 1; }
}

failed=()

# Prints the path of a test program, as cargo names it.
program() {
    sed -n "s|^ *Executable .*$1.*(\(.*\))\$|\1|p" <<<"$built"
}

# Plays test program $2, as cargo names it, on version $1.
play() {
    local version=$1 name=$2 program said started=$SECONDS
    program=$(program "$name")
    if [[ "$(LD_TRACE_LOADED_OBJECTS=1 "$program")" == *"libc.so.6 => $made/current/libc.so.6"* ]] &&
        said=$(timeout --kill-after=10 "$limit" "$program" "${@:3}" 2>&1); then
        grep -E '^test result|skipped: ' <<<"$said"
        echo "    glibc $version: $name, $((SECONDS - started)) s"
    else
        echo "${said:-it does not use our C library}"
        failed+=("$version: $name")
    fi
}

# Shows that `Mxn` does not start on version $1, that its error names the other runtime, and that this works.
run_refused() {
    local program said
    program=$(program 'src/lib.rs')
    if ! said=$("$program" --nocapture both_rungs_work_or_say_why 2>&1) &&
        grep -q 'skipped: the rung .* cannot be had: .*OneToOne' <<<"$said"; then
        grep 'skipped: ' <<<"$said" | sed 's/^skipped/    refused/'
    else
        echo "$said"
        failed+=("$1: the refusal")
    fi
    # All but the tests that have green threads beside.
    play "$1" 'tests/conformance/main.rs' onetoone:: --skip bound_and_foreign_threads --skip an_end_is_news \
        --skip the_owner_is_refused --skip threads_of_every_kind --skip threads_of_other_kinds
}

run() {
    ln -sfn "$1" "$made/current"
    echo "--- glibc $1"
    if [ "$1" = 2.23 ]; then
        run_refused "$1"
        return
    fi
    play "$1" 'src/lib.rs' sys:: fiber::
    play "$1" 'tests/tls.rs'
    play "$1" 'tests/tls_block.rs'
    if [ "${GLIBCS:-}" = short ]; then
        play "$1" 'tests/conformance/main.rs' mxn::
        return
    fi
    play "$1" 'tests/tls_pinned.rs'
    play "$1" 'tests/stack.rs'
    play "$1" 'tests/conformance/main.rs' mxn:: mxn_syscall::
}

wanted=("$@")
[ $# -gt 0 ] || read -ra wanted < <(cut -d ' ' -f 1 <<<"$list" | xargs)
for version in "${wanted[@]}"; do
    grep -q "^$version " <<<"$list" || { echo "no glibc $version is in the list:$list"; exit 2; }
done
had=()
for version in $(printf '%s\n' "${wanted[@]}" | sort -V); do
    ! have "$version" || had+=("$version")
done
[ "${#had[@]}" != 0 ] || exit 0
build "${had[0]}"
for version in "${had[@]}"; do
    run "$version"
done
# On a machine that only checks, the disk may be small.
[ "${CI:-}" != true ] || sed -n 's/^ *Executable .*(\(.*\))$/\1/p' <<<"$built" | xargs rm -f
[ "${#failed[@]}" = 0 ] || { printf 'FAILED: %s\n' "${failed[@]}"; exit 1; }
