#!/usr/bin/env bash
# Records captures/tls-keys anew: nginx in one network namespace, openssl's client and Python in another, tcpdump between
# them. Needs root on Debian; traffic stays inside the two namespaces. The server's log is the truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs nginx openssl python3
two_hosts tlskeys
ip -n $server addr add 10.20.0.10/24 dev eth0
ip -n $client addr add 10.20.0.21/24 dev eth0

cd "$work"
for name in shop.test clerk.test; do
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $name.key -out $name.pem -days 3650 \
    -subj "/O=Example/CN=$name" -addext "subjectAltName=DNS:$name,IP:10.20.0.10" 2>/dev/null
done
mkdir -p www tmp
head -c 200 /dev/zero | tr '\0' s >www/small
head -c 20000 /dev/urandom | base64 -w0 | head -c 16000 >www/medium
cat >nginx.conf <<CONF
daemon off; master_process off; pid $work/nginx.pid; error_log $work/error.log; worker_processes 1;
events {}
http {
  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
  log_format t '\$remote_port\t\$request_method\t\$request_uri\t\$status\t\$body_bytes_sent\t\$ssl_protocol\t\$ssl_cipher\t\$ssl_session_reused\t\$ssl_early_data';
  access_log $work/server.log t;
  ssl_certificate shop.test.pem; ssl_certificate_key shop.test.key; ssl_protocols TLSv1.2 TLSv1.3;
  ssl_ciphers ALL:@SECLEVEL=0; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_CCM_SHA256:TLS_AES_128_CCM_8_SHA256;
  ssl_session_cache shared:s:1m; ssl_early_data on; ssl_session_tickets on; ssl_prefer_server_ciphers off;
  server {
    listen 443 ssl; root www; server_name shop.test;
    location = /upload { return 204; }
  }
  server { listen 444 ssl; root www; ssl_ecdh_curve secp384r1; }
  server { listen 445 ssl; root www; ssl_verify_client on; ssl_client_certificate clerk.test.pem; }
  server { listen 446 ssl; root www; ssl_session_tickets off; }
}
CONF
ip netns exec $server nginx -c "$work/nginx.conf" -p "$work" & pids+=($!)
ip netns exec $client tcpdump -q -U --immediate-mode -i eth0 -w in.pcap tcp 2>/dev/null & pids+=($!)
dump=${pids[-1]}
sleep 1

: >keys.log
: >sent.log
get='GET /small?%s HTTP/1.1\r\nHost: shop.test\r\n\r\n'
bye='GET /medium?%s HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n'
number=0
# Two requests on a connection of openssl's client; arguments: its options.
connect() {
  number=$((number + 1))
  { printf "$get" $number; sleep 0.2; printf "$bye" $number; sleep 0.2; } | ip netns exec $client timeout 5 openssl s_client \
    -keylogfile keys.log -ign_eof -connect 10.20.0.10:${port:-443} -servername shop.test "$@" >said 2>&1 || true
}
for suite in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256 TLS_AES_128_CCM_SHA256 \
  TLS_AES_128_CCM_8_SHA256; do
  connect -tls1_3 -ciphersuites $suite
done
for cipher in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305 \
  ECDHE-ECDSA-AES128-CCM ECDHE-ECDSA-AES256-CCM8 ECDHE-ECDSA-AES128-SHA256 ECDHE-ECDSA-AES256-SHA384 ECDHE-ECDSA-AES128-SHA; do
  connect -tls1_2 -cipher $cipher:@SECLEVEL=0
done
connect -tls1_2 -cipher ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0 -legacy_server_connect -noservername
# Resumption: by ticket, by session id, and by pre-shared key.
connect -tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256 -sess_out ticket
connect -tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256 -sess_in ticket
port=446 connect -tls1_2 -cipher ECDHE-ECDSA-AES256-GCM-SHA384 -sess_out id
port=446 connect -tls1_2 -cipher ECDHE-ECDSA-AES256-GCM-SHA384 -sess_in id
connect -tls1_3 -sess_out psk
connect -tls1_3 -sess_in psk
# Early data: accepted, and rejected because the ticket was used on another port.
connect -tls1_3 -sess_out psk
printf 'GET /small?early HTTP/1.1\r\nHost: shop.test\r\n\r\n' >early
connect -tls1_3 -sess_in psk -early_data early
# HelloRetryRequest, with a certificate of the client, and with keys that change.
port=444 connect -tls1_3 -groups X25519:P-384
port=445 connect -tls1_3 -cert clerk.test.pem -key clerk.test.key
port=445 connect -tls1_2 -cert clerk.test.pem -key clerk.test.key
{
  printf "$get" update1; sleep 0.3; printf 'K\n'; sleep 0.3; printf "$get" update2; sleep 0.3; printf 'k\n'; sleep 0.3
  printf "$bye" update3; sleep 0.5
} | ip netns exec $client timeout 5 openssl s_client -keylogfile keys.log -connect 10.20.0.10:443 -servername shop.test -tls1_3 \
  >said 2>&1 || true
echo "10.20.0.10 shop.test" >hosts
ip netns exec $client unshare -m sh -c "mount --bind hosts /etc/hosts && python3 '$here/client.py' 1.3:443:60 1.2:443:60 1.3:446:30"
# A connection whose keys are in no log.
printf "$bye" secret | ip netns exec $client timeout 5 openssl s_client -ign_eof -connect 10.20.0.10:443 -tls1_3 >said 2>&1 || true
sleep 0.5
kill "$dump"; wait "$dump" 2>/dev/null || true
cp in.pcap keys.log server.log "$here/"
