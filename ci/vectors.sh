#!/usr/bin/env bash
# Runs the tests of vectors (V) of riscv64 on Debian's kernel, in the system emulator of Debian's package
# `qemu-system-misc`. The emulator of single programs cannot play them: up to version 11.1, it leaves vectors
# out of the frames of signals. The tests are those of injected calls, of preemption, and of registers under
# preemption. If something that it needs is missing, it prints "skipped: why" and passes.
#
# The kernel is Debian's package (`ci/packages.sh`). It starts with the test programs in a file system in
# memory, and with `ci/vectors/init.c` as its first process. VECTORS_BITS is the length of a vector register.
set -euo pipefail
cd "$(dirname "$0")/.."

target=riscv64gc-unknown-linux-gnu
compiler=riscv64-linux-gnu-gcc
bits=${VECTORS_BITS:-256}
limit=${VECTORS_SECONDS:-1200} # for the machine, from its start to its end
architecture=riscv64
made=$PWD/target/vectors
root=$made/root
mkdir -p "$made"
. ci/packages.sh

skip() {
    echo "skipped: $1"
    exit 0
}

for program in qemu-system-riscv64 "$compiler" apt-get dpkg-deb cpio gzip; do
    command -v "$program" >/dev/null || skip "there is no $program"
done
rustup target add "$target" >/dev/null 2>&1 || skip "there is no standard library for $target"

# Gets Debian's kernel for riscv64 as `kernel`.
kernel() {
    local package
    [ ! -e "$made/kernel" ] || return 0
    index debian trixie || return
    package=$(private_apt trixie -s install linux-image-riscv64 --no-install-recommends |
        sed -n 's/^Inst \(linux-image-[0-9][^ ]*\) .*/\1/p')
    [ -n "$package" ] && unpack trixie "$made/linux" "$package" || return
    mv "$made"/linux/boot/vmlinux-* "$made/kernel" && rm -rf "$made/linux" "$made/packages"
}
kernel || skip "Debian's kernel for riscv64 cannot be had"

export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER=$compiler
export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUSTFLAGS="--cfg selvedge_lean"
log=$(cargo test --target "$target" --target-dir "$made" --no-run --message-format=json-render-diagnostics \
    --lib --test emulator --test progress)

rm -rf "$root"
mkdir -p "$root/lib" "$root/etc"
echo "127.0.0.1 localhost" >"$root/etc/hosts"
for file in $(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$log"); do
    name=$(basename "$file")
    riscv64-linux-gnu-strip --strip-debug -o "$root/${name%-*}" "$file"
done
cp /usr/riscv64-linux-gnu/lib/{ld-linux-riscv64-lp64d.so.1,libc.so.6,libm.so.6,libgcc_s.so.1} "$root/lib"
$compiler -O -static ci/vectors/init.c -o "$root/init"
cat >"$root/commands" <<'COMMANDS'
/emulator --exact a_signal_frame_has_the_vectors
/selvedge arch::inject_tests arch::riscv64 arch::tests sys::preempt mxn::preempt
/progress --nocapture --exact crowd::hogs_of_every_kind_come_out_right
COMMANDS
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$made/files.gz"

timeout --kill-after=10 "$limit" qemu-system-riscv64 -machine virt -smp 2 -m 2G -nographic -no-reboot \
    -cpu "rv64,v=true,vext_spec=v1.0,vlen=$bits" -kernel "$made/kernel" -initrd "$made/files.gz" \
    -append "console=ttyS0 quiet panic=-1" </dev/null | tr -d '\r' | tee "$made/output" |
    grep -v '^test .* ok$' || true

failed=()
for program in emulator selvedge progress; do
    grep -q "^/$program has ended with 0$" "$made/output" || failed+=("$program")
done
[ "$(grep -c '^test result: ok. [1-9]' "$made/output")" -ge 3 ] || failed+=("some have not run")
! grep -q '^skipped: the processor has no vectors' "$made/output" || failed+=("without vectors")
grep -q '^  V: [1-9]' "$made/output" || failed+=("registers under preemption")
if [ "${#failed[@]}" -gt 0 ]; then
    echo "vectors: FAILED: ${failed[*]}"
    exit 1
fi
echo "vectors: $(grep '^  V: ' "$made/output" | tail -1)"
