#!/usr/bin/env bash
# Installs missing Debian packages, optionally by part: `setup.sh build test`. Default: build and test.
#
#   demo     what demo.sh needs: a C compiler (zstd, SQLite), libpcap (capture filters), node and npm (the page of
#            `netalytics serve`)
#   build    what compiling and using netalytics needs: the same, a C++ compiler and make (librdkafka), OpenSSL (Kafka over TLS)
#   test     requirements of the tests: servers, clients, readers of Parquet, Java and Maven (Kafka), a browser
#   bed      requirements of deploy/testbed.sh; a part of test
#   dpdk     requirements of the feature dpdk
#   package  requirements of packaging/
#
# Rust comes from rustup (stable, at least the rust-version of Cargo.toml).
set -euo pipefail

missing=()
have() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }
# Required programs, as program:package.
want() {
  for need in "$@"; do have "${need%%:*}" || missing+=("${need#*:}"); done
}

demo() {
  if ! have cargo; then
    echo "setup: cargo is missing; install Rust from https://rustup.rs first" >&2
    exit 1
  fi
  have cc || missing+=(gcc libc6-dev)
  [ -e /usr/include/pcap/pcap.h ] || missing+=(libpcap-dev)
  want node:nodejs npm:npm
}

build() {
  demo
  [ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
  want c++:g++ make:make
}

# Programs of the live tests, which run in namespaces. Debian may start the services at installation. Readers of Parquet
# are installed into a virtual environment.
test_() {
  bed
  want mariadb:mariadb-client redis-server:redis-server prometheus:prometheus prometheus-alertmanager:prometheus-alertmanager wrk:wrk tcpdump:tcpdump setcap:libcap2-bin \
    ovs-vswitchd:openvswitch-switch ethtool:ethtool openssl:openssl faketime:faketime socat:socat tshark:tshark softflowd:softflowd nfcapd:nfdump pgrep:procps systemd-analyze:systemd java:openjdk-17-jre-headless mvn:maven chromium:chromium
  [ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || missing+=(fonts-dejavu-core)
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  python3 -c 'import pip' 2>/dev/null || missing+=(python3-pip)
}

bed() {
  want ip:iproute2 ethtool:ethtool ovs-vswitchd:openvswitch-switch nginx:nginx-light mariadbd:mariadb-server memcached:memcached python3:python3 curl:curl ping:iputils-ping redis-server:redis-server
  [ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ] || missing+=(libnginx-mod-http-lua)
}

dpdk() { pkg-config --exists libdpdk 2>/dev/null || missing+=(libdpdk-dev pkg-config); }

package() {
  want node:nodejs npm:npm
  want flex:flex bison:bison make:make curl:curl strip:binutils rpmbuild:rpm umoci:umoci runc:runc python3:python3 \
    debootstrap:debootstrap
}

[ $# -gt 0 ] || set -- build test
for part in "$@"; do
  case $part in
    demo) demo ;;
    build) build ;;
    test) test_ ;;
    bed) bed ;;
    dpdk) dpdk ;;
    package) package ;;
    *) echo "setup: unknown part '$part'; known parts: demo, build, test, bed, dpdk, package" >&2; exit 2 ;;
  esac
done
if [ ${#missing[@]} -gt 0 ]; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}"
fi
