#!/usr/bin/env bash
# Runs the test programs again and again where races hide: on one CPU, on two, with more LWPs than CPUs, with
# odd numbers of threads.
#
# * `ci/stress.sh [SECONDS [FILTER]]` does so for about SECONDS (60). It takes only test programs with FILTER
#   in their name.
# * `SELVEDGE_STRESS=full ci/stress.sh [RUNS]` instead plays at full length what `cargo test` plays for a
#   second or two, and the crowd of hogs RUNS (20) times. It takes two hours, and prints the figures.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
filter=${2:-}

# The test programs, as cargo names them; layering and api have nothing to race with.
built=$(cargo test --lib --tests --no-run 2>&1) || { echo "$built"; exit 1; }
programs=$(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' <<<"$built" | grep -v -e /layering- -e /api- | grep -e "$filter") \
    || { echo "no test program has $filter in its name"; exit 1; }

if [ "${SELVEDGE_STRESS:-}" = full ]; then
    runs=${1:-20}
    program() {
        sed -n "s/^ *Executable tests\/$1[./].*(\(.*\))\$/\1/p" <<<"$built"
    }
    timeout --kill-after=10 3600 "$(program idle)" --nocapture
    timeout --kill-after=10 3600 "$(program net_faults)" --nocapture --test-threads=1
    timeout --kill-after=10 3600 "$(program threadmon)" --nocapture attacks
    timeout --kill-after=10 3600 "$(program progress)" --nocapture --test-threads=1 --skip crowd
    # In debug builds the allocator's share of their time is too small.
    timeout --kill-after=10 3600 cargo test --release --test progress -- --nocapture --test-threads=1 allocate
    for ((run = 1; run <= runs; run++)); do
        echo "crowd, run $run of $runs"
        timeout --kill-after=10 900 "$(program progress)" --nocapture crowd
    done
    echo "stress: everything once, and $runs crowds, in $SECONDS s: nothing failed"
    exit 0
fi

# The CPUs that this process may use: 0-2,5 becomes 0 1 2 5.
cpus=()
for range in $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status | tr , ' '); do
    mapfile -t -O "${#cpus[@]}" cpus < <(seq "${range%-*}" "${range#*-}")
done
one=${cpus[0]}
two=$one,${cpus[1]:-$one}

# CPUs, LWPs that run at once, tests at once.
settings=("$one 1 1" "$one 3 3" "$two 2 2" "$two 8 3" "$two 5 7" "$two 8 1")
[ "${#cpus[@]}" -le 2 ] || settings+=("$(IFS=,; echo "${cpus[*]}") ${#cpus[@]} ${#cpus[@]}")

# The longest comes first: otherwise it runs on alone when the time is over.
longest=/conformance-
programs=$(sed "\\|$longest|!d" <<<"$programs" && sed "\\|$longest|d" <<<"$programs")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
end=$(($(date +%s) + seconds)) begun=$SECONDS rounds=0
: >"$scratch/runs"

# Unless the time is over, runs program $4 on the CPUs $1, with $2 LWPs that run at once, and $3 tests at once.
play() {
    local where=$1 lwps=$2 tests=$3 program=$4 log=$scratch/$BASHPID
    [ "$(date +%s)" -lt "$end" ] || return 0
    echo "$program" >>"$scratch/runs"
    if ! env SELVEDGE_CONCURRENCY="$lwps" timeout --kill-after=10 480 taskset -c "$where" "$program" \
        --test-threads="$tests" >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "FAILED: SELVEDGE_CONCURRENCY=$lwps taskset -c $where $program --test-threads=$tests"
        return 255
    fi
}

# The same for all programs. What is to run on one CPU does so on each of two, with every second program.
play_all() {
    local where=$1 at_once=1
    [ "$where" != "$one" ] || [ "$two" = "$one" ] || at_once=2 where=$two
    # With 255, it starts no more.
    xargs -n 1 -P "$at_once" --process-slot-var=slot bash -c '
        IFS=, read -ra each <<<"$1"
        [ "$2" = 1 ] || set -- "${each[$slot]}" "${@:2}"
        play "$1" "${@:3}"
    ' play "$where" "$at_once" "${@:2}" <<<"$programs"
}
export -f play
export scratch end

while [ "$(date +%s)" -lt "$end" ]; do
    for setting in "${settings[@]}"; do
        read -r where lwps tests <<<"$setting"
        play_all "$where" "$lwps" "$tests"
        [ "$(date +%s)" -lt "$end" ] || break 2
    done
    rounds=$((rounds + 1))
done
echo "stress: $(wc -l <"$scratch/runs") runs, $rounds whole rounds in $((SECONDS - begun)) s: nothing failed"
