#!/usr/bin/env bash
# Records captures/postgresql anew: PostgreSQL in one network namespace, its clients in another, tcpdump between them. Needs root on
# Debian; traffic stays inside the two namespaces. The server's log is the truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs postgresql postgresql-client
two_hosts pgsql
ip -n $server addr add 10.20.1.10/24 dev eth0
ip -n $client addr add 10.20.1.21/24 dev eth0
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
chmod 755 "$work"
mkdir "$work/pg"; chown postgres "$work/pg"
as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
as_postgres "$bin/initdb" -D "$work/pg/data" -A trust -U postgres --no-sync >/dev/null
echo 'host all all 10.20.1.0/24 scram-sha-256' >>"$work/pg/data/pg_hba.conf"
ip netns exec $server setpriv --reuid postgres --regid postgres --clear-groups "$bin/postgres" -D "$work/pg/data" -h 10.20.1.10 \
  -p 5432 -k "$work/pg" -c shared_buffers=16MB -c fsync=off -c log_statement=none -c log_min_duration_statement=0 \
  -c log_connections=on -c log_disconnections=on -c log_line_prefix='%m [%p] %r ' -c timezone=UTC -c log_timezone=UTC \
  -c ssl=off -c lc_messages=C 2>"$work/pg.log" & pids+=($!)
for _ in $(seq 100); do psql -h "$work/pg" -U postgres -c 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
psql -q -h "$work/pg" -U postgres <<SQL
CREATE USER app PASSWORD 'secret'; CREATE DATABASE shop OWNER app;
\c shop app
CREATE TABLE product(id int PRIMARY KEY, name text, price numeric, stock int);
INSERT INTO product SELECT n, 'product ' || n, n * 1.25, 100 FROM generate_series(1, 200) n;
CREATE TABLE purchase(id serial PRIMARY KEY, product int REFERENCES product, customer text);
SQL

ip netns exec $server tcpdump -i eth0 -n -U --immediate-mode -B 32768 -w "$work/in.pcap" 'tcp port 5432' 2>"$work/tcpdump.log" &
dump=$!; pids+=($dump)
sleep 1
from_client() { ip netns exec $client env PGPASSWORD=secret PGHOST=10.20.1.10 PGUSER=app PGDATABASE=shop LC_ALL=C "$@"; }
cat >"$work/shop.sql" <<'SQL'
\set id random(1, 200)
\set customer random(1, 20)
SELECT name, price FROM product WHERE id = :id;
UPDATE product SET stock = stock - 1 WHERE id = :id;
INSERT INTO purchase(product, customer) VALUES (:id, 'customer ' || :customer);
SQL
cat >"$work/pipeline.sql" <<'SQL'
\set id random(1, 200)
\startpipeline
SELECT stock FROM product WHERE id = :id;
SELECT count(*) FROM purchase WHERE product = :id;
INSERT INTO purchase(product, customer) VALUES (:id, 'in a pipeline');
\endpipeline
SQL
for mode in simple extended prepared; do
  from_client "$bin/pgbench" -n -M $mode -c 3 -t 15 -f "$work/shop.sql" >/dev/null 2>&1
done
from_client "$bin/pgbench" -n -M extended -c 2 -t 10 -f "$work/pipeline.sql" >/dev/null 2>&1
from_client "$bin/pgbench" -n -M prepared -c 2 -t 10 -f "$work/pipeline.sql" >/dev/null 2>&1
from_client psql -q -X >/dev/null 2>&1 <<'SQL' || true
SELECT * FROM product ORDER BY id;
SELECT nothing FROM product;
INSERT INTO purchase(product, customer) VALUES (9999, 'nobody');
SELECT pg_sleep(0.05);
\set FETCH_COUNT 50
SELECT id FROM product;
\unset FETCH_COUNT
BEGIN;
DELETE FROM purchase WHERE customer = 'nobody';
ROLLBACK;
\copy product TO '/dev/null'
COPY purchase(product, customer) FROM STDIN;
1	copied
2	copied
\.
PREPARE by_price(numeric) AS SELECT id FROM product WHERE price > $1;
EXECUTE by_price(240);
DEALLOCATE by_price;
SQL
from_client psql -q -X -c "SELECT 1; SELECT 'two; three'; SELECT \$\$four;\$\$" >/dev/null
from_client env PGPASSWORD=wrong psql -q -X -c "SELECT 1" >/dev/null 2>&1 || true
from_client timeout -s INT 0.5 psql -q -X -c "SELECT pg_sleep(30)" >/dev/null 2>&1 || true
sleep 1
kill -INT $dump; wait $dump || true
grep -q '^0 packets dropped by kernel' "$work/tcpdump.log"
for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; done; wait || true
cp "$work/in.pcap" "$here/in.pcap"
# Port of the client, then the text, of every statement that was executed or failed.
sed -nE 's/^.* 10\.20\.1\.21\(([0-9]+)\) (LOG:  duration: [0-9.]+ ms  (statement|execute|execute fetch from)|ERROR:|FATAL:|STATEMENT:)/\1 \2/p' \
  "$work/pg.log" >"$here/postgresql.log"
