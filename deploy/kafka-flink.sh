#!/usr/bin/env bash
# Kafka and Flink on one machine, from packages only: to try distributed queries, and for tests. Everything listens on
# 127.0.0.1 and is in one directory.
#
#   kafka-flink.sh install DIR              fetches the programs (370 MB, once): Maven and pip are needed, and Java 17
#   kafka-flink.sh start DIR [kafka|flink]  starts both or one, on free ports, waits until they answer and writes DIR/addresses
#   kafka-flink.sh stop DIR [kafka|flink]   ends them
#
# BROKERS=3 starts three brokers with three replicas; SLOTS and SLOT_MEMORY (megabytes of managed memory per slot)
# configure Flink. Source DIR/addresses in a shell: KAFKA, FLINK, GATEWAY. Process ids are in DIR/run/*.pid, logs in
# DIR/log.
set -euo pipefail

KAFKA_VERSION=4.3.1
FLINK_VERSION=2.2.1
CONNECTOR_VERSION=5.0.0-2.2
AVRO_VERSION=2.3.0

fail() { echo "kafka-flink: $*" >&2; exit 1; }

install() {
  for tool in java mvn python3; do command -v "$tool" >/dev/null || fail "$tool is missing"; done
  mkdir -p "$dir/kafka" "$dir/flink/gateway" "$dir/download"
  cat >"$dir/download/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>netalytics</groupId><artifactId>kafka-programs</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$KAFKA_VERSION</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$KAFKA_VERSION</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
POM
  if [ ! -e "$dir/kafka/complete" ]; then
    mvn -B -q -f "$dir/download/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$dir/kafka"
    touch "$dir/kafka/complete"
  fi
  if [ ! -e "$dir/flink/complete" ]; then
    # Flink's complete distribution is published as a Python package only.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps -d "$dir/download" "apache-flink-libraries==$FLINK_VERSION"
    python3 -m zipfile -e "$dir"/download/apache_flink_libraries-*.whl "$dir/download/wheel"
    mkdir -p "$dir/flink/lib"
    cp "$dir"/download/wheel/pyflink/lib/*.jar "$dir/flink/lib/"
    local jar
    for jar in "flink-sql-connector-kafka:$CONNECTOR_VERSION" "flink-sql-avro:$AVRO_VERSION"; do copy "$jar" "$dir/flink/lib"; done
    copy "flink-sql-gateway:$FLINK_VERSION" "$dir/flink/gateway"
    rm -rf "$dir/download"
    touch "$dir/flink/complete"
  fi
}

copy() { mvn -B -q dependency:copy -Dartifact="org.apache.flink:$1" -DoutputDirectory="$2"; }

# Free ports.
free_ports() {
  python3 - "$1" <<'PY'
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in held: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))
PY
}

# Starts NAME in the background; its output goes to a file of that name.
run() {
  local name=$1; shift
  setsid "$@" >"$dir/log/$name" 2>&1 </dev/null &
  echo $! >"$dir/run/$name.pid"
}

# Waits until a command succeeds, while the process lives, for at most a minute.
wait_for() {
  local name=$1; shift
  local _
  for _ in $(seq 600); do
    if "$@" >/dev/null 2>&1; then return; fi
    kill -0 "$(cat "$dir/run/$name.pid")" 2>/dev/null || fail "$name has ended: $(tail -n 5 "$dir/log/$name")"
    sleep 0.1
  done
  fail "$name does not answer; see $dir/log/$name"
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1"); }

start_kafka() {
  [ -e "$dir/kafka/complete" ] || fail "nothing is installed in $dir: kafka-flink.sh install $dir"
  local brokers=${BROKERS:-1} ports voters="" listeners="" n
  read -ra ports <<<"$(free_ports $((2 * brokers)))"
  for ((n = 1; n <= brokers; n++)); do
    voters+="${voters:+,}$n@127.0.0.1:${ports[2 * n - 1]}"
    listeners+="${listeners:+,}127.0.0.1:${ports[2 * n - 2]}"
  done
  local copies=$((brokers < 3 ? brokers : 3))
  for ((n = 1; n <= brokers; n++)); do
    rm -rf "$dir/data/broker-$n"
    mkdir -p "$dir/data"
    cat >"$dir/run/broker-$n.properties" <<CONF
process.roles=broker,controller
node.id=$n
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:${ports[2 * n - 2]},CONTROLLER://127.0.0.1:${ports[2 * n - 1]}
advertised.listeners=PLAINTEXT://127.0.0.1:${ports[2 * n - 2]}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/data/broker-$n
default.replication.factor=$copies
min.insync.replicas=$((copies > 2 ? 2 : 1))
offsets.topic.replication.factor=$copies
transaction.state.log.replication.factor=$copies
transaction.state.log.min.isr=$((copies > 2 ? 2 : 1))
share.coordinator.state.topic.replication.factor=$copies
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
num.network.threads=2
num.io.threads=2
log.cleaner.dedupe.buffer.size=8388608
broker.session.timeout.ms=$((brokers > 1 ? 3000 : 2000))
broker.heartbeat.interval.ms=300
controller.quorum.election.timeout.ms=200
controller.quorum.election.backoff.max.ms=200
controller.quorum.fetch.timeout.ms=$((brokers > 1 ? 2000 : 500))
CONF
    java -cp "$dir/kafka/*" kafka.tools.StorageTool format -t 8i7EFQ7eTbSEe19EeQ1NYA -c "$dir/run/broker-$n.properties" >"$dir/log/format-$n" 2>&1 ||
      fail "the broker's directory cannot be made: $(tail -n 3 "$dir/log/format-$n")"
    start_broker "$n"
  done
  for ((n = 1; n <= brokers; n++)); do wait_for "broker-$n" listens "${ports[2 * n - 2]}"; done
  echo "KAFKA=$listeners" >>"$dir/addresses"
}

# Also restarts a killed broker with its data.
start_broker() {
  run "broker-$1" java -Xms64m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$dir/kafka/*" kafka.Kafka "$dir/run/broker-$1.properties"
}

start_flink() {
  [ -e "$dir/flink/complete" ] || fail "nothing is installed in $dir: kafka-flink.sh install $dir"
  local ports
  read -ra ports <<<"$(free_ports 3)"
  mkdir -p "$dir/flink/conf" "$dir/data/checkpoints" "$dir/data/savepoints"
  cat >"$dir/flink/conf/config.yaml" <<CONF
jobmanager:
  rpc: {address: 127.0.0.1, port: ${ports[0]}}
  bind-host: 127.0.0.1
  memory: {heap: {size: 256m}, off-heap: {size: 64m}, jvm-metaspace: {size: 256m}, jvm-overhead: {min: 64m, max: 64m}}
taskmanager:
  bind-host: 127.0.0.1
  host: 127.0.0.1
  numberOfTaskSlots: ${SLOTS:-4}
  memory:
    framework: {heap: {size: 96m}, off-heap: {size: 64m}}
    task: {heap: {size: 256m}, off-heap: {size: 0m}}
    managed: {size: $((${SLOT_MEMORY:-128} * ${SLOTS:-4}))m}
    network: {min: 32m, max: 32m}
    jvm-metaspace: {size: 256m}
    jvm-overhead: {min: 64m, max: 64m}
parallelism: {default: 1}
rest: {address: 127.0.0.1, bind-address: 127.0.0.1, port: ${ports[1]}}
sql-gateway: {endpoint: {rest: {address: 127.0.0.1, bind-address: 127.0.0.1, port: ${ports[2]}}}}
execution: {checkpointing: {interval: ${CHECKPOINTS:-1s}, dir: "file://$dir/data/checkpoints", savepoint-dir: "file://$dir/data/savepoints"}}
restart-strategy: {type: fixed-delay, fixed-delay: {attempts: 100, delay: 1s}}
heartbeat: {interval: 1000, timeout: 5000}
metrics: {fetcher: {update-interval: 1000}}
cluster: {registration: {error-delay: 500, refused-registration-delay: 500, initial-timeout: 200}}
CONF
  cat >"$dir/flink/conf/log4j.properties" <<'CONF'
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = Console
appender.console.name = Console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss,SSS} %-5p %c{1} %m%n
CONF
  start_jobmanager
  start_taskmanager 1
  start_gateway
  wait_for jobmanager has_slots "${ports[1]}"
  wait_for gateway curl -fsS "http://127.0.0.1:${ports[2]}/info"
  echo "FLINK=http://127.0.0.1:${ports[1]}" >>"$dir/addresses"
  echo "GATEWAY=http://127.0.0.1:${ports[2]}" >>"$dir/addresses"
}

has_slots() { curl -fsS "http://127.0.0.1:$1/overview" | grep -q '"slots-total":[1-9]'; }

flink() {
  local name=$1 heap=$2; shift 2
  local opens=() package
  for package in lang net io nio lang.reflect text time util util.concurrent util.concurrent.atomic util.concurrent.locks; do
    opens+=("--add-opens=java.base/java.$package=ALL-UNNAMED")
  done
  FLINK_CONF_DIR=$dir/flink/conf FLINK_LIB_DIR=$dir/flink/lib FLINK_PLUGINS_DIR=$dir/flink/plugins FLINK_OPT_DIR=$dir/flink/gateway \
    run "$name" java "-Dlog4j.configurationFile=$dir/flink/conf/log4j.properties" -XX:+UseSerialGC -XX:ReservedCodeCacheSize=96m "-Xmx$heap" \
    --add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED --add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED \
    "${opens[@]}" --add-opens=java.base/sun.nio.ch=ALL-UNNAMED "$@"
}

start_jobmanager() {
  flink jobmanager 256m -XX:MaxMetaspaceSize=256m -cp "$dir/flink/lib/*" org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint \
    --configDir "$dir/flink/conf" -D jobmanager.memory.off-heap.size=64m
}

start_taskmanager() {
  flink "taskmanager-$1" 352m -XX:MaxDirectMemorySize=128m -XX:MaxMetaspaceSize=256m -cp "$dir/flink/lib/*" \
    org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$dir/flink/conf" -D taskmanager.cpu.cores=2.0 -D "taskmanager.resource-id=tm$1-$$"
}

start_gateway() {
  flink gateway 256m -cp "$dir/flink/lib/*:$dir/flink/gateway/*" org.apache.flink.table.gateway.SqlGateway
}

# Ends processes that match the patterns, with SIGTERM first.
stop() {
  local file pid _
  for file in "$@"; do
    [ -e "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
    rm -f "$file"
  done
}

[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
what=$1 part=${3:-all}
mkdir -p "$2"
dir=$(cd "$2" && pwd)
case "$what-$part" in
  install-all) install ;;
  start-all | start-kafka | start-flink)
    mkdir -p "$dir/run" "$dir/log"
    [ "$part" = flink ] || : >"$dir/addresses"
    [ "$part" = flink ] || start_kafka
    [ "$part" = kafka ] || start_flink
    cat "$dir/addresses"
    ;;
  # Restarts killed processes with their data and ports.
  start-broker-* | start-taskmanager-*)
    name=${part%-*}
    "start_$name" "${part##*-}"
    ;;
  start-jobmanager | start-gateway) "start_$part" ;;
  stop-all) stop "$dir"/run/gateway.pid "$dir"/run/taskmanager-*.pid "$dir"/run/jobmanager.pid "$dir"/run/broker-*.pid ;;
  stop-kafka) stop "$dir"/run/broker-*.pid ;;
  stop-flink) stop "$dir"/run/gateway.pid "$dir"/run/taskmanager-*.pid "$dir"/run/jobmanager.pid ;;
  *) fail "unknown subcommand '$what $part'" ;;
esac
