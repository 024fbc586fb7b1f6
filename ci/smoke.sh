#!/usr/bin/env bash
# Runs every example once, with little work, on both runtimes where it lets one choose.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=target/release/examples

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Arguments for a short run of each example. An example without a line here is run without arguments, on both
# runtimes.
run() {
    echo "+ $*"
    timeout "${patience:-60}" "$@"
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
        barriers)
            for runtime in mxn onetoone std; do
                run "$bin/$name" --fine -n 3 -k 200 -r "$runtime"
                run "$bin/$name" --coarse -n 3 -i 5000 -k 3 -r "$runtime" --load
            done
            ;;
        contention)
            for runtime in mxn onetoone std; do
                run "$bin/$name" -i 2000 -r "$runtime"
            done
            ;;
        creation)
            for runtime in mxn onetoone std; do
                run "$bin/$name" -n 2 -k 2 -i 500 -a 1000 -r "$runtime"
            done
            ;;
        java_threads)
            for runtime in mxn onetoone std; do
                run "$bin/$name" --throughput -n 100 -i 10 -r "$runtime"
                run "$bin/$name" --fairness -t 200 -r "$runtime"
            done
            run "$bin/$name" --models -n 8 -i 10
            ;;
        nt_solaris)
            for runtime in mxn onetoone std; do
                run "$bin/$name" -r "$runtime" -n 1,4 -k 1 --most 500 --task 2 -i 500 --bursts 3
            done
            ;;
        million)
            for runtime in mxn onetoone std; do
                run "$bin/$name" -n 2500 -r "$runtime"
            done
            ;;
        storms)
            # Beside other work, how many turns a thread gets is no reason to fail.
            for runtime in mxn onetoone std; do
                run "$bin/$name" -n 16 -m 50 -w 100 -t 100 -e 0 -r "$runtime"
            done
            ;;
        echo)
            for runtime in mxn onetoone std; do
                run "$bin/$name" -n 40 -i 50 -r "$runtime"
            done
            ;;
        papers)
            # A process for each sample. Branch and bound is left out: it cannot be made small.
            out=$scratch/$name
            screens=screens-fine,screens-coarse,screens-staggered
            patience=300 run "$bin/$name" --smoke --only "P3,P5,$screens" --out "$out"
            for file in report.html report.md results.json p3-figure-3.svg p5-fairness.svg p2-figure-5.svg; do
                [ -s "$out/$file" ] || { echo "$name has not written $file"; exit 1; }
            done
            ;;
        *)
            for runtime in mxn onetoone; do
                SELVEDGE_RUNTIME=$runtime run "$bin/$name"
            done
            ;;
    esac
done
