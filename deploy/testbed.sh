#!/usr/bin/env bash
# A small data center on one machine, in network namespaces: leaf and spine switches (Open vSwitch, a process each),
# clients, nginx as a proxy, two application servers, MariaDB, and memcached, each on its own host.
#
#   testbed.sh install                  installs missing Debian packages
#   testbed.sh up DIR                   builds the bed and writes DIR/network.toml, DIR/addresses; replaces an earlier one
#   testbed.sh status DIR               processes, and whether the shop responds
#   testbed.sh exec DIR HOST COMMAND…   runs a command on a host or switch
#   testbed.sh load DIR [OPTION…]       requests pages from client1: `testbed.sh load DIR --help`
#   testbed.sh down DIR                 removes everything, also after a killed `up`
#
# MISCONFIGURED=app1: that server always asks the database, never the cache. SERVERS=none: the network only.
# FORWARDING=normal (learning switches, one spine), rules (two spines; SPINES=N), none (left to a controller). CONTROLLER:
# address of the controller ("unix:/run/of.sock"), NORTHBOUND: its HTTP interface. Several beds need a DIR each. Requires
# root. Topology: docs/testbed.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() { echo "testbed: $*" >&2; exit 1; }

# ---- Topology. A host's address has its leaf and its port there: 10.60.LEAF.PORT. ----

LEAVES=3
HOSTS=(client1:1 client2:1 proxy:1 spare1:1 app1:2 app2:2 spare2:2 db:3 cache:3 spare3:3)
FIRST_UPLINK=49
ENOUGH=2000 # bytes of a packet on links between switches: a full one in a tunnel has room

declare -A leaf_of port_of address_of
map() {
  local entry host leaf n
  local -A used=()
  names=()
  for entry in "${HOSTS[@]}"; do
    host=${entry%:*} leaf=${entry#*:}
    used[$leaf]=$((${used[$leaf]:-0} + 1))
    names+=("$host")
    leaf_of[$host]=$leaf port_of[$host]=${used[$leaf]} address_of[$host]=10.60.$leaf.${used[$leaf]}
  done
  switches=()
  for ((n = 1; n <= LEAVES; n++)); do switches+=("leaf$n"); address_of[leaf$n]=10.60.$n.200; done
  for ((n = 1; n <= spines; n++)); do switches+=("spine$n"); address_of[spine$n]=10.60.100.$n; done
}

ns() { echo "$prefix-$1"; }
mac() { local part; IFS=. read -ra part <<<"$1"; printf '02:00:%02x:%02x:%02x:%02x' "${part[@]}"; }
on() { local where=$1; shift; nsenter --net="/var/run/netns/$prefix-$where" "$@"; }

# Starts NAME on a host; its output goes to a file of that name.
run() {
  local name=$1 where=$2; shift 2
  setsid nsenter --net="/var/run/netns/$prefix-$where" "$@" >"$dir/log/$name" 2>&1 </dev/null &
  echo $! >"$dir/run/$name.pid"
}

# Waits until a command succeeds, while the process lives, for at most a minute.
wait_for() {
  local name=$1; shift
  local _
  for _ in $(seq 1200); do
    if "$@" >/dev/null 2>&1; then return; fi
    kill -0 "$(cat "$dir/run/$name.pid")" 2>/dev/null || fail "$name has ended: $(tail -n 5 "$dir/log/$name")"
    sleep 0.05
  done
  fail "$name does not answer; see $dir/log/$name"
}

listens() { on "$1" bash -c "exec 3<>/dev/tcp/${address_of[$1]}/$2"; }

# ---- The network ----

# Namespaces and the links between them; a switch's interface has the name of the other end.
wires() {
  local host leaf n where
  {
    for where in "${names[@]}" "${switches[@]}"; do echo "netns add $(ns "$where")"; done
  } | ip -batch -
  # Disables unsolicited traffic.
  for where in "${names[@]}" "${switches[@]}"; do
    # shellcheck disable=SC2016
    on "$where" sh -c 'for of in all default; do echo 1 >/proc/sys/net/ipv6/conf/$of/disable_ipv6; done' 2>/dev/null || true
  done
  {
    for host in "${names[@]}"; do
      echo "link add $host netns $(ns "leaf${leaf_of[$host]}") mtu $ENOUGH type veth peer name eth0 mtu $(mtu "$host") address $(mac "${address_of[$host]}") netns $(ns "$host")"
    done
    for ((leaf = 1; leaf <= LEAVES; leaf++)); do
      for ((n = 1; n <= spines; n++)); do
        echo "link add spine$n netns $(ns "leaf$leaf") mtu $ENOUGH type veth peer name leaf$leaf mtu $ENOUGH netns $(ns "spine$n")"
      done
    done
  } | ip -batch -
  for host in "${names[@]}"; do
    printf '%s\n' "link set lo up" "addr add ${address_of[$host]}/16 dev eth0" "link set eth0 up" | ip -n "$(ns "$host")" -batch -
    # Computes checksums in software: Open vSwitch does not fill them in here.
    on "$host" ethtool -K eth0 tx off >/dev/null
  done
}

# Only spare hosts receive packets from tunnels.
mtu() { case $1 in spare*) echo "$ENOUGH" ;; *) echo 1500 ;; esac; }

