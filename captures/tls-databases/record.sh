#!/usr/bin/env bash
# Records captures/tls-databases anew: MariaDB, PostgreSQL, nginx, and tinyproxy in one network namespace, clients in Python in another,
# tcpdump between them. Needs root on Debian and, in the Python that PYTHON names, pymysql, pg8000, and asyncpg; traffic stays inside
# the two namespaces. The servers' logs are the truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs mariadb-server mariadb-client postgresql postgresql-client nginx-light tinyproxy openssl tshark
two_hosts tlsdb
ip -n $server addr add 10.20.2.10/24 dev eth0
ip -n $client addr add 10.20.2.21/24 dev eth0
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
chmod 755 "$work"
cd "$work"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout shop.test.key -out shop.test.pem -days 3650 \
  -subj "/O=Example/CN=shop.test" -addext "subjectAltName=DNS:shop.test,IP:10.20.2.10" 2>/dev/null
chmod 644 shop.test.key

mariadb-install-db --no-defaults --datadir="$work/my" --auth-root-authentication-method=normal --skip-test-db --user=root >/dev/null 2>&1
ip netns exec $server mariadbd --no-defaults --user=root --datadir="$work/my" --socket="$work/my.sock" --pid-file="$work/my.pid" \
  --bind-address=10.20.2.10 --port=3306 --skip-name-resolve --innodb-buffer-pool-size=32M --general-log=1 \
  --general-log-file="$work/general.log" --ssl-cert="$work/shop.test.pem" --ssl-key="$work/shop.test.key" \
  >"$work/mariadb.log" 2>&1 & pids+=($!)
mkdir pg; chown postgres pg
as_postgres="setpriv --reuid postgres --regid postgres --clear-groups"
install -o postgres -m 600 shop.test.key pg/key
$as_postgres "$bin/initdb" -D "$work/pg/data" -A trust -U postgres --no-sync >/dev/null
echo 'hostssl all all 10.20.2.0/24 scram-sha-256' >>pg/data/pg_hba.conf
ip netns exec $server $as_postgres "$bin/postgres" -D "$work/pg/data" -h 10.20.2.10 -p 5432 -k "$work/pg" -c shared_buffers=16MB \
  -c fsync=off -c log_min_duration_statement=0 -c log_line_prefix='%m [%p] %r ' -c timezone=UTC -c log_timezone=UTC -c lc_messages=C \
  -c ssl=on -c ssl_cert_file="$work/shop.test.pem" -c ssl_key_file="$work/pg/key" 2>pg.log & pids+=($!)
mkdir tmp
cat >nginx.conf <<CONF
daemon off; master_process off; pid $work/nginx.pid; error_log $work/error.log; worker_processes 1;
events {}
http {
  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
  log_format t '\$request_method\t\$request_uri\t\$status\t\$body_bytes_sent';
  access_log $work/nginx.log t;
  ssl_certificate shop.test.pem; ssl_certificate_key shop.test.key; ssl_protocols TLSv1.2 TLSv1.3;
  server { listen 443 ssl; location / { return 200 "a product\n"; } }
}
CONF
ip netns exec $server nginx -c "$work/nginx.conf" -p "$work" & pids+=($!)
printf 'Port 8888\nListen 10.20.2.10\nConnectPort 443\nMaxClients 10\nLogFile "%s"\n' "$work/proxy.log" >proxy.conf
ip netns exec $server tinyproxy -d -c "$work/proxy.conf" >/dev/null 2>&1 & pids+=($!)
for _ in $(seq 100); do mariadb --no-defaults -uroot -S my.sock -e 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
for _ in $(seq 100); do psql -h "$work/pg" -U postgres -c 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
mariadb --no-defaults -uroot -S my.sock -e "
  CREATE DATABASE shop; CREATE USER app@'%' IDENTIFIED BY 'secret' REQUIRE SSL; GRANT ALL ON shop.* TO app@'%'; USE shop;
  CREATE TABLE product(id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(8,2), stock INT);
  INSERT INTO product SELECT seq, CONCAT('product ', seq), seq * 1.25, 100 FROM seq_1_to_200;
  CREATE TABLE purchase(id INT PRIMARY KEY AUTO_INCREMENT, product INT, customer TEXT);"
psql -q -h "$work/pg" -U postgres <<'SQL'
CREATE USER app PASSWORD 'secret'; CREATE DATABASE shop OWNER app;
\c shop app
CREATE TABLE product(id int PRIMARY KEY, name text, price numeric, stock int);
INSERT INTO product SELECT n, 'product ' || n, n * 1.25, 100 FROM generate_series(1, 200) n;
CREATE TABLE purchase(id serial PRIMARY KEY, product int REFERENCES product, customer text);
SQL

# The way from the proxy to nginx is on the server's loopback.
ip netns exec $server tcpdump -i eth0 -n -U --immediate-mode -B 32768 -w in.pcap tcp 2>tcpdump.log & dump=$!; pids+=($dump)
sleep 1
ip netns exec $client "${PYTHON:-python3}" "$here/clients.py" 10.20.2.10
sleep 1
kill -INT $dump; wait $dump || true
grep -q '^0 packets dropped by kernel' tcpdump.log
for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || kill "$pid" 2>/dev/null || true; done
cp in.pcap keys.log nginx.log "$here/"
# Number of the connection and first 200 characters of every statement of the application; set-up came over the socket.
/usr/bin/python3 - general.log "$here/mariadb.log" <<'PY'
import re, sys
app, out = set(), []
for line in open(sys.argv[1], encoding="utf8"):
    m = re.match(r"(?:\d{6}\s+[\d:]+)?\s+(\d+) (Connect|Query)\s*(.*)", line.rstrip("\n"))
    if m and m[2] == "Connect" and m[3].startswith("app@"):
        app.add(m[1])
    elif m and m[1] in app:
        out.append(f"{m[1]}\t{m[3][:200]}\n")
open(sys.argv[2], "w", encoding="utf8").writelines(out)
PY
# Port of the client, and the duration and text of every statement that was executed or failed.
sed -nE 's/^.* 10\.20\.2\.21\(([0-9]+)\) (LOG:  duration: [0-9.]+ ms  (statement|execute)|STATEMENT:)/\1 \2/p' pg.log >"$here/postgresql.log"
# Time, port, and statement by tshark with the same keys.
tshark -r in.pcap -o tls.keylog_file:keys.log -d tcp.port==5432,pgsql -Y 'mysql.query or pgsql.query or http.request.uri' -T fields \
  -E occurrence=f -e frame.time_epoch -e tcp.srcport -e http.request.uri -e mysql.query -e pgsql.query 2>/dev/null | cut -c -240 >"$here/tshark.tsv"
