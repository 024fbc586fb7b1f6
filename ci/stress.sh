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

log=$(mktemp)
trap 'rm -f "$log"' EXIT
rounds=0 runs=0 SECONDS=0
while [ "$SECONDS" -lt "$seconds" ]; do
    for setting in "${settings[@]}"; do
        read -r where lwps tests <<<"$setting"
        for program in $programs; do
            [ "$SECONDS" -lt "$seconds" ] || break 3
            command="SELVEDGE_CONCURRENCY=$lwps taskset -c $where $program --test-threads=$tests"
            if ! env SELVEDGE_CONCURRENCY="$lwps" timeout --kill-after=10 480 taskset -c "$where" "$program" \
                --test-threads="$tests" >"$log" 2>&1; then
                tail -n 60 "$log"
                echo "FAILED in round $rounds: $command"
                exit 1
            fi
            runs=$((runs + 1))
        done
    done
    rounds=$((rounds + 1))
done
echo "stress: $runs runs, $rounds whole rounds in $SECONDS s: nothing failed"
