#!/usr/bin/env bash
# Compares the system calls of a program that never starts a runtime, with the feature `interpose` and without.
# They must be the same calls, as often.
set -euo pipefail
cd "$(dirname "$0")/../tests/crates"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target/crates}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Counts the calls of this program and its children, as lines of a count and a name.
count() {
    strace -f -qq -o "$folder/calls" "$1"
    sed -E 's/^[0-9]+ +//; s/^<\.\.\. ([a-z0-9_]+) resumed.*/ /' "$folder/calls" | grep -oE '^[a-z][a-z0-9_]*' | sort | uniq -c
}

# With the whole workspace and one of its tests, cargo takes the dependencies that the tests have compiled.
for features in "" interpose; do
    cargo build --quiet --workspace --bin plain --test rand --features "${features:+harness/$features}"
    cp "$CARGO_TARGET_DIR/debug/plain" "$folder/plain-$features"
done
# grep reads to the end: with -q, nm might be killed when it writes on.
nm -D "$folder/plain-interpose" | grep " T recv$" >/dev/null ||
    { echo "the calls do not go through Selvedge" >&2; exit 1; }
# Beside load, a time may pass before its wait begins, which then is no call. What the feature does is done each time.
for attempt in 1 2 3 4 5; do
    count "$folder/plain-" >"$folder/without"
    count "$folder/plain-interpose" >"$folder/with"
    [ "$(wc -l <"$folder/without")" -gt 30 ] || { echo "too few kinds of calls: strace has seen nothing" >&2; exit 1; }
    diff "$folder/without" "$folder/with" && break
    [ "$attempt" != 5 ] || { echo "the calls differ with the feature (>), each time" >&2; exit 1; }
done
echo "the same calls with the feature and without: $(awk '{n += $1} END {print n}' "$folder/with") of $(wc -l <"$folder/with") kinds"
