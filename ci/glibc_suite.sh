#!/usr/bin/env bash
# Runs glibc's own tests of threads without `libselvedge_preload.so`, and with it on both models.
#
#   ci/glibc_suite.sh [TEST]...
#
# They are the tests of the system's own version, in the source package of Debian or Ubuntu. GLIBC_SOURCE names
# a folder with that source instead. A test is compiled as a program is, with the system's headers. If one
# needs more, it is left out, and so is one that fails without the library. If the others end differently with
# it, `preload/tests/glibc_suite.known` says why. What is not on that list is an error, and so is a line there
# that is no longer true.
#
# It takes half an hour; so it is no leg of CI. GLIBC_SUITE_FOLDER keeps what was built and said.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
known=$root/preload/tests/glibc_suite.known
# The tests' own limit is 20 seconds, unless they say otherwise.
export TIMEOUTFACTOR=${TIMEOUTFACTOR:-2}

skip() {
    echo "skipped: $1"
    exit 0
}

# Prints how a test's program ends on a model.
ends_on() {
    local name=$1 model=$2 code=0 program=$folder/programs/$1 arguments=()
    local set=("LD_LIBRARY_PATH=$folder/programs")
    [ "$model" = without ] || set+=("LD_PRELOAD=$library" "SELVEDGE_RUNTIME=$model")
    # As glibc's makefiles have it.
    case $name in
    tst-umask1) arguments=("$folder/here/umask1") ;;
    tst-exec4) arguments=("$program") ;;
    tst-cancel7 | tst-cancelx7) arguments=(--command "exec $program") ;;
    tst-oddstacklimit) arguments=(--command "$folder/programs/tst-basic1") ;;
    esac
    (cd "$folder/here" && timeout -k 5 600 env "${set[@]}" "$program" "${arguments[@]}") \
        </dev/null >"$folder/said/$name.$model" 2>&1 || code=$?
    case $code in
    0) echo passes ;;
    77) echo unsupported ;;
    124 | 137) echo hangs ;;
    *) if grep -q '^Timed out' "$folder/said/$name.$model"; then echo hangs; else echo "fails ($code)"; fi ;;
    esac
}

# Runs a test, and writes down how it ends. If it differs, it is run once more: another may have been beside.
run_test() {
    local name=$1 plain mxn onetoone
    plain=$(ends_on "$name" without)
    [ "$plain" = passes ] || [ "$plain" = unsupported ] || plain=$(ends_on "$name" without)
    if [ "$plain" = passes ]; then
        mxn=$(ends_on "$name" mxn)
        [ "$mxn" = passes ] || mxn=$(again "$mxn" "$(ends_on "$name" mxn)")
        onetoone=$(ends_on "$name" onetoone)
        [ "$onetoone" = passes ] || onetoone=$(again "$onetoone" "$(ends_on "$name" onetoone)")
    fi
    echo "$name|$plain|${mxn:-}|${onetoone:-}" >>"$folder/results"
    echo "$name: $plain ${mxn:-} ${onetoone:-}" >&2
}

again() {
    if [ "$1" = "$2" ]; then echo "$1"; else echo "$1, then $2"; fi
}

# Compiles a file of glibc's: to `$2`, with these arguments.
compile() {
    local from=$1 to=$2 compiler=cc standard=gnu11
    case $from in *.cc) compiler=c++ standard=gnu++17 ;; esac
    "$compiler" -std=$standard -O2 -g -w -fno-builtin -D_GNU_SOURCE -D_ISOMAC -DTIMEOUTFACTOR=1 -Dattribute_hidden= \
        -I"$folder/include" -I"$source/support" -include limits.h \
        -idirafter "$source/nptl" -idirafter "$source/sysdeps/pthread" \
        -idirafter "$source/sysdeps/unix/sysv/linux" -idirafter "$source" \
        "${@:3}" "$from" -o "$to" $([ -z "${link:-}" ] || echo "$folder/support.a" $link)
}

