#!/usr/bin/env bash
# Records captures/dns anew: BIND in one network namespace, dig in another, tcpdump between them. Needs root on Debian;
# traffic stays inside the two namespaces. What BIND logs and what tshark reads of the same packets is the truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs bind9 bind9-dnsutils tshark
two_hosts dns
ip -n $server addr add 10.20.0.53/24 dev eth0
ip -n $server addr add fd20::53/64 dev eth0 nodad
ip -n $client addr add 10.20.0.21/24 dev eth0
ip -n $client addr add fd20::21/64 dev eth0 nodad

chmod 755 "$work"
cat >"$work/example.test" <<ZONE
\$TTL 300
@        IN SOA   ns admin 7 3600 600 86400 60
@        IN NS    ns
@        IN MX    10 mail
@        IN CAA   0 issue "ca.example"
ns       IN A     10.20.0.53
mail     IN A     10.20.0.25
www      IN CNAME shop
shop 60  IN A     10.20.0.10
shop 30  IN A     10.20.0.11
shop     IN AAAA  fd20::10
shop     IN HTTPS 1 . alpn="h2,h3" port=8443
_ldap._tcp IN SRV 1 5 389 shop
text     IN TXT   "a,b" "c \"d\""
big      IN TXT   $(for i in $(seq 20); do printf '"%0200d" ' "$i"; done)
ZONE
cat >"$work/named.conf" <<CONF
options {
  directory "$work"; pid-file "$work/named.pid"; listen-on { 10.20.0.53; }; listen-on-v6 { fd20::53; };
  recursion no; dnssec-validation no; allow-transfer { 10.20.0.21; }; minimal-responses yes;
};
logging { channel q { file "$work/queries"; }; category queries { q; }; };
zone "example.test" { type primary; file "$work/example.test"; };
CONF
ip netns exec $server named -f -c "$work/named.conf" >"$work/named.log" 2>&1 & pids+=($!)
ip netns exec $client tcpdump -q -U --immediate-mode -i eth0 -w "$work/in.pcap" 'port 53 or port 54' 2>/dev/null & pids+=($!)
dump=${pids[-1]}
ask() { ip netns exec $client dig +tries=1 +time=1 @10.20.0.53 "$@" >/dev/null 2>&1 || true; }
for _ in $(seq 50); do ask +notcp version.bind CH TXT; grep -q version.bind "$work/queries" 2>/dev/null && break; sleep 0.1; done

ask www.example.test A
ask SHOP.Example.Test AAAA
ask example.test MX
ask example.test SOA
ask example.test CAA
ask _ldap._tcp.example.test SRV
ask shop.example.test HTTPS
ask text.example.test TXT
ask nothing.example.test A +norecurse
ask elsewhere.example.org A
ask +bufsize=512 +ignore big.example.test TXT
ask +bufsize=512 big.example.test TXT
ask +tcp shop.example.test A
ask +edns=1 +noednsneg shop.example.test A
ask +keepopen +tcp www.example.test A shop.example.test AAAA nothing.example.test MX
ask +tcp example.test AXFR
ip netns exec $client dig +tries=1 +time=1 @fd20::53 shop.example.test A >/dev/null
# No server listens there.

ip netns exec $client dig -p 54 +tries=3 +time=1 @10.20.0.53 shop.example.test A >/dev/null 2>&1 || true
sleep 0.5
kill "$dump"; wait "$dump" 2>/dev/null || true

cp "$work/in.pcap" "$here/in.pcap"
sed -E 's/^.*client @0x[0-9a-f]+ ([^ ]+)#([0-9]+) .*: query: ([^ ]+) ([A-Z]+) ([A-Z0-9]+) .*$/\1 \2 \3 \5/' "$work/queries" >"$here/named-queries.log"
tshark -r "$here/in.pcap" -d udp.port==54,dns -Y dns -T fields -e dns.id -e dns.flags.response -e dns.qry.name -e dns.flags.rcode -e dns.count.answers \
  -e dns.a -e dns.aaaa -e dns.resp.ttl -e dns.flags.truncated -e dns.flags.authoritative -e dns.time 2>/dev/null >"$here/tshark.tsv"
