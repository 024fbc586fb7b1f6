#!/usr/bin/env bash
# Lists the files of this crate whose code runs on the way of one operation, in the order in which the way
# comes to them, with instructions and functions.
#
# `ci/walks.sh` does that for all operations of `ci/walks/src/main.rs`; `ci/walks.sh lock unlock` for these.
# gdb steps through a release build, one instruction at a time. A file counts if an instruction was compiled
# from it, or if one of its functions was inlined around that instruction. The second number is of files with
# instructions of their own. The third goes by the compiler's line table alone: there, an atomic access is a
# line of the standard library.
set -euo pipefail
cd "$(dirname "$0")/walks"

for tool in gdb addr2line nm; do
    command -v "$tool" >/dev/null || { echo "ci/walks.sh needs $tool" >&2; exit 2; }
done
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target/walks}
cargo build --quiet --release
program=$(realpath "$CARGO_TARGET_DIR/release/selvedge-walks")
[ $# -gt 0 ] || mapfile -t operations < <("$program")
python3 walk.py "$program" "${@:-${operations[@]}}"
