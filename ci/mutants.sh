#!/usr/bin/env bash
# Plants bugs, and reports those that no test finds.
#
# `ci/mutants.sh` runs `ci/mutants` twice:
# 1. `table` plants the mutations of protocols from its table. It also weakens the orderings in the
#    model-checked files, one at a time. It takes one to three hours on two CPUs.
# 2. `listed` plants what `cargo mutants` lists for the files that `.cargo/mutants.toml` names: other
#    operators, other results of functions, arms that are missing. All are in one build, and each runs the
#    tests that reach it. It takes some hours.
#
# `ci/mutants.sh cargo` has `cargo mutants` itself do that. It compiles the crate for each mutation, some 30
# hours on two CPUs, and also has those that cannot be planted (`ci/mutants/src/listed.rs`). The unit and
# conformance tests run first. The models then run on the mutations that those tests have missed.
#
# Each takes its own options: `ci/mutants.sh table [OPTION...]`. All take `--shard K/N`; `table --list` lists
# the mutations. The exit status is 1 if a mutation survives without an excuse. The script is not a leg of
# `.ci/run`.
set -euo pipefail
cd "$(dirname "$0")/.."

table() {
    cargo run --quiet --release --manifest-path ci/mutants/Cargo.toml --target-dir target/mutants/tool -- "$@"
}

listed() {
    ensure_cargo_mutants
    table --listed "$@"
}

ensure_cargo_mutants() {
    cargo mutants --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-mutants
}

cargo_mutants() {
    ensure_cargo_mutants
    local out=target/mutants/cargo status=0
    mkdir -p "$out"
    # The first pass. 0: all found; 2: some missed; 3: some took too long, which counts as found.
    cargo mutants --output "$out" --no-shuffle "$@" -- --lib --test conformance || status=$?
    case $status in
        0) return ;;
        2 | 3) ;;
        *) return "$status" ;;
    esac
    # The second pass: the models run on the mutations that were missed.
    status=0
    RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" RUST_BACKTRACE=0 \
        cargo mutants --output "$out" --no-shuffle --iterate --baseline=skip --timeout 600 "$@" \
        -- --release --lib loom_ || status=$?
    if [ -s "$out/mutants.out/missed.txt" ]; then
        echo "survivors:"
        cat "$out/mutants.out/missed.txt"
        return 1
    fi
    [ "$status" = 0 ] || [ "$status" = 3 ]
}

case ${1:-} in
    "") status=0; table || status=$?; listed || status=$?; exit "$status" ;;
    table) shift; table "$@" ;;
    listed) shift; listed "$@" ;;
    cargo) shift; cargo_mutants "$@" ;;
    *) echo "usage: ci/mutants.sh [table [OPTION...] | listed [OPTION...] | cargo [OPTION...]]" >&2; exit 2 ;;
esac
