#!/usr/bin/env bash
# Installs packages in clean roots and checks known answers: packaging/test.sh [static] [deb] [rpm] [oci]; all without
# arguments. Builds missing packages first. Requires root, for chroot and runc.
set -euo pipefail
cd "$(dirname "$0")/.."
. crates/testkit/require.sh
work=$PWD/target/packages/test
query='PARSE http PROCESS (diff-group: group=url_template)'
expected=$PWD/captures/shop/expected-http-by-template.jsonl
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

if [ "$(id -u)" != 0 ]; then
  missing root "chroot and runc require it"
  exit 0
fi
fresh() { rm -rf "${work:?}/$1" && mkdir -p "$work/$1"; }
newest() { find target/packages -maxdepth 2 -name "$1" -type f -not -path '*/stage/*' -not -path '*/test/*' -printf '%T@ %p\n' | sort -rn | head -n 1 | cut -d' ' -f2; }
# Runs the program with the remaining arguments and compares its output.
answers() {
  "$@" --version | grep -q "^netalytics $version" || { echo "packaging: $*: no version" >&2; exit 1; }
  "$@" query "$query" -r "${capture:?}" --format jsonl --quiet | diff "$expected" -
}

static() {
  fresh static
  install -m 755 "$(newest 'netalytics-*-linux')" "$work/static/netalytics"
  cp captures/shop/in.pcap "$work/static/"
  capture=/in.pcap answers chroot "$work/static" /netalytics
}

deb() {
  local root=$work/debian
  if [ ! -e "$root/etc/debian_version" ]; then
    fresh debian
    debootstrap --variant=minbase --include=libpcap0.8,libssl3 "$(sed -n "s/^VERSION_CODENAME=//p" /etc/os-release)" "$root" \
      >"$work/debootstrap.log" 2>&1 || {
      tail -n 3 "$work/debootstrap.log" >&2
      rm -rf "$root"
      missing clean-root "debootstrap cannot create it"
      exit 0
    }
  fi
  cp "$(newest 'netalytics_*.deb')" "$root/tmp/netalytics.deb"
  chroot "$root" dpkg --install /tmp/netalytics.deb >"$work/dpkg.log"
  [ -s "$root/usr/lib/systemd/system/netalytics-server.service" ] && [ -s "$root/usr/lib/systemd/system/netalytics-agent.service" ]
  # Starts the units' commands in a root with the package's dependencies only.
  local program
  for program in $(sed -n 's/^Exec[A-Za-z]*=[-+!@:]*\([^ ]*\).*/\1/p' "$root"/usr/lib/systemd/system/netalytics-*.service | sort -u); do
    [ -x "$root$program" ] || { echo "packaging: a unit starts $program, and the package does not depend on it" >&2; exit 1; }
  done
  capture=/usr/share/doc/netalytics/examples/shop.pcap answers chroot "$root" netalytics
  chroot "$root" netalytics --help | sed -n 's/^    \(netalytics .*\)/\1/p' >"$root/tmp/examples"
  [ "$(wc -l <"$root/tmp/examples")" -ge 4 ] || { echo "packaging: the help has no examples" >&2; exit 1; }
  chroot "$root" bash -euc 'cd /usr/share/doc/netalytics; . /tmp/examples' >"$work/examples.log" 2>&1 || {
    tail -n 5 "$work/examples.log" >&2
    exit 1
  }
  chroot "$root" bash -n /usr/share/bash-completion/completions/netalytics
  [ -s "$root/usr/share/man/man1/netalytics.1.gz" ]
  chroot "$root" dpkg --purge netalytics >"$work/dpkg.log"
  [ -z "$(find "$root/usr" -name '*netalytics*')" ]
}

rpm() {
  fresh rpm
  command rpm --force-debian --root "$work/rpm" --install "$PWD/$(newest 'netalytics-*.rpm')"
  capture=/usr/share/doc/netalytics/examples/shop.pcap answers chroot "$work/rpm" /usr/bin/netalytics
}

oci() {
  fresh oci
  mkdir "$work/oci/layout"
  tar -C "$work/oci/layout" -xf "$(newest 'netalytics-*-oci.tar')"
  umoci unpack --image "$work/oci/layout:$version" "$work/oci/bundle" 2>"$work/oci/umoci.log"
  cp captures/shop/in.pcap "$work/oci/bundle/rootfs/data/"
  capture=in.pcap answers in_container
}

# Runs the image's entry point with these arguments, as a container.
in_container() {
  python3 - "$work/oci/bundle/config.json" "$@" <<'PYTHON'
import json, sys
path, words = sys.argv[1], sys.argv[2:]
config = json.load(open(path))
process, linux = config["process"], config["linux"]
process["terminal"] = False
process["args"] = process["args"][:1] + words
linux["namespaces"] = [n for n in linux["namespaces"] if n["type"] != "user"]
for key in ("resources", "uidMappings", "gidMappings"):
    linux.pop(key, None)
json.dump(config, open(path, "w"))
PYTHON
  runc run --bundle "$work/oci/bundle" "netalytics-test-$$"
}

mkdir -p "$work"
[ $# -gt 0 ] || set -- static deb rpm oci
packaging/build.sh "$@"
for what in "$@"; do
  "$what"
  echo "packaging: $what installs and answers"
done
