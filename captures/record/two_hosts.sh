# Sourced by the record.sh of captures: `two_hosts NAME` makes two network namespaces, $server and $client, joined by a veth
# pair called eth0 in both; `work` is a folder for the meantime, `here` the capture's own. What is begun with its pid in
# `pids` ends with the script, and everything else is taken away. Needs root on Debian; traffic stays inside.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
pids=()

finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  ip netns del "$server" 2>/dev/null || true
  ip netns del "$client" 2>/dev/null || true
  rm -rf "$work"
}

two_hosts() {
  server=$1-s client=$1-c
  trap finish EXIT
  ip netns add "$server"
  ip netns add "$client"
  ip -n "$server" link add eth0 type veth peer name eth0 netns "$client"
  for ns in "$server" "$client"; do
    ip -n "$ns" link set lo up
    ip -n "$ns" link set eth0 up
    ip netns exec "$ns" ethtool -K eth0 tx off rx off tso off gso off gro off sg off >/dev/null 2>&1 || true
  done
}

# Installs what is missing.
needs() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends iproute2 ethtool tcpdump "$@" >/dev/null
}