# Ports of a switch, as name:number.
ports() {
  local host n
  case $1 in
    leaf*)
      for host in "${names[@]}"; do [ "leaf${leaf_of[$host]}" != "$1" ] || echo "$host:${port_of[$host]}"; done
      for ((n = 1; n <= spines; n++)); do echo "spine$n:$((FIRST_UPLINK + n - 1))"; done
      ;;
    *) for ((n = 1; n <= LEAVES; n++)); do echo "leaf$n:$n"; done ;;
  esac
}

datapath() { case $1 in leaf*) printf '%016x' "${1#leaf}" ;; *) printf '%016x' "$((16#100 + ${1#spine}))" ;; esac; }

# Runs within the switch's namespace, so that `down` finds its processes.
start_switch() {
  local name=$1 own=$dir/run/$1 port to n=0
  export OVS_RUNDIR=$own OVS_DBDIR=$own OVS_LOGDIR=$own OVS_SYSCONFDIR=$own
  mkdir -p "$own"
  ovsdb-tool create "$own/conf.db" /usr/share/openvswitch/vswitch.ovsschema
  ovsdb-server "$own/conf.db" --remote="punix:$own/db.sock" --pidfile="$own/ovsdb-server.pid" --unixctl="$own/ovsdb.ctl" -vconsole:off --log-file="$own/ovsdb.log" --detach
  ovs-vsctl --db="unix:$own/db.sock" --no-wait init
  ovs-vswitchd "unix:$own/db.sock" --pidfile="$own/ovs-vswitchd.pid" --unixctl="$own/vswitchd.ctl" -vconsole:off --log-file="$own/vswitchd.log" --detach
  # The path expected by its own tools.
  ln -s vswitchd.ctl "$own/ovs-vswitchd.$(cat "$own/ovs-vswitchd.pid").ctl"
  local words=(add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure "protocols=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15"
    other_config:disable-in-band=true "other_config:datapath-id=$(datapath "$name")" "other_config:hwaddr=\"$(mac "${address_of[$name]}")\"")
  for port in $(ports "$name"); do
    # The addresses belong to the switch's ports: the kernel must not answer for them.
    ip link set "${port%:*}" arp off up
    words+=(-- add-port br0 "${port%:*}" -- set interface "${port%:*}" "ofport_request=${port#*:}")
  done
  for to in ${CONTROLLER:-}; do
    n=$((n + 1))
    # A switch connects to sockets in its own directory only. It retries a missing controller every second.
    case $to in unix:*) ln -s "${to#unix:}" "$own/" && to=unix:$own/${to##*/} ;; esac
    words+=(-- "--id=@c$n" create controller "target=\"$to\"" max_backoff=1000 -- add bridge br0 controller "@c$n")
  done
  ovs-vsctl --db="unix:$own/db.sock" --timeout=30 "${words[@]}"
  # Tunnel endpoint of this switch.
  ip addr add "${address_of[$name]}/16" dev br0
  ip link set br0 mtu "$ENOUGH" up
  forwarding "$name" >"$own/flows"
  # In addition to rules of a controller: a secure bridge starts without rules.
  ovs-ofctl -O OpenFlow13 --bundle add-flows "unix:$own/br0.mgmt" "$own/flows"
}