build_support() {
    local name place places=
    for place in SRCDIR OBJDIR OBJDIR_ELF_LDSO INSTDIR LIBDIR BINDIR SBINDIR SLIBDIR ROOTSBINDIR COMPLOCALEDIR; do
        places+=" -D${place}_PATH=\"$folder\""
    done
    name=$(basename "$1" .c)
    compile "$1" "$folder/support/$name.o" -c $places 2>/dev/null || echo "$name" >>"$folder/no_support"
}

build_test() {
    local from=$1 name flags=() link="-lm -pthread"
    name=$(basename "$from")
    name=${name%.*}
    case $name in
    tst-cancelx* | tst-cleanupx* | tst-oncex*) flags=(-fexceptions -fasynchronous-unwind-tables) ;;
    tst-oncey*) flags=(-fno-exceptions -fno-asynchronous-unwind-tables) ;;
    tst-unwind-thread) flags=(-funwind-tables) ;;
    tst-create1 | tst-atfork[234]) flags=(-rdynamic) ;;
    tst-*mod | tst-*mod[0-9a-z]) flags=(-shared -fPIC "-Wl,-soname,$name.so") ;;
    tst-_res1) link="$folder/programs/tst-_res1mod1.so $folder/programs/tst-_res1mod2.so $link" ;;
    tst-fini1) link="$folder/programs/tst-fini1mod.so $link" ;;
    tst-execstack) flags=(-z noexecstack) ;;
    tst-initializers1-*) flags=(-std="${name#tst-initializers1-}") ;;
    esac
    case " ${flags[*]} " in *" -shared "*) name=$name.so ;; esac
    if ! compile "$from" "$folder/programs/$name" "${flags[@]}" 2>"$folder/said/$name.build"; then
        echo "$name: $(grep -m 1 -oE '(error|undefined).*' "$folder/said/$name.build")" >>"$folder/not_built"
    fi
}

case ${1:-} in
--one)
    "${@:2}"
    exit
    ;;
esac

for tool in cc c++ ar xargs; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
if [ -n "${GLIBC_SUITE_FOLDER:-}" ]; then
    mkdir -p "$GLIBC_SUITE_FOLDER"
    folder=$(cd "$GLIBC_SUITE_FOLDER" && pwd)
else
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"/{include,support,programs,said,here}

# Gets the source package of the installed C library. If the system has no entry for sources, those of its
# packages serve, in lists of our own.
get_source() {
    local version to=$folder/apt
    command -v dpkg-source >/dev/null || skip "there is no dpkg-source"
    version=$(dpkg-query -W -f '${source:Version}' libc6) || skip "the C library is no package of dpkg's"
    mkdir -p "$to/lists/partial" "$to/parts"
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        grep ' main$' | sort -u >"$to/sources.list"
    local apt=(apt-get -qq -o Dir::Etc::SourceList="$to/sources.list" -o Dir::Etc::SourceParts="$to/parts"
        -o Dir::State::Lists="$to/lists" -o APT::Sandbox::User="$(id -un)")
    "${apt[@]}" update >&2 || skip "apt has no lists of sources"
    (cd "$to" && "${apt[@]}" source --download-only "glibc=$version" >&2) || skip "apt has no source of glibc $version"
    dpkg-source --no-check --extract "$to"/glibc_*.dsc "$folder/source" >&2
}

if [ -n "${GLIBC_SOURCE:-}" ]; then
    source=$(cd "$GLIBC_SOURCE" && pwd)
else
    source=$folder/source
    [ -d "$source" ] || get_source
fi

export source folder

# What the support files take from glibc's build, as far as a program may have it.
ln -sfn "$source/support" "$folder/include/support"
for header in array_length dso_handle libc-diag intprops libc-pointer-arith; do
    cp "$source/include/$header.h" "$folder/include"
done
cat >"$folder/include/stackinfo.h" <<'END'
#include <elf.h>
#define _STACK_GROWS_DOWN 1
#define DEFAULT_STACK_PERMS (PF_R | PF_W)
END
for order in acquire release relaxed; do
    echo "#define atomic_load_$order(at) __atomic_load_n (at, __ATOMIC_${order^^})"
    echo "#define atomic_store_$order(at, value) __atomic_store_n (at, value, __ATOMIC_${order^^})"
