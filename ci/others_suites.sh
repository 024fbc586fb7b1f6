#!/bin/sh
# Runs other crates' own tests on both models, by libselvedge_preload.so, and without it.
#
#   ci/others_suites.sh [CRATE=VERSION]...
#
# Their sources come from the registry, and are not changed. It takes some ten minutes; so it is no leg of CI.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
[ $# -gt 0 ] || set -- crossbeam-channel=0.5 parking_lot=0.12 flume=0.12 rayon-core=1 once_cell=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo build --quiet --release --package selvedge-preload
library=${CARGO_TARGET_DIR:-$root/target}/release/libselvedge_preload.so

mkdir -p "$folder/fetch/src"
{
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n'
    for crate; do echo "${crate%=*} = \"${crate#*=}\""; done
} >"$folder/fetch/Cargo.toml"
: >"$folder/fetch/src/lib.rs"
(cd "$folder/fetch" && cargo vendor --quiet --versioned-dirs >/dev/null)

failed=0
for crate; do
    name=${crate%=*}
    source=$(ls -d "$folder/fetch/vendor/$name-"[0-9]* | head -n 1)
    rm -rf "$folder/$name"
    cp -r "$source" "$folder/$name"
    cd "$folder/$name"
    grep -q '^\[workspace\]' Cargo.toml || printf '\n[workspace]\n' >>Cargo.toml
    programs=$(CARGO_TARGET_DIR=$folder/target cargo test --quiet --release --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
    [ -n "$programs" ] || { echo "$name: its tests do not compile" >&2; failed=1; }
    for program in $programs; do
        for model in without mxn onetoone; do
            case $model in
            without) set -- ;;
            *) set -- "LD_PRELOAD=$library" "SELVEDGE_RUNTIME=$model" ;;
            esac
            if timeout 300 env "$@" "$program" >"$folder/said" 2>&1; then
                result=$(sed -n 's/^test result: //p' "$folder/said" | head -n 1)
            else
                result="FAILED ($?)"
                [ $model = without ] || failed=1
                tail -n 20 "$folder/said"
            fi
            echo "$(basename "$source"), $(basename "$program" | sed 's/-[0-9a-f]*$//'), $model: $result"
        done
    done
done
exit $failed