# Forwarding without mirrors. With rules, table 0 is left to the mirroring program, and a host is reached over the spine
# of its port number; broadcasts follow a tree, without loops.
forwarding() {
  local where port all=""
  case $forwarding in
    normal) echo "priority=0,actions=NORMAL" ;;
    none) ;;
    rules)
      echo "table=0,priority=0,actions=resubmit(,10)"
      for where in "${names[@]}" "${switches[@]}"; do echo "table=10,priority=100,dl_dst=$(mac "${address_of[$where]}"),actions=output:$(toward "$1" "$where")"; done
      # Of the links between switches, those of the first spine and the first leaf: a tree.
      for port in $(ports "$1"); do
        case $1-$port in leaf1-* | spine1-* | *-spine1:* | *-leaf1:*) all+="output:${port#*:}," ;; *-spine* | *-leaf*) ;; *) all+="output:${port#*:}," ;; esac
      done
      echo "table=10,priority=50,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=${all}LOCAL"
      ;;
  esac
}

# The port of a switch that leads to a host or another switch.
toward() {
  local at=$1 to=$2 leaf
  [ "$at" != "$to" ] || { echo LOCAL; return; }
  case $to in leaf*) leaf=${to#leaf} ;; spine*) leaf=1 ;; *) leaf=${leaf_of[$to]} ;; esac
  case $at:$to in
    spine*:*) echo "$leaf" ;;
    leaf*:spine*) echo $((FIRST_UPLINK + ${to#spine} - 1)) ;;
    leaf"$leaf":*) echo "${port_of[$to]}" ;;
    *:leaf*) echo "$FIRST_UPLINK" ;;
    *) echo $((FIRST_UPLINK + (port_of[$to] - 1) % spines)) ;;
  esac
}

write_network() {
  local name host leaf n
  echo "# Written by testbed.sh: what is where on this bed."
  for name in "${switches[@]}"; do
    printf '\n[[switch]]\nname = "%s"\ntier = "%s"\nbridge = "br0"\n' "$name" "$(case $name in leaf*) echo edge ;; *) echo core ;; esac)"
    if [ -n "${NORTHBOUND:-}" ]; then
      printf 'controller = "%s"\ndatapath = "%s"\n' "$NORTHBOUND" "$(datapath "$name")"
      [ -z "${NORTHBOUND_TOKEN:-}" ] || printf 'controller_token = "%s"\n' "$NORTHBOUND_TOKEN"
    else
      printf 'ovsdb = "unix:%s"\n' "$dir/run/$name/db.sock"
    fi
    printf 'forwarding = "%s"\n' "$(case $forwarding in normal) echo normal ;; *) echo controller ;; esac)"
    [ "$forwarding" != rules ] || echo 'first_table = "free"'
    printf 'tunnel = "%s"\n' "${address_of[$name]}"
    printf 'via = ["nsenter", "--net=/var/run/netns/%s"] # at its ports\n' "$(ns "$name")"
  done
  for host in "${names[@]}"; do
    printf '\n[[host]]\nname = "%s"\naddresses = ["%s"]\nat = "leaf%s:%s"\ncores = 1\nmemory = "1GiB"\nused = %s\nmbps = 1000\n' \
      "$host" "${address_of[$host]}" "${leaf_of[$host]}" "${port_of[$host]}" "$(case $host in spare*) echo 0.0 ;; *) echo 0.5 ;; esac)"
    case $host in spare*) printf 'spare = true\ninterface = "eth0"\nvia = ["nsenter", "--net=/var/run/netns/%s"]\n' "$(ns "$host")" ;; esac
  done
  for ((leaf = 1; leaf <= LEAVES; leaf++)); do
    for ((n = 1; n <= spines; n++)); do printf '\n[[link]]\nends = ["leaf%s:%s", "spine%s:%s"]\nmbps = 1000\n' "$leaf" $((FIRST_UPLINK + n - 1)) "$n" "$leaf"; done
  done
}

