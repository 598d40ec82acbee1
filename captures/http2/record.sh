#!/usr/bin/env bash
# Records in.pcap and the servers' logs on the loopback interface: nginx with plain HTTP/2 and nghttp, curl, and h2load; a gRPC server and
# client in Python (grpcio 1.85). Needs root for tcpdump. PYTHON=... names a Python with grpcio.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
chmod 755 "$work"
mkdir -p "$work/tmp" "$work/www"
head -c 60000 /dev/zero | tr '\0' f > "$work/www/file"
cp nginx.conf "$work"
tcpdump -i lo -n -U --immediate-mode -B 32768 -w "$work/in.pcap" 'tcp port 8082 or tcp port 50051' 2> "$work/tcpdump.log" & dump=$!
timeout 60 nginx -p "$work" -c "$work/nginx.conf" 2> "$work/nginx.log" & nginx=$!
trap 'kill $dump $nginx 2> /dev/null || true' EXIT
sleep 1
at=http://127.0.0.1:8082
timeout 10 nghttp -n "$at/item/1" "$at/item/2?q=secret" "$at/moved" "$at/missing" "$at/file"
for path in item/3 fail file; do curl -m 5 -s -o /dev/null --http2-prior-knowledge "$at/$path" || true; done
curl -m 5 -s -o /dev/null --http2-prior-knowledge -X POST -d name=value "$at/item/4" || true
timeout 10 h2load -n 200 -c 2 -m 10 "$at/item/100" > /dev/null
timeout 30 "${PYTHON:-python3}" calls.py "$work/grpc-server.jsonl"
sleep 1
kill $nginx
wait $nginx || true
kill -INT $dump
wait $dump || true
cp "$work/in.pcap" "$work/grpc-server.jsonl" .
cp "$work/access.log" nginx-access.jsonl
rm -r "$work"
