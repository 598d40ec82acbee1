#!/usr/bin/env bash
# Records captures/cassandra anew: Cassandra in one network namespace, its Python driver in another, tcpdump between them. Needs root on
# Debian, with Java 17; traffic stays inside the two namespaces. What the driver reports is the truth.
#   CASSANDRA=… PYTHON=… captures/cassandra/record.sh    (the jars of org.apache.cassandra:cassandra-all:5.0.6, and a Python with
#   cassandra-driver 3.30, lz4, and python-snappy)
. "$(dirname "$0")/../record/two_hosts.sh"
needs
two_hosts cassandra
ip -n $server addr add 10.20.4.10/24 dev eth0
ip -n $client addr add 10.20.4.21/24 dev eth0
cat > "$work/cassandra.yaml" <<END
cluster_name: shop
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: periodic
commitlog_sync_period: 10000ms
data_file_directories: [$work/data]
commitlog_directory: $work/log
saved_caches_directory: $work/caches
hints_directory: $work/hints
cdc_raw_directory: $work/cdc
endpoint_snitch: SimpleSnitch
listen_address: 10.20.4.10
rpc_address: 10.20.4.10
native_transport_port: 9042
batch_size_warn_threshold: 1KiB
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: 10.20.4.10}]}]
END
opens=()
for package in java.base/java.{io,lang,lang.module,lang.ref,lang.reflect,net,nio,util,util.concurrent,util.concurrent.atomic} \
  java.base/jdk.internal.{loader,math,misc,module,ref,reflect,util,util.jar,vm} java.base/sun.nio.ch java.management/java.lang.management \
  java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.{registry,server,transport,transport.tcp} \
  jdk.management/com.sun.management.internal; do
  opens+=(--add-opens "$package=ALL-UNNAMED" --add-exports "$package=ALL-UNNAMED")
done
ip netns exec $server java -Xmx384m "${opens[@]}" -javaagent:"$(ls "$CASSANDRA"/jamm*.jar)" -Djdk.attach.allowAttachSelf=true \
  -Dcassandra.ring_delay_ms=100 -Dcassandra.config="file://$work/cassandra.yaml" -Dcassandra.storagedir="$work" \
  -Dcassandra.skip_wait_for_gossip_to_settle=0 -cp "$CASSANDRA/*" org.apache.cassandra.service.CassandraDaemon >"$work/server.log" 2>&1 & pids+=($!)
for _ in $(seq 600); do
  ip netns exec $client bash -c 'exec 3<>/dev/tcp/10.20.4.10/9042' 2>/dev/null && break
  sleep 0.1
done
ip netns exec $server tcpdump -i eth0 -n -U --immediate-mode -B 32768 -w "$work/in.pcap" 'tcp port 9042' 2>"$work/tcpdump.log" &
dump=$!; pids+=($dump)
sleep 1
ip netns exec $client "$PYTHON" "$here/client.py" 10.20.4.10 "$work/client.jsonl"
sleep 1
kill -INT $dump; wait $dump || true
grep -q '^0 packets dropped by kernel' "$work/tcpdump.log"
cp "$work/in.pcap" "$work/client.jsonl" "$here"
