#!/usr/bin/env bash
# Counts the instructions of the hot paths, and compares them with the table of this version of rustc
# (`ci/instructions.tsv`). It runs `benches/instructions.rs` under valgrind, where the thread register is
# written by a system call. A count needs no quiet machine, as a time would. It takes a minute.
#
# The exit status is 1 if a path takes over 3 % more, and 3 if the table has nothing of this version.
# `ci/instructions.sh --record` writes the counts into the table instead.
set -euo pipefail
cd "$(dirname "$0")/.."

table=ci/instructions.tsv
tolerance=3 # percent
case ${1:-} in
    "" | --record) ;;
    *) echo "usage: ci/instructions.sh [--record]" >&2; exit 2 ;;
esac

# Only CI, on a machine of its own, installs packages.
if [ -n "${CI:-}" ] && ! command -v valgrind >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq valgrind >/dev/null; } || true
fi
command -v valgrind >/dev/null ||
    {
        echo "ci/instructions.sh needs valgrind (\`apt-get install valgrind\`, as root; with CI=1 it does that)" >&2
        exit 2
    }

version=$(rustc --version | cut -d' ' -f2)
log=$(cargo bench --no-run --bench instructions --message-format=json-render-diagnostics)
program=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$log" | tail -1)

# All instructions of a run of one path, by all threads.
count() {
    local said
    if ! said=$(env -i valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1); then
        printf '%s\n' "$said" >&2
        return 1
    fi
    sed -n 's/.*Collected : //p' <<<"$said"
}

# "path TAB instructions" for each path: of a run twice as long as another, less that one.
counts=$("$program" --list | while IFS=$'\t' read -r path times; do
    once=$(count "$path" "$times")
    twice=$(count "$path" $((2 * times)))
    awk -v path="$path" -v n=$((twice - once)) -v times="$times" 'BEGIN { printf "%s\t%.1f\n", path, n / times }'
done)

if [ "${1:-}" = --record ]; then
    awk -F'\t' -v version="$version" '$1 != version' "$table" >"$table.new"
    sed "s/^/$version\t/" <<<"$counts" >>"$table.new"
    mv "$table.new" "$table"
    echo "$table has the counts of rustc $version now"
elif ! grep -q "^$version	" "$table"; then
    printf '%s\n' "$counts"
    echo "$table knows nothing of rustc $version, so nothing was compared; to add these counts: ci/instructions.sh --record" >&2
    exit 3
else
    awk -F'\t' -v version="$version" -v tolerance=$tolerance '
        NR == FNR { if ($1 == version) known[$2] = $3; next }
        {
            verdict = ""
            if (!($1 in known)) verdict = "new: --record adds it"
            else if ($2 > known[$1] * (1 + tolerance / 100)) { verdict = "REGRESSION"; worse++ }
            else if ($2 < known[$1] * (1 - tolerance / 100)) verdict = "better: --record keeps it so"
            change = $1 in known ? sprintf("%+.1f %%", ($2 / known[$1] - 1) * 100) : ""
            printf "%-20s %10s %10.1f %9s  %s\n", $1, $1 in known ? known[$1] : "-", $2, change, verdict
            seen[$1]
        }
        END {
            for (path in known) if (!(path in seen)) { printf "%-20s %10s: not counted any more\n", path, known[path]; worse++ }
            if (worse) print worse " of the paths in " version "'"'"'s table got worse, or lost"
            exit worse > 0
        }' "$table" <(printf '%s\n' "$counts")
fi