done >"$folder/include/atomic.h"
: >"$folder/include/pthreaddef.h"
: >"$folder/include/descr.h"
: >"$folder/include/config.h"
echo '#define TEST_COMPAT(library, from, to) 0' >"$folder/include/shlib-compat.h"
cp "$source/sysdeps/generic/tst-stack-align.h" "$folder/include"

tests=()
for file in "$source"/sysdeps/pthread/tst-*.c "$source"/nptl/tst-*.{c,cc}; do
    name=$(basename "${file%.*}")
    case $name in
    # In static programs there is no library in front. The others are parts of tests.
    *-static | *-time64 | *aux | tst-cancel4-common) continue ;;
    esac
    [ $# = 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
    tests+=("$file")
done
rm -f "$folder"/{not_built,no_support,results} "$folder/support.a"
: >"$folder/not_built"
each() {
    xargs -P 2 -n 1 "$root/ci/glibc_suite.sh" --one "$1"
}
printf '%s\n' "$source"/support/[!t]*.c "$source"/support/t[!s]*.c | grep -v -e -container -e README | each build_support
ar rc "$folder/support.a" "$folder"/support/*.o
# The libraries first, for the programs that are linked with them.
printf '%s\n' "$source"/sysdeps/pthread/tst-*mod*.c "$source"/nptl/tst-*mod*.c | each build_test
printf '%s\n' "${tests[@]}" | grep -v 'tst-[^/]*mod[^/]*$' | each build_test

# The libraries that one test loads.
if [ -e "$folder/programs/tst-stack4mod.so" ]; then
    for copy in {0..19}-{0..19}; do
        cp "$folder/programs/tst-stack4mod.so" "$folder/programs/tst-stack4mod-$copy.so"
    done
fi
# A file that some read.
echo "a file" >"$folder/here/Makefile"

cargo build --quiet --release --package selvedge-preload
library=$folder/libselvedge_preload.so
cp "${CARGO_TARGET_DIR:-target}/release/libselvedge_preload.so" "$library"
export library
for file in "${tests[@]}"; do
    name=$(basename "${file%.*}")
    [ ! -x "$folder/programs/$name" ] || echo "$name"
done | each run_test

# Compares with the list. On that, a line is a test, the models on which it differs, and why; `?` behind the
# models: it may also pass.
failed=0
for model in mxn onetoone; do
    field=$([ $model = mxn ] && echo 3 || echo 4)
    while IFS='|' read -r name plain end; do
        if [ "$plain" != passes ]; then continue; fi
        line=$(grep -E "^$name +($model|both)\\?? " "$known" || true)
        if [ "$end" != passes ] && [ -z "$line" ]; then
            echo "DIFFERS: $name on $model: $end" >&2
            tail -n 5 "$folder/said/$name.$model" >&2
            failed=1
        elif [ "$end" = passes ] && [ -n "$line" ] && ! grep -q '? ' <<<"$line"; then
            echo "STALE: $name passes on $model, and $known has it" >&2
            failed=1
        fi
    done < <(cut -d '|' -f "1,2,$field" "$folder/results")
done
awk -F '|' '
    $2 != "passes" { left++; print $1 ": left out, " $2 " without the library"; next }
    { n++; if ($3 == "passes" && $4 == "passes") all++; else print $1 ": mxn " $3 ", onetoone " $4 }
    $3 == "passes" { mxn++ }
    $4 == "passes" { onetoone++ }
    END {
        print n + 0 " tests: " all + 0 " pass on both models, " mxn + 0 " on mxn, " onetoone + 0 " on onetoone"
        print left + 0 " left out: they fail without the library"
    }' <(sort "$folder/results")
echo "$(wc -l <"$folder/not_built") not built:"
sort "$folder/not_built"
exit $failed