write_addresses() {
  local where
  echo "PREFIX=$prefix"
  for where in "${names[@]}" "${switches[@]}"; do echo "${where^^}=${address_of[$where]}"; done
}

# ---- The shop ----

start_servers() {
  mkdir -p "$dir/data/nginx"
  # Runs on its host from the start, so that `down` finds it.
  run db db bash "$0" database "$dir"
  run cache cache memcached -u root -l "${address_of[cache]}" -p 11211 -U 0 -m 32 -t 1 -vv
  local app
  for app in app1 app2; do
    run "$app" "$app" python3 "$here/testbed/application.py" --listen "${address_of[$app]}:8000" --database "${address_of[db]}:3306" \
      --cache "${address_of[cache]}:11211" --ask-cache "$([ "${MISCONFIGURED:-}" = "$app" ] && echo never || echo first)" --log "$dir/log/$app.requests"
  done
  write_nginx >"$dir/run/nginx.conf"
  run proxy proxy nginx -c "$dir/run/nginx.conf"
}

write_nginx() {
  local of
  echo "user root; daemon off; master_process off; pid $dir/run/nginx.pid; error_log $dir/log/nginx.error; events { worker_connections 1024; } http {"
  for of in client_body proxy fastcgi uwsgi scgi; do echo "${of}_temp_path $dir/data/nginx/$of;"; done
  cat <<CONF
log_format asked '\$msec\t\$remote_addr\t\$request_uri\t\$status\t\$request_time\t\$upstream_addr\t\$upstream_response_time';
access_log $dir/log/proxy.requests asked;
upstream shop { server ${address_of[app1]}:8000; server ${address_of[app2]}:8000; }
server { listen ${address_of[proxy]}:80; keepalive_requests 1000000; location / { proxy_pass http://shop; } }
}
CONF
}

# Becomes the database process.
start_database() {
  local data=$dir/data/db
  mariadb-install-db --no-defaults "--datadir=$data" --auth-root-authentication-method=normal --skip-test-db --user=root >/dev/null
  exec mariadbd --no-defaults --user=root "--datadir=$data" "--socket=$dir/run/db.sock" "--pid-file=$dir/run/mariadbd.pid" "--bind-address=${address_of[db]}" \
    --port=3306 --skip-name-resolve --innodb-buffer-pool-size=32M --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 \
    --general-log=1 "--general-log-file=$dir/log/db.queries" "--init-file=$here/testbed/shop.sql"
}

wait_for_servers() {
  wait_for cache listens cache 11211
  wait_for app1 listens app1 8000
  wait_for app2 listens app2 8000
  wait_for proxy listens proxy 80
  wait_for db listens db 3306
}

# ---- Commands ----

up() {
  local tool name
  case $forwarding-$spines in
    rules-* | normal-1 | none-1) ;;
    *) fail "FORWARDING=$forwarding with $spines spines: what switches learn would go round; use FORWARDING=rules" ;;
  esac
  [ "$(id -u)" = 0 ] || fail "network namespaces need root"
  for tool in ip nsenter ethtool ovs-vsctl ovs-vswitchd ovsdb-server ovs-ofctl; do command -v "$tool" >/dev/null || fail "$tool is missing: testbed.sh install"; done
  [ "$servers" = none ] || for tool in nginx mariadbd mariadb-install-db memcached python3; do command -v "$tool" >/dev/null || fail "$tool is missing: testbed.sh install"; done
  [ "${#dir}" -le 70 ] || fail "$dir is too long a name: sockets in it could not be made"
  mkdir -p "$dir"
  [ -e "$dir/.testbed" ] || [ -z "$(ls -A "$dir")" ] || fail "$dir is not empty and not a test bed"
  down
  mkdir -p "$dir/run" "$dir/log" "$dir/data"
  touch "$dir/.testbed"
  echo $$ >"$dir/run/up.pid"
  export TESTBED=$prefix
  # On a failure only the logs are kept.
  trap '[ $? = 0 ] || take_away' EXIT
  trap 'exit 130' INT TERM
  wires
  for name in "${switches[@]}"; do run "$name" "$name" bash "$0" switch "$dir" "$name"; done
  [ "$servers" = none ] || start_servers
  for name in "${switches[@]}"; do wait "$(cat "$dir/run/$name.pid")" || fail "$name could not be started: $(tail -n 5 "$dir/log/$name")"; done
  [ "$servers" = none ] || wait_for_servers
  write_network >"$dir/network.toml"
  write_addresses >"$dir/addresses"
  rm "$dir/run/up.pid"
  cat "$dir/addresses"
}

