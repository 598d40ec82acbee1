#!/usr/bin/env bash
# Runs every fuzz target for SECONDS each (default 10) on the stable toolchain, starting from its corpus; exits with an
# error if one finds something. `fuzz/run.sh 3600 http` runs one target for an hour.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-10}
shift || true
# The flags of cargo-fuzz without the sanitizers, which need nightly: coverage feedback for libFuzzer.
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
host=$(rustc -vV | sed -n 's/^host: //p')
# For a few seconds each, a higher optimization level does not pay off.
profile=release
if [ "$seconds" -lt 60 ]; then profile=quick; fi
RUSTFLAGS="$flags" cargo build --profile "$profile" --quiet --target "$host"
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for f in fuzz_targets/*.rs; do targets+=("$(basename "$f" .rs)"); done
fi

one() {
  local target=$1 corpus log patience
  corpus=$(mktemp -d)
  mkdir -p "artifacts/$target"
  log="$corpus.log"
  # The Parquet library may spend seconds on long lists that a few bytes of a footer declare.
  patience=10
  if [ "$target" = recording ]; then patience=100; fi
  # Each run allocates tables of some MiB; without a fixed threshold they fragment the heap beyond any limit.
  if ! MALLOC_MMAP_THRESHOLD_=1048576 "target/$host/$profile/$target" "$corpus" $(ls -d "corpus/$target" 2>/dev/null) -max_total_time="$seconds" \
    -rss_limit_mb=1024 -timeout="$patience" -max_len=65536 -artifact_prefix="artifacts/$target/" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "fuzz $target: FAILED (input kept in fuzz/artifacts/$target)"
    return 1
  fi
  echo "fuzz $target: $(grep -E '^Done' "$log")"
  rm -rf "$corpus" "$log"
}

# One target per core at a time.
running=0 failed=0
for target in "${targets[@]}"; do
  if [ "$running" -ge "$(nproc)" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  one "$target" &
  running=$((running + 1))
done
for _ in $(seq "$running"); do wait -n || failed=1; done
exit "$failed"
