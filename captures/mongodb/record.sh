#!/usr/bin/env bash
# Records captures/mongodb anew: FerretDB in one network namespace, pymongo in another, tcpdump between them. Needs root on Debian;
# traffic stays inside the two namespaces. The driver's listener is the truth.
#   FERRETDB=… PYTHON=… captures/mongodb/record.sh    (the program of FerretDB 1.24, and a Python with pymongo 4.20)
. "$(dirname "$0")/../record/two_hosts.sh"
needs
two_hosts mongodb
ip -n $server addr add 10.20.2.10/24 dev eth0
ip -n $client addr add 10.20.2.21/24 dev eth0
mkdir "$work/state"
ip netns exec $server "$FERRETDB" --handler=sqlite --sqlite-url="file:$work/state/" --listen-addr=10.20.2.10:27017 --telemetry=disable \
  --state-dir="$work/state" --debug-addr=- --log-level=error >/dev/null 2>&1 & pids+=($!)
for _ in $(seq 100); do
  ip netns exec $client bash -c 'exec 3<>/dev/tcp/10.20.2.10/27017' 2>/dev/null && break
  sleep 0.1
done
ip netns exec $server tcpdump -i eth0 -n -U --immediate-mode -B 32768 -w "$work/in.pcap" 'tcp port 27017' 2>"$work/tcpdump.log" &
dump=$!; pids+=($dump)
sleep 1
ip netns exec $client "$PYTHON" "$here/client.py" mongodb://10.20.2.10:27017/ "$work/client.jsonl"
sleep 1
kill -INT $dump; wait $dump || true
grep -q '^0 packets dropped by kernel' "$work/tcpdump.log"
cp "$work/in.pcap" "$work/client.jsonl" "$here"
