#!/usr/bin/env bash
# Records captures/quic anew: aioquic's server in one network namespace, its client in another, tcpdump between them. Needs
# root on Debian and Python with venv; traffic stays inside the two namespaces. The client's state after each connection is the truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs openssl
two_hosts quic
ip -n $server addr add 10.20.0.10/24 dev eth0
ip -n $client addr add 10.20.0.21/24 dev eth0

cd "$work"
python3 -m venv python && python/bin/pip install --quiet aioquic==1.2.0
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout shop.key -out shop.pem -days 3650 \
  -subj "/CN=shop.test" -addext "subjectAltName=DNS:shop.test" 2>/dev/null
ip netns exec $server python/bin/python "$here/server.py" 10.20.0.10 shop.pem shop.key >server.log 2>&1 & pids+=($!)
ip netns exec $client tcpdump -q -U --immediate-mode -i eth0 -w in.pcap udp 2>/dev/null & pids+=($!)
dump=${pids[-1]}
sleep 2
ip netns exec $client python/bin/python "$here/client.py" 10.20.0.10 >client.jsonl
sleep 0.5
kill "$dump"; wait "$dump" 2>/dev/null || true
cp in.pcap client.jsonl "$here/"
