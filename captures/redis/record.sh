#!/usr/bin/env bash
# Records captures/redis anew: a Redis server in one network namespace, its clients in another, tcpdump between them. Needs
# root on Debian; traffic stays inside the two namespaces. The server's own statistics, and a reader of its own, are the truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs redis-server redis-tools python3
two_hosts redis
ip -n $server addr add 10.30.0.10/24 dev eth0
ip -n $client addr add 10.30.0.21/24 dev eth0

ip netns exec $server redis-server --bind 10.30.0.10 --port 6379 --unixsocket "$work/redis.sock" --protected-mode no \
  --save '' --appendonly no --dir "$work" >"$work/redis.log" & pids+=($!)
until redis-cli -s "$work/redis.sock" ping >/dev/null 2>&1; do sleep 0.1; done
redis-cli -s "$work/redis.sock" config resetstat >/dev/null
ip netns exec $server tcpdump -i eth0 -B 8192 --immediate-mode -n -U -w "$work/in.pcap" 'tcp port 6379' 2>/dev/null & pids+=($!)
capture=$!
until [ -s "$work/in.pcap" ]; do sleep 0.1; done

ip netns exec $client python3 "$here/clients.py" 10.30.0.10
ip netns exec $client redis-benchmark -h 10.30.0.10 -n 60 -c 2 -P 5 -t set,get,lpush -q >/dev/null
redis-cli -s "$work/redis.sock" info commandstats | tr -d '\r' >"$work/commandstats.txt"
sleep 1
kill -INT $capture
wait $capture 2>/dev/null || true
cp "$work/in.pcap" "$work/commandstats.txt" "$here"
