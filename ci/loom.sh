#!/usr/bin/env bash
# Runs the models: every order of the steps of each protocol, with at most LOOM_MAX_PREEMPTIONS preemptions.
# If that variable is not set, each model has its own bound; most have 2. The script also runs the models of a
# program that uses the locks (`tests/loom_public.rs`). Each model runs in a process of its own, so a model
# that fails or aborts is known by its name. As many run at once as there are CPUs. The models are compiled
# with debug assertions.
#
# * `ci/loom.sh mutex` runs the models with "mutex" in their path.
# * `SELVEDGE_STRESS=full ci/loom.sh` then also runs each model with more preemptions, up to 3, for
#   LOOM_MAX_DURATION seconds (20). It prints whether that covered all orders or only some. This takes an hour
#   on two CPUs.
# * `LOOM_MAX_PREEMPTIONS=3 LOOM_SECONDS=3600 ci/loom.sh FILTER` runs all orders with up to 3 preemptions, for
#   at most an hour for each model.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=${LOOM_SECONDS:-600} # for one model
if [ "${SELVEDGE_STRESS:-}" = full ]; then
    limit=$((limit + 3 * ${LOOM_MAX_DURATION:-20}))
fi
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
export RUST_BACKTRACE=0 # a negative model panics on a stack that has no room for one
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true # the code's own checks are part of the models

# Builds the tests of both targets. What it says of the library under test is said by other legs.
build() {
    local log
    log=$(cargo test --release --target-dir target/loom --lib --test loom_public --no-run \
        --message-format=json-render-diagnostics 2>&1) ||
        { printf '%s\n' "$log" >&2; return 1; }
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$log"
}

# The tests of a binary, as lines of the binary and the name.
tests() {
    "$1" --list 2>/dev/null | sed -n "s|\(.*\): test\$|$1 $2\1|p"
}

# Builds the library that keeps loom's stacks, and prints its path. Without it, models take twice as long.
keep_stacks() {
    mkdir -p target/loom
    ! cc -O2 -shared -fPIC ci/loom/stacks.c -o target/loom/stacks.so || echo "$PWD/target/loom/stacks.so"
}

programs=$(build)
stacks=$(keep_stacks)
library=$(grep '/selvedge-[^/]*$' <<<"$programs")
program=$(grep '/loom_public-[^/]*$' <<<"$programs")

# Reads models. Prints the longest first: otherwise the last CPU would work on it alone.
longest_first() {
    awk '/a_mutex_that_is_passed_on_has_one_owner/ { print; next } { others[n++] = $0 }
        END { for (i = 0; i < n; i++) print others[i] }'
}

mapfile -t models < <({ tests "$library" "" | grep '::loom_'; tests "$program" loom_public::; } |
    grep -e "^[^ ]* .*${1:-}" | longest_first)
[ ${#models[@]} -gt 0 ] || { echo "no model matches ${1:-}" >&2; exit 1; }

# Runs a model, and says how it went: in one piece, because others run beside it.
check() {
    local binary model begin output status count
    read -r binary model <<<"$1"
    begin=$(date +%s%N)
    if output=$(LD_PRELOAD=$stacks timeout "$limit" "$binary" --exact "${model#loom_public::}" --nocapture \
        2>&1); then
        count=$(sed -n 's/.*\b\([0-9][0-9]*\) executions$/\1/p' <<<"$output" | tail -1)
        printf '%-90s %8s executions %6d ms%s\n' "$model" "${count:--}" \
            $((($(date +%s%N) - begin) / 1000000)) \
            "$(sed -n 's/.*\b\(\(all\|some\) orders with .*\)/, \1/p' <<<"$output" | tr -d '\n')"
    else
        status=$?
        printf '%s\n%s: failed (%s)\n' "$output" "$model" "$([ $status = 124 ] && echo "over $limit s" || echo "$status")" >&2
        return 1
    fi
}
export -f check
export limit stacks

printf '%s\n' "${models[@]}" | xargs -d '\n' -n 1 -P "$(nproc)" bash -c 'check "$1"' check ||
    { echo "some of ${#models[@]} models failed"; exit 1; }
echo "${#models[@]} models, none failed"
