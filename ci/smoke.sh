#!/usr/bin/env bash
# Runs every example once, with little work, on both runtimes where it lets one choose.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=target/debug/examples

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Arguments for a short run of each example. An example without a line here is run without arguments, on both
# runtimes.
run() {
    echo "+ $*"
    timeout "${patience:-60}" "$@"
}
# Starts a server, has one answer of it, and ends it.
serve() {
    local name=$1 runtime options=() port server said=$scratch/$1.txt
    for runtime in mxn onetoone; do
        case $name in
            http_server) options=(-r "$runtime" docs) ;;
            proxy) options=(localhost:9) ;;
        esac
        echo "+ $name on $runtime"
        : >"$said"
        SELVEDGE_RUNTIME=$runtime timeout 60 "$bin/$name" --listen 127.0.0.1:0 "${options[@]}" >"$said" &
        server=$!
        until grep -q listening "$said"; do
            kill -0 "$server"
            sleep 0.05
        done
        port=$(sed -n 's/^listening at .*:\([0-9]*\)\/*$/\1/p' "$said")
        exec 3<>"/dev/tcp/127.0.0.1/$port"
        case $name in
            http_server)
                printf 'GET /api.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
                head -n 1 <&3 | grep -q ' 200 OK'
                ;;
        esac
        exec 3>&-
        kill -TERM "$server"
        wait "$server" || [ "$name" != http_server ]
    done
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
        growth)
            # At once: a small crowd sleeps most of the time.
            running=()
            run "$bin/$name" -n 10 -r std &
            running+=($!)
            for runtime in mxn onetoone; do
                run "$bin/$name" -n 1000 -r "$runtime" &
                running+=($!)
            done
            for one in "${running[@]}"; do
                wait "$one"
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
        http_server | proxy | tls_echo)
            serve "$name"
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
