#!/usr/bin/env bash
# Installs missing packages, builds netalytics, and analyzes a recorded shop under load (captures/shop): an overview
# first, then three queries.
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh demo
web/build.sh || echo "*** demo: the page of netalytics serve could not be built; all else works without it ***" >&2
# Without Kafka, and with less optimization: compiles in half the time of a release.
cargo build --profile demo --locked --quiet -p netalytics --no-default-features
ask() {
  printf "\n$ netalytics query '%s' -r captures/shop/in.pcap\n" "$1"
  target/demo/netalytics query "$1" -r captures/shop/in.pcap --format table "${@:2}"
}
printf '\n$ netalytics overview -r captures/shop/in.pcap\n'
target/demo/netalytics overview -r captures/shop/in.pcap
ask 'PARSE http PROCESS (diff-group: group=url_template)' --quiet
ask 'PARSE mysql_query PROCESS (group-avg-top-k: k=3)' --quiet
ask 'PARSE memcached_get FROM * TO *:11211 PROCESS (group-count-success: group=client_ip), (cdf)'
printf '\nThe program is target/demo/netalytics; `netalytics parsers` lists what it reads,\nand `netalytics serve --demo` prints the address of its page. Builds with Kafka and\nfull optimization: docs/install.md.\n'
