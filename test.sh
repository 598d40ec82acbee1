#!/usr/bin/env bash
# Installs missing packages and runs every test: units, the program, captures with independent truth, documentation
# examples, DPDK's devices, and each fuzz target for a few seconds (FUZZ_SECONDS, default 8). A test whose requirement is
# missing fails unless ALLOW_MISSING, a comma-separated list, names it; CONTRIBUTING.md has the names.
set -euo pipefail
cd "$(dirname "$0")"
. crates/testkit/require.sh
# The large corpus is not part of the repository; captures/ judges every parser without it.
if [ "${CI:-}" != true ] && [ ! -d ../shared/data ]; then
  export ALLOW_MISSING="${ALLOW_MISSING:+$ALLOW_MISSING,}corpus"
fi
./setup.sh build test
web/build.sh || missing page "web/build.sh cannot build it"
# Under nohup, programs ignore SIGHUP, and in the background SIGINT; the tests need both.
run() { env --default-signal=HUP,INT cargo test --workspace --locked --quiet --no-fail-fast "$@"; }
run --no-run
# Tests wait for servers, Flink, and clocks most of the time: two run per core, and fuzzing uses the rest. It is a session
# of its own, because Linux divides time between sessions first, and servers have their own, too.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
failed=0 log=$(mktemp)
setsid bash -c '{ echo 10 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 10 fuzz/run.sh "$1"' - "${FUZZ_SECONDS:-8}" >"$log" 2>&1 &
fuzz=$!
trap 'kill -- "-$fuzz" 2>/dev/null || true' EXIT
run || failed=1
if ./setup.sh build dpdk; then
  cargo test --package capture --features dpdk --locked --quiet --test dpdk || failed=1
else
  missing dpdk "libdpdk cannot be installed"
fi
wait "$fuzz" || failed=1
cat "$log"
rm "$log"
exit "$failed"
