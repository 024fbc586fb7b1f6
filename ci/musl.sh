#!/usr/bin/env bash
# Tests on musl, which this machine runs natively: programs that are linked statically, as Rust does by
# default, and dynamically. `CI=1 .ci/run musl` gets the tools.
#
# Left out, and why:
# - refused, storms, progress, one_cpu, fairness, idle, concurrency, blocked_lwp, cpus, timer_slack: what the
#   monitor and the kernel do, which no C library changes. They take minutes.
# - bad_input, stack, memory, alloc_*, java_threads, million, creation: limits of memory, which they know
#   for glibc's allocator and stacks.
# - barriers, contention, echo, pingpong, nt_solaris, papers_alone, programs, servers: programs of benches and
#   examples. `cargo clippy` compiles them for musl.
# - api, layering, port, loom_public, features: what a compiler sees, which is the same.
# - interpose, gdb: for glibc only.
# - deadlock*, trace, threadmon, signal, random, net_faults, emulator, large_thread_locals: over what
#   conformance asks of musl.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-musl
made=$PWD/target/musl
mkdir -p "$made"
export CARGO_TARGET_DIR=$made RUSTFLAGS="--cfg selvedge_lean ${RUSTFLAGS:-}"
tests=$((2 * $(nproc))) # of conformance at once, where most wait
suites=(--lib --test tls --test tls_pinned --test tls_block --test shared --test shared_kinds)

echo "--- musl, static"
cargo test --target "$target" "${suites[@]}"
# The other legs have the same rung with other settings.
cargo test --target "$target" --test conformance -- \
    --test-threads="$tests" --skip mxn_syscall:: --skip mxn_one_slot:: --skip mxn_crowded::

# Dynamic programs want the unwinder as a library, which musl's packages lack. Rust's own copy for static
# programs has it, under another name.
echo "--- musl, dynamic"
own=$(rustc --print sysroot)/lib/rustlib/$target/lib/self-contained/libunwind.a
echo "INPUT($own)" >"$made/libgcc_s.so"
# A wrapper adds the flags: what only dependencies need is not compiled again.
cat >"$made/dynamic" <<END
#!/bin/sh
exec "\$@" -C target-feature=-crt-static -C linker=musl-gcc -L native=$made
END
chmod +x "$made/dynamic"
export RUSTC_WORKSPACE_WRAPPER=$made/dynamic
# valgrind does not know memory that musl's loader has allocated before it could look.
cargo test --target "$target" "${suites[@]}" -- --skip valgrind
cargo test --target "$target" --test conformance -- --test-threads="$tests" onetoone:: mxn:: mxn_pinned::