# Ends a running `up`, the processes started for the bed or in its namespaces, and removes the namespaces. Needs names
# only.
take_away() {
  local up all one _
  up=$(cat "$dir/run/up.pid" 2>/dev/null || true)
  if [ -n "$up" ] && [ "$up" != $$ ] && grep -qs testbed "/proc/$up/cmdline"; then end "$up"; fi
  # shellcheck disable=SC2046
  end $(grep -lzxs "TESTBED=$prefix" /proc/[0-9]*/environ | cut -d/ -f3)
  all=$(ip netns list | cut -d' ' -f1 | grep "^$prefix-" || true)
  for _ in 1 2; do
    # shellcheck disable=SC2046
    for one in $all; do end $(ip netns pids "$one" 2>/dev/null); done
  done
  for one in $all; do echo "netns del $one"; done | ip -batch - || true
}

end() { [ $# = 0 ] || kill -9 "$@" 2>/dev/null || true; }

down() {
  take_away
  [ -e "$dir/.testbed" ] || return 0
  rm -rf "$dir/run" "$dir/log" "$dir/data" "$dir/network.toml" "$dir/addresses" "$dir/.testbed"
}

status() {
  local where
  [ -e "$dir/addresses" ] || fail "$dir contains no test bed"
  for where in $(ip netns list | cut -d' ' -f1 | grep "^$prefix-" | sort); do
    echo "${where#"$prefix"-}: $(ip netns pids "$where" | xargs -r ps -o comm= -p | sort | uniq -c | awk '{printf "%s%s", sep, $2; sep=", "}')"
  done
  if [ -e "$dir/run/proxy.pid" ]; then echo "shop: $(on client1 curl -sS -o /dev/null -w '%{http_code}' --max-time 5 "http://${address_of[proxy]}/product/1" 2>&1)"; fi
}

what=${1:-}
case $what in
  install) exec "$here/../setup.sh" bed ;;
  up | down | status | exec | load | switch | database) [ $# -ge 2 ] || fail "$what needs a directory" ;;
  *) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
forwarding=${FORWARDING:-normal}
case $forwarding in normal | none) spines=${SPINES:-1} ;; rules) spines=${SPINES:-2} ;; *) fail "unknown value FORWARDING=$forwarding" ;; esac
servers=${SERVERS:-all}
dir=$(realpath -m "$2")
prefix=tb$(printf '%s' "$dir" | cksum | cut -d' ' -f1)
map
case $what in
  up) up ;;
  down) down ;;
  status) status ;;
  # Replaces this shell, so that ending it ends the command.
  exec) [ $# -ge 4 ] || fail "exec needs a host and a command"; exec nsenter --net="/var/run/netns/$prefix-$3" "${@:4}" ;;
  load) shift 2; on client1 python3 "$here/testbed/load.py" "http://${address_of[proxy]}" "$@" ;;
  switch) start_switch "$3" ;;
  database) start_database ;;
esac
