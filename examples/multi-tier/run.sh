#!/usr/bin/env bash
# The first use case of the NetAlytics paper (docs/use-cases.md), from an empty machine to its answers:
#
#   sudo examples/multi-tier/run.sh DIR [REQUESTS]
#
# builds the test bed with one misconfigured application server, lets its shop serve pages, captures at the switch ports
# of the application servers and of the proxy, and runs the queries. DIR/*.jsonl has their results, DIR/*.pcapng the
# packets, DIR/map.txt the service map, DIR/*.html the findings, and DIR/*.requests, DIR/db.queries, DIR/db.bytes the
# servers' own logs and counters. The bed is removed at the end. NETALYTICS: the program, if not in PATH.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
bed=$here/../../deploy/testbed.sh
dir=$(realpath -m "$1")
requests=${2:-1000}
netalytics=${NETALYTICS:-netalytics}
mkdir -p "$dir"
MISCONFIGURED=app1 "$bed" up "$dir/bed" >/dev/null
captures=()
# Captures run in the bed's namespaces and end with them.
trap '"$bed" down "$dir/bed"' EXIT
# shellcheck source=/dev/null
. "$dir/bed/addresses"
at=("$bed" exec "$dir/bed")
# Warms up the cache.
"$bed" load "$dir/bed" --requests 200 >/dev/null

# All packets of some ports of a switch: NAME SWITCH PORT…
capture() {
  local name=$1 switch=$2 port
  shift 2
  local flags=()
  for port in "$@"; do flags+=(-i "$port"); done
  "${at[@]}" "$switch" "$netalytics" query 'PARSE packet PROCESS (count)' "${flags[@]}" --write "$dir/$name.pcapng" --output /dev/null --summary-json "$dir/$name.json" 2>"$dir/$name.log" &
  captures+=($!)
  until grep -q "capturing from" "$dir/$name.log"; do kill -0 "${captures[-1]}"; sleep 0.05; done
}

# Bytes counted by the database's interface.
db_bytes() { "${at[@]}" db awk '$1 == "eth0:" { printf "%.0f", $2 + $10 }' /proc/net/dev; }

logs=(app1.requests app2.requests proxy.requests db.queries)
declare -A lines
for log in "${logs[@]}"; do lines[$log]=$(wc -l <"$dir/bed/log/$log"); done
before=$(db_bytes)
capture leaf2 leaf2 app1 app2
capture leaf1 leaf1 proxy
"$bed" load "$dir/bed" --requests "$requests"
# Until traffic stops.
after=$before
until [ "$after" = "$(db_bytes)" ]; do after=$(db_bytes); sleep 0.3; done
echo $((after - before)) >"$dir/db.bytes"
for log in "${logs[@]}"; do tail -n +$((lines[$log] + 1)) "$dir/bed/log/$log" >"$dir/$log"; done
for one in "${captures[@]}"; do kill "$one"; wait "$one"; done

# Queries the capture of a switch: NAME SWITCH QUERY
ask() {
  local name=$1 file=$dir/$2.pcapng query=$3
  printf '\n%s\n' "$query"
  "$netalytics" --quiet query "$query" -r "$file" --format table
  "$netalytics" --quiet query "$query" -r "$file" --format jsonl >"$dir/$name.jsonl"
}

ask users leaf1 "PARSE http TO $PROXY:80 PROCESS (hist)"
ask tiers leaf2 "PARSE tcp_conn_time TO 10.60.2.0/24:8000, $DB:3306, $CACHE:11211 PROCESS (diff-group: group=srcIP, destIP)"
ask bytes leaf2 "PARSE tcp_pkt_size FROM 10.60.2.0/24 TO 10.60.3.0/24 PROCESS (group-sum: group=client_ip, server_ip)"
ask statements leaf2 "PARSE mysql_query WHERE command = 'query' PROCESS (group-count: group=client_ip)"
ask gets leaf2 "PARSE memcached_get PROCESS (group-count: group=client_ip, hit)"
ask pages leaf1 "PARSE http TO $PROXY:80 PROCESS (group-count: group=path)" >/dev/null

# The service map: app1 has no edge to the cache.
grep -E '^(PROXY|APP1|APP2|DB|CACHE)=' "$dir/bed/addresses" | awk -F= '{ print $2, tolower($1) }' >"$dir/hosts"
printf '\n'
"$netalytics" --quiet map -r "$dir/leaf2.pcapng" --hosts "$dir/hosts" | tee "$dir/map.txt"
"$netalytics" --quiet map -r "$dir/leaf2.pcapng" --hosts "$dir/hosts" --format json >"$dir/map.json"
"$netalytics" --quiet report "PARSE tcp_conn_time TO 10.60.2.0/24:8000, $DB:3306, $CACHE:11211 PROCESS (diff-group-count-avg: group=srcIP, destIP)" -r "$dir/leaf2.pcapng" --hosts "$dir/hosts" -o "$dir/tiers.html"
"$netalytics" --quiet report "PARSE http TO $PROXY:80 PROCESS (hist)" -r "$dir/leaf1.pcapng" --hosts "$dir/hosts" -o "$dir/users.html"
