#!/usr/bin/env bash
# Records captures/shop anew: nginx, MariaDB and memcached in one network namespace, their clients in another, tcpdump
# between them. Needs root on Debian; traffic stays inside the two namespaces. The servers' own logs are the truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs nginx-light libnginx-mod-http-echo mariadb-server mariadb-client memcached python3-pymysql
two_hosts shop
ip -n $server addr add 10.20.0.10/24 dev eth0
for host in 21 22 23; do ip -n $client addr add 10.20.0.$host/24 dev eth0; done

cat >"$work/nginx.conf" <<CONF
load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;
user root; daemon off; master_process off; pid $work/nginx.pid; error_log $work/error.log;
events { worker_connections 256; }
http {
  log_format t '\$msec \$remote_addr \$remote_port \$request_method \$request_uri \$status \$body_bytes_sent \$request_time';
  access_log $work/access.log t;
  client_body_temp_path $work/b; proxy_temp_path $work/p; fastcgi_temp_path $work/f; uwsgi_temp_path $work/u; scgi_temp_path $work/s;
  server {
    listen 10.20.0.10:80; default_type text/html; keepalive_requests 1000;
    location = /          { echo "<h1>shop</h1>"; }
    location /product/    { echo_sleep 0.004; echo "<h1>product</h1>"; }
    location = /search    { echo_sleep 0.030; echo "<ul><li>one</li><li>two</li></ul>"; }
    location = /checkout  { echo_sleep 0.180; echo "thank you"; }
    location = /cart      { return 204; }
    location /old/        { return 302 /product/1; }
    location = /broken    { return 500; }
  }
}
CONF
ip netns exec $server nginx -c "$work/nginx.conf" & pids+=($!)
ip netns exec $server memcached -u root -l 10.20.0.10 -p 11211 -U 0 -m 32 -t 1 -vv >"$work/memcached.log" 2>&1 & pids+=($!)
mariadb-install-db --no-defaults --datadir="$work/my" --auth-root-authentication-method=normal --skip-test-db --user=root >/dev/null 2>&1
ip netns exec $server mariadbd --no-defaults --user=root --datadir="$work/my" --socket="$work/my.sock" --pid-file="$work/my.pid" \
  --bind-address=10.20.0.10 --port=3306 --skip-name-resolve --innodb-buffer-pool-size=32M --general-log=1 \
  --general-log-file="$work/general.log" >"$work/mariadb.log" 2>&1 & pids+=($!)
for _ in $(seq 100); do mariadb --no-defaults -uroot -S "$work/my.sock" -e 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
mariadb --no-defaults -uroot -S "$work/my.sock" -e "
  CREATE DATABASE shop; CREATE USER app@'%' IDENTIFIED BY 'secret'; GRANT ALL ON shop.* TO app@'%'; USE shop;
  CREATE TABLE product(id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(8,2), stock INT);
  INSERT INTO product SELECT seq, CONCAT('product ', seq), seq * 1.25, 100 FROM seq_1_to_200;
  CREATE TABLE purchase(id INT PRIMARY KEY AUTO_INCREMENT, product INT, customer VARCHAR(40));"

ip netns exec $server tcpdump -i eth0 -n -U --immediate-mode -B 32768 -w "$work/in.pcap" \
  'tcp and (port 80 or port 3306 or port 11211)' 2>"$work/tcpdump.log" & dump=$!; pids+=($dump)
sleep 1
ip netns exec $client /usr/bin/python3 "$here/clients.py" 10.20.0.10
sleep 1
kill -INT $dump; wait $dump || true
grep -q '^0 packets dropped by kernel' "$work/tcpdump.log"
for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait || true
cp "$work/in.pcap" "$here/in.pcap"
cp "$work/access.log" "$here/nginx-access.log"
# The log of what the application's user asked; the set-up above came over the socket.
/usr/bin/python3 - "$work/general.log" "$here/mariadb-queries.log" <<'PY'
import re, sys
app, out, statement = set(), [], None
for line in open(sys.argv[1], encoding="utf8"):
    m = re.match(r"(?:\d{6}\s+[\d:]+)?\s+(\d+) (Connect|Query|Quit|Prepare|Execute|Close stmt|Init DB)\s*(.*)", line.rstrip("\n"))
    if not m:
        continue
    connection, command, text = m.groups()
    if command == "Connect" and text.startswith("app@"):
        app.add(connection)
    if connection in app:
        out.append(f"{connection}\t{command}\t{text}\n")
open(sys.argv[2], "w", encoding="utf8").writelines(out)
PY
grep -aE '^<[0-9]+ (get|gets|set|add|delete|incr)' "$work/memcached.log" | sed -E 's/^<[0-9]+ //' >"$here/memcached-commands.log"
echo "recorded $(stat -c %s "$here/in.pcap") bytes"
