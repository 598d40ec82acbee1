#!/usr/bin/env bash
# Records captures/tls anew: openssl's server in one network namespace, its client in another, tcpdump between them. Needs
# root on Debian; traffic stays inside the two namespaces. What the client says of each connection is the truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs openssl
two_hosts tls
ip -n $server addr add 10.20.0.10/24 dev eth0
ip -n $client addr add 10.20.0.21/24 dev eth0

cd "$work"
certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.pem" -days 3650 \
    -subj "/O=Example/CN=$1" -addext "subjectAltName=DNS:$1,DNS:*.$1,IP:10.20.0.10" 2>/dev/null
}
certificate shop.test
certificate clerk.test
ip netns exec $server openssl s_server -accept 10.20.0.10:443 -cert shop.test.pem -key shop.test.key -alpn h2,http/1.1 \
  -groups P-256:X25519 -quiet -www >server.log 2>&1 & pids+=($!)
ip netns exec $server openssl s_server -accept 10.20.0.10:444 -cert shop.test.pem -key shop.test.key -Verify 1 -CAfile clerk.test.pem \
  -no_tls1_3 -quiet -www >server2.log 2>&1 & pids+=($!)
ip netns exec $client tcpdump -q -U --immediate-mode -i eth0 -w in.pcap tcp 2>/dev/null & pids+=($!)
dump=${pids[-1]}
sleep 1

: >openssl.log
port=41000
# Arguments of s_client; the log gets port, version, cipher, New or Reused as printed.
connect() {
  port=$((port + 1))
  printf 'GET / HTTP/1.0\r\n\r\n' | ip netns exec $client timeout 5 openssl s_client -bind 10.20.0.21:$port \
    -ign_eof "$@" >said 2>&1 || true
  line=$(grep -a -m1 -E '^(New|Reused), ' said || echo 'none')
  echo "$port $line" | sed -E 's/, (TLSv[0-9.]+|\(NONE\)), Cipher is / \1 /' >>openssl.log
}
shop="-connect 10.20.0.10:443 -servername shop.test"
connect $shop -tls1_2 -alpn h2,http/1.1
connect $shop -tls1_2 -alpn http/1.1 -cipher ECDHE-ECDSA-CHACHA20-POLY1305
connect $shop -tls1_2 -sess_out session2
connect $shop -tls1_2 -sess_in session2
connect $shop -tls1_3 -alpn h2
connect $shop -tls1_3 -sess_out session3
connect $shop -tls1_3 -sess_in session3
connect $shop -tls1_3 -groups X25519:P-256
connect $shop -tls1_3 -groups P-384:P-256
connect -connect 10.20.0.10:443 -noservername
connect $shop -tls1_2 -verify_return_error -CAfile clerk.test.pem
connect $shop -tls1_3 -verify_return_error -CAfile clerk.test.pem
connect $shop -tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256
connect -connect 10.20.0.10:444 -servername desk.shop.test -tls1_2 -cert clerk.test.pem -key clerk.test.key
connect -connect 10.20.0.10:444 -servername desk.shop.test -tls1_2
sleep 0.5
kill "$dump"; wait "$dump" 2>/dev/null || true
cp in.pcap openssl.log "$here/"
openssl x509 -in shop.test.pem -noout -subject -issuer -enddate -ext subjectAltName >"$here/certificate.txt"
