#!/usr/bin/env bash
# Runs the models: every order of the steps of each protocol, with at most LOOM_MAX_PREEMPTIONS preemptions (2 where that is
# not set; 3 takes minutes). Each model is a process of its own, so that one that fails, or aborts, is known by its name.
# `ci/loom.sh mutex` runs those with "mutex" in their path.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=${LOOM_SECONDS:-120} # for one model
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
build=(cargo test --release --lib --target-dir target/loom)

"${build[@]}" --no-run
binary=$("${build[@]}" --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)

mapfile -t models < <("$binary" --list 2>/dev/null | sed -n 's/: test$//p' | grep '::loom_' | grep -e "${1:-}")
[ ${#models[@]} -gt 0 ] || { echo "no model matches ${1:-}" >&2; exit 1; }

failed=0
for model in "${models[@]}"; do
    begin=$(date +%s%N)
    if output=$(timeout "$limit" "$binary" --exact "$model" --nocapture 2>&1); then
        count=$(sed -n 's/^\([0-9]*\) executions$/\1/p' <<<"$output" | tail -1)
        printf '%-90s %8s executions %6d ms\n' "$model" "${count:--}" $((($(date +%s%N) - begin) / 1000000))
    else
        status=$?
        failed=$((failed + 1))
        printf '%s\n%s: failed (%s)\n' "$output" "$model" "$([ $status = 124 ] && echo "over $limit s" || echo "$status")" >&2
    fi
done
echo "${#models[@]} models, $failed failed"
[ $failed -eq 0 ]
