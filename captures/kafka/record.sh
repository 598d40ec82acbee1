#!/usr/bin/env bash
# Records captures/kafka anew: Kafka in one network namespace, clients in another, tcpdump between them. Needs root on Debian; traffic
# stays inside the two namespaces. The broker's request log is the truth.
#   KAFKA=… PYTHON=… captures/kafka/record.sh    (the folder of Kafka 4.3.1's archives with slf4j-simple, and a Python with
#   confluent-kafka 2.16, kafka-python 3.0, python-snappy, lz4, and zstandard)
. "$(dirname "$0")/../record/two_hosts.sh"
needs
two_hosts kafka
ip -n $server addr add 10.20.2.10/24 dev eth0
ip -n $client addr add 10.20.2.21/24 dev eth0
cat > "$work/broker.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9193
listeners=PLAINTEXT://10.20.2.10:9092,CONTROLLER://127.0.0.1:9193
advertised.listeners=PLAINTEXT://10.20.2.10:9092
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$work/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=2
transaction.state.log.num.partitions=2
log.cleaner.dedupe.buffer.size=8388608
END
java -cp "$KAFKA/*" kafka.tools.StorageTool format -t 8i7EFQ7eTbSEe19EeQ1NYA -c "$work/broker.properties" >/dev/null
ip -n $server link set lo up
ip netns exec $server java -Xmx256m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.log.kafka.request.logger=trace \
  -cp "$KAFKA/*" kafka.Kafka "$work/broker.properties" >"$work/broker.log" 2>&1 & pids+=($!)
for _ in $(seq 400); do
  ip netns exec $client bash -c 'exec 3<>/dev/tcp/10.20.2.10/9092' 2>/dev/null && break
  sleep 0.1
done
sleep 3
ip netns exec $server tcpdump -i eth0 -n -U --immediate-mode -B 32768 -w "$work/in.pcap" 'tcp port 9092' 2>"$work/tcpdump.log" &
dump=$!; pids+=($dump)
sleep 1
ip netns exec $client "$PYTHON" "$here/client.py" 10.20.2.10:9092
ip netns exec $client java -Xmx64m -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$KAFKA/*" org.apache.kafka.tools.consumer.ConsoleConsumer \
  --bootstrap-server 10.20.2.10:9092 --topic large --from-beginning --max-messages 12 --group reports >/dev/null
ip netns exec $client java -Xmx64m -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$KAFKA/*" org.apache.kafka.tools.consumer.group.ConsumerGroupCommand \
  --bootstrap-server 10.20.2.10:9092 --describe --all-groups >"$work/lag.txt" || true
sleep 1
kill -INT $dump; wait $dump || true
grep -q '^0 packets dropped by kernel' "$work/tcpdump.log"
"$PYTHON" "$here/truth.py" <"$work/broker.log" >"$work/requests.jsonl"
cp "$work/in.pcap" "$work/requests.jsonl" "$work/lag.txt" "$here"
