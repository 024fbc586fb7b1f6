#!/usr/bin/env bash
# Runs every example once, with little work, on both runtimes where it lets one choose.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=target/release/examples

# Arguments for a short run of each example; an example without a line here is run without arguments, on both runtimes.
run() {
    echo "+ $*"
    timeout 60 "$@"
}
for file in examples/*.rs examples/*/main.rs; do
    [ -e "$file" ] || continue
    name=$(basename "${file%/main.rs}" .rs)
    case $name in
        pingpong)
            for runtime in mxn onetoone; do
                run "$bin/$name" -v -n 4 -i 100 -r "$runtime"
            done
            ;;
        *)
            for runtime in mxn onetoone; do
                SELVEDGE_RUNTIME=$runtime run "$bin/$name"
            done
            ;;
    esac
done
