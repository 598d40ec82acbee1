#!/usr/bin/env bash
# The third use case of the NetAlytics paper (docs/use-cases.md), from an empty machine to its answers:
#
#   sudo examples/autoscaling/run.sh DIR [QUIET HOT AFTER]
#
# creates a client, a proxy, and three web servers in network namespaces; requests a thousand pages, then ten of them
# fast, then all again (seconds: 10 30 20). netalytics at the proxy decides on the number of servers per page. The proxy
# (nginx) reads it from Redis; content.py copies pages, starts and stops web servers. DIR has the observations, decisions,
# and the servers' logs. KILL=yes kills and restarts `netalytics serve` during the load. NETALYTICS: the program, if not
# in PATH.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "$1")
quiet=${2:-10} hot=${3:-30} after=${4:-20}
netalytics=${NETALYTICS:-netalytics}
fail() { echo "autoscaling: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "network namespaces need root"
for need in ip nginx redis-server redis-cli python3; do command -v $need >/dev/null || fail "$need is missing: ./setup.sh bed installs it"; done
[ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ] || fail "nginx has no Lua: ./setup.sh bed installs it"
mkdir -p "$dir"/{log,pages,run}
# Web servers drop root privileges.
chmod 755 "$dir"
net=as$$
servers=(web1 web2 web3)
pids=()

finish() {
  local pid name
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  for name in lan client proxy "${servers[@]}"; do ip netns del "$net-$name" 2>/dev/null || true; done
}
trap finish EXIT

# ---- The network: a switch, and hosts on it. ----
on() { local where=$1; shift; nsenter --net="/var/run/netns/$net-$where" "$@"; }
# Starts a program on a host; its output goes to a file of that name, $! is its process id.
start() {
  local name=$1 where=$2; shift 2
  nsenter --net="/var/run/netns/$net-$where" "$@" >"$dir/log/$name" 2>&1 </dev/null &
  pids+=($!)
}
until_so() {
  local _
  for _ in $(seq 600); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done
  fail "condition not met within a minute: $*"
}
ip netns add "$net-lan"
on lan ip link add lan type bridge
on lan ip link set lan up
n=0
for name in client proxy "${servers[@]}"; do
  n=$((n + 1))
  ip netns add "$net-$name"
  on lan ip link add "$name" type veth peer name eth0 netns "/var/run/netns/$net-$name"
  on lan ip link set "$name" master lan up
  on "$name" ip link set lo up
  on "$name" ip addr add "10.61.0.$n/24" dev eth0
  on "$name" ip link set eth0 up
done
proxy=10.61.0.2
addresses=(10.61.0.3 10.61.0.4 10.61.0.5)

# ---- The site: all pages are on the first server. ----
python3 "$here/content.py" make "$dir/pages" 1000
start redis proxy redis-server --bind 127.0.0.1 --port 6379 --save '' --appendonly no --dir "$dir/run"
head -c 32 /dev/urandom | base64 >"$dir/run/content.key"
start content proxy python3 "$here/content.py" serve 127.0.0.1:7980 "$dir/run/content.key" "$dir" "$net" "${addresses[@]}"
sed "s|@DIR@|$dir|g; s|@HERE@|$here|g" "$here/proxy.conf" >"$dir/run/proxy.conf"
start proxy proxy nginx -e "$dir/log/proxy.errors" -c "$dir/run/proxy.conf"

# ---- netalytics: a server, and an agent at the proxy. ----
export NETALYTICS_SERVER=http://127.0.0.1:7979
serve() {
  start serve proxy "$netalytics" serve --listen 127.0.0.1:7979 --data "$dir/data" \
    --outlet "content=webhook+http://127.0.0.1:7980/#secret-file=$dir/run/content.key" --outlet redis=redis://127.0.0.1:6379/0
  serving=$!
  until_so on proxy curl -sf "$NETALYTICS_SERVER/api/v1/health"
}
ask() { on proxy "$netalytics" "$@" --token-file "$dir/data/admin.token"; }
# Whether the response contains this.
says() { local what=$1; shift; ask "$@" | grep -q "$what"; }
serve
ask tokens create proxy --role agent --out "$dir/run/agent.token"
echo 'interfaces = ["eth0"]' >"$dir/run/agent.toml"
start agent proxy "$netalytics" agent --server "$NETALYTICS_SERVER" --name proxy --policy "$dir/run/agent.toml" \
  --token-file "$dir/run/agent.token" --folder "$dir/run/agent"
until_so says '"connected":true' agents --format jsonl

to=$(printf ', %s:80' "${addresses[@]}")
query="PARSE http TO ${to:2} PROCESS (top-k: key=path, k=2000, w=1s, lateness=500ms), (group-count: group=server_ip, w=1s, lateness=500ms)"
echo "$query"
ask jobs start "$query" --standing --name pages --to redis >/dev/null
until_so says '"state":"running"' jobs --format jsonl
ask actions add hot --job pages --result top-k --upper 12 --lower 3 --backoff 3s --drain 1s \
  $(printf ' --on-server %s' "${addresses[@]}") --to content --to redis
until_so says '"state":"ok"' actions --format jsonl

# ---- The load. ----
start load client python3 "$here/load.py" "http://$proxy" "$dir/load.tsv" --quiet "$quiet" --hot "$hot" --after "$after"
load=$!
if [ "${KILL:-no}" = yes ]; then
  sleep $((quiet + hot / 2))
  kill -9 "$serving"
  serve
fi
wait $load || fail "the load failed: $(cat "$dir/log/load")"
# Pages without requests lose their replicas.
until_so says '"servers":\["[0-9.]*"\]' actions --format jsonl
until_so says '"state":"ok"' actions --format jsonl

# ---- Results. ----
on proxy redis-cli --raw zrange netalytics:top-k 0 9 REV WITHSCORES >"$dir/redis.txt"
on proxy redis-cli --raw lrange netalytics:hot:servers 0 -1 >>"$dir/redis.txt"
ask jobs stop pages >/dev/null
until_so says '"state":"ended"' jobs --format jsonl
ask jobs results pages --result top-k --format jsonl >"$dir/pages.jsonl"
ask jobs results pages --result group-count --format jsonl >"$dir/servers.jsonl"
ask jobs show pages --format jsonl >"$dir/job.json"
ask actions decisions hot --format jsonl --limit 1000 >"$dir/decisions.jsonl"
ask actions decisions hot
