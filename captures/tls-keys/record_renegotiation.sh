#!/usr/bin/env bash
# Records renegotiation.pcap anew: clients of openssl's server that ask for another handshake inside their TLS 1.2 connection, and then for a
# file. Needs root on Debian; traffic stays inside two network namespaces.
. "$(dirname "$0")/../record/two_hosts.sh"
needs openssl
two_hosts tlsre
ip -n $server addr add 10.20.0.10/24 dev eth0
ip -n $client addr add 10.20.0.21/24 dev eth0

cd "$work"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout shop.test.key -out shop.test.pem -days 3650 \
  -subj "/O=Example/CN=shop.test" 2>/dev/null
head -c 300 /dev/zero | tr '\0' s >small
ip netns exec $server openssl s_server -accept 443 -cert shop.test.pem -key shop.test.key -tls1_2 -cipher ALL:@SECLEVEL=0 \
  -client_renegotiation -WWW >/dev/null 2>&1 & pids+=($!)
ip netns exec $client tcpdump -q -U --immediate-mode -i eth0 -w in.pcap tcp 2>/dev/null & pids+=($!)
dump=${pids[-1]}
sleep 1
for cipher in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-ECDSA-AES256-CCM ECDHE-ECDSA-AES256-SHA384; do
  { sleep 0.5; printf 'R\n'; sleep 1; printf 'GET /small HTTP/1.0\r\n\r\n'; sleep 1; } | ip netns exec $client timeout 5 openssl s_client \
    -keylogfile keys.log -connect 10.20.0.10:443 -servername shop.test -tls1_2 -cipher $cipher:@SECLEVEL=0 >said 2>&1 || true
  grep -q RENEGOTIATING said
done
sleep 0.5
kill "$dump"; wait "$dump" 2>/dev/null || true
cp in.pcap "$here/renegotiation.pcap"
cp keys.log "$here/renegotiation-keys.log"
