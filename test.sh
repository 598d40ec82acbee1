#!/usr/bin/env bash
# Installs what is missing and runs every test: units, the program, captures with independent truth, documentation
# examples, and each fuzz target for a few seconds (FUZZ_SECONDS, default 8).
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh
cargo test --workspace --locked --quiet
fuzz/run.sh "${FUZZ_SECONDS:-8}"
