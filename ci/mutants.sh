#!/usr/bin/env bash
# Plants bugs, and reports those that no test finds.
#
# `ci/mutants.sh` runs two tools:
# 1. `ci/mutants` plants the mutations of protocols from its table. It also weakens the orderings in the
#    model-checked files, one at a time. It takes one to three hours on two CPUs.
# 2. `cargo mutants` plants other operators and other results of functions, in the files that
#    `.cargo/mutants.toml` names. The unit and conformance tests run first. The models then run on the
#    mutations that those tests have missed. It takes some 30 hours on two CPUs.
#
# `ci/mutants.sh table [OPTION...]` and `ci/mutants.sh cargo [OPTION...]` run one tool with its own options.
# Both take `--shard K/N`; `table --list` lists the mutations. The exit status is 1 if a mutation survives
# without an excuse. The script is not a leg of `.ci/run`.
set -euo pipefail
cd "$(dirname "$0")/.."

table() {
    cargo run --quiet --release --manifest-path ci/mutants/Cargo.toml --target-dir target/mutants/tool -- "$@"
}

cargo_mutants() {
    if ! cargo mutants --version >/dev/null 2>&1; then
        cargo install --locked --quiet cargo-mutants
    fi
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
    "") table && cargo_mutants ;;
    table) shift; table "$@" ;;
    cargo) shift; cargo_mutants "$@" ;;
    *) echo "usage: ci/mutants.sh [table [OPTION...] | cargo [OPTION...]]" >&2; exit 2 ;;
esac
