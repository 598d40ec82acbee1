#!/usr/bin/env bash
# Installs missing packages and runs every test: units, the program, captures with independent truth, documentation
# examples, DPDK's devices if libdpdk is available, and each fuzz target for a few seconds (FUZZ_SECONDS, default 8).
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh build test
web/build.sh || echo "*** test: the page could not be built: the program is tested WITHOUT it ***" >&2
# Under nohup programs ignore SIGHUP, and the tests need it.
env --default-signal=HUP cargo test --workspace --locked --quiet --no-fail-fast
if ./setup.sh build dpdk; then
  cargo test --package capture --features dpdk --locked --quiet --test dpdk
else
  echo "*** test: NOT TESTED: DPDK, which could not be installed ***" >&2
fi
fuzz/run.sh "${FUZZ_SECONDS:-8}"
