#!/usr/bin/env bash
# The second use case of the NetAlytics paper (docs/use-cases.md), from an empty machine to its answers:
#
#   sudo examples/pages/run.sh DIR [REQUESTS]
#
# builds the test bed, lets a film shop serve pages from a database there, captures at the shop's switch port, runs the
# queries, updates the shop twice, the second time with a bug, and compares each update with the version before.
# DIR/*.jsonl has the results, DIR/*.pcapng the packets, DIR/*.requests the shop's own log. The bed is removed at the end.
# NETALYTICS: the program, if not in PATH.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
bed=$here/../../deploy/testbed.sh
dir=$(realpath -m "$1")
requests=${2:-1000}
netalytics=${NETALYTICS:-netalytics}
mkdir -p "$dir"
"$bed" up "$dir/bed" >/dev/null
trap '"$bed" down "$dir/bed"' EXIT
# shellcheck source=/dev/null
. "$dir/bed/addresses"
shop=$APP1:8080
# Starts background programs without a shell, so that their process id is the program's.
at=("$bed" exec "$dir/bed")
mariadb --no-defaults "--socket=$dir/bed/run/db.sock" --user=root <"$here/rental.sql"

# Runs and captures the shop under load: NAME [FLAG OF THE SHOP]
release() {
  local name=$1; shift
  "${at[@]}" app1 python3 "$here/application.py" --listen "$shop" --database "$DB:3306" --log "$dir/$name.requests" "$@" &
  local server=$!
  "${at[@]}" app1 bash -c "until : >/dev/tcp/${shop/:/\/}; do sleep 0.05; done" 2>/dev/null
  "${at[@]}" leaf2 "$netalytics" query "PARSE tcp_conn_time FROM 10.60.0.0/16 TO $shop, $DB:3306" -i app1 --write "$dir/$name.pcapng" --output /dev/null 2>"$dir/$name.log" &
  local capture=$!
  until grep -q "capturing from" "$dir/$name.log"; do kill -0 "$capture"; sleep 0.05; done
  "${at[@]}" client1 python3 "$here/load.py" "http://$shop" --requests "$requests"
  sleep 1
  kill "$capture" && wait "$capture"
  kill "$server" && wait "$server" || true
}

ask() {
  local name=$1 query=$2
  printf '\n%s\n' "$query"
  "$netalytics" --quiet query "$query" -r "$dir/first.pcapng" --format table
  "$netalytics" --quiet query "$query" -r "$dir/first.pcapng" --format jsonl >"$dir/$name.jsonl"
}

# Compares an update with the previous version.
check() {
  local name=$1 query=$2; shift 2
  printf '\nThe %s update: %s\n' "$name" "$query"
  "$netalytics" --quiet check "$query" -r "$dir/$name.pcapng" --baseline "$dir/first.pcapng" "$@" || return 0
}

release first
ask hosts "PARSE tcp_conn_time TO $shop, $DB:3306 PROCESS (diff-group: group=destIP)"
ask clients "PARSE tcp_conn_time TO $shop PROCESS (hist)"
ask pages "PARSE tcp_conn_time, http_get TO $shop PROCESS (diff-group-count-quantile-cdf: group=path, q=0.5, 0.99)"
ask statements "PARSE mysql_query WHERE command = 'query' PROCESS (group-count-quantile-hist: group=fingerprint, q=0.5, 0.99)"

release good
release bad --release-bug
for name in good bad; do
  check $name "PARSE mysql_query WHERE command = 'query' PROCESS (group-count: group=fingerprint)" --assert 'count > 0 and baseline.count > 0' --report "$dir/$name-statements.json"
  check $name 'PARSE http PROCESS (group-quantile: group=path, q=0.5)' --assert 'p50 > 0.5 * baseline.p50 and p50 < 2 * baseline.p50' --report "$dir/$name-pages.json"
done
